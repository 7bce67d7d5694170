"""Parses GraphQL requests: the query string of a GET, the JSON body of a POST, the payload of a websocket."""

from dataclasses import dataclass
from typing import Any

import orjson
from graphql import OperationType
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from app.care.context import Context
from app.care.errors import InvalidValue
from app.care.idempotency import IdempotentRequest
from app.engine.nodes import fields_of, fragments_of, response_key
from app.engine.schema import PreparingSchema
from app.http.errors import Failure, RequestRejected
from app.http.idempotency import idempotency_for
from app.http.messages import ENCODED, header, is_encoded, parse_json, read_body

JSON = "application/json"
MEMBERS = {"query": str, "variables": dict, "operationName": str, "extensions": dict, "documentId": str}


@dataclass
class GraphQLRequest:
    query: str  # empty if the request refers to a stored document
    variables: dict[str, Any] | None
    operation_name: str | None
    extensions: dict[str, Any] | None
    document_id: str | None = None

    @classmethod
    def from_members(cls, data: dict[str, Any]) -> "GraphQLRequest":
        """Call `wrong_member` first. The members have the order of the fields."""
        query, *others = map(data.get, MEMBERS)
        return cls(query or "", *others)

    def names_document(self) -> bool:
        """Whether the request refers to a stored document instead of containing it."""
        return self.document_id is not None or (self.extensions or {}).get("persistedQuery") is not None


def wrong_member(data: dict[str, Any]) -> str | None:
    """The name of a member that has the wrong type."""
    for name, kind in MEMBERS.items():
        value = data.get(name)
        if value is not None and not isinstance(value, kind):
            return name
    return None


async def read_request(scope: Scope, receive: Receive, body_limit: int) -> GraphQLRequest:
    if scope["method"] == "POST":
        data = parse_or_reject(await read_json_body(scope, receive, body_limit), Failure.NOT_JSON)
    elif scope["method"] == "GET":
        data = query_parameters(scope)
    else:
        raise RequestRejected("GraphQL only supports GET and POST requests.", Failure.METHOD)
    if not isinstance(data, dict):
        raise RequestRejected("The request must be a JSON object.")
    if name := wrong_member(data):
        expected = "a string" if MEMBERS[name] is str else "an object"
        raise RequestRejected(f"The member `{name}` must be {expected} or null.")
    return GraphQLRequest.from_members(data)


async def read_json_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    content_type = header(scope, b"content-type")
    if content_type != JSON and (content_type or "").partition(";")[0].strip().lower() != JSON:
        raise RequestRejected("The content type must be application/json.", Failure.CONTENT_TYPE)
    if is_encoded(scope):
        raise RequestRejected(ENCODED, Failure.CONTENT_TYPE)
    body = await read_body(scope, receive, limit)
    if body is None:
        raise RequestRejected(f"The request may have at most {limit} bytes.", Failure.TOO_LONG)
    return body


def query_parameters(scope: Scope) -> dict[str, Any]:
    parameters: dict[str, Any] = dict(QueryParams(scope["query_string"]))
    for name in MEMBERS.keys() & parameters.keys():
        if parameters[name] == "":  # the same as none
            del parameters[name]
        elif MEMBERS[name] is dict:
            message = f"The parameter `{name}` must be JSON."
            parameters[name] = parse_or_reject(parameters[name], Failure.MALFORMED, message)
    return parameters


def parse_or_reject(
    text: str | bytes, failure: Failure, message: str = "Unable to parse request body as JSON"
) -> Any:
    try:
        return parse_json(text)
    except orjson.JSONDecodeError:
        raise RequestRejected(message, failure) from None


# --- idempotency keys --------------------------------------------------------------------------------


async def mutations_in(schema: PreparingSchema, request: GraphQLRequest, ctx: Context) -> set[str]:
    """The response keys of the mutations of the operation, including mutations that a directive may skip."""
    document = await schema.charged_document(request.query, request.operation_name, ctx)
    operation = document.operation(request.operation_name) if document else None
    if not document or not operation or operation.operation is not OperationType.MUTATION:
        return set()
    fields = fields_of([(None, operation.selection_set)], fragments_of(document.ast), lambda name: None)
    return {response_key(node) for _, node in fields if not node.name.value.startswith("__")}


def idempotency_of_operation(ctx: Context, key: str, request: GraphQLRequest) -> IdempotentRequest:
    """Ignores the order of members and the difference between missing and empty variables."""
    members = [request.query, request.operation_name, request.variables or {}]
    try:
        content = orjson.dumps(members, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise InvalidValue("variables", "are nested too deeply for an Idempotency-Key") from None
    return idempotency_for(ctx, "graphql", key, content)
