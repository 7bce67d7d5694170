"""Promise: `doctor` reports a continuous backup that does not run (also tests/live/test_litestream.py)."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from app.doctor import runtime
from app.settings import Settings
from tests.db import raw
from tests.doctor.conftest import Diagnose

pytestmark = pytest.mark.sqlite_only


def test_without_the_setting_nothing_is_reported(diagnose: Diagnose) -> None:
    assert diagnose("replica") == []


@pytest.mark.parametrize("is_migrated", [True, False])
def test_a_litestream_that_does_not_run_is_reported(
    diagnose: Diagnose, settings: Settings, tmp_path: Path, is_migrated: bool
) -> None:
    path = tmp_path / "litestream.sock"
    if not is_migrated:
        raw.run(settings.database, "DROP TABLE alembic_version")

    found = diagnose("replica", litestream_socket=str(path))

    reason = "[Errno 2] No such file or directory"
    assert found == [("failed", f"Litestream does not respond at {path}: {reason}")]


def test_a_socket_that_has_no_effect_is_reported_and_gets_no_password(
    diagnose: Diagnose, migrated_postgresql: str, tmp_path: Path
) -> None:
    found = diagnose("replica", database_url=migrated_postgresql, litestream_socket=str(tmp_path / "a.sock"))

    assert found == [("warning", "CARE_LITESTREAM_SOCKET has no effect: the database is not SQLite")]


OTHERS = {
    "no HTTP": (b"220 ready\r\n", False, ""),
    "no JSON": (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", False, "unexpected character"),
    "no end": (b"HTTP/1.1 100 Continue\r\n\r\n" * 50, True, "the response is too long"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_program_at_the_socket_is_reported(diagnose: Diagnose, tmp_path: Path, name: str) -> None:
    data, is_endless, reason = OTHERS[name]
    path = tmp_path / "other.sock"

    def greet() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            request = b""
            while not request.endswith(b"}"):  # closing before its end would reset the connection
                request += connection.recv(1000)
            connection.sendall(data)
            while is_endless:
                connection.sendall(data)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        other = Thread(target=greet)
        other.start()
        [(verdict, message)] = diagnose("replica", litestream_socket=str(path))
        other.join()

    assert verdict == "failed"
    assert message.startswith(f"Litestream does not respond at {path}: {reason}")


EARLIER = "2026-11-20T09:00:00Z"
SYNCED = "2026-11-21T09:00:00Z"


@pytest.mark.parametrize(
    ("way", "synced", "last", "expected"),
    [
        ("absolute", {"txid": 7}, SYNCED, ("ok", "Litestream has copied every change to it")),
        ("linked", {"txid": 7}, SYNCED, ("ok", "Litestream has copied every change to it")),
        (
            "relative",
            {"error": "late"},
            SYNCED,
            ("failed", f"the last change was copied to it at {SYNCED}: late"),
        ),
        ("absolute", {"error": "timeout"}, None, ("failed", "nothing was copied to it: timeout")),
    ],
)
def test_the_response_of_litestream_is_reported(
    diagnose: Diagnose,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    synced: dict[str, Any],
    last: str | None,
    expected: tuple[str, str],
) -> None:
    """It can have several databases, by the absolute paths of its configuration."""
    path, database = tmp_path / "litestream.sock", settings.database.removeprefix("sqlite:///")
    if way == "linked":
        link = tmp_path / "linked"
        link.symlink_to(Path(database).parent)
        database = str(link / Path(database).name)
    own = [{"path": database, "last_sync_at": last}] if last else []
    others = [
        {"path": each, "last_sync_at": EARLIER}
        for each in ("/srv/other.db", database.removesuffix(".db"), f"{database}-old")
    ]
    requests: list[tuple[str, dict[str, Any]]] = []
    timeouts: list[float | None] = []

    class Socket(socket.socket):
        def settimeout(self, value: float | None) -> None:
            timeouts.append(value)
            super().settimeout(value)

    monkeypatch.setattr(runtime.socket, "socket", Socket)
    monkeypatch.chdir(Path(database).parent)
    url = f"sqlite:///{Path(database).name if way == 'relative' else database}"

    def respond() -> None:
        for body in (synced, {"databases": [*others, *own]}):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as sent:
                request, *headers = iter(lambda file=sent: file.readline().decode().strip(), "")
                [length] = (line.partition(": ")[2] for line in headers if line.startswith("Content-Length"))
                requests.append((request, json.loads(sent.read(int(length)))))
                text = json.dumps(body)
                connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        litestream = Thread(target=respond)
        litestream.start()
        found = diagnose("replica", litestream_socket=str(path), database_url=url)
        litestream.join()

    assert found == [expected]
    assert requests == [
        ("POST /sync HTTP/1.1", {"path": database, "wait": True, "timeout": 10}),
        ("GET /list HTTP/1.1", {}),
    ]
    assert (timeouts[0] or 0) > requests[0][1]["timeout"]  # Litestream may respond after all of its time
