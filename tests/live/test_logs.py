"""The log of a running service is JSON and contains no token and no message, even at the level debug."""

import asyncio
import json
import signal
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
