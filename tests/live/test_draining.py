"""Shutdown: readiness fails first, running requests are completed, and the exit code is 0."""

import asyncio
import json
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx2
import pytest

from app.db.admin.migrate import migrate
from app.main import create_app
from app.server import listener
from app.server.listener import INCOMPLETE_AT_ONCE, AcceptingServer, Config
from app.server.protocol import EdgeProtocol
from app.server.sockets import EdgeSocket
from app.settings import Environment, Settings
from tests import keys
from tests.callers import load
from tests.factories import a_world
from tests.live.edge import Connection, Edge, Response, homework, request, write_lock
from tests.live.processes import PATIENCE, serving, wait_for_log
from tests.ports import free_port

pytestmark = pytest.mark.live

LIVEZ = request("GET", "/livez")
READYZ = request("GET", "/readyz")
CLIENTS = 20


@pytest.mark.parametrize("workers", ["1", "2"])
def test_shutdown_fails_readiness_first_and_completes_running_requests(tmp_path: Path, workers: str) -> None:
    """The second signal skips the rest of the pause, or the processes would outlast the test."""
    database = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(database))
    load(database, a_world())
    care = {"database_url": database, "token_key": keys.public_pem(), "drain_seconds": "300"}

    with serving(tmp_path / "log", "--workers", workers, **care) as served, ExitStack() as stack:
        edge = Edge("127.0.0.1", int(served.url.rpartition(":")[2]), database)
        running, incomplete, idle = (stack.enter_context(edge.connection()) for _ in range(3))
        assert idle.fetch(LIVEZ).headers.get("connection") is None
        with write_lock(database):
            running.send(homework())
            incomplete.send(homework()[:-1])
            served.process.send_signal(signal.SIGTERM)
            last = fetch_until_connection_closes(idle)
            live = httpx2.get(f"{served.url}/livez").status_code
        incomplete.send(homework()[-1:])
        responses = [running.receive(), incomplete.receive()]
        code, log = served.stop(signal.SIGTERM)
        rest = [each.read_to_end() for each in (running, incomplete, idle)]

    assert (last.status, json.loads(last.body), live) == (503, {"status": "shutting down"}, 200)
    assert [each.status for each in responses] == [200, 200]
    assert responses[1].headers["connection"] == "close"
    assert (rest, code) == ([b""] * 3, 0)
    assert ("Traceback" in log, "ERROR" in log) == (False, False)


def test_workers_stop_when_their_parent_is_killed(tmp_path: Path) -> None:
    """The killed parent cannot signal them. Running requests are completed; then the port is free."""
    database = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(database))
    load(database, a_world())
    care = {"database_url": database, "token_key": keys.public_pem(), "port": str(free_port())}

    # Workers whose supervisor was killed do not drain.
    with serving(tmp_path / "log", "--workers", "2", drain_seconds="300", **care) as served:
        edge = Edge("127.0.0.1", int(care["port"]), database)
        with edge.connection() as running:
            with write_lock(database):
                running.send(homework())
                served.process.kill()
                wait_until_port_is_closed(edge)
            response, rest = running.receive(), running.read_to_end()
        with serving(tmp_path / "next", **care) as follower:
            code, _ = follower.stop(signal.SIGTERM)
        wait_for_log(tmp_path / "log", "Application shutdown complete.", 2)
        log = (tmp_path / "log").read_text()

    assert (response.status, response.headers["connection"], rest, code) == (200, "close", b"", 0)
    assert ("Traceback" in log, "ERROR" in log) == (False, False)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_connection_is_reset_when_the_service_ends(tmp_path: Path, workers: str) -> None:
    """A client whose request was sent and whose connection was reset does not know whether it was handled."""
    database = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(database))
    care = {"database_url": database, "token_key": keys.public_pem(), "drain_seconds": "1"}

    with serving(tmp_path / "log", "--workers", workers, **care) as served, ThreadPoolExecutor(8) as threads:
        address = ("127.0.0.1", int(served.url.rpartition(":")[2]))
        started = Barrier(9)
        clients = [threads.submit(fetch_until_refused, address, started) for _ in range(8)]
        started.wait(PATIENCE)
        code, _ = served.stop(signal.SIGTERM)

    assert code == 0
    assert {answer for each in clients for answer in each.result()} == {b"HTTP/1.1 200 OK"}


def fetch_until_refused(address: tuple[str, int], started: Barrier) -> set[bytes]:
    """Opens a connection for each request."""
    answers, is_started = set(), False
    while True:
        try:
            connection = socket.create_connection(address, PATIENCE)
        except ConnectionRefusedError:
            return answers
        with connection:
            connection.sendall(LIVEZ)
            answers.add(connection.recv(15))
        if not is_started:
            started.wait(PATIENCE)
            is_started = True


@pytest.mark.parametrize("is_alone", [True, False])
def test_connections_that_have_arrived_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_alone: bool
) -> None:
    """The system has accepted them, and the loop has not yet, when the process stops to listen. There are
    many, because a process that drains closes each connection after its response."""
    monkeypatch.setattr(listener, "ACCEPTED_AT_ONCE", CLIENTS // 4)

    async def stopped(server: AcceptingServer) -> list[bytes]:
        if not is_alone:  # the other processes go on, so this one accepts at once what has arrived
            server.config.ending = get_context("spawn").Event()
        with connections(server) as clients:
            for client in clients:
                client.sendall(LIVEZ)
            await server.shutdown()
            return [client.recv(15) for client in clients]

    assert with_server(tmp_path, stopped) == [b"HTTP/1.1 200 OK"] * CLIENTS


def test_incomplete_requests_that_are_not_read_yet_are_served_when_a_worker_ends(tmp_path: Path) -> None:
    async def stopped(server: AcceptingServer) -> list[bytes]:
        server.config.ending = get_context("spawn").Event()  # the other processes go on
        with connections(server, 8 * INCOMPLETE_AT_ONCE) as clients:
            for client in clients:
                client.sendall(LIVEZ[:-1])
            while not server.incomplete:
                await asyncio.sleep(0)
            ending = asyncio.create_task(server.shutdown())
            while server.incomplete:
                await asyncio.sleep(0)
            for client in clients:
                client.sendall(LIVEZ[-1:])
            await ending
            return [client.recv(15) for client in clients]

    assert with_server(tmp_path, stopped) == [b"HTTP/1.1 200 OK"] * 8 * INCOMPLETE_AT_ONCE


def test_connections_that_arrive_together_are_accepted_together(tmp_path: Path) -> None:
    """uvloop accepts one in an iteration, which takes tens of milliseconds when a process is busy."""

    async def accepted(server: AcceptingServer) -> int:
        with connections(server):
            for _ in range(10):  # iterations
                await asyncio.sleep(0)
            number = len(server.server_state.connections)
        await server.shutdown()
        return number

    assert with_server(tmp_path, accepted) == CLIENTS


def test_incomplete_requests_do_not_delay_a_connection_behind_them(tmp_path: Path) -> None:
    async def connected_before_answer(server: AcceptingServer) -> int:
        with connections(server, 8 * INCOMPLETE_AT_ONCE) as incomplete, connections(server, 1) as [last]:
            for each in incomplete:
                each.sendall(LIVEZ[:-1])
            last.sendall(LIVEZ)
            last.setblocking(False)
            while not await asyncio.sleep(0, has_data(last)):
                pass
            number = len(server.server_state.connections)
        await server.shutdown()
        return number

    assert with_server(tmp_path, connected_before_answer) < 8 * INCOMPLETE_AT_ONCE


def has_data(connection: socket.socket) -> bool:
    with suppress(BlockingIOError):
        return bool(connection.recv(1, socket.MSG_PEEK))
    return False


def with_server(tmp_path: Path, use: Callable[[AcceptingServer], Awaitable[Any]]) -> Any:
    """In this process, with the event loop that `serve` has."""
    url = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(url))
    settings = Settings(env=Environment.DEVELOPMENT, database_url=url, token_key=keys.public_pem())
    config = Config(
        create_app(settings), "127.0.0.1", 0, http=EdgeProtocol, ws=EdgeSocket, log_level="warning"
    )

    async def run() -> Any:
        config.load()
        server = AcceptingServer(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        return await use(server)

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        return runner.run(run())


@contextmanager
def connections(server: AcceptingServer, number: int = CLIENTS) -> Iterator[list[socket.socket]]:
    address = server.servers[0].sockets[0].getsockname()
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address)) for _ in range(number)]


def wait_until_port_is_closed(edge: Edge) -> None:
    """A connection lasts as long as the process that accepted it."""
    for _ in range(5):
        with suppress(ConnectionResetError):
            try:
                with edge.connection() as connection:
                    connection.read_to_end()
            except ConnectionRefusedError:
                return
    raise AssertionError("the port is still open")


def fetch_until_connection_closes(connection: Connection) -> Response:
    """Uses one connection, and therefore one process: another process may receive the signal later."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        response = connection.fetch(READYZ)
        if response.headers.get("connection") == "close":
            return response
    raise AssertionError("the connection stays open")
