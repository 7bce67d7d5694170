"""A process whose SQLite writer thread has ended exits with 1, so that its supervisor restarts it. SIGTERM
ends a process that hangs."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from app.db.admin.migrate import migrate
from tests import keys
from tests.callers import load
from tests.db import raw
from tests.factories import a_world
from tests.live.edge import Edge, homework
from tests.live.killable import install
from tests.live.processes import PATIENCE, Process, serving, wait_for_log

pytestmark = pytest.mark.live

KILLABLE = "tests.live.killable"  # for processes that start others
STORED = "SELECT count(*) FROM assignment"
ENDED = "the database writer has ended, so the process ends"
# Something for the dispatcher to write, also if it has sent the reminder already.
DUE_AGAIN = "UPDATE reminder SET state = 'SCHEDULED', remind_date = '2020-01-01T09:00:00.000000Z'"


@pytest.fixture
def care(tmp_path: Path) -> dict[str, str]:
    database = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(database))
    load(database, a_world())
    return {"database_url": database, "token_key": keys.public_pem(), "drain_seconds": "1"}


def test_a_server_without_its_writer_rejects_changes_and_exits_with_1(
    tmp_path: Path, care: dict[str, str]
) -> None:
    before = raw.run(care["database_url"], STORED)
    with serving(tmp_path / "log", prepare=install, **care) as served:
        edge = Edge("127.0.0.1", int(served.url.rpartition(":")[2]), care["database_url"])
        served.process.send_signal(signal.SIGUSR1)
        response = edge.fetch(homework())
        code = served.process.wait(PATIENCE)
        output = (tmp_path / "log").read_text()

    assert (response.status, response.message) == (
        503,
        "the database writer has ended; whether the change was kept is not known",
    )
    assert code == 1
    assert output.count(ENDED) == 1
    assert raw.run(care["database_url"], STORED) == before


def test_serve_restarts_a_worker_process_without_its_writer(tmp_path: Path, care: dict[str, str]) -> None:
    log = tmp_path / "log"
    with serving(log, "--workers", "2", module=KILLABLE, **care) as served:
        edge = Edge("127.0.0.1", int(served.url.rpartition(":")[2]), care["database_url"])
        os.kill(processes_in(log, 2)[0], signal.SIGUSR1)
        statuses = set(statuses_until(edge, lambda: ENDED in log.read_text()))
        processes_in(log, 3)
        statuses |= set(statuses_until(edge, lambda: True))
        code, _ = served.stop(signal.SIGTERM)

    assert statuses <= {200, 503}
    assert (200 in statuses, code) == (True, 0)


def test_a_dispatcher_process_without_its_writer_exits_with_1(tmp_path: Path, care: dict[str, str]) -> None:
    log = tmp_path / "log"
    with dispatching(log, care) as process:
        process.send_signal(signal.SIGUSR1)
        wait_for_log(log, "killed", 1)  # before that the writer completes its work
        raw.run(care["database_url"], DUE_AGAIN)
        code = process.wait(PATIENCE)

    assert code == 1
    assert ENDED in log.read_text()


def test_a_hanging_process_exits_after_sigterm_with_the_stack_of_each_thread(
    tmp_path: Path, care: dict[str, str]
) -> None:
    with serving(tmp_path / "log", prepare=install, **care | {"drain_seconds": "0"}) as served:
        served.process.send_signal(signal.SIGUSR2)
        wait_for_log(tmp_path / "log", "the event loop is blocked", 1)
        code, output = served.stop(signal.SIGTERM)

    assert code == 1
    assert "Timeout (0:00:01)!" in output
    assert re.search(r'killable.py", line \d+ in hang', output)


def test_a_hanging_dispatcher_process_exits_after_sigterm(tmp_path: Path, care: dict[str, str]) -> None:
    log = tmp_path / "log"
    with dispatching(log, care) as process:
        process.send_signal(signal.SIGUSR2)
        wait_for_log(log, "the event loop is blocked", 1)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert code == 1
    assert "Timeout (0:00:01)!" in log.read_text()


@contextmanager
def dispatching(log: Path, care: dict[str, str]) -> Iterator[Process]:
    """A dispatcher process that has started."""
    with log.open("w+") as output:
        process = Process(["worker"], care, output, prepare=install)
        try:
            wait_for_log(log, "dispatching without a webhook", 1)
            yield process
        finally:
            process.kill()
            process.wait()


def processes_in(log: Path, number: int) -> list[int]:
    """The ids of the worker processes, once so many have started."""
    wait_for_log(log, "Application startup complete", number)
    return [int(pid) for pid in re.findall(r"Started server process \[(\d+)\]", log.read_text())]


def statuses_until(edge: Edge, condition: Callable[[], bool]) -> Iterator[int]:
    """The status of each change; each has a connection of its own, so any process may respond."""
    until = time.monotonic() + PATIENCE
    is_last = False
    while not is_last:
        assert time.monotonic() < until
        is_last = condition()
        with suppress(OSError):  # of a process that has just ended
            yield edge.fetch(homework()).status
        time.sleep(0.01)
