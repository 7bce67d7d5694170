"""GraphQL over websockets, by the protocol graphql-transport-ws.

Extends Strawberry's handler with authentication of every operation, error codes and close codes.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from json import JSONDecodeError
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState
from strawberry import UNSET
from strawberry.asgi import ASGIWebSocketAdapter, GraphQL
from strawberry.http.exceptions import NonJsonMessageReceived, NonTextMessageReceived, WebSocketDisconnected
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import (
    BaseGraphQLTransportWSHandler,
    Operation,
)
from strawberry.types import ExecutionResult
from strawberry.types.execution import PreExecutionError

from app.auth.authenticator import Authenticator
from app.care.context import Context, Viewer
from app.care.errors import CannotVerify, CareError
from app.db.drivers.interface import DatabaseUnavailable
from app.engine.schema import PreparingSchema
from app.http.cors import AllowedOrigins
from app.http.errors import Failure, RequestRejected, explain, request_error
from app.http.messages import NotEnoughMemory, header, parse_json, request_id_of
from app.schema.errors import count_errors
from app.schema.transport.request_parsing import GraphQLRequest, wrong_member
from app.schema.transport.responses import response_body, write_result
from app.schema.transport.subscriptions import (
    SubscriptionContext,
    check_same,
    extend_context,
    is_subscription,
    noting_refusals,
    results_of,
)
from app.schema.transport.trusted_documents import Documents
from app.server.admission import AdmissionControl
from app.server.rejections import LIMITS, OVERLOADED_MESSAGE
from app.telemetry import counters

logger = logging.getLogger("care.graphql")

INIT_SECONDS = 10
FORBIDDEN = 4403  # clients renew the token and reconnect; 4401 is final for them
TRY_AGAIN_LATER = 1013
MAX_REASON_BYTES = 123  # in a close frame


@dataclass
class Connection:
    """The context of a connection before any operation."""

    scope: Scope
    request_id: str
    authorization: str | None
    connection_params: dict[str, Any] = field(default_factory=dict)
    viewer: Viewer | None = None  # since the sign-in

    async def sign_in(self) -> None:
        """Authenticates with the token of the first message, or else of the HTTP request."""
        for name, value in self.connection_params.items():
            if name.lower() == "authorization":
                self.authorization = value if isinstance(value, str) else ""
        self.connection_params.clear()  # frees memory; nothing else is used
        context = await self.open_context()
        self.viewer = context.viewer
        self.scope["state"]["budget"] = context.budget
        if on_sign_in := self.scope["state"].get("on_sign_in"):  # set by `serve` only
            on_sign_in()

    async def open_context(self) -> SubscriptionContext:
        """Returns the context of an operation."""
        authenticator: Authenticator = self.scope["state"]["authenticator"]
        context = await authenticator.open(self.authorization, self.request_id)
        if self.viewer is not None:
            with noting_refusals(self.scope, self.request_id):
                check_same(context.viewer, self.viewer)
        return await extend_context(context, self.scope, self.authorization)


class Socket(ASGIWebSocketAdapter):
    """Raises WebSocketDisconnected if the client has disconnected."""

    ws: WebSocket

    async def iter_json(self, *, ignore_parsing_errors: bool = False) -> AsyncGenerator[object, None]:
        """Like Strawberry's, but does not keep the last message in memory while waiting for the next."""
        try:
            while self.ws.application_state is not WebSocketState.DISCONNECTED:
                yield self.view.decode_json(await self.ws.receive_text())
        except NotEnoughMemory as fault:
            await self.close(TRY_AGAIN_LATER, str(fault))
        except JSONDecodeError as fault:
            raise NonJsonMessageReceived from fault
        except KeyError as fault:
            raise NonTextMessageReceived from fault
        except WebSocketDisconnect:
            pass

    async def send_json(self, message: Any) -> None:
        if self.ws.application_state is WebSocketState.DISCONNECTED:
            raise WebSocketDisconnected
        try:
            await self.ws.send_text(orjson.dumps(message).decode())
        except WebSocketDisconnect as fault:
            raise WebSocketDisconnected from fault

    async def close(self, code: int, reason: str) -> None:
        if self.ws.application_state is WebSocketState.DISCONNECTED:
            return
        try:
            await self.ws.close(code, reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))
        except WebSocketDisconnect as fault:
            raise WebSocketDisconnected from fault


class Handler(BaseGraphQLTransportWSHandler[Connection, None]):
    schema: PreparingSchema
    view: "WebsocketView"

    async def handle_message(self, message: Any) -> None:
        if not is_message(message):
            await self.handle_invalid_message("The message does not follow the protocol")
            return
        if message["type"] == "connection_init" and message.get("payload") is None:
            message = {"type": "connection_init"}
        try:
            await super().handle_message(message)
        except (DatabaseUnavailable, CannotVerify) as fault:
            await self.websocket.close(TRY_AGAIN_LATER, explain(fault, self.request_id, logger)[1])
        except CareError as rejection:
            await self.websocket.close(FORBIDDEN, str(rejection))
        finally:
            message.clear()  # frees memory; Strawberry keeps it until the next message

    async def handle_subscribe(self, message: Any) -> None:
        """Limits the number of operations, and finds the document. Only for an authenticated client."""
        payload = message["payload"]
        if self.connection_acknowledged:
            limit = self.max_subscriptions_per_connection or 0
            if len(self.operations) >= limit and message["id"] not in self.operations:
                counters.limits["operations of a websocket"] += 1
                text = f"there are {limit} operations already on this connection, and no more are allowed"
                await self.send_message(self.error_message(message["id"], text, Failure.RATE_LIMITED))
                return
            request = GraphQLRequest.from_members(payload)
            if "query" in payload or request.names_document():
                try:
                    payload["query"] = self.view.documents.admit(request, self.request_id).query
                except RequestRejected as rejection:
                    error = self.error_message(message["id"], str(rejection), rejection.failure)
                    await self.send_message(error)
                    return
        await super().handle_subscribe(message)

    async def run_operation(self, operation: Operation[Connection, None]) -> None:
        """Authenticates every operation separately."""
        request = GraphQLRequest(operation.query, operation.variables, operation.operation_name, None)
        state = self.context.scope["state"]
        state["request"] = request  # for the log
        admission: AdmissionControl = state["admission"]
        try:
            if not admission.admit_operation(state["budget"]):
                counters.limits[LIMITS[OVERLOADED_MESSAGE]] += 1
                await self.send_error(operation, OVERLOADED_MESSAGE, Failure.OVERLOADED)
                return
            context = await self.context.open_context()
            if await is_subscription(self.schema, request, context):
                admission.free_slot()
            async with aclosing(results_of(self.schema, request, context)) as results:
                async for result in results:
                    admission.free_slot()  # sending may take long
                    if rejection := rejection_of(result):
                        raise rejection
                    await self.send_result(operation, result, context)
            if not context.notifier.is_stopping:  # otherwise the server closes the connection
                await operation.send_operation_message({"id": operation.id, "type": "complete"})
        except WebSocketDisconnected:
            pass
        except Exception as error:
            failure, text = explain(error, self.request_id, logger)
            if failure in (Failure.UNAUTHENTICATED, Failure.FORBIDDEN):
                await self.websocket.close(FORBIDDEN, text)
            else:
                await self.send_error(operation, text, failure)
        finally:
            state.pop("request", None)
            if self.operations.get(operation.id) is operation:
                self.forget_id(operation.id)

    @property
    def request_id(self) -> str:
        return self.context.request_id

    async def send_result(
        self, operation: Operation[Connection, None], result: ExecutionResult, context: Context
    ) -> None:
        if isinstance(result, PreExecutionError):
            errors = response_body(result, self.request_id)["errors"]
            count_errors(result.errors or ())
            message: Any = {"id": operation.id, "type": "error", "payload": errors}
        else:
            body = write_result(self.schema, result, context)
            message = {"id": operation.id, "type": "next", "payload": orjson.Fragment(body)}
        await operation.send_operation_message(message)

    async def send_error(self, operation: Operation[Connection, None], text: str, failure: Failure) -> None:
        await operation.send_operation_message(self.error_message(operation.id, text, failure))

    def error_message(self, id: str, text: str, failure: Failure) -> Any:
        errors = request_error(text, failure, self.request_id)["errors"]
        return {"id": id, "type": "error", "payload": errors}

    def forget_id(self, id: str) -> None:
        self.operations.pop(id, None)


def is_message(message: object) -> bool:
    """Whether the present members have the right types. Strawberry checks for missing members."""
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        return False
    if not isinstance(message.get("id", ""), str):
        return False
    if message["type"] != "subscribe":
        return True
    payload = message.get("payload")
    return isinstance(payload, dict) and wrong_member(payload) is None


def rejection_of(result: ExecutionResult) -> CareError | None:
    """The error that ended a subscription as a whole, such as an expired token."""
    for error in result.errors or ():
        if error.path is None and isinstance(error.original_error, CareError):
            return error.original_error
    return None


class WebsocketView(GraphQL[Connection, None]):
    """Strawberry's view for websockets. Rejects browsers from other origins that are not allowed."""

    websocket_adapter_class = Socket
    graphql_transport_ws_handler_class = Handler

    def __init__(
        self, schema: PreparingSchema, documents: Documents, origins: AllowedOrigins, body_limit: int
    ) -> None:
        self.body_limit = body_limit
        super().__init__(
            schema,
            graphql_ide=None,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            connection_init_wait_timeout=timedelta(seconds=INIT_SECONDS),
            allowed_origins=origins.origins,
        )
        self.documents = documents
        self.origins = origins

    def is_websocket_origin_allowed(self, request: WebSocket, origin: str) -> bool:
        return super().is_websocket_origin_allowed(request, origin) or self.origins.allows(
            origin, "a websocket"
        )

    async def get_context(self, request: Request | WebSocket, response: Response | WebSocket) -> Connection:
        scope = request.scope
        return Connection(scope, request_id_of(scope), header(scope, b"authorization"))

    async def on_ws_connect(self, context: Connection) -> Any:
        await context.sign_in()
        return UNSET

    def decode_json(self, data: str | bytes) -> object:
        """Rejects a message longer than the limit of HTTP bodies without parsing it."""
        return parse_json(data) if len(data) <= self.body_limit else None
