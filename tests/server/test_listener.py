"""When a worker process counts as hanging, by a clock of the test."""

from typing import Any, cast

import pytest
from starlette.applications import Starlette

from app.server import listener
from app.server.listener import START_SECONDS, Config, Worker

HEALTHCHECK_SECONDS = 30


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(listener, "monotonic", clock)
    return clock


@pytest.fixture
def worker(clock: Clock) -> Any:
    """Its process is not started: the test answers the pings."""
    config = Config(Starlette(), log_config=None, timeout_worker_healthcheck=HEALTHCHECK_SECONDS)
    worker = cast(Any, Worker(config, []))
    worker.deadline = clock() + START_SECONDS
    return worker


def answer(worker: Any, serves: bool) -> None:
    assert worker.fault() == ""
    assert worker.child_conn.recv() == b"ping"
    worker.child_conn.send(serves)


def test_each_answer_of_a_worker_that_serves_counts(worker: Any, clock: Clock) -> None:
    for _ in range(5):
        answer(worker, serves=True)
        clock.now += HEALTHCHECK_SECONDS - 1
    answer(worker, serves=True)
    assert worker.fault() == ""

    clock.now += HEALTHCHECK_SECONDS
    assert worker.fault() == f"did not respond for {HEALTHCHECK_SECONDS} s"


def test_a_worker_that_starts_has_longer(worker: Any, clock: Clock) -> None:
    answer(worker, serves=False)
    clock.now += START_SECONDS - 1
    answer(worker, serves=False)

    clock.now += 1
    assert worker.fault() == f"did not start within {START_SECONDS} s"
