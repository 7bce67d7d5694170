"""Puts the parts together: settings, database, both contracts, health."""

import logging
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from app import ide
from app.auth.door import Door, utc_now
from app.auth.keys import KeySet, open_keys
from app.auth.tokens import Verifier
from app.care.context import Role
from app.db.drivers import DatabaseError, check_sqlite, open_database, sqlite_path
from app.db.upkeep.demo import CAREGIVER, CLIENT
from app.db.upkeep.migrate import newest_version, stored_version
from app.development import has_own_keys, mint_token, public_key
from app.rest_compat.routes import build_legacy, unknown
from app.schema.endpoint import Endpoint
from app.schema.schema import build_schema
from app.settings import Settings, SettingsError, read_settings

logger = logging.getLogger("care")

NO_STORE = {"cache-control": "no-store"}


def create_app(settings: Settings | None = None, clock: Callable[[], datetime] = utc_now) -> Starlette:
    """The ASGI application. Without settings it reads CARE_* from the environment."""
    settings = settings or read_settings()
    keys = keys_for(settings)
    schema = build_schema()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        db = await open_database(settings.database, settings.read_threads)
        try:
            yield {"door": Door(db, Verifier(settings, keys), settings.time_zone, clock)}
        finally:
            await db.close()

    legacy = build_legacy(schema, settings.zone)
    routes: list[BaseRoute] = [
        Route("/livez", live),
        Route("/readyz", ready),
        Mount("/gateway", legacy),
    ]
    page = None
    if settings.in_development:
        page = page_maker(settings, clock)
        routes.append(Route("/graphql/ide/{name}", asset))
    routes.append(Route("/graphql", Endpoint(schema, is_open=settings.in_development, page=page)))
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: nothing_here})
    app.router.redirect_slashes = False  # a POST that is redirected loses its body in many clients
    return app


async def nothing_here(request: Request, error: Exception) -> Response:
    """A mount is looked into behind its slash only; what else lies under /gateway is refused as there."""
    if re.match(r"/gateway(/|$)", request.scope["path"]):
        return await unknown(request, error)
    return Response("Not Found", 404, media_type="text/plain")


def keys_for(settings: Settings) -> KeySet:
    if has_own_keys(settings):
        return open_keys(settings.model_copy(update={"token_key": public_key(settings)}))
    return open_keys(settings)


# --- health ---------------------------------------------------------------------------------------


async def live(request: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "live"}, headers=NO_STORE)


async def ready(request: Request) -> Response:
    """The database answers and has the tables that this version needs."""
    door: Door = request.state.door
    try:
        version = await door.db.read(stored_version())
    except Exception as fault:
        logger.warning("not ready: %s", type(fault).__name__)
        return JSONResponse({"status": "the database does not answer"}, 503, NO_STORE)
    if version != newest_version():
        return JSONResponse({"status": "the database is not migrated"}, 503, NO_STORE)
    return JSONResponse({"status": "ready"}, headers=NO_STORE)


# --- the page for browsers, in development only ---------------------------------------------------


def page_maker(settings: Settings, clock: Callable[[], datetime]) -> Callable[[], HTMLResponse]:
    def page() -> HTMLResponse:
        tokens = {}
        if has_own_keys(settings):
            for role, user in ((Role.CAREGIVER, CAREGIVER), (Role.CLIENT, CLIENT)):
                tokens[role.lower()] = mint_token(settings, role, user, clock())
        config = ide.PageConfig("/graphql", "/graphql/ide", tokens, ide.EXAMPLES)
        headers = {**NO_STORE, "content-security-policy": ide.CONTENT_SECURITY_POLICY}
        return HTMLResponse(ide.page(config), headers=headers)

    return page


async def asset(request: Request) -> Response:
    found = ide.ASSETS.get(request.path_params["name"])
    if found is None:
        return Response(status_code=404)
    headers = {"cache-control": "no-cache", "x-content-type-options": "nosniff"}
    return Response(found[0], media_type=found[1], headers=headers)


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
        return made
    except (SettingsError, DatabaseError) as error:
        print(f"care-gateway: {error}", file=sys.stderr)
        raise SystemExit(2) from None
