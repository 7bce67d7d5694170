"""Shutdown: readiness fails first, running requests are completed, and the exit code is 0."""

import asyncio
import json
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from app.db.admin.migrate import migrate
from tests import keys
from tests.callers import load
from tests.factories import a_world
from tests.live.edge import Answer, Edge, Line, homework, nobody_else_may_write, request
from tests.live.processes import PATIENCE, free_port, serving

pytestmark = pytest.mark.live

LIVE = request("GET", "/livez")
READY = request("GET", "/readyz")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_shutdown_fails_readiness_first_and_completes_running_requests(tmp_path: Path, workers: str) -> None:
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


def test_workers_stop_when_their_parent_is_killed(tmp_path: Path) -> None:
    """The killed parent cannot signal them. Running requests are completed; then the port is free."""
    database = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(database))
    load(database, a_world())
    care = {"database_url": database, "token_key": keys.public_pem(), "port": str(free_port())}

    with serving(tmp_path / "log", "--workers", "2", **care) as served:
        edge = Edge("127.0.0.1", int(care["port"]), database)
        with edge.line() as begun:
            with nobody_else_may_write(database):
                begun.say(homework())
                served.process.kill()
                wait_until_it_is_refused(edge)
            answer, rest = begun.hear(), begun.rest()
        with serving(tmp_path / "next", **care) as follower:
            code, _ = follower.stop(signal.SIGTERM)
        said = (tmp_path / "log").read_text()

    assert (answer.status, answer.headers["connection"], rest, code) == (200, "close", b"", 0)
    assert said.count("Application shutdown complete.") == 2
    assert ("Traceback" in said, "ERROR" in said) == (False, False)


def wait_until_it_is_refused(edge: Edge) -> None:
    """A connection lasts as long as the process that accepted it."""
    for _ in range(5):
        with suppress(ConnectionResetError):
            try:
                with edge.line() as line:
                    line.rest()
            except ConnectionRefusedError:
                return
    raise AssertionError("somebody still takes connections")


def asked_until_it_leaves(line: Line) -> Answer:
    """Uses one connection, and therefore one process: another process may receive the signal later."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        answer = line.ask(READY)
        if answer.headers.get("connection") == "close":
            return answer
    raise AssertionError("it stays")
