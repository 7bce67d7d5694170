"""`legacy shadow`: a proxy of the old service that compares its answers with those of the new service."""

import gc
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import orjson

from app.cli.client_data import open_output
from app.cli.common import Group, WholeNumber, settings_or_warn
from app.cli.serve import exit_normally, reject_taken_port
from app.telemetry.wording import OperatorError
from moving_over.body_diff import read_masks
from moving_over.commands import shared
from moving_over.commands.compare import MASK, warn
from moving_over.comparison import HEADERS, Comparison, Service
from moving_over.http_client import read_address
from moving_over.shadow import MAX_HEAD, Shadow, ShadowProtocol, create_proxy
from moving_over.shadow_counts import COMPARED, Counts, read_counts

state_option = click.option("--state", type=click.Path(path_type=Path), default="shadow.json")


@click.group(cls=Group, invoke_without_command=True)
@click.option("--old", metavar="URL", help="URL of the old service.")
@click.option("--new", metavar="URL", help="URL of the new service.")
@click.option("--port", type=WholeNumber(1, 65535), help="Port to listen on, at CARE_HOST.")
@click.option("--metrics-port", type=WholeNumber(1, 65535), help="Port of /metrics, at CARE_METRICS_HOST.")
@click.option("--mask", "masked", multiple=True, metavar="PATH", help=MASK)
@click.option("--loose", is_flag=True, help="Ignore whitespace, escapes and the order of members.")
@click.option("--keep-host", is_flag=True, help="Send the Host of the client, not that of the URL.")
@click.option("--mirror-writes", is_flag=True, help="Send the PUT to the new service too; it must be a copy.")
@state_option
@shared.timeout_option
@click.pass_context
def shadow(
    ctx: click.Context, /, old: str | None, new: str | None, port: int | None, state: Path, **options: Any
) -> None:
    """Pass requests to the old service, and compare its answers with those of the new service."""
    if ctx.invoked_subcommand is not None:
        return
    if old is None or new is None or port is None:
        raise click.UsageError("give --old, --new and --port")
    import uvicorn  # slow to import, like prometheus_client
    from prometheus_client import REGISTRY, start_http_server

    settings = settings_or_warn()
    one, other = Service("old", read_address(old), []), Service("new", read_address(new), [])
    counts = read_counts(state) if state.exists() else Counts({})
    timeout, with_changes = options["timeout"], options["mirror_writes"]
    comparison = Comparison(
        one, other, read_masks(options["masked"]), timeout, HEADERS, with_changes, options["loose"]
    )
    warn(comparison)
    reject_taken_port(settings.host, port)
    if (metrics_port := options["metrics_port"]) is not None:
        reject_taken_port(settings.metrics_host, metrics_port)
        REGISTRY.register(counts)
        start_http_server(metrics_port, settings.metrics_host)
    threading.Thread(target=save_regularly, args=(counts, state), daemon=True).start()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, exit_normally)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    sys.setswitchinterval(0.0001)  # seconds for which a comparing thread delays the others
    gc.freeze()  # a full collection would delay them longer
    try:
        app = create_proxy(one.address, timeout, Shadow(comparison, counts), options["keep_host"])
        uvicorn.run(
            app, host=settings.host, port=port, http=ShadowProtocol, ws="none", lifespan="off",
            log_config=None, date_header=False, server_header=False, access_log=False, timeout_keep_alive=75,
            proxy_headers=False, h11_max_incomplete_event_size=MAX_HEAD, timeout_graceful_shutdown=60,
        )  # fmt: skip
    finally:
        save_and_show(counts, state)


def save_regularly(counts: Counts, state: Path) -> None:
    while True:
        save_and_show(counts, state)
        time.sleep(60)


def save_and_show(counts: Counts, state: Path) -> None:
    with suppress(OSError):  # standard error is closed
        try:
            with open_output(state) as file:
                file.write(orjson.dumps([[*key, number] for key, number in dict(counts.numbers).items()]))
        except OperatorError as error:  # the next attempt may succeed
            click.echo(error, err=True)
        click.echo(counts.summary(), err=True)


@shadow.command()
@state_option
def report(state: Path) -> None:
    """Show the counts; exit code 0: no unexplained differences, 1: some, 3: no answers compared."""
    counts = read_counts(state)
    for key, number in (*counts.of("answers"), *counts.of("differences")):
        click.echo("\t".join((*key, f"{number:,}")))
    click.echo(counts.summary())
    differences = counts.total("differences", "different")
    raise SystemExit(1 if differences else 0 if counts.total("answers", *COMPARED) else 3)
