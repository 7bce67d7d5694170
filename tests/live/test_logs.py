"""The log of a running service is JSON and contains no token and no message, even at the level debug."""

import asyncio
import json
import re
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest
import websockets

from tests import keys
from tests.live.processes import run, serving

pytestmark = pytest.mark.live
TOKEN_IN_ADDRESS, TOKEN_IN_MESSAGE, ANSWER = "token-in-the-address", "token-in-a-message", "an answer of mine"


async def send_token_everywhere(url: str) -> None:
    """Sends the token in the URL and in the first message; it is rejected."""
    address = f"{url.replace('http', 'ws')}/graphql?access_token={TOKEN_IN_ADDRESS}"
    async with websockets.connect(
        address, subprotocols=[websockets.Subprotocol("graphql-transport-ws")]
    ) as one:
        output = {"authorization": f"bearer {TOKEN_IN_MESSAGE}", "note": ANSWER}
        await one.send(json.dumps({"type": "connection_init", "payload": output}))
        await one.wait_closed()


def test_tokens_and_messages_of_a_websocket_are_not_logged(tmp_path: Path) -> None:
    care = {"env": "development", "var": str(tmp_path), "log_level": "debug"}
    assert run("migrate", **care).returncode == 0
    with serving(tmp_path / "log", **care) as served:
        asyncio.run(send_token_everywhere(served.url))
        code, output = served.stop(signal.SIGTERM)

    assert code == 0
    lines = [json.loads(line) for line in output.splitlines()]
    assert "Application startup complete." in [line["message"] for line in lines]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert [word for word in (TOKEN_IN_ADDRESS, TOKEN_IN_MESSAGE, ANSWER) if word in output] == []


def test_the_database_in_use_is_logged_and_that_no_setting_names_it(tmp_path: Path) -> None:
    care = {"token_key": keys.public_pem(), "var": str(tmp_path)}
    assert run("migrate", **care).returncode == 0
    with serving(tmp_path / "log", **care) as served:
        _, output = served.stop(signal.SIGTERM)

    lines = [json.loads(line) for line in output.splitlines()]
    assert [(line["level"], line["message"]) for line in lines if "database" in line["message"].lower()] == [
        ("info", f"the database is SQLite at {tmp_path}/care.db"),
        ("warning", "CARE_DATABASE_URL is not set; set it, so that commands use this database"),
    ]


MALFORMED = (
    b"garbage\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nhost: care\r\nx y: z\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nhost: care\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    b"GET /graphql HTTP/1.1\r\nhost: care\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nhost: care\r\n\r\n",
)
UPGRADE = (
    b"host: care\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: graphql-transport-ws\r\n"
)
AT_WEBSOCKETS = (
    (b"/graphql", b"\x88\x80" + bytes(4)),  # a close frame
    (b"/graphql", b"\x81\x81" + bytes(4) + b"\xff"),  # invalid UTF-8
    (b"/graphql", b"\xff\xff"),  # no frame
    (b"/graphql", b"\x81\x81" + bytes(4) + b"x"),  # no message of the protocol
    (b"/nowhere", b""),
)


LIFECYCLE = [
    "Started server process",
    "Waiting for application startup.",
    "the database is SQLite",
    "Application startup complete.",
    "Uvicorn running",
    "Shutting down",
    "Waiting for application shutdown.",
    "Application shutdown complete.",
    "Finished server process",
]


def send_bytes(url: str, data: bytes, later: bytes = b"") -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as one, suppress(ConnectionError):
        one.sendall(data)
        one.recv(65536)
        one.sendall(later)
        one.shutdown(socket.SHUT_WR)
        while one.recv(65536):
            pass


def test_requests_of_strangers_write_no_lines(tmp_path: Path) -> None:
    """Metrics count them. Rejected tokens and origins have limits of their own."""
    care = {"token_key": keys.public_pem(), "database_url": f"sqlite:///{tmp_path}/care.db"}
    assert run("migrate", **care).returncode == 0
    with serving(tmp_path / "log", **care) as served:
        for _ in range(3):
            for data in MALFORMED:
                send_bytes(served.url, data)
            for path, data in AT_WEBSOCKETS:
                send_bytes(served.url, b"GET " + path + b" HTTP/1.1\r\n" + UPGRADE + b"\r\n", data)
        code, output = served.stop(signal.SIGTERM)

    assert code == 0
    messages = [json.loads(line)["message"] for line in output.splitlines()]
    written = [re.sub(" on http.*| at /.*| \\[.*", "", message) for message in messages]
    # A busy machine may stop the process within a request.
    assert [each for each in written if "held the event loop" not in each] == LIFECYCLE
