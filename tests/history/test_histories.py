"""Promise: whatever callers do at once, on any number of processes, through kills and lost connections, what
each of them was told fits one order of events.

Random caregivers and clients change a few sessions by both contracts, with and without idempotency keys, and
repeat what got no response. Each call and its response are recorded. The checker looks for an order in which
the model gives every caller the response that it got, and which ends with the stored events. Subscribers
have received each event, and each change has its audit record.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import SystemRandom
from traceback import format_exception

import pytest

from app.db.admin.migrate import migrate
from tests.crash.server import own_postgres, standby_of
from tests.history.contradictions import contradictions
from tests.history.disturbances import disturb_process, disturb_statements, end_connections
from tests.history.gateways import Gateways, run, started
from tests.history.planted_faults import FAULTS
from tests.history.recording import History
from tests.live.test_failover import both

pytestmark = pytest.mark.live
CALLS = 120
LONG, ROUNDS, FAILOVERS = 1000, 10, 3  # of `make soak`


@pytest.fixture
def gateways(kind: str, database_url: str, tmp_path: Path) -> Iterator[Gateways]:
    """Two processes on PostgreSQL."""
    with started(database_url, tmp_path, 1 if kind == "sqlite" else 2) as gateways:
        yield gateways


@pytest.fixture
def disturbed(database_url: str, tmp_path: Path) -> Iterator[Gateways]:
    with started(database_url, tmp_path, 2, disturb_process) as gateways:
        disturb_statements(database_url)
        yield gateways


def seed() -> int:
    return SystemRandom().randrange(2**32)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_calls_fit_one_order(gateways: Gateways) -> None:
    history = run(gateways, seed(), CALLS)

    found = contradictions(gateways, history)
    assert found == [], "\n".join(found)


def test_calls_fit_one_order_through_kills(gateways: Gateways) -> None:
    history = run(gateways, seed(), CALLS, [gateways.kill_one])

    found = contradictions(gateways, history)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_calls_fit_one_order_with_a_worker(gateways: Gateways) -> None:
    gateways.start_worker()

    history = run(gateways, seed(), CALLS)

    found = contradictions(gateways, history)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_calls_fit_one_order_though_connections_end(disturbed: Gateways) -> None:
    history = run(disturbed, seed(), CALLS, [partial(end_connections, disturbed.url)] * 2)

    found = contradictions(disturbed, history)
    assert found == [], "\n".join(found)


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_many_calls_fit_one_order_through_kills(gateways: Gateways, turn: int) -> None:
    history = run(gateways, seed(), LONG, [gateways.kill_one] * 2)

    found = contradictions(gateways, history)
    assert found == [], "\n".join(found)
    print(summary(history))


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(ROUNDS))
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_many_calls_fit_one_order_though_connections_end(disturbed: Gateways, turn: int) -> None:
    ends = partial(end_connections, disturbed.url)

    history = run(disturbed, seed(), LONG, [ends, disturbed.kill_one] * 5)

    found = contradictions(disturbed, history)
    assert found == [], "\n".join(found)
    print(summary(history))


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(FAILOVERS))
def test_calls_fit_one_order_through_a_failover(tmp_path: Path, turn: int) -> None:
    with own_postgres(in_memory=True) as (primary, url), standby_of(primary, url) as standby:
        asyncio.run(migrate(url))

        def fail_over() -> None:
            primary.kill()
            standby.run("pg_ctl", "promote", "--pgdata=data")

        with started(both(primary, standby, url), tmp_path, 2) as gateways:
            history = run(gateways, seed(), LONG, [fail_over])

            found = contradictions(gateways, history)
            assert found == [], "\n".join(found)
            print(summary(history))


def plant(fault: str) -> None:
    disturb_process(0.1)
    FAULTS[fault]()


def summary(history: History) -> str:
    return f"{len(history.lines)} sessions, {history.calls()} calls, {history.lost()} without a response"


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(database_url: str, tmp_path: Path, fault: str) -> None:
    with started(database_url, tmp_path, 2, partial(plant, fault)) as gateways:
        disturb_statements(database_url)
        ends = partial(end_connections, database_url)
        try:
            history = run(gateways, seed(), 2 * LONG, [ends, gateways.kill_one] * 4)
            found = contradictions(gateways, history)
        except (AssertionError, TimeoutError) as failure:  # a change failed, or an event did not come
            found = format_exception(failure)[-2:]

    print(f"{fault}: {[each for each in found if 'no order' in each][:1] or found[:1]}")
    assert found != []
