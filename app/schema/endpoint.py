"""GraphQL over HTTP: the view at /graphql, and the page it shows to browsers."""

import logging
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from cross_web import AsyncHTTPRequestAdapter, HTTPException, StarletteRequestAdapter
from graphql import GraphQLError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from strawberry.asgi import GraphQL
from strawberry.http import GraphQLHTTPResponse, GraphQLRequestData
from strawberry.http.base import BaseRequestProtocol
from strawberry.types import ExecutionResult

from app.auth.door import Door
from app.care.context import Context
from app.care.errors import CareError, NotAllowed, NotSignedIn
from app.schema.errors import INTERNAL, formatted, refusal_at_the_door, request_error
from app.schema.schema import Schema

logger = logging.getLogger("care.graphql")

JSON = "application/json"
LONGEST_BODY = 256 * 1024
SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id_of(headers: Mapping[str, str]) -> str:
    """The caller's own id where it is harmless to repeat: a request can be followed across services."""
    given = headers.get("x-request-id", "")
    return given if SAFE_REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


async def read_body(request: Request, most: int) -> bytes | None:
    """The body, or None as soon as it turns out longer than `most` bytes: it is not read to its end."""
    declared = request.headers.get("content-length", "")
    if re.fullmatch(r"[0-9]+", declared) and (len(declared) > 18 or int(declared) > most):
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)


class LimitedRequest(StarletteRequestAdapter):
    """A request whose body is given up when it is too long."""

    async def get_body(self) -> bytes:
        body = await read_body(self._request, LONGEST_BODY)
        if body is None:
            raise HTTPException(413, f"The request may have at most {LONGEST_BODY} bytes.")
        return body


class Endpoint(GraphQL[Context, None]):
    """Strawberry's view with our door in front of it and our errors behind it."""

    request_adapter_class = LimitedRequest

    def __init__(self, schema: Schema, is_open: bool, page: Callable[[], Response] | None) -> None:
        super().__init__(schema, graphql_ide=None, subscription_protocols=())
        self.is_open = is_open  # may introspection be asked without a token?
        self.page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        request_id = request.state.request_id = request_id_of(request.headers)
        response = await self.answer(request, request_id)
        response.headers["x-request-id"] = request_id
        await response(scope, receive, send)

    async def answer(self, request: Request, request_id: str) -> Response:
        if self.page is not None and wants_page(request):
            return self.page()
        door: Door = request.state.door
        try:
            context = await door.open(request.headers.get("authorization"), request_id)
            if context.viewer is None and not self.is_open:
                context.signed_in()
            return await self.run(request, context=context, root_value=None)
        except CareError as refusal:
            return self.refused(refusal, request_id)
        except HTTPException as refusal:
            body = request_error(refusal.reason, "BAD_REQUEST", request_id)
            allow = {"allow": "GET, POST"} if refusal.status_code == 405 else {}
            return Response(orjson.dumps(body), refusal.status_code, allow, media_type=JSON)
        except ClientDisconnect:
            return Response(status_code=400)  # read by nobody
        except Exception:  # outside the execution, which says its faults itself
            logger.exception("fault in request %s", request_id)
            body = request_error("Internal error", INTERNAL, request_id)
            return Response(orjson.dumps(body), 500, media_type=JSON)

    def refused(self, refusal: CareError, request_id: str) -> Response:
        """Signed in badly or not at all: nothing was executed."""
        body = orjson.dumps(refusal_at_the_door(refusal, request_id))
        if isinstance(refusal, NotSignedIn):
            return Response(body, 401, {"www-authenticate": "Bearer"}, media_type=JSON)
        return Response(body, 403 if isinstance(refusal, NotAllowed) else 400, media_type=JSON)

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

    def encode_json(self, data: object) -> bytes:
        return orjson.dumps(data)

    async def process_result(self, request: Request, result: ExecutionResult) -> GraphQLHTTPResponse:
        errors: list[GraphQLError] = result.errors or []
        response: dict[str, Any] = {"data": result.data}
        if errors:
            response["errors"] = [formatted(error, request.state.request_id) for error in errors]
        return response  # type: ignore[return-value]

    def create_response(self, response_data: Any, sub_response: Response) -> Response:
        response = super().create_response(response_data, sub_response)
        codes = {error["extensions"]["code"] for error in response_data.get("errors", ())}
        if NotSignedIn.code in codes:
            response.status_code = 401
            response.headers["www-authenticate"] = "Bearer"
        return response


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
