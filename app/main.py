"""Puts the parts together: settings, database, both contracts, health."""

import gc
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from datetime import datetime
from functools import cache
from ipaddress import ip_address
from time import perf_counter
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import counts, ide
from app.auth.door import Door
from app.auth.keys import KeySet, open_keys
from app.auth.tokens import Verifier
from app.care.allowance import Allowances
from app.care.context import Role, utc_now
from app.db.audit.records import Recorder
from app.db.drivers import Database, DatabaseError, open_database, sqlite_path
from app.db.following import following
from app.db.sqlite import check_sqlite
from app.db.upkeep.demo import CAREGIVER, CLIENT
from app.db.upkeep.migrate import newest_version, stored_version
from app.development import has_own_keys, mint_token, public_key, refuse_own_key
from app.dispatch.dispatcher import dispatching
from app.dispatch.webhook import open_webhook
from app.engine.schema import Manner
from app.feed import Feed, told_to_stop
from app.front import House, front_routes
from app.ide.serving import asset_maker
from app.load import Load
from app.logs import TOLD
from app.quiet import keep_quiet
from app.rest_compat.leaving import end_in_words, farewell
from app.rest_compat.routes import build_legacy
from app.rest_compat.usage import Usage, keeping
from app.schema.limits import manner_of
from app.schema.reference import CONTENT_SECURITY_POLICY, reference
from app.schema.schema import Schema, build_schema, schema_text
from app.schema.transport.browsers import AllowedOrigins, send_preflight, with_headers
from app.schema.transport.endpoint import Endpoint
from app.schema.transport.http import HEADERS, NO_STORE, header
from app.schema.transport.manifests import open_documents
from app.settings import Settings, SettingsError, read_settings

if TYPE_CHECKING:
    from app.tracing import Tracing

KNOWN_CODES = {*range(1000, 1016), 4400, 4401, 4403, 4406, 4408, 4409, 4429}  # RFC 6455, graphql-transport-ws
LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
logger = logging.getLogger("care")
requests = logging.getLogger("care.requests")
HEALTH = ("/livez", "/readyz")  # asked for every few seconds


def create_app(
    settings: Settings | None = None,
    clock: Callable[[], datetime] = utc_now,
    tracing: "Tracing | None" = None,
) -> Starlette:
    """The ASGI application. Without settings it reads CARE_* from the environment."""
    tracing = tracing or tracing_of_environment()
    settings = settings or read_settings()
    refuse_unaudited(settings)
    keep_quiet(not settings.in_development)
    keys = keys_for(settings)
    webhook = open_webhook(settings)
    manner = manner_of(settings)
    schema = schema_of_service(settings.engine, manner, *([tracing] if tracing else []))
    points = settings.points_per_minute
    documents = open_documents(settings, schema)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        verifier = Verifier(settings, keys)
        db = await open_database(settings.database, settings.read_threads, loop_read_ms=settings.loop_read_ms)
        recorder = Recorder(db) if settings.audit else None
        feed = Feed(following(settings.database, db))
        load = Load(settings)
        usage = Usage()
        dispatches = dispatching(db, webhook, clock) if settings.dispatcher else nullcontext()
        try:
            async with dispatches, keeping(db, usage, clock), AsyncExitStack() as stack:
                with told_to_stop(load.leave, feed.stop, settings.drain_seconds):
                    await stack.enter_async_context(telling(settings, db, load, feed, keys))
                    if tracing:
                        stack.enter_context(tracing.opened())
                    yield {
                        "door": Door(
                            tracing.database(db, settings.database) if tracing else db,
                            recorder,
                            verifier,
                            settings.time_zone,
                            clock,
                            Allowances(points) if points else None,
                        ),
                        "feed": feed,
                        "load": load,
                        "usage": usage,
                    }
        finally:
            await feed.close()
            await db.close()

    house = House(
        settings.in_development,
        has_own_keys(settings),
        cache(lambda: schema_text(schema)) if settings.tells_schema_to_anybody else None,
        end_in_words(settings),
        settings.legacy_notice,
        lambda scope: demo_tokens(settings, clock, scope),
        clock,
    )
    routes: list[BaseRoute] = [Route("/livez", live), Route("/readyz", ready), *front_routes(house)]
    page = None
    if settings.in_development:
        built = ide.read_built(ide.BUILT)
        page = page_maker(settings, clock, built)
        routes.append(Route("/graphql/ide/{name}", asset_maker(built)))
    if settings.tells_schema_to_anybody:
        routes.append(Route("/schema", reference_page(schema)))
    legacy = build_legacy(
        schema, settings.zone, settings.retry_window, settings.legacy_body_limit, farewell(settings)
    )
    if tracing:
        tracing.follow(schema, documents.names)
    contracts = Middleware(
        Contracts,
        graphql=Endpoint(
            schema,
            settings.in_development,
            page,
            documents,
            settings.origins,
            settings.graphql_body_limit,
        ),
        legacy=legacy,
        origins=AllowedOrigins(settings.origins),
        logs=settings.log_requests,
        tracing=tracing,
    )
    app = Starlette(
        routes=routes,
        middleware=[contracts],
        lifespan=lifespan,
        exception_handlers={Exception: say_fault},
    )
    app.router.redirect_slashes = False  # a POST that is redirected loses its body in many clients
    return app


class Contracts:
    """Both contracts stand before the router, which would try its routes one by one on every request."""

    def __init__(
        self,
        app: ASGIApp,
        graphql: ASGIApp,
        legacy: ASGIApp,
        origins: AllowedOrigins,
        logs: bool,
        tracing: "Tracing | None",
    ) -> None:
        self.app = app
        self.tracing = tracing
        self.logs = logs  # every request
        self.graphql = graphql
        self.legacy = legacy
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.last(scope, receive, send)
            return
        began = perf_counter()
        path = scope["path"]
        try:
            if path == "/graphql":
                contract, methods = self.graphql, b"GET, POST"
            elif path == "/gateway" or path.startswith("/gateway/"):
                contract, methods = self.legacy, b"GET, HEAD, PUT"
            else:
                await self.app(scope, receive, with_headers(scope, send))
                return
            if self.origins.headers and self.origins.asked_first(scope):
                await send_preflight(scope, send, methods)
            elif self.tracing is None:
                await contract(scope, receive, send)
            else:
                with self.tracing.of_caller(scope):
                    await contract(scope, receive, send)
        finally:
            if status := scope["state"].get("status", 500):  # 0 of a stream, which is counted by itself
                counts.answered(path, scope["method"], status, perf_counter() - began)
                if self.logs and path not in HEALTH:
                    log_request(path, scope["method"], status, perf_counter() - began)

    async def last(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application's own life, and websockets."""
        if scope["type"] == "websocket" and scope["path"] == "/graphql":
            with nullcontext() if self.tracing is None else self.tracing.of_caller(scope):
                await self.graphql(scope, *counted_socket(receive, send))
        else:
            await self.app(scope, receive, with_headers(scope, send))


def log_request(path: str, method: str, status: int, seconds: float) -> None:
    """By its route: a path may hold the number of somebody's assignment."""
    route, method = counts.route_of(path), method if method in counts.METHODS else counts.OTHER
    told = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
    ms = seconds * 1000
    requests.info("%s %s %s in %.1f ms", method, route, status, ms, extra={TOLD: told})


def counted_socket(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Counts from its opening to its closing. A client may send any code: those that nobody knows are one."""
    is_open = False

    def close(by: str, code: object) -> None:
        nonlocal is_open
        if is_open:
            is_open = False
            counts.sockets["ended"] += 1
            counts.closes[by, str(code) if code in KNOWN_CODES else counts.OTHER] += 1

    async def counted_receive() -> Message:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            close("client", message.get("code"))
        return message

    async def counted_send(message: Message) -> None:
        nonlocal is_open
        if message["type"] == "websocket.accept":
            is_open = True
            counts.sockets["begun"] += 1
        elif message["type"] == "websocket.close":
            close("server", message.get("code", 1000))
        await send(message)

    return counted_receive, counted_send


def settle() -> None:
    """What is loaded by now stays: the collector need not walk it again while requests wait."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def tracing_of_environment() -> "Tracing | None":
    if not any(name.startswith("OTEL_") for name in os.environ):
        return None
    from app.tracing import open_tracing

    return open_tracing()


@cache
def schema_of_service(prepares: bool, manner: Manner | None = None, tracing: object = None) -> Schema:
    """Some work to make, and the same for every application of a process that is set alike."""
    return build_schema(prepares, manner)


def refuse_unaudited(settings: Settings) -> None:
    if not (settings.audit or settings.in_development):
        raise SettingsError("CARE_AUDIT=off is for development only: every access to answers is on record")


def telling(
    settings: Settings, db: Database, load: Load, feed: Feed, keys: KeySet
) -> AbstractAsyncContextManager[None]:
    """The metrics of this process, where they are wanted; what is not wanted is not loaded."""
    if not settings.metrics_port:
        return nullcontext()
    from app.metrics import families, group

    has_webhook = bool(settings.webhook_url)
    return group.telling(settings, families.Parts(settings.database, db, load, feed, keys, has_webhook))


def keys_for(settings: Settings) -> KeySet:
    if has_own_keys(settings):
        return open_keys(settings.model_copy(update={"token_key": public_key(settings)}))
    keys = open_keys(settings)
    refuse_own_key(settings, (key.material for key in keys.keys))
    return keys


async def say_fault(request: Request, fault: Exception) -> Response:
    """Whatever nobody caught. The server logs it."""
    headers = [NO_STORE, *request.scope.get("state", {}).get("headers", HEADERS)]
    response = PlainTextResponse("Internal error", 500)
    response.raw_headers.extend(headers)
    return response


# --- health ---------------------------------------------------------------------------------------


async def live(request: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "live"})


async def ready(request: Request) -> Response:
    """The database answers and has the tables that this version needs, and the process stays."""
    if request.state.load.is_leaving:
        return JSONResponse({"status": "leaving"}, 503)
    door: Door = request.state.door
    try:
        version = await door.db.read(stored_version())
    except Exception as fault:
        logger.warning("not ready: %s", type(fault).__name__)
        return JSONResponse({"status": "the database does not answer"}, 503)
    if version != newest_version():
        return JSONResponse({"status": "the database is not migrated"}, 503)
    return JSONResponse({"status": "ready"})


# --- the page for browsers, in development only ---------------------------------------------------


def page_maker(
    settings: Settings, clock: Callable[[], datetime], built: ide.Built | None
) -> Callable[[Scope], HTMLResponse]:
    def page(scope: Scope) -> HTMLResponse:
        tokens = {role.lower(): token for role, token in demo_tokens(settings, clock, scope).items()}
        if built is None:
            config = ide.PageConfig("/graphql", "/graphql/ide", tokens, ide.EXAMPLES)
            return HTMLResponse(ide.page(config), headers={"content-security-policy": ide.PLAIN_POLICY})
        config = ide.PageConfig("/graphql", "/graphql/ide", tokens, ide.EXAMPLES + ide.LISTENING)
        headers = {"content-security-policy": ide.FULL_POLICY}
        return HTMLResponse(ide.full_page(config, built), headers=headers)

    return page


def demo_tokens(settings: Settings, clock: Callable[[], datetime], scope: Scope) -> dict[Role, str]:
    if not (has_own_keys(settings) and is_local(scope)):
        return {}
    people = {Role.CAREGIVER: CAREGIVER, Role.CLIENT: CLIENT}
    return {role: mint_token(settings, role, user, clock()) for role, user in people.items()}


def is_local(scope: Scope) -> bool:
    """Whether a browser on this machine asks under this machine's own name. Any other name may be one that a
    page of another site has made to lead here, to read what only this machine may."""
    client = scope.get("client")
    try:
        is_near = client is not None and ip_address(client[0]).is_loopback
    except ValueError:
        return False
    return is_near and LOCAL.fullmatch(header(scope, b"host") or "") is not None


def reference_page(schema: Schema) -> Callable[[Request], HTMLResponse]:
    made = cache(lambda: reference(schema._schema))  # when somebody asks for it

    def page(request: Request) -> HTMLResponse:
        return HTMLResponse(made(), headers={"content-security-policy": CONTENT_SECURITY_POLICY})

    return page


# --- `uvicorn app.main:app` -----------------------------------------------------------------------


def __getattr__(name: str) -> Starlette:
    """`app` is made when it is asked for, so that importing this module needs no configuration."""
    if name != "app":
        raise AttributeError(name)
    try:
        settings = read_settings()
        made = create_app(settings)
        if settings.database.startswith("sqlite:///"):
            check_sqlite(sqlite_path(settings.database))  # said here in a sentence; later it is a traceback
        settle()
        return made
    except (SettingsError, DatabaseError) as error:
        print(f"care-gateway: {error}", file=sys.stderr)
        raise SystemExit(2) from None
