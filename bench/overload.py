"""Open-loop load: what becomes of the service when more is asked of it than it can do?

python bench/overload.py [-o R3] [--times 2] [--seconds 8]

The capacity is what 16 connections get that ask again as soon as they are answered. Then requests come at a
multiple of that rate, whether or not those before are answered, and a light load before and after tells how
soon all is well again. Latencies count from when a request was due, the wait for a connection included.
"""

import argparse
import asyncio
import os
import re
import resource
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import expected
import uvloop
from report import PROJECT
from servers import WORK, Request, data_folder, master_database, new_request, read_targets, running

CONNECTIONS = 16  # for the capacity, like the yardstick's
POOL = 1000  # connections that are kept for the load, opened before: to open them is another matter
LIGHT = 0.1  # of the capacity
LENGTH = re.compile(rb"content-length: (\d+)\r\n")
LATE_SECONDS = 5  # until what is still not answered counts as lost


@dataclass
class Phase:
    """What happened to the requests of one stretch of time."""

    name: str
    offered: float = 0
    seconds: float = 0
    answered: Counter[str] = field(default_factory=Counter)
    latencies: list[tuple[float, float]] = field(default_factory=list)  # due, seconds; of those accepted
    cpu: float = 0
    own_cpu: float = 0
    behind: float = 0  # seconds by which this program was late to send, at worst


class Connection(asyncio.Protocol):
    def __init__(self, crowd: "Crowd") -> None:
        self.crowd = crowd
        self.due = 0.0
        self.left = 0  # bytes of the answer that are still to come
        self.head = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def ask(self, due: float) -> None:
        self.due, self.phase = due, self.crowd.phase
        self.transport.write(next(self.crowd.requests))

    def data_received(self, data: bytes) -> None:
        if self.left:
            self.left -= len(data)
        else:
            self.head += data
            head, found, body = self.head.partition(b"\r\n\r\n")
            if not found:
                return
            self.head = b""
            self.status = head[9:12]
            self.is_refused = self.status == b"503" and b"\r\nretry-after: " in head
            length = LENGTH.search(head + b"\r\n")
            assert length is not None, head
            self.left = int(length[1]) - len(body)
        if not self.left:
            self.crowd.done(self, "refused" if self.is_refused else self.status.decode())

    def connection_lost(self, fault: Exception | None) -> None:
        self.crowd.lost(self)


class Crowd:
    """All who ask, and how long they wait."""

    def __init__(self, url: str, requests: Iterator[bytes]) -> None:
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)
        self.requests = requests
        self.free: list[Connection] = []
        self.busy: set[Connection] = set()
        self.opened = 0
        self.waiting: deque[float] = deque()
        self.phase = Phase("")
        self.asks_again = False

    async def open(self, count: int) -> None:
        for _ in range(count - self.opened):
            _, one = await asyncio.get_running_loop().create_connection(
                lambda: Connection(self), self.host, self.port
            )
            self.free.append(one)
            self.opened += 1

    def ask(self, due: float) -> None:
        if not self.free:
            self.waiting.append(due)
            return
        one = self.free.pop()
        self.busy.add(one)
        one.ask(due)

    def done(self, one: Connection, what: str) -> None:
        now = time.monotonic()
        one.phase.answered[what] += 1
        if what == "200":
            one.phase.latencies.append((one.due, now - one.due))
        if self.asks_again:
            one.ask(now)
        elif self.waiting:
            one.ask(self.waiting.popleft())
        else:
            self.busy.discard(one)
            self.free.append(one)

    def lost(self, one: Connection) -> None:
        if one in self.busy:
            self.busy.discard(one)
            one.phase.answered["cut"] += 1
        elif one in self.free:
            self.free.remove(one)
        self.opened -= 1

    async def as_much_as_it_can(self, seconds: float) -> Phase:
        self.phase = Phase("capacity", seconds=seconds)
        await self.open(CONNECTIONS)
        self.asks_again = True
        for _ in range(CONNECTIONS):
            self.ask(time.monotonic())
        await asyncio.sleep(seconds)
        self.asks_again = False
        await self.calm_down()
        return self.phase

    async def at_a_rate(self, name: str, rate: float, seconds: float) -> Phase:
        self.phase = Phase(name, rate, seconds)
        start = time.monotonic()
        sent = 0
        while (now := time.monotonic()) < start + seconds:
            while start + sent / rate <= now:
                due = start + sent / rate
                self.phase.behind = max(self.phase.behind, now - due)
                self.ask(due)
                sent += 1
            await asyncio.sleep(0.001)
        await self.calm_down()
        return self.phase

    async def calm_down(self) -> None:
        until = time.monotonic() + LATE_SECONDS
        while (self.busy or self.waiting) and time.monotonic() < until:
            await asyncio.sleep(0.001)
        self.phase.answered["late"] += len(self.busy) + len(self.waiting)
        self.waiting.clear()


def told(phase: Phase) -> str:
    times = sorted(latency for _, latency in phase.latencies)
    said = f"{phase.name:<22} {len(times) / phase.seconds:8,.0f} answered/s"
    if phase.offered:
        said += f" of {phase.offered:,.0f} asked/s"
    if times:
        said += (
            f"  p50 {times[len(times) // 2] * 1000:.1f} ms  p99 {times[int(len(times) * 0.99)] * 1000:.1f} ms"
        )
    others = {what: count for what, count in sorted(phase.answered.items()) if what != "200" and count}
    said += "".join(f"  {what} {count}" for what, count in others.items())
    work = f"server {phase.cpu:.1f} CPU-s, own {phase.own_cpu:.1f}"
    return f"{said}  (late to send {phase.behind * 1000:.0f} ms, {work})"


def raw(request: Request, host: str) -> bytes:
    headers = {"Host": host, **request.headers}
    body = (request.body or "").encode()
    if body:
        headers["Content-Length"] = str(len(body))
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def over_and_over(requests: list[bytes]) -> Iterator[bytes]:
    while True:
        yield from requests


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--op", default="G1", help="the operation; a read")
    parser.add_argument("--times", type=float, default=2, help="the load, in capacities")
    parser.add_argument("--seconds", type=float, default=8)
    return parser.parse_args()


def main() -> None:
    args = read_arguments()
    cores = sorted(os.sched_getaffinity(0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    WORK.mkdir(parents=True, exist_ok=True)
    target = read_targets()[0][PROJECT]
    data = data_folder(1)
    truth = expected.open_dataset(data / "dataset.db")
    requests = [new_request(target, args.op, v) for v in expected.request_values(truth, args.op)]

    with running(target, master_database(target, data, False), data) as server:
        if len(cores) > 1:
            os.sched_setaffinity(0, {cores[1]})

        async def measured(phase: "asyncio.Future[Phase]") -> Phase:
            cpu, own = server.cpu_seconds(), time.process_time()
            done = await phase
            done.cpu, done.own_cpu = server.cpu_seconds() - cpu, time.process_time() - own
            print(told(done), flush=True)
            return done

        async def run() -> None:
            bodies = [raw(request, server.url.removeprefix("http://")) for request in requests]
            crowd = Crowd(server.url, over_and_over(bodies))
            await crowd.as_much_as_it_can(2)
            best = await measured(asyncio.ensure_future(crowd.as_much_as_it_can(args.seconds)))
            capacity = len(best.latencies) / best.seconds
            await crowd.open(POOL)
            for name, share in (
                ("light", LIGHT),
                (f"{args.times:g} x capacity", args.times),
                ("light again", LIGHT),
            ):
                phase = await measured(
                    asyncio.ensure_future(crowd.at_a_rate(name, share * capacity, args.seconds))
                )
                if share == args.times:
                    goodput = len(phase.latencies) / phase.seconds / capacity
                    print(f"goodput {goodput:.0%} of the capacity, with {crowd.opened} connections")
            first = min(due for due, _ in phase.latencies)
            for half in range(4):
                slow = [t for due, t in phase.latencies if half / 2 <= due - first < half / 2 + 0.5]
                print(f"light again, {half / 2:.1f} s on: worst {max(slow, default=0) * 1000:.1f} ms")

        uvloop.run(run())


if __name__ == "__main__":
    sys.exit(main())
