"""What `care-gateway legacy shadow` adds to a request: rounds without and with it, in an open loop.

python bench/shadow.py [--rate 200] [--rounds 13] [--seconds 3] [--mode up ...]

Both services are this one, on copies of the same data. R1, R2 and R3 of the benchmark are sent in turn. The
new service answers equally, has ended, is stopped, answers after 5 s, or gives different answers of 100 KB.
It needs Linux, a C compiler and two cores that nothing else uses.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import expected
from overload import GENERATOR
from report import PROJECT
from servers import (
    BENCH,
    WORK,
    Server,
    data_folder,
    free_port,
    master_database,
    new_request,
    raw,
    read_targets,
    resident_kib,
    running,
    wait_for,
)

MODES = ("up", "killed", "stopped", "slow", "different")
CONNECTIONS = 16
DIFFERENT = json.dumps({"content": [{"id": i, "score": i, "text": "x" * 80} for i in range(900)]}).encode()


@contextmanager
def stand_in(delay: float) -> Iterator[str]:
    """A service that answers every request with the same 100 KB, after a delay."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(DIFFERENT)}\r\n\r\n"

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while connection.recv(65536):
                time.sleep(delay)
                connection.sendall(head.encode() + DIFFERENT)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def new_service(mode: str, server: Server) -> Iterator[str]:
    """The URL of the new service in that mode."""
    if mode in ("slow", "different"):
        with stand_in(5 if mode == "slow" else 0) as url:
            yield url
    elif mode == "stopped":
        os.kill(server.pid, signal.SIGSTOP)
        try:
            yield server.url
        finally:
            os.kill(server.pid, signal.SIGCONT)
    else:
        yield server.url if mode == "up" else f"http://127.0.0.1:{free_port()}"


@contextmanager
def shadowing(old: str, new: str) -> Iterator[tuple[str, int, Path]]:
    """Its URL, its process id and the file of its counts."""
    port, state, log = free_port(), WORK / "shadow.json", WORK / "shadow.log"
    state.unlink(missing_ok=True)
    options = {"old": old, "new": new, "port": port, "state": state, "timeout": 10}
    command = [sys.executable, "-m", "app", "legacy", "shadow"]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=BENCH.parent, stdout=output, stderr=output)
    try:
        wait_for(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}", process.pid, log
    finally:
        process.terminate()
        process.wait(30)


def load(url: str, files: list[Path], rate: float, seconds: float) -> tuple[float, float]:
    """p50 and p99 in milliseconds. Every request must be answered."""
    port = url.rpartition(":")[2]
    command = [GENERATOR, port, str(CONNECTIONS), str(rate), str(seconds), *files]
    done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    if done["refused"] or done["others"] or done["cut"]:
        raise RuntimeError(f"not every request was answered: {done}")
    return done["p50"] * 1000, done["p99"] * 1000


def measure(mode: str, old: str, new: str, files: list[Path], args: argparse.Namespace) -> None:
    with shadowing(old, new) as (shadow, pid, log):
        load(old, files, args.rate, 2)
        before = resident_kib(pid)
        load(shadow, files, args.rate, 2)
        rounds, most = [], 0
        for _ in range(args.rounds):
            direct = load(old, files, args.rate, args.seconds)
            through = load(shadow, files, args.rate, args.seconds)
            rounds.append((*direct, *through))
            most = max(most, resident_kib(pid))
    times = [statistics.median(column) for column in zip(*rounds, strict=True)]
    added = [
        (statistics.median(found), max(found))
        for found in ([each[place + 2] - each[place] for each in rounds] for place in (0, 1))
    ]
    print(
        "{:<10} direct p50 {:.2f} p99 {:.1f}, shadow p50 {:.2f} p99 {:.1f}".format(mode, *times),
        "added p50 {:.2f} (most {:.2f}) p99 {:.1f} (most {:.1f}) ms".format(*added[0], *added[1]),
        f"{(most - before) / 1024:+.0f} MiB",
        log.read_text().splitlines()[-1],
        sep=", ",
        flush=True,
    )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=200, help="requests per second")
    parser.add_argument("--rounds", type=int, default=13)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--mode", action="append", choices=MODES, help="default: all")
    return parser.parse_args()


def main() -> None:
    args = read_arguments()
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", GENERATOR, BENCH / "openloop.c"], check=True)
    target = read_targets()[0][PROJECT]
    data = data_folder(1)
    master = master_database(target, data, False)
    truth = expected.open_dataset(data / "dataset.db")
    with ExitStack() as stack:
        old, new = (
            stack.enter_context(running(replace(target, name=name), master, data)) for name in ("old", "new")
        )
        files = []
        for values in expected.request_values(truth, "R3"):
            for op in ("R1", "R2", "R3"):
                files.append(WORK / f"shadow-{len(files)}")
                files[-1].write_bytes(raw(new_request(target, op, values), "127.0.0.1"))
        for mode in args.mode or MODES:
            with new_service(mode, new) as url:
                measure(mode, old.url, url, files, args)


if __name__ == "__main__":
    sys.exit(main())
