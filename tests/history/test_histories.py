"""Promise: whatever callers do at once, on any number of processes, through kills and lost connections, what
each of them was told fits one order of events.

Random caregivers and clients change a few sessions by both contracts, with and without idempotency keys, and
repeat what got no response. Each call and its response are recorded. The checker looks for an order in which
the model gives every caller the response that it got, and which ends with the stored events. Subscribers
have received each event, and each change has its audit record.
"""

from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from tests.history.gateways import Gateways, contradictions, run, started
from tests.history.planted_faults import FAULTS

pytestmark = pytest.mark.live
CALLS = 300
LONG, ROUNDS = 1000, 10  # of `make soak`


@pytest.fixture
def gateways(kind: str, database_url: str, tmp_path: Path) -> Iterator[Gateways]:
    """Two processes on PostgreSQL."""
    with started(database_url, tmp_path, 1 if kind == "sqlite" else 2) as gateways:
        yield gateways


def seed() -> int:
    return SystemRandom().randrange(2**32)


def test_calls_fit_one_order(gateways: Gateways) -> None:
    history = run(gateways, seed(), CALLS)

    assert contradictions(gateways, history) == []


def test_calls_fit_one_order_through_kills(gateways: Gateways) -> None:
    history = run(gateways, seed(), CALLS, [gateways.kill_one] * 2)

    assert contradictions(gateways, history) == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_calls_fit_one_order_with_a_worker(gateways: Gateways) -> None:
    gateways.start_worker()

    history = run(gateways, seed(), CALLS)

    assert contradictions(gateways, history) == []


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_calls_fit_one_order_though_connections_end(gateways: Gateways) -> None:
    history = run(gateways, seed(), CALLS, [gateways.end_connections] * 4)

    assert contradictions(gateways, history) == []


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_many_calls_fit_one_order_through_kills(gateways: Gateways, turn: int) -> None:
    history = run(gateways, seed(), LONG, [gateways.kill_one] * 2)

    assert contradictions(gateways, history) == []
    print(f"{history.calls()} calls, {history.lost()} of them without a response")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(database_url: str, tmp_path: Path, fault: str) -> None:
    with started(database_url, tmp_path, 2, FAULTS[fault]) as gateways:
        try:
            history = run(gateways, seed(), LONG, [gateways.kill_one] * 2)
            found = contradictions(gateways, history)
        except (AssertionError, TimeoutError) as failure:  # a change failed, or an event did not come
            found = [str(failure)]

        assert found != []
