"""The commands that serve, and that give a newcomer something to be served: `serve`, `demo`."""

import asyncio
import gc
import signal
import socket

import click

from app.care.context import Role, utc_now
from app.cli.common import Whole, no_work, on_database, refuse_barred, settings_or_warn
from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
from app.db.admin.importing import importing, is_empty
from app.db.admin.migrate import migrate
from app.db.drivers.interface import Database
from app.dev.quickstart import quickstart_text
from app.settings import Settings, SettingsError
from app.telemetry.logs import config_of

DEMO_USERS = {Role.CAREGIVER: CAREGIVER, Role.CLIENT: CLIENT}
NO_DEMO = (
    "`care-gateway demo` makes people and tokens to try the service with, so it runs with "
    "CARE_ENV=development only, and without CARE_TOKEN_KEY and CARE_TOKEN_JWKS; for production see "
    "docs/guides/operator.md"
)
METRICS_ADVICE = " (for metrics); CARE_METRICS_PORT chooses another"
STOP_SECONDS = 5  # for answers that are under way; somebody may listen and never read
ANSWER_SECONDS = 30  # for a worker process to answer the first one; on a busy machine a start takes some


@click.command()
@click.option("--host", help="Address to listen on; CARE_HOST otherwise.")
@click.option("--port", type=Whole(1, 65535), help="Port to listen on; CARE_PORT otherwise.")
@click.option("--workers", type=Whole(1, 64), default=1, show_default=True, help="Processes.")
def serve(host: str | None, port: int | None, workers: int) -> None:
    """Serve both contracts."""
    serve_with(settings_or_warn(), host, port, workers)


def serve_with(
    settings: Settings, host: str | None = None, port: int | None = None, workers: int = 1
) -> None:
    refuse_barred(settings)
    on_database(settings, no_work)
    gc.disable()  # until all is settled: there is nothing to collect in what is loaded
    import uvicorn  # here: what takes long to load is loaded by the commands that need it

    from app.main import create_app, settle

    app = create_app(settings)  # also with workers, which make their own: what is wrong is said here
    settle()
    host, port = host or settings.host, port or settings.port
    refuse_taken_port(host, port)
    if settings.metrics_port:
        if settings.metrics_port == port:
            raise SettingsError("CARE_METRICS_PORT is the port that is served; metrics need one of their own")
        refuse_taken_port(settings.metrics_host, settings.metrics_port, METRICS_ADVICE)
        if workers > 1:
            from app.telemetry.metrics.aggregation import start_aggregator

            start_aggregator(settings)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stopped)
    try:
        uvicorn.run(
            app if workers == 1 else "app.main:app",
            workers=workers,
            host=host,
            port=port,
            http="app.server.protocol:EdgeProtocol",  # by name: workers load it when they answer already
            ws="app.server.sockets:EdgeSocket",
            log_config=config_of(settings),
            log_level=settings.log_level,
            access_log=False,  # paths and queries name people's records
            server_header=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            timeout_worker_healthcheck=ANSWER_SECONDS,
            ws_max_size=settings.graphql_body_limit,  # uvicorn would buffer 16 MiB, also before sign-in
        )
    finally:
        if workers == 1 and app.state.vitals.failed_part:
            raise SystemExit(1)  # so that what watches over the process starts it again


def refuse_taken_port(host: str, port: int, advice: str = "") -> None:
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(address)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}, port {port}: {error.strerror}{advice}") from None


def stopped(number: int, frame: object) -> None:
    """Being told to stop is no fault. The server, once it has shut down, raises the signal that it caught."""
    raise SystemExit(0)


@click.command()
@click.option("--serve", "is_served", is_flag=True, help="And serve it.")
def demo(is_served: bool) -> None:
    """Migrate, load the demo world if the database is empty, and print what to paste."""
    from app.dev.tokens import has_own_keys, mint_token

    settings = settings_or_warn()
    if not has_own_keys(settings) and not (settings.in_development and settings.token_secret):
        raise SettingsError(NO_DEMO)
    if is_served:
        # Before anything is printed that leads there.
        refuse_taken_port(settings.host, settings.port, "; CARE_PORT, or `make run PORT=8001`, takes another")
    tokens = {role: mint_token(settings, role, user, utc_now()) for role, user in DEMO_USERS.items()}
    asyncio.run(migrate(settings.database))

    async def load(db: Database) -> None:
        if await db.read(is_empty()):
            await db.write(importing(demo_lines(utc_now())))

    on_database(settings, load)
    click.echo(quickstart_text(f"http://{settings.host}:{settings.port}", tokens))
    if is_served:
        serve_with(settings)
