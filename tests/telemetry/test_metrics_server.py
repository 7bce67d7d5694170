"""Metrics are served only on their own port, malformed requests are rejected, and one response contains the
samples of all workers."""

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from app.db.drivers.factory import open_database
from app.settings import Settings, SettingsError
from app.telemetry.metrics.collect import MetricSources
from app.telemetry.metrics.server import (
    FOLDER,
    MAX_HEAD_BYTES,
    OWN,
    collect_from_workers,
    serve_metrics,
    serve_tcp,
    serve_unix_socket,
    to_prometheus_text,
)
from tests.callers import Gateway
from tests.patience import PATIENCE
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
    "data", [b"\r\n\r\n", b"GET\r\n\r\n", b"x" * 2 * MAX_HEAD_BYTES, b"GET /metrics HTTP/2\r\n\r\n"]
)
@ON_SQLITE
def test_a_malformed_request_is_rejected(measured: MeasuredGateway, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", measured.settings.metrics_port), timeout=PATIENCE) as line:
        line.sendall(data)
        try:
            received = line.recv(1024)
        except ConnectionResetError:
            received = b""

    assert received == b"" or received.startswith(b"HTTP/1.1 400 ")


async def nothing() -> bytes:
    await asyncio.Event().wait()
    return b""


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
