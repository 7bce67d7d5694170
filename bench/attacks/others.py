"""The others during an attack: health checks and the small reads of another viewer, every 50 ms.

python bench/attacks/others.py PORT PID TOKEN

Requests are due whether or not earlier ones are answered, and a latency counts from when its request was due.
Prints "ready" once it measures, and JSON after a line on standard input. PID is the server's.
"""

import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from wire import graphql, request

EVERY = 0.05
PATIENCE = 10.0
QUERIES = ("{ viewer { role } }", "{ sessions(first: 3) { nodes { id title } } }")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Latencies:
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def figures(self) -> dict[str, Any]:
        ordered = sorted(self.seconds) or [0.0]
        return {
            "median_ms": 1000 * statistics.median(ordered),
            "p99_ms": 1000 * ordered[int(len(ordered) * 0.99)],
            "worst_ms": 1000 * ordered[-1],
            "count": len(self.seconds),
            "failed": {status: count for status, count in self.statuses.items() if status != "200"},
        }


async def open_connection(port: int) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port)


async def fetch(streams: Streams, data: bytes) -> str:
    reader, writer = streams
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
    await reader.readexactly(length)
    return head[9:12].decode()


async def fetch_on_new(port: int, data: bytes) -> str:
    streams = await open_connection(port)
    try:
        return await fetch(streams, data)
    finally:
        streams[1].close()


class Kept:
    """Connections that stay open. Like a browser, the client has six at most, and its other requests wait."""

    def __init__(self) -> None:
        self.free: list[Streams] = []
        self.turns = asyncio.Semaphore(6)

    async def fetch(self, port: int, data: bytes) -> str:
        async with self.turns:
            streams = self.free.pop() if self.free else await open_connection(port)
            try:
                status = await fetch(streams, data)
            except BaseException:
                streams[1].close()
                raise
            self.free.append(streams)
            return status


async def measure(port: int, pid: int, token: str) -> dict[str, Any]:
    reads = [graphql(token, query) for query in QUERIES]
    closing = [graphql(token, query, connection="close") for query in QUERIES]
    livez = request("GET", "/livez", {"connection": "close"})
    kept, found = Kept(), {"livez": Latencies(), "reads": Latencies()}

    async def time_one(name: str, sending: Coroutine[Any, Any, str]) -> None:
        due = monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                status = await sending
        except (OSError, EOFError) as fault:
            status = type(fault).__name__
        found[name].seconds.append(monotonic() - due)
        found[name].statuses[status] += 1

    def send_all(number: int) -> list[asyncio.Task[None]]:
        data = number % len(QUERIES)
        due = {
            "livez": [fetch_on_new(port, livez)],
            "reads": [kept.fetch(port, reads[data]), fetch_on_new(port, closing[data])],
        }
        return [
            asyncio.create_task(time_one(name, each)) for name, several in due.items() for each in several
        ]

    for number in range(20):  # so that the operations are prepared
        await asyncio.gather(*send_all(number))
    for each in found.values():
        each.seconds.clear()
        each.statuses.clear()
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak of memory begins anew
    before = memory_mib(pid, "VmRSS")
    print("ready", flush=True)

    ended, running, due, number = asyncio.create_task(line_of_input()), set(), monotonic(), 0
    while not ended.done():
        for task in send_all(number):
            running.add(task)
            task.add_done_callback(running.discard)
        number, due = number + 1, due + EVERY
        await asyncio.wait([ended], timeout=max(0, due - monotonic()))
    peak = memory_mib(pid, "VmHWM")
    await asyncio.gather(*running)
    return {name: each.figures() for name, each in found.items()} | {"before_mib": before, "peak_mib": peak}


async def line_of_input() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.readline()


def memory_mib(pid: int, name: str) -> float:
    with suppress(FileNotFoundError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))))
