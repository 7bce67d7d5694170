"""Idempotency keys of GraphQL requests: finds the mutations of a request and computes its fingerprint."""

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
from app.schema.transport.request_parsing import GraphQLRequest

CONTRACT = "graphql"


def mutations_in(schema: PreparingSchema, request: GraphQLRequest) -> set[str]:
    """The response keys of the mutations of the operation, including mutations that a directive may skip."""
    try:
        document = schema.read(request.query)
    except GraphQLError:
        return set()
    operation = document.operation(request.operation_name)
    if operation is None or operation.operation is not OperationType.MUTATION:
        return set()
    fragments = {name: each.selection_set for name, each in document.fragments().items()}
    return response_keys(operation.selection_set, fragments)


def response_keys(root: SelectionSetNode, fragments: dict[str, SelectionSetNode]) -> set[str]:
    """Walks each fragment once, as fragments can be circular or fan out exponentially."""
    keys, unvisited, waiting = set(), dict(fragments), [root]
    while waiting:
        for selection in waiting.pop().selections:
            if isinstance(selection, FieldNode):
                if not selection.name.value.startswith("__"):
                    keys.add((selection.alias or selection.name).value)
            elif isinstance(selection, InlineFragmentNode):
                waiting.append(selection.selection_set)
            elif isinstance(selection, FragmentSpreadNode) and selection.name.value in unvisited:
                waiting.append(unvisited.pop(selection.name.value))
    return keys


def check_single(mutations: set[str]) -> None:
    if len(mutations) > 1:
        raise Unreadable("Idempotency-Key", "is for a request with one mutation, and this has several")


def idempotency_of_operation(ctx: Context, key: str, request: GraphQLRequest) -> IdempotentRequest:
    """Ignores the order of members and the difference between missing and empty variables."""
    members = [request.query, request.operation_name, request.variables or {}]
    try:
        content = orjson.dumps(members, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise Unreadable("variables", "are nested too deeply for an Idempotency-Key") from None
    return idempotency_for(ctx, CONTRACT, key, content)
