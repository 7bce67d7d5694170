"""GraphQL over HTTP: the view at /graphql, and the page it shows to browsers."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from cross_web import AsyncHTTPRequestAdapter, HTTPException, StarletteRequestAdapter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from strawberry.asgi import GraphQL
from strawberry.http import GraphQLHTTPResponse, GraphQLRequestData
from strawberry.http.base import BaseRequestProtocol
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from app.auth.door import Door
from app.care.context import Context
from app.care.errors import CareError, NotAllowed, NotSignedIn
from app.db.drivers import DatabaseUnavailable
from app.schema.errors import INTERNAL, OVERLOADED, formatted, refusal_at_the_door, request_error
from app.schema.http import Reply, header, read_body, request_id_of, send_reply
from app.schema.schema import Schema

logger = logging.getLogger("care.graphql")

JSON = "application/json"
BY_POST = frozenset(OperationType.from_http("POST"))
LONGEST_BODY = 256 * 1024
BEARER = ((b"www-authenticate", b"Bearer"),)


class LimitedRequest(StarletteRequestAdapter):
    """A request whose body is given up when it is too long."""

    async def get_body(self) -> bytes:
        body = await read_body(self._request, LONGEST_BODY)
        if body is None:
            raise HTTPException(413, f"The request may have at most {LONGEST_BODY} bytes.")
        return body


@dataclass
class Simple:
    """A request like nearly all: a JSON object with a query, posted in one piece."""

    query: str
    variables: dict[str, Any] | None
    operation_name: str | None


async def read_simple(scope: Scope, receive: Receive) -> tuple[Simple | None, Receive]:
    """The request if it is a simple one; whatever else it is, its body is handed on to be read again."""
    if scope["method"] != "POST" or header(scope, b"content-type") != JSON:
        return None, receive
    message = await receive()
    waiting = [message]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    body = message.get("body", b"")
    if message.get("more_body") or len(body) > LONGEST_BODY:
        return None, receive_again
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None, receive_again
    if isinstance(data, dict) and data.get("extensions") is None:
        query, variables, name = data.get("query"), data.get("variables"), data.get("operationName")
        if (
            (isinstance(query, str) and query)
            and (variables is None or isinstance(variables, dict))
            and (name is None or isinstance(name, str))
        ):
            return Simple(query, variables, name), receive_again
    return None, receive_again


class Endpoint(GraphQL[Context, None]):
    """Strawberry's view with our door in front of it and our errors behind it."""

    request_adapter_class = LimitedRequest

    def __init__(self, schema: Schema, is_open: bool, page: Callable[[], Response] | None) -> None:
        super().__init__(schema, graphql_ide=None, subscription_protocols=())
        self.is_open = is_open  # may introspection be asked without a token?
        self.page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        simple, receive = await read_simple(scope, receive)
        request_id = request_id_of(scope)
        if simple is not None:
            reply = await self.answer(scope, request_id, lambda context: self.run_simple(simple, context))
            await send_reply(scope, send, reply, request_id)
            return
        request = Request(scope, receive)
        request.state.request_id = request_id
        if self.page is not None and wants_page(request):
            response = self.page()
            response.headers["x-request-id"] = request_id
            await response(scope, receive, send)
            return
        reply = await self.answer(scope, request_id, lambda context: self.run_any(request, context))
        await send_reply(scope, send, reply, request_id)

    async def answer(
        self, scope: Scope, request_id: str, run: Callable[[Context], Awaitable[Reply]]
    ) -> Reply:
        door: Door = scope["state"]["door"]
        try:
            context = await door.open(header(scope, b"authorization"), request_id)
            if context.viewer is None and not self.is_open:
                context.signed_in()
            return await run(context)
        except CareError as refusal:
            return refused(refusal, request_id)
        except HTTPException as refusal:
            body = orjson.dumps(request_error(refusal.reason, "BAD_REQUEST", request_id))
            allow = ((b"allow", b"GET, POST"),) if refusal.status_code == 405 else ()
            return Reply(body, refusal.status_code, allow)
        except DatabaseUnavailable as fault:
            logger.error("request %s: %s (%s)", request_id, fault, fault.__cause__)
            return Reply(orjson.dumps(request_error(str(fault), OVERLOADED, request_id)), 503)
        except ClientDisconnect:
            return Reply(b"", 400)  # read by nobody
        except Exception:  # outside the execution, which says its faults itself
            logger.exception("fault in request %s", request_id)
            return Reply(orjson.dumps(request_error("Internal error", INTERNAL, request_id)), 500)

    async def run_simple(self, simple: Simple, context: Context) -> Reply:
        """What Strawberry's view comes to for such a request, without its steps on the way."""
        try:
            result = await self.schema.execute(
                simple.query,
                simple.variables,
                context,
                operation_name=simple.operation_name,
                allowed_operation_types=BY_POST,
            )
        except CannotGetOperationTypeError as error:
            raise HTTPException(400, error.as_http_error_reason()) from error
        except InvalidOperationTypeError as error:
            raise HTTPException(400, error.as_http_error_reason("POST")) from error
        return as_reply(as_response(result, context.request_id))

    async def run_any(self, request: Request, context: Context) -> Reply:
        response = await self.run(request, context=context, root_value=None)
        return Reply(
            bytes(response.body), response.status_code, BEARER if response.status_code == 401 else ()
        )

    def should_render_graphql_ide(self, request: BaseRequestProtocol) -> bool:
        return False  # the page is ours; the stock view would answer a GET without a query by a 404

    async def parse_http_body(self, request: AsyncHTTPRequestAdapter) -> GraphQLRequestData:
        """The request as Strawberry wants it. The stock view takes bodies such as `null` for objects."""
        if request.method == "GET":
            data = self.parse_query_params(request.query_params)
        elif (request.content_type or "").partition(";")[0].strip().lower() == JSON:
            data = self.parse_json(await request.get_body())
        else:
            raise HTTPException(415, "The content type must be application/json.")
        if not isinstance(data, dict):
            raise HTTPException(400, "The request must be a JSON object.")
        return GraphQLRequestData(
            query=member(data, "query", str),
            variables=member(data, "variables", dict),
            operation_name=member(data, "operationName", str),
            extensions=member(data, "extensions", dict),
        )

    def decode_json(self, data: str | bytes) -> object:
        return orjson.loads(data)

    async def process_result(self, request: Request, result: ExecutionResult) -> GraphQLHTTPResponse:
        return as_response(result, request.state.request_id)  # type: ignore[return-value]

    def create_response(self, response_data: Any, sub_response: Response) -> Response:
        reply = as_reply(response_data)
        return Response(reply.body, reply.status)


def refused(refusal: CareError, request_id: str) -> Reply:
    """Signed in badly or not at all: nothing was executed."""
    body = orjson.dumps(refusal_at_the_door(refusal, request_id))
    if isinstance(refusal, NotSignedIn):
        return Reply(body, 401, BEARER)
    return Reply(body, 403 if isinstance(refusal, NotAllowed) else 400)


def as_response(result: ExecutionResult, request_id: str) -> dict[str, Any]:
    response: dict[str, Any] = {"data": result.data}
    if result.errors:
        response["errors"] = [formatted(error, request_id) for error in result.errors]
    return response


def as_reply(response: dict[str, Any]) -> Reply:
    """The status tells who is not signed in, and when to come again; what else was executed is a 200."""
    body = orjson.dumps(response)
    codes = {error["extensions"]["code"] for error in response.get("errors", ())}
    if NotSignedIn.code in codes:
        return Reply(body, 401, BEARER)
    return Reply(body, 503 if OVERLOADED in codes else 200)


def member(data: dict[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if value is not None and not isinstance(value, kind):
        said = "a string" if kind is str else "an object"
        raise HTTPException(400, f"The member `{name}` must be {said} or null.")
    return value


def wants_page(request: Request) -> bool:
    """A browser asking for a page, not a client sending a query by GET."""
    return (
        request.method == "GET"
        and "text/html" in request.headers.get("accept", "")
        and "query" not in request.query_params
    )
