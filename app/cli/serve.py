"""`serve`: runs the server."""

import gc
import signal
import socket

import click

from app.cli.common import Service, WholeNumber, check_before_serving, main, settings_or_warn
from app.settings import Settings, SettingsError
from app.telemetry.logs import config_of

STOP_SECONDS = 5  # for responses in progress; a client may never read its response
HEALTHCHECK_SECONDS = 30  # for a worker process to respond; starting is slow on a busy machine


@main.command(cls=Service)
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
            ws_ping_interval=12,  # seconds, as between the heartbeats of an event stream
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
    except (OSError, UnicodeError) as error:  # UnicodeError: no host can have this name
        reason = getattr(error, "strerror", None) or "no such address"
        raise SettingsError(f"cannot listen on {host}, port {port}: {reason}{advice}") from None


def reject_taken_metrics_port(settings: Settings) -> None:
    if settings.metrics_port:
        advice = " (for metrics); set CARE_METRICS_PORT to another port"
        reject_taken_port(settings.metrics_host, settings.metrics_port, advice)


def exit_normally(number: int, frame: object) -> None:
    """Exits with 0: uvicorn raises the caught signal again after the shutdown."""
    raise SystemExit(0)
