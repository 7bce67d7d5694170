"""Promise: a process that is told to end says so to those who send it requests, answers what it has begun and
what still comes meanwhile, and ends with code 0."""

import asyncio
import json
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from app.db.upkeep.migrate import migrate
from tests import keys
from tests.callers import load
from tests.given import a_world
from tests.live.edge import Answer, Edge, Line, homework, nobody_else_may_write, request
from tests.live.processes import PATIENCE, serving

pytestmark = pytest.mark.live

LIVE = request("GET", "/livez")
READY = request("GET", "/readyz")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_was_begun_is_answered_and_readiness_goes_first(tmp_path: Path, workers: str) -> None:
    database = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(database))
    load(database, a_world())
    care = {"database_url": database, "token_key": keys.public_pem(), "drain_seconds": "1"}

    with serving(tmp_path / "log", "--workers", workers, **care) as served, ExitStack() as stack:
        edge = Edge("127.0.0.1", int(served.url.rpartition(":")[2]), database)
        begun, half, idle = (stack.enter_context(edge.line()) for _ in range(3))
        assert idle.ask(LIVE).headers.get("connection") is None
        with nobody_else_may_write(database):
            begun.say(homework())
            half.say(homework()[:-1])
            served.process.send_signal(signal.SIGTERM)
            last = asked_until_it_leaves(idle)
            live = httpx2.get(f"{served.url}/livez", verify=False).status_code
        half.say(homework()[-1:])
        answers = [begun.hear(), half.hear()]
        silent = [each.rest() for each in (begun, half, idle)]
        code, said = served.stop(signal.SIGTERM)

    assert (last.status, json.loads(last.body), live) == (503, {"status": "leaving"}, 200)
    assert [each.status for each in answers] == [200, 200]
    assert answers[1].headers["connection"] == "close"
    assert (silent, code) == ([b""] * 3, 0)
    assert ("Traceback" in said, "ERROR" in said) == (False, False)


def asked_until_it_leaves(line: Line) -> Answer:
    """On one connection, and so of one process: another may hear a moment later that it is to end."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        answer = line.ask(READY)
        if answer.headers.get("connection") == "close":
            return answer
    raise AssertionError("it stays")
