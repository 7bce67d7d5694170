"""Creates the application from its parts: settings, database, both contracts, health."""

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from app.auth.authenticator import Authenticator
from app.auth.keys import KeySet, open_keys
from app.auth.tokens import Verifier
from app.care.budgets import Budgets, IdentifierLimiter
from app.care.context import utc_now
from app.db.audit.recorder import GATHER_SECONDS, AuditRecorder
from app.db.drivers.event_feed import event_feed_of
from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseError, sqlite_path
from app.db.drivers.sqlite import check_sqlite
from app.dev.assets import asset_route
from app.dev.building import read_built
from app.dev.graphiql import page_maker
from app.dev.requests import RecentRequests, measure, measured_schema
from app.dev.tokens import has_own_keys, public_key, reject_own_key
from app.events.dispatcher import dispatch
from app.events.notifications import Notifier
from app.events.webhook import open_webhook
from app.http.cors import AllowedOrigins
from app.http.health import HEALTH_ROUTES
from app.http.router import Router, respond_500
from app.landing import landing_routes, not_found_page
from app.rest_compat.routes import build_legacy
from app.schema.schema import build_schema, engine_options_of
from app.schema.transport.endpoint import Endpoint, describe_work
from app.schema.transport.trusted_documents import open_documents
from app.server.admission import AdmissionControl
from app.server.background import Vitals, in_background
from app.server.signals import stop_on_signals
from app.settings import Settings, SettingsError, read_settings
from app.telemetry.redaction import redact_logs
from app.telemetry.tracing import open_tracing
from app.usage.counts import Usage, write_usage

if TYPE_CHECKING:
    from app.telemetry.tracing.requests import Tracing

logger = logging.getLogger("care")


def create_app(
    settings: Settings | None = None,
    clock: Callable[[], datetime] = utc_now,
    tracing: "Tracing | None" = None,
) -> Router:
    """The ASGI application. Without settings it reads CARE_* from the environment."""
    tracing = tracing or open_tracing()
    settings = settings or read_settings()
    reject_unaudited(settings)
    redact_logs(not settings.in_development)
    keys = keys_for(settings)
    vitals = Vitals()
    webhook = open_webhook(settings)
    make_schema = build_schema if tracing else schema_of_service  # tracing changes its schema
    schema = make_schema(settings.engine, engine_options_of(settings))
    recent = None
    if settings.in_development and settings.recent_requests:
        recent = RecentRequests(clock, settings.recent_requests)
        schema = measured_schema(schema)
    documents = open_documents(settings, schema)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        """Opens the parts that need an event loop, and closes them in reverse order."""
        async with AsyncExitStack() as stack:
            db = await open_database(
                settings.database,
                settings.read_threads,
                loop_read_ms=settings.loop_read_ms,
                failed=vitals.fail,
            )
            stack.push_async_callback(db.close)
            if not (settings.database_url or settings.in_development):
                logger.warning("CARE_DATABASE_URL is not set; set it, so that commands use this database")
            if tracing:
                stack.enter_context(tracing.opened())
            traced_db = tracing.wrap_database(db, settings.database) if tracing else db
            gather_seconds = 0 if settings.database.startswith("sqlite:") else GATHER_SECONDS
            recorder = AuditRecorder(db, gather_seconds) if settings.audit else None
            if recent:
                measure(db, "database", "read", "write")
                if recorder:
                    measure(recorder, "audit", "keep")
            if recorder:
                stack.push_async_callback(recorder.rejections.close)
            notifier = Notifier(event_feed_of(db))
            stack.push_async_callback(notifier.close)
            usage, identifiers = Usage(db, clock, schema.deprecated), settings.identifiers_per_hour
            authenticator = Authenticator(
                traced_db,
                recorder,
                Verifier(settings, keys),
                settings.time_zone,
                clock,
                Budgets(settings.points_per_minute),
                IdentifierLimiter(identifiers) if identifiers else None,
            )
            admission = AdmissionControl(
                settings, authenticator.budgets, authenticator.accepted.values, partial(describe_work, schema)
            )
            asyncio.get_running_loop().set_task_factory(admission.turns.create_task)
            if settings.dispatcher:
                dispatcher = partial(dispatch, traced_db, webhook, clock, periods=settings.retention)
                await stack.enter_async_context(in_background(dispatcher))
            await stack.enter_async_context(in_background(partial(write_usage, usage)))
            stack.enter_context(
                stop_on_signals(admission.start_draining, notifier.stop, settings.drain_seconds, vitals)
            )
            if settings.metrics_port:
                from app.telemetry.metrics.collect import MetricSources
                from app.telemetry.metrics.server import serve_metrics

                sources = MetricSources(
                    settings.database,
                    db,
                    admission,
                    notifier,
                    keys,
                    webhook is not None,
                    frozenset(documents.operation_names.values()),
                )
                await stack.enter_async_context(serve_metrics(settings, sources))
            yield {
                "authenticator": authenticator,
                "notifier": notifier,
                "admission": admission,
                "usage": usage,
                "vitals": vitals,
            }

    built = read_built() if settings.in_development else None
    routes: list[BaseRoute] = [*HEALTH_ROUTES, *landing_routes(settings, schema, built, clock, recent)]
    page = None
    handlers: dict[Any, Any] = {Exception: respond_500}
    if settings.in_development:
        handlers[404] = not_found_page(built)
        page = page_maker(settings, built)
        routes.append(asset_route(built))
    origins = AllowedOrigins(settings.origins, loopback=settings.in_development)
    pages = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    pages.router.redirect_slashes = False  # many clients drop the body of a redirected POST
    app = Router(
        pages,
        graphql=Endpoint(
            schema, settings.in_development, page, documents, origins, settings.graphql_body_limit
        ),
        legacy=build_legacy(schema, settings),
        origins=origins,
        logs_requests=settings.log_requests,
        trace=tracing.request_span if tracing else None,
        vitals=vitals,
    )
    if recent:
        app.graphql, app.legacy = recent.recorded(app.graphql), recent.recorded(app.legacy)
    if tracing:  # the legacy contract has added its documents to the schema
        tracing.trace_operations(schema, documents.operation_names)
    return app


def freeze_loaded_objects() -> None:
    """Excludes loaded objects from garbage collection, so that collections during requests are shorter.

    They are rare too, because requests leave almost no reference cycles (docs/decisions/0015).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


# Cached because it takes long to build, and tests create many applications with the same settings.
schema_of_service = cache(build_schema)


def reject_unaudited(settings: Settings) -> None:
    if not (settings.audit or settings.in_development):
        raise SettingsError("CARE_AUDIT=off is for development only: every access to answers is recorded")


def keys_for(settings: Settings) -> KeySet:
    if has_own_keys(settings):
        return open_keys(settings.model_copy(update={"token_key": public_key(settings)}))
    keys = open_keys(settings)
    reject_own_key(settings, (key.material for key in keys.keys))
    return keys


# --- `uvicorn app.main:app` -----------------------------------------------------------------------


def __getattr__(name: str) -> Router:
    """Creates `app` on first access, so that importing this module needs no configuration."""
    if name != "app":
        raise AttributeError(name)
    try:
        settings = read_settings()
        application = create_app(settings)
        if settings.database.startswith("sqlite:///"):
            check_sqlite(sqlite_path(settings.database))  # reports one sentence instead of a traceback
        freeze_loaded_objects()
        return application
    except (SettingsError, DatabaseError) as error:
        print(f"care-gateway: {error}", file=sys.stderr)
        raise SystemExit(2) from None
