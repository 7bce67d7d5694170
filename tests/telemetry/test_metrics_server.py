"""Metrics are served only on their own port, malformed requests are rejected, and one response contains the
samples of all workers."""

import asyncio
import socket
import sys
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily

from app.db.drivers.factory import open_database
from app.main import create_app
from app.settings import Settings, SettingsError
from app.telemetry.metrics.collect import MetricSources
from app.telemetry.metrics.server import (
    FOLDER,
    MAX_HEAD_BYTES,
    OWN,
    STORED,
    Pages,
    collect_from_workers,
    response_to,
    serve_metrics,
    serve_tcp,
    serve_unix_socket,
    to_json_lines,
    to_prometheus_text,
)
from tests.callers import Gateway, opened
from tests.patience import PATIENCE
from tests.ports import free_port
from tests.telemetry.conftest import ON_SQLITE, MeasuredGateway, current, numbers_in


@ON_SQLITE
def test_the_api_port_serves_no_metrics(gateway: Gateway) -> None:
    assert gateway.as_anonymous().get("/metrics").status_code == 404


@ON_SQLITE
def test_the_metrics_port_serves_only_metrics(measured: MeasuredGateway) -> None:
    paths = ["/", "/graphql", "/metrics/", "/metrics?a=b", "/metrics"]

    assert [measured.metrics("GET", path)[0] for path in paths] == [404, 404, 404, 200, 200]
    assert measured.metrics("POST")[0] == 405
    assert measured.metrics("HEAD") == (200, "")


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"x" * 2 * MAX_HEAD_BYTES,
        b"GET /metrics HTTP/1.1\r\nx: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"GET /metrics HTTP/2\r\n\r\n",
        b"x GET /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1",
    ],
)
@ON_SQLITE
def test_a_malformed_request_is_rejected(
    measured: MeasuredGateway, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", measured.settings.metrics_port), timeout=PATIENCE) as line:
        line.sendall(data)
        line.shutdown(socket.SHUT_WR)
        try:
            received = line.recv(1024)
        except ConnectionResetError:
            received = b""

    assert received == b"" or received.startswith(b"HTTP/1.1 400 ")
    assert measured.metrics("HEAD") == (200, "")
    assert caplog.messages == []


@ON_SQLITE
@pytest.mark.parametrize(("method", "version"), [("GET", "1.1"), ("HEAD", "1.1"), ("GET", "1.0")])
def test_a_response_has_its_type_and_length_and_is_not_stored(
    measured: MeasuredGateway, method: str, version: str
) -> None:
    address = (measured.settings.metrics_host, measured.settings.metrics_port)
    with socket.create_connection(address, timeout=PATIENCE) as line, line.makefile("rb") as received:
        line.sendall(f"{method} /metrics HTTP/{version}\r\n\r\n".encode())
        head, _, body = received.read().partition(b"\r\n\r\n")

    length = int(head.partition(b"content-length: ")[2].split()[0])
    assert length > 1000
    assert len(body) == (length if method == "GET" else 0)
    assert head.decode().splitlines() == [
        "HTTP/1.1 200 OK",
        "content-type: text/plain; version=0.0.4; charset=utf-8",
        f"content-length: {length}",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
    ]


async def fails() -> bytes:
    raise LookupError("a bug")


def test_a_fault_is_a_500_and_logged_and_a_silent_client_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.telemetry.metrics.server.REQUEST_SECONDS", 0.2)
    path = str(tmp_path / "metrics")

    async def send(request: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(path)
        with closing(writer):
            writer.write(request)
            async with asyncio.timeout(PATIENCE):
                return await reader.read()

    async def run() -> list[bytes]:
        async with serve_unix_socket(path, {OWN: fails, STORED: nothing}):
            requests = (b"GET /own HTTP/1.1\r\n\r\n", b"GET /own", b"GET /stored HTTP/1.1\r\n\r\n")
            return [await send(request) for request in requests]

    fault, *silent = asyncio.run(run())

    assert fault.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert silent == [b"", b""]
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", "metrics cannot be collected")
    ]


async def nothing() -> bytes:
    await asyncio.Event().wait()
    return b""


async def a_gauge() -> bytes:
    return to_json_lines([GaugeMetricFamily("care_workers_gauge", "A gauge.", 7)])


@pytest.mark.parametrize("share", [0, 0.1, 0.9], ids=["nothing", "a part of the head", "a part of the body"])
def test_a_worker_that_hangs_after_its_own_metrics_delays_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """The database metrics are then missing in this response. A worker that ends meanwhile is omitted."""

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            request = await reader.readuntil(b"\r\n\r\n")
            whole = await response_to(request, {OWN: a_gauge})
            writer.write(whole[: int(share * len(whole))])

    async def another_gauge() -> bytes:
        return (await a_gauge()).replace(b"7", b"8")

    monkeypatch.setattr("app.telemetry.metrics.server.WORKER_SECONDS", 0.2)

    async def run() -> str:
        async with AsyncExitStack() as stack:
            for name, gauge in (("w1", a_gauge), ("w2", another_gauge)):
                pages: Pages = {OWN: gauge, STORED: nothing}
                await stack.enter_async_context(serve_unix_socket(str(tmp_path / name), pages))
            ending = await asyncio.start_unix_server(end, tmp_path / "w0")
            stack.enter_context(closing(ending))
            return to_prometheus_text(await collect_from_workers(tmp_path)).decode()

    assert numbers_in(asyncio.run(run())) == {
        ("care_workers", ()): 2,
        ("care_workers_gauge", (("worker", "w1"),)): 7,
        ("care_workers_gauge", (("worker", "w2"),)): 8,
    }


def test_all_workers_are_asked_at_once(tmp_path: Path) -> None:
    """Several that hang delay the response no longer than one."""

    async def run() -> str:
        all_asked = asyncio.Barrier(3)

        async def waits_for_the_others() -> bytes:
            await all_asked.wait()
            return await a_gauge()

        async with AsyncExitStack() as stack:
            for name in ("w1", "w2", "w3"):
                pages: Pages = {OWN: waits_for_the_others}
                await stack.enter_async_context(serve_unix_socket(str(tmp_path / name), pages))
            return to_prometheus_text(await collect_from_workers(tmp_path)).decode()

    assert numbers_in(asyncio.run(run()))["care_workers", ()] == 3


@ON_SQLITE
def test_one_response_contains_all_workers(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that hang or have ended are omitted; only one worker reports the database metrics."""
    monkeypatch.setattr("app.telemetry.metrics.server.WORKER_SECONDS", 0.2)

    async def run() -> str:
        async with AsyncExitStack() as stack:
            for number in (1, 2):
                db = await open_database(settings.database)
                stack.push_async_callback(db.close)
                place = tmp_path / str(number)
                place.mkdir()
                monkeypatch.setenv(FOLDER, str(place))
                await stack.enter_async_context(serve_metrics(settings, MetricSources(settings.database, db)))
                next(place.iterdir()).rename(tmp_path / f"w{number}")
                place.rmdir()
            for name in ("v0", "v2"):
                await stack.enter_async_context(serve_unix_socket(str(tmp_path / name), {OWN: nothing}))
            (tmp_path / "v1").write_bytes(b"")
            folder = tmp_path / "all"
            folder.mkdir()
            for name in ("v0", "v1", "v2", "w1", "w2"):
                (tmp_path / name).rename(folder / name)
            return to_prometheus_text(await collect_from_workers(folder)).decode()

    numbers = numbers_in(asyncio.run(run()))

    assert current(numbers, "care_workers") == {(): 2}
    assert current(numbers, "care_database_connections_limit").keys() == {("w1",), ("w2",)}
    assert current(numbers, "care_database_up") == {("w1",): 1}


def test_a_port_in_use_is_a_settings_error() -> None:
    async def run(port: int) -> None:
        async with serve_tcp("127.0.0.1", port, nothing):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"cannot listen for metrics on 127.0.0.1, port {port}: "):
            asyncio.run(run(port))


def test_an_unknown_host_of_metrics_is_a_settings_error() -> None:
    async def run() -> None:
        async with serve_tcp("a..b", 9464, nothing):
            pass

    with pytest.raises(SettingsError) as raised:
        asyncio.run(run())

    assert str(raised.value) == "cannot listen for metrics on a..b, port 9464: no such address"


@ON_SQLITE
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_metrics_are_served_on_their_own_host(settings: Settings) -> None:
    """The host of the service is public."""
    own = settings.model_copy(
        update={"host": "0.0.0.0", "metrics_host": "127.0.0.2", "metrics_port": free_port()}
    )
    with opened(create_app(own)):
        socket.create_connection(("127.0.0.2", own.metrics_port), timeout=PATIENCE).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", own.metrics_port), timeout=PATIENCE)
