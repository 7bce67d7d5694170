"""GraphQL over HTTP: the endpoint /graphql."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import orjson
from cross_web import AsyncHTTPRequestAdapter, HTTPException, StarletteRequestAdapter
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from strawberry.asgi import GraphQL
from strawberry.http import GraphQLHTTPResponse, GraphQLRequestData
from strawberry.http.base import BaseRequestProtocol
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from app.auth.authenticator import Authenticator
from app.care.context import Context
from app.care.errors import (
    CannotVerify,
    CareError,
    KeyInUse,
    KeyTaken,
    NotAllowed,
    NotSignedIn,
    RateLimited,
)
from app.care.idempotency import KeyScope
from app.db.drivers.interface import DatabaseUnavailable
from app.http.cors import AllowedOrigins, with_headers
from app.http.errors import OVERLOADED, request_error
from app.http.idempotency import HEADER, read_key, run_once
from app.http.messages import (
    ENCODED,
    RETRY_AFTER,
    Reply,
    header,
    is_encoded,
    read_body,
    request_id_of,
    send_reply,
)
from app.schema.errors import INTERNAL, TOO_COSTLY, rejection_body, response_body
from app.schema.schema import Schema
from app.schema.transport.content_negotiation import as_preferred
from app.schema.transport.event_stream import accepted, send_as_events, send_stream, takes_only_events
from app.schema.transport.idempotency import changes_in, idempotency_of_operation, refuse_several
from app.schema.transport.request_parsing import JSON, Posted, read_at_once, read_whole
from app.schema.transport.subscriptions import ContextFactory, SubscriptionContext, is_subscription
from app.schema.transport.trusted_documents import DocumentRefused, Documents
from app.schema.transport.websockets import Sockets
from app.telemetry import counters

logger = logging.getLogger("care.graphql")
Result = TypeVar("Result")
Stream = tuple[Posted, SubscriptionContext]

ONE_ANSWER = {
    "GET": frozenset({OperationType.QUERY}),
    "POST": frozenset({OperationType.QUERY, OperationType.MUTATION}),
}
LISTEN = "A subscription is posted with `Accept: text/event-stream`, or goes over a websocket."
BEARER = ((b"www-authenticate", b"Bearer"),)
STATUS_OF_CODE = {TOO_COSTLY: 400, RateLimited.code: 429}
STATUS: dict[type[CareError], int] = {
    NotSignedIn: 401,
    NotAllowed: 403,
    KeyInUse: 409,
    KeyTaken: 422,
    CannotVerify: 503,
}
HEADERS_OF_STATUS = {401: BEARER, 503: (RETRY_AFTER,)}


@dataclass
class RequestData(GraphQLRequestData):
    """Strawberry's request data with a document id."""

    document_id: str | None = None


class Endpoint(GraphQL[Context, None]):
    """Strawberry's view with authentication, trusted documents, idempotency keys and error codes."""

    schema: Schema

    def __init__(
        self,
        schema: Schema,
        is_open: bool,
        page: Callable[[Scope], Response] | None,
        documents: Documents,
        origins: AllowedOrigins,
        longest_body: int,
    ) -> None:
        super().__init__(schema, graphql_ide=None, subscription_protocols=())
        self.is_open = is_open  # whether requests without a token are executed
        self.page = page
        self.documents = documents
        self.longest_body = longest_body
        self.sockets = Sockets(schema, documents, origins, longest_body)
        self.running: set[KeyScope] = set()  # idempotency keys of requests in progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self.sockets(scope, receive, send)
            return
        request_id = request_id_of(scope)
        if self.page is not None and wants_page(scope):
            response = self.page(scope)
            response.headers["x-request-id"] = request_id
            await response(scope, receive, with_headers(scope, send))
            return
        accept = header(scope, b"accept")
        kinds = accepted(accept)
        reply = await self.respond(scope, request_id, partial(self.run_request, scope, receive, kinds))
        if not isinstance(reply, Reply):
            await send_stream(scope, receive, send, self.schema, *reply)
        elif reply.status == 200 and scope["method"] == "POST" and takes_only_events(kinds):
            await send_as_events(scope, send, reply, request_id)
        else:
            await send_reply(scope, send, as_preferred(accept, reply), request_id)

    async def run_request(
        self, scope: Scope, receive: Receive, kinds: set[str], context: Context
    ) -> Reply | Stream:
        """Called after authentication, so that the body of an unauthenticated request is not read."""
        has_key = header(scope, HEADER) is not None
        read = read_whole if has_key or kinds else read_at_once
        posted, receive = await read(scope, receive, self.longest_body)
        if posted is None:
            request = Request(scope, receive)
            request.state.request_id = context.request_id
            return await self.run_any(request, context)
        if kinds and is_subscription(self.schema, self.documents.resolve(posted)):
            subscription = await ContextFactory.from_scope(scope, context.request_id).extend(context)
            return self.documents.admit(posted, context.request_id), subscription
        return await (
            self.run_idempotent(scope, posted, context) if has_key else self.run_posted(posted, context)
        )

    async def respond(
        self, scope: Scope, request_id: str, run: Callable[[Context], Awaitable[Result]]
    ) -> Result | Reply:
        authenticator: Authenticator = scope["state"]["authenticator"]
        try:
            context = await authenticator.open(header(scope, b"authorization"), request_id)
            scope["state"]["allowance"] = context.allowance
            if context.viewer is None and not self.is_open:
                context.signed_in()
            return await run(context)
        except CareError as refusal:
            return rejected(refusal, request_id)
        except DocumentRefused as refusal:
            body = orjson.dumps(request_error(refusal.message, refusal.code, request_id))
            return Reply(body, refusal.status)
        except HTTPException as refusal:
            body = orjson.dumps(request_error(refusal.reason, "BAD_REQUEST", request_id))
            allow = ((b"allow", b"GET, POST"),) if refusal.status_code == 405 else ()
            return Reply(body, refusal.status_code, allow)
        except DatabaseUnavailable as fault:
            logger.error("request %s: %s (%s)", request_id, fault, fault.__cause__)
            return Reply(orjson.dumps(request_error(str(fault), OVERLOADED, request_id)), 503, (RETRY_AFTER,))
        except ClientDisconnect:
            return Reply(b"", 400)  # never delivered
        except Exception:  # outside of execution, which handles its own errors
            logger.exception("fault in request %s", request_id)
            return Reply(orjson.dumps(request_error("Internal error", INTERNAL, request_id)), 500)

    async def run_posted(self, posted: Posted, context: Context) -> Reply:
        result = await self.execute(self.documents.admit(posted, context.request_id), context)
        return reply_to(result, context)

    async def run_idempotent(self, scope: Scope, posted: Posted, context: Context) -> Reply:
        """Executes a mutation of a signed-in viewer only once per key."""
        posted = self.documents.admit(posted, context.request_id)
        changes = changes_in(self.schema, posted.query, posted.operation_name) if context.viewer else set()
        if not changes:
            return reply_to(await self.execute(posted, context), context)
        refuse_several(changes)
        key = read_key(scope)
        once = idempotency_of_operation(context, key, posted.query, posted.operation_name, posted.variables)

        async def run(context: Context) -> tuple[Reply, bool]:
            result = await self.execute(posted, context)
            return reply_to(result, context), not result.errors

        return await run_once(self.running, context, once, run)

    async def execute(self, posted: Posted, context: Context, method: str = "POST") -> ExecutionResult:
        """Like the execution of Strawberry's view, with fewer steps."""
        began = perf_counter()
        try:
            result = await self.schema.execute(
                posted.query,
                posted.variables,
                context,
                operation_name=posted.operation_name,
                allowed_operation_types=ONE_ANSWER[method],
                operation_extensions=posted.extensions,
            )
        except CannotGetOperationTypeError as error:
            raise HTTPException(400, error.as_http_error_reason()) from error
        except InvalidOperationTypeError as error:
            is_subscribing = error.operation_type is OperationType.SUBSCRIPTION
            reason = LISTEN if is_subscribing else error.as_http_error_reason(method)
            raise HTTPException(400, reason) from error
        if self.documents.names:
            name = self.documents.name_of(posted)
            counters.operations[name].add(perf_counter() - began)
            if result.errors:
                counters.operation_faults[name] += 1
        return result

    async def run_any(self, request: Request, context: Context) -> Reply:
        response = await self.run(request, context=context, root_value=None)
        return Reply(
            bytes(response.body), response.status_code, BEARER if response.status_code == 401 else ()
        )

    async def execute_single(  # type: ignore[override]
        self, request_adapter: AsyncHTTPRequestAdapter, request_data: RequestData, **given: Any
    ) -> ExecutionResult:
        """Called by Strawberry's view, which would run a subscription like a query."""
        context: Context = given["context"]
        posted = self.documents.admit(
            Posted(
                request_data.query or "",
                request_data.variables,
                request_data.operation_name,
                request_data.extensions,
                request_data.document_id,
            ),
            context.request_id,
        )
        if not posted.query:
            raise HTTPException(400, "No GraphQL query found in the request")
        return await self.execute(posted, context, request_adapter.method)

    def should_render_graphql_ide(self, request: BaseRequestProtocol) -> bool:
        return False  # Strawberry would respond to a GET without a query with 404

    async def parse_http_body(self, request: AsyncHTTPRequestAdapter) -> GraphQLRequestData:
        """Stricter than Strawberry, which accepts bodies such as `null`."""
        if request.method == "GET":
            data = self.parse_query_params(request.query_params)
        elif (request.content_type or "").partition(";")[0].strip().lower() == JSON:
            data = self.parse_json(await self.body_of(request))
        else:
            raise HTTPException(415, "The content type must be application/json.")
        if not isinstance(data, dict):
            raise HTTPException(400, "The request must be a JSON object.")
        return RequestData(
            query=member(data, "query", str),
            variables=member(data, "variables", dict),
            operation_name=member(data, "operationName", str),
            extensions=member(data, "extensions", dict),
            document_id=member(data, "documentId", str),
        )

    async def body_of(self, request: AsyncHTTPRequestAdapter) -> bytes:
        """Rejects a compressed body and one that is too long."""
        assert isinstance(request, StarletteRequestAdapter)
        if is_encoded(request._request.scope):
            raise HTTPException(415, ENCODED)
        body = await read_body(request._request, self.longest_body)
        if body is None:
            raise HTTPException(413, f"The request may have at most {self.longest_body} bytes.")
        return body

    def decode_json(self, data: str | bytes) -> object:
        return orjson.loads(data)

    async def process_result(self, request: Request, result: ExecutionResult) -> GraphQLHTTPResponse:
        return response_body(result, request.state.request_id)  # type: ignore[return-value]

    def create_response(self, response_data: Any, sub_response: Response) -> Response:
        reply = as_reply(response_data)
        return Response(reply.body, reply.status)


def rejected(refusal: CareError, request_id: str) -> Reply:
    """The reply to a request that was not executed."""
    body = orjson.dumps(rejection_body(refusal, request_id))
    status = STATUS.get(type(refusal), 400)
    return Reply(body, status, HEADERS_OF_STATUS.get(status, ()))


def reply_to(result: ExecutionResult, context: Context) -> Reply:
    """Adds the `Retry-After` of the refusal to a 429."""
    reply = as_reply(response_body(result, context.request_id))
    if reply.status != 429:
        return reply
    refusals = (error.original_error for error in result.errors or ())
    seconds = max((one.seconds for one in refusals if isinstance(one, RateLimited)), default=1)
    return reply._replace(headers=((RETRY_AFTER[0], b"%d" % seconds),))


def as_reply(response: dict[str, Any]) -> Reply:
    """Maps certain error codes to a status; other executed requests get a 200."""
    body = orjson.dumps(response)
    if "errors" not in response:
        return Reply(body)
    codes = {error["extensions"]["code"] for error in response["errors"]}
    if NotSignedIn.code in codes:
        return Reply(body, 401, BEARER)
    if KeyTaken.code in codes:  # another process used the key first
        return Reply(body, STATUS[KeyTaken])
    if OVERLOADED in codes:
        return Reply(body, 503, (RETRY_AFTER,))
    for code, status in STATUS_OF_CODE.items():
        if code in codes:
            return Reply(body, status)
    return Reply(body)


def member(data: dict[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if value is not None and not isinstance(value, kind):
        expected = "a string" if kind is str else "an object"
        raise HTTPException(400, f"The member `{name}` must be {expected} or null.")
    return value


def wants_page(scope: Scope) -> bool:
    """Whether a browser requests the page, rather than a client a query by GET."""
    return (
        scope["method"] == "GET"
        and "text/html" in (header(scope, b"accept") or "")
        and "query" not in QueryParams(scope["query_string"])
    )
