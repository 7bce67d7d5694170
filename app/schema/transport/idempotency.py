"""Idempotency keys of GraphQL requests: finds the mutations of a request and computes its fingerprint."""

import orjson
from graphql import OperationType

from app.care.context import Context
from app.care.errors import Unreadable
from app.care.idempotency import IdempotentRequest
from app.engine.nodes import fields_of, fragments_of, response_key
from app.engine.schema import PreparingSchema
from app.http.idempotency import idempotency_for
from app.schema.transport.request_parsing import GraphQLRequest


def mutations_in(schema: PreparingSchema, request: GraphQLRequest) -> set[str]:
    """The response keys of the mutations of the operation, including mutations that a directive may skip."""
    operation = schema.find_operation(request.query, request.operation_name)
    if operation is None or operation.operation is not OperationType.MUTATION:
        return set()
    fragments = fragments_of(schema.read(request.query).ast)
    fields = fields_of([(None, operation.selection_set)], fragments, lambda name: None)
    return {response_key(node) for _, node in fields if not node.name.value.startswith("__")}


def idempotency_of_operation(ctx: Context, key: str, request: GraphQLRequest) -> IdempotentRequest:
    """Ignores the order of members and the difference between missing and empty variables."""
    members = [request.query, request.operation_name, request.variables or {}]
    try:
        content = orjson.dumps(members, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise Unreadable("variables", "are nested too deeply for an Idempotency-Key") from None
    return idempotency_for(ctx, "graphql", key, content)
