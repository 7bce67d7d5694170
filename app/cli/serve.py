"""The commands `serve` and `demo`."""

import asyncio
import gc
import signal
import socket

import click

from app.care.context import utc_now
from app.cli.common import WholeNumber, check_before_serving, on_database, settings_or_warn
from app.db.admin.demo import demo_lines
from app.db.admin.migrate import migrate
from app.db.drivers.interface import Database
from app.db.interchange.load import importing, is_empty
from app.dev.quickstart import quickstart_text
from app.settings import Settings, SettingsError
from app.telemetry.logs import config_of

NO_DEMO = (
    "`care-gateway demo` creates demo users and tokens, so it needs CARE_ENV=development and no "
    "CARE_TOKEN_KEY or CARE_TOKEN_JWKS; for production see docs/guides/operator.md"
)
STOP_SECONDS = 5  # for responses in progress; a client may never read its response
HEALTHCHECK_SECONDS = 30  # for a worker process to respond; starting is slow on a busy machine


@click.command()
@click.option("--host", help="Address to listen on; default is CARE_HOST.")
@click.option("--port", type=WholeNumber(1, 65535), help="Port to listen on; default is CARE_PORT.")
@click.option("--workers", type=WholeNumber(1, 64), default=1, show_default=True, help="Number of processes.")
def serve(host: str | None, port: int | None, workers: int) -> None:
    """Serve the GraphQL API and the legacy paths."""
    run_server(settings_or_warn(), host, port, workers)


def run_server(
    settings: Settings, host: str | None = None, port: int | None = None, workers: int = 1
) -> None:
    check_before_serving(settings)
    gc.disable()  # until startup is complete: imports create no garbage
    from app.main import create_app, freeze_loaded_objects
    from app.server.listener import run

    app = create_app(settings)  # workers create their own; this one reports errors early
    freeze_loaded_objects()
    host, port = host or settings.host, port or settings.port
    reject_taken_port(host, port)
    if settings.metrics_port:
        if settings.metrics_port == port:
            raise SettingsError("CARE_METRICS_PORT is the port of the service; metrics need another port")
        reject_taken_metrics_port(settings)
        if workers > 1:
            from app.telemetry.metrics.server import start_aggregator

            start_aggregator(settings)
    signal.signal(signal.SIGINT, exit_normally)
    signal.signal(signal.SIGTERM, exit_normally)
    try:
        run(
            app if workers == 1 else "app.main:app",
            workers=workers,
            host=host,
            port=port,
            # by name, so that workers import it after they respond to the health check
            http="app.server.protocol:EdgeProtocol",
            ws="app.server.sockets:EdgeSocket",
            log_config=config_of(settings),
            log_level=settings.log_level,
            access_log=False,  # paths and queries contain record ids
            server_header=False,
            backlog=4096,  # Linux allows no more by default; connections beyond it wait for a second
            timeout_graceful_shutdown=STOP_SECONDS,
            timeout_worker_healthcheck=HEALTHCHECK_SECONDS,
            # the default of 16 MiB also applies before authentication
            ws_max_size=settings.graphql_body_limit,
        )
    finally:
        gc.freeze()  # a last collection of everything could outlast the seconds that the process has to end
        if workers == 1 and app.vitals.failed_part:
            raise SystemExit(1)  # so that the supervisor restarts the process


def reject_taken_port(host: str, port: int, advice: str = "") -> None:
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}, port {port}: {error.strerror}{advice}") from None


def reject_taken_metrics_port(settings: Settings) -> None:
    if settings.metrics_port:
        advice = " (for metrics); set CARE_METRICS_PORT to another port"
        reject_taken_port(settings.metrics_host, settings.metrics_port, advice)


def exit_normally(number: int, frame: object) -> None:
    """Exits with 0: uvicorn raises the caught signal again after the shutdown."""
    raise SystemExit(0)


@click.command()
@click.option("--serve", "then_serve", is_flag=True, help="Start the server afterwards.")
def demo(then_serve: bool) -> None:
    """Migrate, load demo data into an empty database, and print example commands."""
    from app.dev.tokens import demo_tokens, has_own_keys

    settings = settings_or_warn()
    if not has_own_keys(settings) and not (settings.in_development and settings.token_secret):
        raise SettingsError(NO_DEMO)
    if then_serve:
        reject_taken_port(
            settings.host, settings.port, "; set another port with CARE_PORT or `make run PORT=8001`"
        )
    tokens = demo_tokens(settings)
    asyncio.run(migrate(settings.database))

    async def load(db: Database) -> None:
        if await db.read(is_empty()):
            await db.write(importing(demo_lines(utc_now())))

    on_database(settings, load)
    click.echo(quickstart_text(f"http://{settings.host}:{settings.port}", tokens))
    if then_serve:
        run_server(settings)
