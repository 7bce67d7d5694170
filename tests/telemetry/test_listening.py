"""Promise: metrics are told at a port of their own and nowhere else, only where that is set; whatever is said
to that port ends with an answer; and several processes tell theirs as one, each by its name."""

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from app.db.drivers.factory import open_database
from app.settings import Settings, SettingsError
from app.telemetry.metrics.families import Parts
from app.telemetry.metrics.listener import LONGEST_HEAD, listening, listening_at
from app.telemetry.metrics.workers import FOLDER, as_text, gather_from, telling
from tests.callers import Gateway
from tests.telemetry.conftest import ON_SQLITE, Watched, now, numbers_in


@ON_SQLITE
def test_the_port_that_serves_tells_no_metrics(gateway: Gateway) -> None:
    assert gateway.as_nobody().get("/metrics").status_code == 404


@ON_SQLITE
def test_the_port_of_the_metrics_tells_nothing_else(watched: Watched) -> None:
    paths = ["/", "/graphql", "/metrics/", "/metrics?a=b", "/metrics"]

    assert [watched.metrics("GET", path)[0] for path in paths] == [404, 404, 404, 200, 200]
    assert watched.metrics("POST")[0] == 405
    assert watched.metrics("HEAD") == (200, "")


@pytest.mark.parametrize(
    "said", [b"\r\n\r\n", b"GET\r\n\r\n", b"x" * 2 * LONGEST_HEAD, b"GET /metrics HTTP/2\r\n\r\n"]
)
@ON_SQLITE
def test_what_is_no_request_hears_so_or_nothing(watched: Watched, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", watched.settings.metrics_port), timeout=30) as line:
        line.sendall(said)
        try:
            heard = line.recv(1024)
        except ConnectionResetError:
            heard = b""

    assert heard == b"" or heard.startswith(b"HTTP/1.1 400 ")


async def nothing(path: str) -> bytes | None:
    await asyncio.Event().wait()
    return None


@ON_SQLITE
def test_processes_tell_their_metrics_as_one(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs and one that is gone are left out; of what is stored one alone tells."""
    monkeypatch.setattr("app.telemetry.metrics.workers.SECONDS", 0.2)

    async def run() -> str:
        async with AsyncExitStack() as stack:
            for number in (1, 2):
                db = await open_database(settings.database)
                stack.push_async_callback(db.close)
                place = tmp_path / str(number)
                place.mkdir()
                monkeypatch.setenv(FOLDER, str(place))
                await stack.enter_async_context(telling(settings, Parts(settings.database, db)))
                next(place.iterdir()).rename(tmp_path / f"w{number}")
                place.rmdir()
            await stack.enter_async_context(listening_at(str(tmp_path / "v0"), nothing))
            (tmp_path / "v1").write_bytes(b"")
            folder = tmp_path / "all"
            folder.mkdir()
            for name in ("v0", "v1", "w1", "w2"):
                (tmp_path / name).rename(folder / name)
            return as_text(await gather_from(folder)).decode()

    numbers = numbers_in(asyncio.run(run()))

    assert now(numbers, "care_workers") == {(): 2}
    assert now(numbers, "care_database_connections_limit").keys() == {("w1",), ("w2",)}
    assert now(numbers, "care_database_up") == {("w1",): 1}


def test_a_port_that_is_taken_is_refused_in_a_sentence() -> None:
    async def run(port: int) -> None:
        async with listening("127.0.0.1", port, nothing):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"cannot listen for metrics on 127.0.0.1, port {port}: "):
            asyncio.run(run(port))
