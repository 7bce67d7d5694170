"""GraphQL requests with an Idempotency-Key: which of them change something, and what makes two the same."""

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
from app.http.idempotency import once_for

CONTRACT = "graphql"


def changes_in(schema: PreparingSchema, query: str, operation_name: str | None) -> set[str]:
    """The names under which the operation answers its mutations; none where it has none, or is none.

    Directives are left aside: what may be skipped counts too.
    """
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
    """Each fragment is walked once: they may go round in circles, or fan out beyond all measure."""
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


def once_for_operation(
    ctx: Context, key: str, query: str, operation_name: str | None, variables: dict[str, Any] | None
) -> IdempotentRequest:
    """In which order the members stand makes no difference, nor does leaving out what is empty."""
    asked = [query, operation_name, variables or {}]
    try:
        said = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise Unreadable("variables", "are nested too deeply for an Idempotency-Key") from None
    return once_for(ctx, CONTRACT, key, said)
