"""Serves the metrics of this process, or of all worker processes in one response.

Each worker listens on a Unix socket that only its user may open. The parent process serves the port and adds
a `worker` label to every sample. prometheus_client's multiprocess mode does not fit: it writes every
increment to a file, and cannot read values at the time of a scrape.
"""

import asyncio
import atexit
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import orjson
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.server.background import keep_running
from app.settings import Settings
from app.telemetry.metrics.collect import MetricSources, collect_metrics
from app.telemetry.metrics.http_server import PATH, serve_tcp, serve_unix_socket

FOLDER = "_CARE_METRICS_FOLDER"  # environment variable that the parent process sets for its workers
ALL, OWN = "/all", "/own"  # paths that a worker serves: with the database metrics, and without
TIMEOUT_SECONDS = 3  # for one worker; a worker that does not respond is omitted


class CollectedMetrics(Collector):
    """Metrics that are already collected, as prometheus_client expects them."""

    def __init__(self, families: list[Metric]) -> None:
        self.families = families

    def collect(self) -> list[Metric]:
        return self.families


def to_prometheus_text(families: list[Metric]) -> bytes:
    return generate_latest(CollectedMetrics(families))


# --- a worker -------------------------------------------------------------------------------------


@asynccontextmanager
async def serve_metrics(settings: Settings, sources: MetricSources) -> AsyncIterator[None]:
    """Serves the metrics of this process until the block ends."""

    async def for_prometheus(path: str) -> bytes | None:
        return (
            to_prometheus_text(await collect_metrics(sources, with_database=True)) if path == PATH else None
        )

    async def for_parent(path: str) -> bytes | None:
        return to_json_lines(await collect_metrics(sources, with_database=path == ALL))

    if folder := os.environ.get(FOLDER):
        server = serve_unix_socket(f"{folder}/{os.getpid()}", for_parent)
    else:
        server = serve_tcp(settings.metrics_host, settings.metrics_port, for_prometheus)
    async with server:
        yield


def to_json_lines(families: list[Metric]) -> bytes:
    return b"\n".join(
        orjson.dumps([one.name, one.documentation, one.type, [sample[:3] for sample in one.samples]])
        for one in families
    )


# --- the parent process ---------------------------------------------------------------------------


def start_aggregator(settings: Settings) -> None:
    """Starts a thread that runs until this process ends. Call it before the workers start."""
    folder = os.environ[FOLDER] = mkdtemp(prefix="care-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    work = keep_running("the metrics server", partial(serve_all, settings, Path(folder)))
    threading.Thread(target=asyncio.run, args=[work], name="metrics", daemon=True).start()


async def serve_all(settings: Settings, folder: Path) -> None:
    async def render(path: str) -> bytes | None:
        return to_prometheus_text(await collect_from_workers(folder)) if path == PATH else None

    async with serve_tcp(settings.metrics_host, settings.metrics_port, render):
        await asyncio.Event().wait()


async def collect_from_workers(folder: Path) -> list[Metric]:
    """Only the first worker that responds adds the database metrics."""
    found: dict[str, Metric] = {}
    responded = 0
    for file in sorted(folder.iterdir()):
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                lines = await fetch(file, OWN if responded else ALL)
        except (OSError, EOFError, TimeoutError):  # the worker has ended or hangs
            continue
        responded += 1
        add_samples(found, lines, file.name)
    workers = GaugeMetricFamily("care_workers", "Worker processes that responded.", responded)
    return [workers, *found.values()]


async def fetch(file: Path, path: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(file))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        return await reader.read(-1)
    finally:
        writer.close()


def add_samples(found: dict[str, Metric], lines: bytes, worker: str) -> None:
    for line in lines.splitlines():
        name, text, kind, samples = orjson.loads(line)
        family = found.setdefault(name, Metric(name, text, kind))
        for sample, labels, value in samples:
            family.add_sample(sample, {**labels, "worker": worker}, value)
