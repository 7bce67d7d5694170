"""A service that is tried: a copy of the demo world on a free port, started again whenever it ends."""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx2

from tests.live.processes import PATIENCE, ROOT, environment, free_port

HERE = Path(__file__).parent


@dataclass(frozen=True)
class World:
    """What `care-gateway demo` makes: a folder that is copied for every service, and the tokens."""

    folder: Path
    caregiver: str
    client: str


async def demo_world(folder: Path) -> World:
    command = [sys.executable, "-m", "app", "demo"]
    code, said = await ran(command, environment(env="development", var=str(folder)))
    if code:
        raise RuntimeError(said)
    caregiver, client = re.findall(r"^(?:CAREGIVER|CLIENT)=(\S+)$", said, re.MULTILINE)
    return World(folder, caregiver, client)


@asynccontextmanager
async def serving(world: World, folder: Path, **care: str) -> AsyncIterator[dict[str, str]]:
    """What who tries it needs to know. SERVICE_PID is a file: who ends that process sees another come."""
    shutil.copytree(world.folder, folder)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    given = {
        "env": "development",
        "var": str(folder),
        "port": str(port),
        "drain_seconds": "0",
        "legacy_retry_window": "0",  # who tries it assigns the same again and again
        **care,
    }
    number, is_ready = folder / "pid", asyncio.Event()

    async def keep_up() -> None:
        while True:
            with (folder / "log").open("ab") as log:
                async with started(
                    [sys.executable, "-m", "app", "serve"], environment(**given), log
                ) as process:
                    await until_ready(url, process, folder / "log")
                    write_at_once(number, str(process.pid))
                    is_ready.set()
                    await process.wait()

    async with asyncio.TaskGroup() as group:
        kept = group.create_task(keep_up())
        await is_ready.wait()
        yield {
            "SERVICE_URL": url,
            "SERVICE_PID": str(number),
            "CAREGIVER_TOKEN": world.caregiver,
            "CLIENT_TOKEN": world.client,
        }
        kept.cancel()


async def until_ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    async with httpx2.AsyncClient(verify=False) as client, asyncio.timeout(PATIENCE):
        while process.returncode is None:
            with suppress(httpx2.TransportError):
                if (await client.get(f"{url}/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.05)  # between two questions
    raise RuntimeError(f"the service did not start:\n{log.read_text()}")


def write_at_once(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


async def ran(command: list[str], seen: Mapping[str, str], folder: Path = ROOT) -> tuple[int, str]:
    """The exit code and all that was printed."""
    async with started(command, seen, asyncio.subprocess.PIPE, folder) as process:
        try:
            async with asyncio.timeout(2 * PATIENCE):
                said, _ = await process.communicate()
        except TimeoutError:
            return 1, f"{' '.join(command)} did not end\n"
        return process.returncode or 0, said.decode()


@asynccontextmanager
async def started(
    command: list[str], seen: Mapping[str, str], said: int | IO[bytes], folder: Path = ROOT
) -> AsyncIterator[asyncio.subprocess.Process]:
    """However the block ends, the process and all that it started are gone."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=seen, stdout=said, stderr=asyncio.subprocess.STDOUT, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
