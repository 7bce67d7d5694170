"""Processor instructions of one request of each operation, which noise on the machine does not change.

python bench/instructions.py [-o R1,G4] [--on postgresql] [--project DIR]

Runs the service of a checkout under `valgrind --tool=callgrind`, without sockets of clients: 16 connections
pass the bytes of a request to the HTTP protocol, wait for all responses and start again. The figure is the
difference between a long run and a short one, divided by the number of requests; it includes all threads, and
does not include PostgreSQL.
"""

import argparse
import asyncio
import gc
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import expected
from postgres import running_postgres
from report import PROJECT
from servers import (
    HOME,
    SECRET,
    WORK,
    Target,
    copy_database,
    data_folder,
    free_port,
    master_database,
    new_request,
    raw,
    read_targets,
)

CONNECTIONS = 16
SHORT, LONG = 6, 26  # requests of each connection
VALGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
OPERATIONS = ["R1", "R2", "R3", "R4", "G1", "G2", "G3", "G4"]


class Transport:
    """Counts the responses instead of sending them."""

    def __init__(self) -> None:
        self.responses: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, data: bytes) -> None:
        self.responses.put_nowait(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def without_time_limits() -> None:
    """Under valgrind everything takes fifty times as long."""
    from app.auth import authenticator, tokens
    from app.server import admission

    authenticator.ACCOUNT_CACHE_SECONDS = tokens.TOKEN_CACHE_SECONDS = admission.MAX_WAIT = 1e9
    try:
        from app.server import turns
    except ImportError:
        return  # an earlier version
    admission.MAX_STANDING_WAIT = turns.TURN_SECONDS = turns.LONG_SECONDS = 1e9


async def drive(requests: list[bytes], rounds: int) -> None:
    import uvicorn
    from uvicorn.server import ServerState

    from app.main import create_app, freeze_loaded_objects
    from app.server.protocol import EdgeProtocol

    without_time_limits()
    config = uvicorn.Config(create_app(), lifespan="on", log_level="warning")
    config.load()
    lifespan = config.lifespan_class(config)
    await lifespan.startup()
    freeze_loaded_objects()
    # Whether one more collection falls into the long run, or how often a thread takes the interpreter from
    # another one after 5 ms, in which little runs under valgrind, would decide on some percent.
    gc.disable()
    sys.setswitchinterval(1e6)
    connections = [EdgeProtocol(config, ServerState(), lifespan.state.copy()) for _ in range(CONNECTIONS)]
    transports = [Transport() for _ in connections]
    for connection, transport in zip(connections, transports, strict=True):
        connection.connection_made(transport)  # type: ignore[arg-type]
    for number in range(rounds):
        for place, connection in enumerate(connections):
            connection.data_received(requests[(number * CONNECTIONS + place) % len(requests)])
        for transport in transports:
            response = await transport.responses.get()
            assert response.startswith(b"HTTP/1.1 200"), response
    await lifespan.shutdown()


def count(project: Path, files: list[Path], rounds: int, target: Target, master: Path | str) -> int:
    """The instructions of a whole run."""
    copy_database(target, master)
    database = str(target.database)
    done = subprocess.run(
        [*VALGRIND, sys.executable, __file__, "--drive", str(rounds), *map(str, files)],
        cwd=project,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("CARE_")},
            "CARE_ENV": "development",
            "CARE_DATABASE_URL": database if target.postgres else f"sqlite:///{database}",
            "CARE_TOKEN_SECRET": SECRET,
            "CARE_LOG_LEVEL": "warning",
            "CARE_AUDIT": "off",
            "CARE_RECENT_REQUESTS": "0",
            "CARE_DISPATCHER": "off",  # its work depends on the time of the run
            "CARE_LEGACY_RETRY_WINDOW": "0",
            "CARE_LOOP_READ_MS": "1000",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": str(project),
        },
        capture_output=True,
        text=True,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert done.returncode == 0 and found, done.stderr[-3000:]
    return int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--operations", default=",".join(OPERATIONS))
    parser.add_argument("--on", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--project", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--drive", type=int, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        import uvloop  # as uvicorn does

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(drive([file.read_bytes() for file in args.files], args.drive))
        return
    WORK.mkdir(parents=True, exist_ok=True)
    data = data_folder(1)
    truth = expected.open_dataset(data / "dataset.db")
    counts = {}
    with ExitStack() as stack:
        target = read_targets(args.on)[0][PROJECT]
        if args.on == "postgresql":
            server = stack.enter_context(running_postgres(HOME / "postgres", free_port(), []))
            target = replace(target, postgres=server)
        master = master_database(target, data, False)
        target = replace(target, name="instructions")
        for operation in args.operations.split(","):
            files = []
            for number, values in enumerate(expected.request_values(truth, operation)):
                files.append(WORK / f"{operation}-{number}")
                files[-1].write_bytes(raw(new_request(target, operation, values), "localhost"))
            runs = [count(args.project, files, rounds, target, master) for rounds in (SHORT, LONG)]
            counts[operation] = (runs[1] - runs[0]) // ((LONG - SHORT) * CONNECTIONS)
            print(f"{operation} {counts[operation]:>12,} instructions", flush=True)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
