"""Several processes of `serve` tell their metrics as one: each at a file that only their user may open, and
the first process, which watches over them, at the port. Every line of its answer names its process."""

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
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from app.server.background import keep_running
from app.settings import Settings
from app.telemetry.metrics.families import Parts, gather
from app.telemetry.metrics.listener import PATH, listening, listening_at

FOLDER = "_CARE_METRICS_FOLDER"  # in the environment of the processes that the first one starts
ALL, OWN = "/all", "/own"  # what a process is asked for: with what is stored, or without
SECONDS = 3  # for a process to answer; one that hangs is left out


class Told:
    """A collector of what was gathered."""

    def __init__(self, families: list[Metric]) -> None:
        self.families = families

    def collect(self) -> list[Metric]:
        return self.families


def as_text(families: list[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told(families))
    return generate_latest(registry)


# --- a process ------------------------------------------------------------------------------------


@asynccontextmanager
async def telling(settings: Settings, parts: Parts) -> AsyncIterator[None]:
    """Tells the metrics of this process as long as the block lasts."""

    async def to_prometheus(path: str) -> bytes | None:
        return as_text(await gather(parts, with_stored=True)) if path == PATH else None

    async def to_the_first(path: str) -> bytes | None:
        return as_lines(await gather(parts, path == ALL))

    if folder := os.environ.get(FOLDER):
        place = listening_at(f"{folder}/{os.getpid()}", to_the_first)
    else:
        place = listening(settings.metrics_host, settings.metrics_port, to_prometheus)
    async with place:
        yield


def as_lines(families: list[Metric]) -> bytes:
    return b"\n".join(
        orjson.dumps([one.name, one.documentation, one.type, [sample[:3] for sample in one.samples]])
        for one in families
    )


# --- the first process ----------------------------------------------------------------------------


def tell_for_all(settings: Settings) -> None:
    """Before the others are started: from now on, in a thread, until this process ends."""
    folder = os.environ[FOLDER] = mkdtemp(prefix="care-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    work = keep_running("the metrics listener", partial(tell_on, settings, Path(folder)))
    threading.Thread(target=asyncio.run, args=[work], name="metrics", daemon=True).start()


async def tell_on(settings: Settings, folder: Path) -> None:
    async def tell(path: str) -> bytes | None:
        return as_text(await gather_from(folder)) if path == PATH else None

    async with listening(settings.metrics_host, settings.metrics_port, tell):
        await asyncio.Event().wait()


async def gather_from(folder: Path) -> list[Metric]:
    """The first that answers tells of what is stored as well."""
    found: dict[str, Metric] = {}
    answered = 0
    for file in sorted(folder.iterdir()):
        try:
            async with asyncio.timeout(SECONDS):
                told = await ask(file, OWN if answered else ALL)
        except (OSError, EOFError, TimeoutError):  # it has ended, or hangs
            continue
        answered += 1
        add(found, told, file.name)
    text = "Processes that told of themselves."
    return [GaugeMetricFamily("care_workers", text, answered), *found.values()]


async def ask(file: Path, path: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(file))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        return await reader.read(-1)
    finally:
        writer.close()


def add(found: dict[str, Metric], lines: bytes, worker: str) -> None:
    for line in lines.splitlines():
        name, text, kind, samples = orjson.loads(line)
        family = found.setdefault(name, Metric(name, text, kind))
        for sample, labels, value in samples:
            family.add_sample(sample, {**labels, "worker": worker}, value)
