"""Open-loop load: what the service does when it receives more requests than it can process.

python bench/overload.py [-o R3] [--times 2] [--pool 1024] [--seconds 8]

The default operation is the smallest read there is: the less it costs, the more rejections cost beside it.

The capacity is what 16 connections reach that send the next request as soon as they have a response. Then
requests are due at a multiple of that rate, whether or not earlier ones are answered. A light load before and
after shows how soon latencies recover. It needs Linux, a C compiler and two cores that nothing else uses.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import expected
from report import PROJECT
from servers import (
    BENCH,
    WORK,
    Server,
    data_folder,
    master_database,
    new_request,
    raw,
    read_targets,
    running,
)

CONNECTIONS = 16  # for the capacity, like the yardstick's
LIGHT = 0.1  # of the capacity
SMALL, SMALL_QUERY = "small", '{"query": "{ viewer { role } }"}'
GENERATOR = WORK / "openloop"


def load(
    server: Server, files: list[Path], name: str, pool: int, rate: float, seconds: float
) -> dict[str, Any]:
    """One phase, printed. The generator runs on the last core, the server on the first."""
    cpu = server.cpu_seconds()
    port = server.url.rpartition(":")[2]
    command = [GENERATOR, port, str(pool), str(rate), str(seconds), *files]
    last = {max(os.sched_getaffinity(0))}
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, last),
    )
    phase: dict[str, Any] = json.loads(done.stdout)
    phase["rate"] = phase["answered"] / seconds
    offered = f" of {rate:,.0f} due/s" if rate else ""
    print(
        f"{name:<22} {phase['rate']:8,.0f} answered/s{offered}  p50 {phase['p50'] * 1000:.1f} ms"
        f"  p99 {phase['p99'] * 1000:.1f} ms  refused {phase['refused'] / seconds:,.0f}/s  cut {phase['cut']}"
        f"  other {phase['others']}  (late to send {phase['late'] * 1000:.0f} ms,"
        f" server {server.cpu_seconds() - cpu:.1f} CPU-s)",
        flush=True,
    )
    return phase


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--op", default=SMALL, help="a read of the yardstick; default: the viewer's role"
    )
    parser.add_argument("--times", type=float, default=2, help="the load, in capacities")
    parser.add_argument("--pool", type=int, default=1024, help="connections of the generator")
    parser.add_argument("--seconds", type=float, default=8)
    return parser.parse_args()


def main() -> None:
    args = read_arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", GENERATOR, BENCH / "openloop.c"], check=True)
    target = read_targets()[0][PROJECT]
    data = data_folder(1)
    op = "G1" if args.op == SMALL else args.op
    truth = expected.open_dataset(data / "dataset.db")
    requests = [new_request(target, op, values) for values in expected.request_values(truth, op)]
    if args.op == SMALL:
        requests = [requests[0]._replace(body=SMALL_QUERY)]

    with running(target, master_database(target, data, False), data) as server:
        files = [WORK / f"request-{number}" for number in range(len(requests))]
        for file, request in zip(files, requests, strict=True):
            file.write_bytes(raw(request, server.url.removeprefix("http://")))
        load(server, files, "warming up", CONNECTIONS, 0, 2)
        capacity = load(server, files, "capacity", CONNECTIONS, 0, args.seconds)["rate"]
        load(server, files, "light", args.pool, LIGHT * capacity, args.seconds)
        over = load(
            server, files, f"{args.times:g} x capacity", args.pool, args.times * capacity, args.seconds
        )
        print(f"goodput {over['rate'] / capacity:.0%} of the capacity, with {args.pool} connections")
        light = load(server, files, "light again", args.pool, LIGHT * capacity, args.seconds)
        for half, worst in enumerate(light["worst"][:4]):
            print(f"light again, {half / 2:.1f} s on: worst {worst * 1000:.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
