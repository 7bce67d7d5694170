"""Processes of the service, as an operator starts them.

Loading the program takes most of the start. So a process is a fork of one that has loaded the program, unless
a module is named: that is started afresh.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import forkserver
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO

import httpx2

from tests.patience import PATIENCE
from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent
LOADED = multiprocessing.get_context("forkserver")
LOADED.set_forkserver_preload(["app.__main__", "app.main", "app.server.sockets", "uvicorn", "asyncpg"])


def environment(**care: str) -> dict[str, str]:
    """Removes the CARE_* variables of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CARE_")}
    return kept | {f"CARE_{name.upper()}": value for name, value in care.items()}


class Process:
    """`python -m app` with these arguments, with the interface of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        care: dict[str, str],
        *files: IO[str],
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """Writes its output to these files, stdout first. Calls `prepare` before anything else."""
        self.files, self.output = files, list[str]()
        duplicates = [DupFd(files[0].fileno()), DupFd(files[-1].fileno())]
        with chdir(ROOT):  # a test may have left it; the program is loaded from the current folder
            forkserver.ensure_running()
        self.fork = LOADED.Process(
            target=run_forked, args=(arguments, environment(**care), duplicates, prepare)
        )
        self.fork.start()
        self.pid = self.fork.pid

    @property
    def returncode(self) -> int | None:
        return self.fork.exitcode

    def poll(self) -> int | None:
        return self.fork.exitcode

    def wait(self, timeout: float = PATIENCE) -> int:
        self.fork.join(timeout)
        if self.fork.exitcode is None:
            raise subprocess.TimeoutExpired("app", timeout)
        return self.fork.exitcode

    def send_signal(self, number: int) -> None:
        if self.fork.exitcode is None:
            with suppress(ProcessLookupError):  # it has ended; `exitcode` follows
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = PATIENCE) -> list[str]:
        """The output until the process ends."""
        self.wait(timeout)
        for each in self.files:
            with each:
                each.seek(0)
                self.output.append(each.read())
        self.files = ()
        return self.output


def run_forked(
    arguments: Sequence[str],
    environ: dict[str, str],
    files: Sequence[DupFd],
    prepare: Callable[[], None] | None,
) -> None:
    """Runs in the fork and continues like `python -m app`, whose workers load `app.__main__` again."""
    listen_to_interrupts()
    if prepare is not None:
        prepare()
    for number, file in enumerate(files, start=1):
        os.dup2(file.detach(), number)
    sys.stdin = None  # workers inherit none
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environ)
    from app import __main__

    sys.modules["__main__"] = __main__
    sys.argv = ["__main__.py", *arguments]
    __main__.main()


def listen_to_interrupts() -> None:
    """A shell starts background jobs that ignore SIGINT, and all that they start ignores it too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(*arguments: str, **care: str) -> Process:
    return Process(arguments, care, tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+"))


def run(
    *arguments: str, module: str = "", folder: Path = ROOT, **care: str
) -> subprocess.CompletedProcess[str]:
    """Starts a named module afresh, as it is in the folder."""
    if not module:
        process = start(*arguments, **care)
        return subprocess.CompletedProcess(arguments, process.wait(), *process.communicate())
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=environment(**care),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@dataclass
class Served:
    process: Process | subprocess.Popen[str]
    url: str
    output: IO[str]

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """The exit code and the output."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.output.seek(0)
        return code, self.output.read()


@contextmanager
def serving(
    log: Path,
    *arguments: str,
    command: str = "serve",
    module: str = "",
    folder: Path = ROOT,
    prepare: Callable[[], None] | None = None,
    **care: str,
) -> Iterator[Served]:
    """Runs `serve` on a free port. The block starts when the service is ready; the process is killed
    at its end."""
    settings = {"port": str(free_port()), "drain_seconds": "0"} | care
    with log.open("w+") as output:
        process = spawn([command, *arguments], module, settings, output, prepare, folder)
        try:
            port = dict(pairwise(arguments)).get("--port", settings["port"])
            served = Served(process, f"http://127.0.0.1:{port}", output)
            wait_until_ready(served, log)
            yield served
        finally:
            process.kill()
            process.wait()


def spawn(
    arguments: Sequence[str],
    module: str,
    care: dict[str, str],
    output: IO[str],
    prepare: Callable[[], None] | None = None,
    folder: Path = ROOT,
) -> "Process | subprocess.Popen[str]":
    if not module:
        return Process(arguments, care, output, prepare=prepare)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=environment(**care),
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=listen_to_interrupts,  # the program sets its own handler, or gets the default one
    )


def wait_for_log(log: Path, words: str, times: int) -> None:
    until = time.monotonic() + PATIENCE
    while log.read_text().count(words) < times:
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.01)


def wait_until_ready(served: Served, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while served.process.poll() is None and time.monotonic() < until:
        try:
            if httpx2.get(f"{served.url}/readyz").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.02)  # between two questions; readiness itself is what is waited for
    raise AssertionError(f"not ready:\n{log.read_text()}")
