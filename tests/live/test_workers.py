"""`serve --workers` replaces a worker process that has ended or hangs, as long as another one is left."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from app.db.admin.migrate import migrate
from tests import keys
from tests.crash.server import Server, own_postgres
from tests.live.processes import PATIENCE, Served, run, serving, wait_for_log
from tests.ports import free_port

pytestmark = pytest.mark.live

SERVES = "Application startup complete"
FAILED = r"Child process \[\d+\] ended with exit code 1 before it served"


@contextmanager
def two_workers(log: Path) -> Iterator[tuple[Server, Served, list[int]]]:
    """On PostgreSQL, with the ids of the worker processes."""
    with own_postgres(in_memory=True) as (server, url):
        asyncio.run(migrate(url))
        with serving(
            log, "--workers", "2", prepare=retry_soon, database_url=url, token_key=keys.public_pem()
        ) as served:
            yield server, served, workers_in(log, 2)


def retry_soon() -> None:
    from app.server import listener

    listener.RETRY_SECONDS = 0.1  # type: ignore[assignment]


def workers_in(log: Path, number: int) -> list[int]:
    wait_for_log(log, SERVES, number)
    return [int(pid) for pid in re.findall(r"Started server process \[(\d+)\]", log.read_text())]


def test_a_worker_that_dies_while_the_database_is_away_is_replaced_when_it_is_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with two_workers(log) as (server, served, workers):
        server.kill()
        os.kill(workers[0], signal.SIGKILL)
        wait_for_log(log, "before it served", 2)
        alive = httpx2.get(f"{served.url}/livez").status_code
        server.start()
        workers_in(log, 3)
        ready = httpx2.get(f"{served.url}/readyz").status_code
        code, output = served.stop(signal.SIGTERM)

    assert (alive, ready, code) == (200, 200, 0)
    assert f"Child process [{workers[0]}] was ended by SIGKILL" in output
    assert re.search(FAILED, output)


def test_the_supervisor_exits_with_1_when_no_worker_is_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with two_workers(log) as (server, served, workers):
        server.kill()
        for each in workers:
            os.kill(each, signal.SIGKILL)
        code = served.process.wait(PATIENCE)

    assert code == 1
    assert "No child process could start, stopping the parent process" in log.read_text()


def test_the_supervisor_exits_although_workers_fail_at_different_moments(
    sqlite_copy: str, tmp_path: Path
) -> None:
    care = {"database_url": sqlite_copy, "token_key": keys.public_pem(), "port": str(free_port())}
    service = run("serve", "--workers", "2", module="tests.live.failing", var=str(tmp_path), **care)

    assert (service.returncode, len(re.findall(FAILED, service.stderr))) == (1, 2)


def test_a_worker_that_hangs_is_replaced_and_one_that_starts_slowly_is_not(
    sqlite_copy: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    care = {"database_url": sqlite_copy, "token_key": keys.public_pem(), "dispatcher": "off"}
    with serving(log, "--workers", "2", module="tests.live.slow", **care) as served:
        hanging = workers_in(log, 2)[0]
        started = log.read_text()
        os.kill(hanging, signal.SIGSTOP)
        # "start" if it has not answered the supervisor since it serves, else "respond"
        wait_for_log(log, f"Child process [{hanging}] did not ", 1)
        workers_in(log, 3)
        code, _ = served.stop(signal.SIGTERM)

    assert "Child process" not in started
    assert code == 0
