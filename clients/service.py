"""Starts services with demo data on free ports, and restarts a service whenever it ends.

Each has a copy of one SQLite database, or with TEST_DATABASE_URL a new database of that PostgreSQL server.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx2

from tests.live.processes import PATIENCE, ROOT, environment, free_port
from tests.postgres import execute, quoted, url_of

HERE = Path(__file__).parent


@dataclass(frozen=True)
class World:
    """The output of `care-gateway demo`: a folder, of which each service gets a copy, and tokens."""

    folder: Path
    caregiver: str
    client: str


async def demo_world(folder: Path) -> World:
    output = await run_app("demo", env="development", var=str(folder))
    caregiver, client = re.findall(r"^(?:CAREGIVER|CLIENT)=(\S+)$", output, re.MULTILINE)
    return World(folder, caregiver, client)


async def run_app(*words: str, **settings: str) -> str:
    code, output = await run_command([sys.executable, "-m", "app", *words], environment(**settings))
    if code:
        raise RuntimeError(output)
    return output


@asynccontextmanager
async def copied(world: World, folder: Path) -> AsyncIterator[dict[str, str]]:
    """Yields the settings of a service with a copy of the world."""
    shutil.copytree(world.folder, folder)
    server = os.environ.get("TEST_DATABASE_URL")
    if server is None:
        yield {}
        return
    name = f"clients_{uuid.uuid4().hex}"
    settings = {"database_url": url_of(server, name)}
    await execute(server, f"CREATE DATABASE {quoted(name)}")
    try:
        await run_app("copy", "--from", f"sqlite:///{folder}/care.db", **settings)
        yield settings
    finally:
        await execute(server, f"DROP DATABASE {quoted(name)} WITH (FORCE)")


@asynccontextmanager
async def serving(world: World, folder: Path, **settings: str) -> AsyncIterator[dict[str, str]]:
    """Yields variables for tests. SERVICE_PID is a file with the process id; a test may end that process."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = environment(
        env="development",
        var=str(folder),
        port=str(port),
        drain_seconds="0",
        legacy_retry_window="0",  # tests assign the same homework repeatedly
        **settings,
    )
    command = [sys.executable, "-m", "app", "serve"]
    pid_file, log_file, is_ready = folder / "pid", folder / "log", asyncio.Event()

    async def keep_running() -> None:
        while True:
            with log_file.open("ab") as log:
                async with started(command, variables, log) as process:
                    await wait_until_ready(url, process, log_file)
                    write_atomically(pid_file, str(process.pid))
                    is_ready.set()
                    await process.wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(keep_running())
        await is_ready.wait()
        yield {
            "SERVICE_URL": url,
            "SERVICE_PID": str(pid_file),
            "CAREGIVER_TOKEN": world.caregiver,
            "CLIENT_TOKEN": world.client,
        }
        task.cancel()


async def wait_until_ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    async with httpx2.AsyncClient(verify=False) as client, asyncio.timeout(PATIENCE):
        while process.returncode is None:
            with suppress(httpx2.TransportError):
                if (await client.get(f"{url}/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.05)
    raise RuntimeError(f"the service did not start:\n{log.read_text()}")


def write_atomically(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


async def run_command(
    command: list[str], variables: Mapping[str, str], folder: Path = ROOT
) -> tuple[int, str]:
    """The exit code and the output."""
    async with started(command, variables, asyncio.subprocess.PIPE, folder) as process:
        try:
            async with asyncio.timeout(5 * PATIENCE):
                output, _ = await process.communicate()
        except TimeoutError:
            return 1, f"{' '.join(command)} did not end\n"
        return process.returncode or 0, output.decode()


@asynccontextmanager
async def started(
    command: list[str], variables: Mapping[str, str], output: int | IO[bytes], folder: Path = ROOT
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Kills the process with its own child processes when the block ends."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=variables,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
