"""Serves the metrics of this process, or of all worker processes in one response.

Metrics have their own port, so that a public proxy does not expose them. Each worker listens on a Unix socket
that only its user may open. The parent process serves the port and adds a `worker` label to every sample.

prometheus_client's multiprocess mode does not fit: it writes every increment to a file, and cannot read
values at the time of a scrape. Its server needs a thread per request and cannot collect from this event loop.
"""

import asyncio
import atexit
import logging
import os
import re
import shutil
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import orjson
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.server.background import keep_running
from app.settings import Settings, SettingsError
from app.telemetry.metrics.collect import MetricSources, own_metrics, stored_metrics

FOLDER = "_CARE_METRICS_FOLDER"  # environment variable that the parent process sets for its workers
PATH = "/metrics"
OWN, STORED = "/own", "/stored"  # paths that a worker serves
WORKER_SECONDS = 3  # for one worker; a worker that does not respond is omitted
REQUEST_SECONDS = 8  # for a request and its response: more than two workers, less than Prometheus waits
MAX_HEAD_BYTES = 8192
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST = re.compile(rb"([A-Z]{1,16}) (/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r\n")

logger = logging.getLogger("care.metrics")

Pages = Mapping[str, Callable[[], Awaitable[bytes]]]  # by path: makes the body of a response


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

    async def for_prometheus() -> bytes:
        return to_prometheus_text([*own_metrics(sources), *await stored_metrics(sources)])

    async def own() -> bytes:
        return to_json_lines(own_metrics(sources))

    async def stored() -> bytes:
        return to_json_lines(await stored_metrics(sources))

    if folder := os.environ.get(FOLDER):
        pages: Pages = {OWN: own, STORED: stored}
        server = serve_unix_socket(f"{folder}/{os.getpid()}", pages)
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
    async def for_prometheus() -> bytes:
        return to_prometheus_text(await collect_from_workers(folder))

    async with serve_tcp(settings.metrics_host, settings.metrics_port, for_prometheus):
        await asyncio.Event().wait()


async def collect_from_workers(folder: Path) -> list[Metric]:
    """Only the first worker that responds adds the database metrics."""
    files = sorted(folder.iterdir())
    pages = await asyncio.gather(*(fetch(file, OWN) for file in files))
    responded = [(file, lines) for file, lines in zip(files, pages, strict=True) if lines is not None]
    stored = [(file, await fetch(file, STORED) or b"") for file, _ in responded[:1]]
    found: dict[str, Metric] = {}
    for file, lines in responded + stored:
        add_samples(found, lines, file.name)
    workers = GaugeMetricFamily("care_workers", "Worker processes that responded.", len(responded))
    return [workers, *found.values()]


async def fetch(file: Path, path: str) -> bytes | None:
    """None if the worker has ended or hangs."""
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(file))
            with closing(writer):
                writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                return await reader.readexactly(int(length))  # a worker may end meanwhile
    except (OSError, EOFError, TimeoutError):
        return None


def add_samples(found: dict[str, Metric], lines: bytes, worker: str) -> None:
    for line in lines.splitlines():
        name, text, kind, samples = orjson.loads(line)
        family = found.setdefault(name, Metric(name, text, kind))
        for sample, labels, value in samples:
            family.add_sample(sample, {**labels, "worker": worker}, value)


# --- HTTP -----------------------------------------------------------------------------------------


@asynccontextmanager
async def serve_tcp(host: str, port: int, make_body: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
    handler = partial(handle, {PATH: make_body})
    try:
        server = await asyncio.start_server(handler, host, port, limit=MAX_HEAD_BYTES)
    except (OSError, UnicodeError) as error:  # UnicodeError: no host can have this name
        reason = getattr(error, "strerror", None) or "no such address"
        raise SettingsError(f"cannot listen for metrics on {host}, port {port}: {reason}") from None
    with closing(server):
        yield


@asynccontextmanager
async def serve_unix_socket(path: str, pages: Pages) -> AsyncIterator[None]:
    with closing(await asyncio.start_unix_server(partial(handle, pages), path, limit=MAX_HEAD_BYTES)):
        yield


async def handle(pages: Pages, reader: StreamReader, writer: StreamWriter) -> None:
    with closing(writer), suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
        async with asyncio.timeout(REQUEST_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await response_to(head, pages))
            await writer.drain()


async def response_to(head: bytes, pages: Pages) -> bytes:
    request = REQUEST.match(head)
    if request is None:
        return response("400 Bad Request")
    if request[1] not in (b"GET", b"HEAD"):
        return response("405 Method Not Allowed")
    make_body = pages.get(request[2].decode("latin-1"))
    if make_body is None:
        return response("404 Not Found")
    try:
        body = await make_body()
    except Exception:
        logger.exception("metrics cannot be collected")
        return response("500 Internal Server Error")
    return response("200 OK", body, has_body=request[1] == b"GET")


def response(status: str, body: bytes = b"", has_body: bool = True) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {CONTENT_TYPE}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (body if has_body else b"")
