"""Real processes of the service, as an operator starts them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx2

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60  # seconds until a process that does nothing is a failure


def environment(**care: str) -> dict[str, str]:
    """Only what is said here: no CARE_* variable of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CARE_")}
    return kept | {f"CARE_{name.upper()}": value for name, value in care.items()}


def run(*words: str, module: str = "app", **care: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment(**care), capture_output=True, text=True, timeout=PATIENCE
    )


def start(*words: str, **care: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "app", *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment(**care), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@dataclass
class Served:
    process: subprocess.Popen[str]
    url: str
    said: IO[str]

    def stop(self, how: signal.Signals) -> tuple[int, str]:
        """The exit code, and all that was said."""
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        self.said.seek(0)
        return code, self.said.read()


@contextmanager
def serving(
    log: Path, *words: str, command: str = "serve", module: str = "app", **care: str
) -> Iterator[Served]:
    """`serve` on a free port, from when it is ready; gone at the end of the block however that comes."""
    given = {"port": str(free_port()), "drain_seconds": "0"} | care
    with log.open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", module, command, *words],
            cwd=ROOT,
            env=environment(**given),
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            served = Served(process, f"http://127.0.0.1:{given['port']}", said)
            wait_until_ready(served, log)
            yield served
        finally:
            process.kill()
            process.wait()


def wait_until_ready(served: Served, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while served.process.poll() is None and time.monotonic() < until:
        try:
            # without certificates, which would take longer to read than the rest, each time
            if httpx2.get(f"{served.url}/readyz", verify=False).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.02)  # between two questions; readiness itself is what is waited for
    raise AssertionError(f"not ready:\n{log.read_text()}")
