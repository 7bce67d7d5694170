"""GraphQL requests with an Idempotency-Key: finds their mutations and computes their fingerprint."""

from typing import Any

import orjson
from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationType,
    SelectionSetNode,
)

from app.care.context import Context
from app.care.errors import Unreadable
from app.care.idempotency import IdempotentRequest
from app.engine.schema import PreparingSchema
from app.http.idempotency import idempotency_for

CONTRACT = "graphql"


def changes_in(schema: PreparingSchema, query: str, operation_name: str | None) -> set[str]:
    """The response keys of the mutations of the operation, including mutations that a directive may skip."""
    try:
        document = schema.read(query)
    except GraphQLError:
        return set()
    operation = document.operation(operation_name)
    if operation is None or operation.operation is not OperationType.MUTATION:
        return set()
    fragments = {name: each.selection_set for name, each in document.fragments().items()}
    return names_in(operation.selection_set, fragments)


def names_in(root: SelectionSetNode, fragments: dict[str, SelectionSetNode]) -> set[str]:
    """Walks each fragment once, as fragments can be circular or fan out exponentially."""
    names, left, waiting = set(), dict(fragments), [root]
    while waiting:
        for selection in waiting.pop().selections:
            if isinstance(selection, FieldNode):
                if not selection.name.value.startswith("__"):
                    names.add((selection.alias or selection.name).value)
            elif isinstance(selection, InlineFragmentNode):
                waiting.append(selection.selection_set)
            elif isinstance(selection, FragmentSpreadNode):
                waiting += [spread] if (spread := left.pop(selection.name.value, None)) else []
    return names


def refuse_several(changes: set[str]) -> None:
    if len(changes) > 1:
        raise Unreadable("Idempotency-Key", "is for a request with one mutation, and this has several")


def idempotency_of_operation(
    ctx: Context, key: str, query: str, operation_name: str | None, variables: dict[str, Any] | None
) -> IdempotentRequest:
    """Ignores the order of members and the difference between missing and empty variables."""
    request = [query, operation_name, variables or {}]
    try:
        content = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise Unreadable("variables", "are nested too deeply for an Idempotency-Key") from None
    return idempotency_for(ctx, CONTRACT, key, content)
