"""GraphQL over HTTP: the endpoint /graphql."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import orjson
from graphql import FieldNode
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from app.care.context import Context
from app.care.errors import InvalidValue, RateLimited, ResponseTooLong
from app.care.idempotency import KeyScope
from app.db.tables import Contract
from app.engine.nodes import nodes_of
from app.http.cors import AllowedOrigins
from app.http.errors import Failure, RequestRejected, explain, headers_of, request_error
from app.http.idempotency import HEADER, read_key, run_once
from app.http.messages import (
    HEADERS_OF_ERROR,
    RETRY_AFTER,
    Reply,
    header,
    request_id_of,
    send_reply,
    with_default_headers,
)
from app.http.sign_in import open_context
from app.schema.errors import count_errors
from app.schema.schema import Schema
from app.schema.transport.content_negotiation import (
    GRAPHQL_JSON,
    NOT_GRAPHQL,
    PARTIAL_SUCCESS,
    Accepted,
    negotiate,
)
from app.schema.transport.event_stream import send_result_as_events, send_subscription
from app.schema.transport.request_parsing import (
    MEMBERS,
    GraphQLRequest,
    idempotency_of_operation,
    mutations_in,
    read_request,
)
from app.schema.transport.responses import response_body, result_of, write_response
from app.schema.transport.subscriptions import SubscriptionContext, extend_context, is_subscription
from app.schema.transport.trusted_documents import Documents
from app.schema.transport.websockets import WebsocketView
from app.telemetry import counters
from app.usage.counts import note_deprecated

logger = logging.getLogger("care.graphql")

OPERATION_TYPES = {
    "GET": frozenset({OperationType.QUERY}),
    "POST": frozenset({OperationType.QUERY, OperationType.MUTATION}),
}
HAS_RESULT = (200, PARTIAL_SUCCESS)
NOT_ACCEPTED = "No media type of the Accept header is supported."
NOT_STREAMED = "A subscription needs a POST with `Accept: text/event-stream`, or a websocket."
HEADERS_OF_STATUS = {**HEADERS_OF_ERROR, 405: ((b"allow", b"GET, POST"),)}


@dataclass(eq=False)
class Endpoint:
    """Authentication, trusted documents, idempotency keys and error codes around the execution. Replaces the
    view of Strawberry, which accepts bodies such as `null` and takes longer."""

    schema: Schema
    is_open: bool  # whether requests without a token are executed
    page: Callable[[Scope], Response] | None
    documents: Documents
    origins: AllowedOrigins
    body_limit: int
    running: set[KeyScope] = field(default_factory=set)  # idempotency keys of requests in progress

    def __post_init__(self) -> None:
        self.websockets = WebsocketView(self.schema, self.documents, self.origins, self.body_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self.websockets(scope, receive, send)
            return
        request_id = request_id_of(scope)
        if self.page is not None and is_page_request(scope):
            response = self.page(scope)
            response.headers["x-request-id"] = request_id
            await response(scope, receive, with_default_headers(scope, send))
            return
        accepted = negotiate(header(scope, b"accept"))
        reply = await self.respond(scope, receive, accepted, request_id)
        if not isinstance(reply, Reply):
            await send_subscription(scope, receive, send, self.schema, *reply)
        elif accepted.prefers_stream and reply.status in HAS_RESULT:
            await send_result_as_events(scope, send, reply, request_id)
        else:
            if accepted.graphql and reply.status not in NOT_GRAPHQL:
                reply = Reply(reply.body, reply.status, reply.headers, GRAPHQL_JSON)
            await send_reply(scope, send, reply, request_id)

    async def respond(
        self, scope: Scope, receive: Receive, accepted: Accepted, request_id: str
    ) -> Reply | tuple[GraphQLRequest, SubscriptionContext]:
        try:
            context = await open_context(scope, request_id, Contract.GRAPHQL)
            if context.viewer is None and not self.is_open:
                context.signed_in()
            return await self.run(scope, receive, accepted, context)
        except ClientDisconnect:
            return Reply(b"", 400)  # never delivered
        except Exception as error:  # outside of execution, which handles its own errors
            failure, message = explain(error, request_id, logger)
            status = accepted.status(failure)
            body = orjson.dumps(request_error(message, failure, request_id))
            return Reply(body, status, headers_of(error) or HEADERS_OF_STATUS.get(status, ()))

    async def run(
        self, scope: Scope, receive: Receive, accepted: Accepted, context: Context
    ) -> Reply | tuple[GraphQLRequest, SubscriptionContext]:
        """Called after authentication, so that the body of an unauthenticated request is not read."""
        if accepted.nothing:
            raise RequestRejected(NOT_ACCEPTED, Failure.NOT_ACCEPTABLE)
        request = await read_request(scope, receive, self.body_limit)
        request = scope["state"]["request"] = self.documents.admit(request, context.request_id)
        if not request.query:
            raise RequestRejected("No GraphQL query found in the request")
        if scope["method"] == "POST":
            if accepted.streams and await is_subscription(self.schema, request, context):
                return request, await extend_context(context, scope, header(scope, b"authorization"))
            if header(scope, HEADER) is not None and context.viewer:
                return await self.run_with_key(scope, request, accepted, context)
        return self.reply_to(await self.execute(scope, request, context), request, accepted, context)

    async def run_with_key(
        self, scope: Scope, request: GraphQLRequest, accepted: Accepted, context: Context
    ) -> Reply:
        """Executes a mutation only once per key. Ignores the key of another operation."""
        mutations = await mutations_in(self.schema, request, context)
        if not mutations:
            return self.reply_to(await self.execute(scope, request, context), request, accepted, context)
        if len(mutations) > 1:
            raise InvalidValue("Idempotency-Key", "is for a request with one mutation, and this has several")
        idempotency = idempotency_of_operation(context, read_key(scope), request)

        async def run(context: Context) -> tuple[Reply, bool]:
            result = await self.execute(scope, request, context)
            reply = self.reply_to(result, request, accepted, context)
            return reply, not result.errors and reply.status == 200

        return await run_once(self.running, context, idempotency, run)

    async def execute(self, scope: Scope, request: GraphQLRequest, context: Context) -> ExecutionResult:
        started, method = perf_counter(), scope["method"]
        try:
            result = await self.schema.execute(
                request.query,
                request.variables,
                context,
                operation_name=request.operation_name,
                allowed_operation_types=OPERATION_TYPES[method],
                operation_extensions=request.extensions,
            )
        except CannotGetOperationTypeError as error:
            raise RequestRejected(error.as_http_error_reason()) from error
        except InvalidOperationTypeError as error:
            if error.operation_type is OperationType.SUBSCRIPTION:
                raise RequestRejected(NOT_STREAMED) from error
            raise RequestRejected(error.as_http_error_reason(method), Failure.MUTATION_BY_GET) from error
        if context.deprecated:
            note_deprecated(context, scope)
        if self.documents.operation_names:
            name = self.documents.metrics_name(request)
            counters.operations[name].add(perf_counter() - started)
        return result

    def reply_to(
        self, result: ExecutionResult, request: GraphQLRequest, accepted: Accepted, context: Context
    ) -> Reply:
        response, status = response_body(result, context.request_id), 200
        if "errors" in response:
            status = accepted.status_with_errors(response)
            if accepted.graphql and status not in HAS_RESULT:
                del response["data"]
        try:
            body = write_response(self.schema, response, context)
        except ResponseTooLong as rejection:
            return self.reply_to(result_of(rejection, result.extensions), request, accepted, context)
        count_errors(result.errors or ())
        if "errors" in response and self.documents.operation_names:
            counters.operation_faults[self.documents.metrics_name(request)] += 1
        headers = HEADERS_OF_STATUS.get(status, ())
        if status == 429:
            rejections = (error.original_error for error in result.errors or ())
            seconds = max((one.seconds for one in rejections if isinstance(one, RateLimited)), default=1)
            headers = ((RETRY_AFTER[0], b"%d" % seconds),)
        return Reply(body, status, headers)


def describe_work(schema: Schema, state: dict[str, Any]) -> str:
    """Names a request for the log by the root fields of its document, if the schema has them: a client can
    choose any other name."""
    request: GraphQLRequest | None = state.get("request")
    operation = schema.find_operation(request.query, request.operation_name) if request else None
    root_type = schema._schema.get_root_type(operation.operation) if operation else None
    if operation is None or root_type is None:
        return f"a request of {state['path']}" if "path" in state else "a request"
    selected = {node.name.value for node in nodes_of(operation) if isinstance(node, FieldNode)}
    return f"a request of {', '.join(sorted(selected & root_type.fields.keys())) or 'unknown fields'}"


def is_page_request(scope: Scope) -> bool:
    """Whether a browser requests the page, rather than a client a query by GET."""
    return (
        scope["method"] == "GET"
        and "text/html" in (header(scope, b"accept") or "")
        and not MEMBERS.keys() & QueryParams(scope["query_string"]).keys()
    )
