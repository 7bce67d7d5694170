"""The supervisor replaces a worker process that hangs, and forwards signals to worker processes. A server
reads a limited number of incomplete requests at once."""

import asyncio
import os
import resource
import signal
import socket
import sys
from collections import deque
from contextlib import ExitStack
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from uvicorn.supervisors.multiprocess import Multiprocess

from app.server import listener
from app.server.listener import (
    INCOMPLETE_AT_ONCE,
    MAX_USUAL_HEAD,
    RETRY_SECONDS,
    START_SECONDS,
    TRY_AGAIN,
    AcceptingServer,
    Config,
    Worker,
    Workers,
    accept_some,
    drop_new_connections,
    is_incomplete,
    run,
)
from app.server.timeouts import NO_LINGER
from tests.ports import free_port

HEALTHCHECK_SECONDS = 30


class Clock:
    now = 1000.0  # not 0, which is false

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(listener, "monotonic", clock)
    return clock


@pytest.fixture
def worker(clock: Clock) -> Any:
    return a_worker()


def a_worker() -> Any:
    """Its process is not started: the test answers the pings."""
    config = Config(Starlette(), log_config=None, timeout_worker_healthcheck=HEALTHCHECK_SECONDS)
    worker = cast(Any, Worker(config, []))
    worker.deadline = listener.monotonic() + START_SECONDS
    return worker


def test_a_process_whose_application_does_not_start_exits_with_1_so_that_it_is_started_again() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "not now"})

    with pytest.raises(SystemExit) as ended:
        run(app, port=free_port(), log_config=None)

    assert ended.value.code == TRY_AGAIN


def answer(worker: Any, serves: bool) -> None:
    assert worker.fault() == ""
    assert worker.child_conn.recv() == b"ping"
    worker.child_conn.send(serves)


def test_each_answer_of_a_worker_that_serves_counts(worker: Any, clock: Clock) -> None:
    for _ in range(5):
        answer(worker, serves=True)
        clock.now += HEALTHCHECK_SECONDS - 1
    answer(worker, serves=True)
    assert worker.fault() == ""

    clock.now += HEALTHCHECK_SECONDS
    assert worker.fault() == f"did not respond for {HEALTHCHECK_SECONDS} s"


def test_a_worker_that_starts_has_longer(worker: Any, clock: Clock) -> None:
    answer(worker, serves=False)
    clock.now += START_SECONDS - 1
    answer(worker, serves=False)

    clock.now += 1
    assert worker.fault() == f"did not start within {START_SECONDS} s"


@pytest.mark.usefixtures("clock")
def test_a_worker_that_stops_serving_has_served(worker: Any) -> None:
    answer(worker, serves=True)
    answer(worker, serves=False)
    assert worker.fault() == ""

    worker.process = SimpleNamespace(exitcode=-signal.SIGKILL)

    assert worker.fault() == "was ended by SIGKILL"


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("has_served", [True, False])
@pytest.mark.parametrize(
    "code, how", [(0, "ended with exit code 0"), (3, "ended with exit code 3"), (-9, "was ended by SIGKILL")]
)
def test_a_worker_that_has_ended_is_replaced_whatever_its_exit_code(
    worker: Any, code: int, how: str, has_served: bool
) -> None:
    worker.has_served = has_served
    worker.process = SimpleNamespace(exitcode=code)

    assert worker.fault() == (how if has_served else f"{how} before it served")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("have_served", [[True, True], [True, False], [False, True]])
def test_workers_that_served_and_end_together_are_replaced(
    have_served: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that ended before it served waits until another one serves."""
    started: list[Worker] = []
    monkeypatch.setattr(Worker, "start", lambda worker: started.append(worker))  # starts no process
    killed = SimpleNamespace(exitcode=-signal.SIGKILL, pid=1, kill=lambda: None, join=lambda: None)
    workers = Workers(Config(Starlette(), log_config=None), [])
    ended = [a_worker() for _ in have_served]
    workers.processes = [*ended]
    for each, has_served in zip(ended, have_served, strict=True):
        answer(each, has_served)
        assert each.fault() == ""  # reads the answer
        each.process = killed

    workers.keep_subprocess_alive()

    assert [each not in ended for each in workers.processes] == have_served
    assert started == [each for each in workers.processes if each not in ended]
    assert not workers.should_exit.is_set()


@pytest.mark.parametrize("other", ["serves", "starts", "has ended"])
def test_a_worker_that_ended_before_it_served_is_replaced_later_beside_one_that_serves(
    other: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If none is left that could serve, the supervisor ends."""
    monkeypatch.setattr(Worker, "start", lambda worker: None)
    killed = SimpleNamespace(exitcode=1, pid=1, kill=lambda: None, join=lambda: None)
    workers = Workers(Config(Starlette(), log_config=None), [])
    ended, second = a_worker(), a_worker()
    workers.processes = [ended, second]
    ended.process = killed
    answer(second, serves=other == "serves")
    if other == "has ended":
        second.process = killed

    replaced = []
    for _ in range(2):
        workers.keep_subprocess_alive()
        replaced.append(workers.processes[0] is not ended)
        clock.now += RETRY_SECONDS

    assert replaced == [False, other == "serves"]
    assert (workers.have_failed, workers.should_exit.is_set()) == (other == "has ended",) * 2


def test_a_supervisor_that_ends_replaces_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, ended = Workers(Config(Starlette(), log_config=None), []), a_worker()
    ended.has_served = True
    ended.process = SimpleNamespace(exitcode=0, pid=1, kill=lambda: None, join=lambda: None)
    workers.processes = [ended]
    workers.should_exit.set()

    workers.keep_subprocess_alive()

    assert (workers.processes, ended.replace_at) == ([ended], None)


def test_all_workers_end_once_the_supervisor_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep connections waiting. The workers must know that no other one takes theirs."""
    found: list[tuple[bool, bool]] = []
    listening = socket.socket()
    config = Config(Starlette(), log_config=None)
    config.ending = ending = get_context("spawn").Event()

    def terminate(workers: Any) -> None:
        found.append((listening.fileno() == -1, ending.is_set()))

    monkeypatch.setattr(Multiprocess, "terminate_all", terminate)

    Workers(config, [listening]).terminate_all()

    assert found == [(True, True)]


def test_the_supervisor_forwards_a_second_signal_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each signal a worker process restarts its time limit for stopping."""
    forwarded: list[None] = []
    monkeypatch.setattr(Multiprocess, "terminate_all", lambda _: forwarded.append(None))
    exit_codes = iter([None, None, None, 0])

    class Ending:
        process = SimpleNamespace(join=lambda seconds: None)
        exitcode = property(lambda _: next(exit_codes))

    workers = Workers(Config(Starlette(), log_config=None), [])
    workers.processes = cast(Any, [SimpleNamespace(exitcode=0), Ending()])
    workers.signal_queue.append(signal.SIGTERM)

    workers.join_all()

    assert len(forwarded) == 1


HEAD = b"GET / HTTP/1.1\r\n"
ARRIVED = {
    "nothing": (b"", False),
    "a part of a head": (HEAD, True),
    "a head": (HEAD + b"\r\n", False),
    "a head and a part of its body": (HEAD + b"\r\n{", False),
    "a usual head": (HEAD + b"a: ".ljust(MAX_USUAL_HEAD - len(HEAD) - 4) + b"\r\n\r\n", False),
    "a long head": (HEAD + b"a: ".ljust(MAX_USUAL_HEAD - len(HEAD) - 3) + b"\r\n\r\n", True),
}


@pytest.mark.parametrize("data, expected", ARRIVED.values(), ids=ARRIVED)
def test_a_connection_whose_head_has_not_arrived_is_incomplete(data: bytes, expected: bool) -> None:
    client, accepted = socket.socketpair()
    with client, accepted:
        accepted.setblocking(False)
        client.sendall(data)

        assert is_incomplete(accepted) is expected
        client.shutdown(socket.SHUT_WR)
        assert is_incomplete(accepted) is expected  # a connection without a request ends at once
        assert accepted.recv(len(data) + 1) == data  # it was not read


def test_at_most_so_many_connections_are_accepted_at_once() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)
        for _ in range(3):
            stack.enter_context(socket.create_connection(listening.getsockname()))
        accepted = [[stack.enter_context(each) for each in accept_some(listening, 2)] for _ in range(3)]

        assert [len(each) for each in accepted] == [2, 1, 0]
        assert not any(each.getblocking() for some in accepted for each in some)


def test_a_system_without_filters_begins_new_connections_during_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "SO_ATTACH_FILTER", 9999)  # an option that no system has
    with socket.create_server(("127.0.0.1", 0)) as listening:
        drop_new_connections(listening)
        socket.create_connection(listening.getsockname()).close()


def test_a_process_without_a_free_descriptor_accepts_connections_later() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)
        stack.enter_context(socket.create_connection(listening.getsockname()))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(listening.fileno())
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            assert accept_some(listening, 2) == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

        [accepted] = accept_some(listening, 2)
        accepted.close()


def test_a_connection_that_its_client_has_reset_is_accepted_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, connected = AcceptingServer(Config(Starlette(), log_config=None)), []
    server.incomplete = deque()
    monkeypatch.setattr(server, "start_connecting", lambda each: (connected.append(each), each.close()))
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)
        for is_reset in (False, True, False):
            client = stack.enter_context(socket.create_connection(listening.getsockname()))
            if is_reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
                client.close()
        server.accept_waiting(listening)

    assert len(connected) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_at_shutdown_connections_that_wait_at_any_address_of_the_host_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host name such as `localhost` can have several addresses."""
    hosts: Any = ["127.0.0.1", "127.0.0.2"]
    config = Config(Starlette(), host=hosts, port=0, log_config=None, lifespan="off")
    config.ending = get_context("spawn").Event()  # not set: the other processes go on
    config.load()
    monkeypatch.setattr(listener, "ACCEPTED_AT_ONCE", 2)
    connected: list[str] = []

    async def connect(accepted: socket.socket) -> None:
        connected.append(accepted.getsockname()[0])
        accepted.close()

    async def run() -> None:
        server = AcceptingServer(config)
        server.lifespan = config.lifespan_class(config)
        monkeypatch.setattr(server, "connect", connect)
        await server.startup()
        with ExitStack() as stack:
            for each in [*server.servers[0].sockets] * 4:
                stack.enter_context(socket.create_connection(each.getsockname()))
            server.incomplete += accept_some(server.listeners[0], 1)  # accepted, and not read yet
            await server.shutdown()

    interval = sys.getswitchinterval()
    try:
        asyncio.run(run())
    finally:
        sys.setswitchinterval(interval)

    assert sorted(connected) == [hosts[0]] * 4 + [hosts[1]] * 4


def test_the_limit_of_incomplete_requests_includes_connections_that_arrive_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = AcceptingServer(Config(Starlette(), log_config=None))
    server.incomplete = deque()
    connected: list[socket.socket] = []
    monkeypatch.setattr(server, "start_connecting", lambda each: (connected.append(each), each.close()))

    async def accept_twice() -> tuple[int, int]:
        """The number of connections that are read at once, and in the end."""
        with ExitStack() as stack:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=256))
            listening.setblocking(False)
            for _ in range(2):
                for _ in range(INCOMPLETE_AT_ONCE + 1):
                    client = stack.enter_context(socket.create_connection(listening.getsockname()))
                    client.sendall(b"GET ")
                server.accept_waiting(listening)
            first = len(connected)
            while server.incomplete:
                await asyncio.sleep(0)
            return first, len(connected)

    assert asyncio.run(accept_twice()) == (INCOMPLETE_AT_ONCE, 2 * (INCOMPLETE_AT_ONCE + 1))
