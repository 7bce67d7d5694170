"""`bench/capacity.py` prints what the documentation shows, and its queue agrees with the theory of queues."""

import runpy
import subprocess
import sys
from math import exp
from typing import Any

import pytest

from tests import pages
from tests.patience import PATIENCE

PROGRAM = pages.ROOT / "bench" / "capacity.py"


@pytest.fixture(scope="module")
def capacity() -> dict[str, Any]:
    return runpy.run_path(str(PROGRAM))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE
    )


def test_the_page_shows_what_the_program_prints() -> None:
    printed = run().stdout

    assert printed.count("\n") > 10
    assert printed in pages.read("docs/capacity.md")


def test_a_gateway_without_a_wait_for_postgresql_is_a_queue_with_one_server(capacity: dict[str, Any]) -> None:
    arrivals = 900
    in_gateway, in_postgres = (1e6 / cost for cost in capacity["COSTS"]["G1"])
    leaving = in_gateway - arrivals  # the time in such a queue is exponential with this rate

    def slower_than(milliseconds: float) -> float:
        slow, fast = (exp(-rate * milliseconds / 1000) for rate in (leaving, in_postgres))
        return (in_postgres * slow - leaving * fast) / (in_postgres - leaving)

    median, last = capacity["latencies"]({"G1": arrivals}, gateways=1, cores=20)

    assert slower_than(median) == pytest.approx(0.5, abs=0.02)
    assert slower_than(last) == pytest.approx(0.01, abs=0.003)


def test_busy_cores_of_postgresql_delay_requests(capacity: dict[str, Any]) -> None:
    few, many = (capacity["latencies"]({"change": 1500}, gateways=20, cores=cores) for cores in (1, 10))

    assert few[0] - many[0] > 2


def test_too_few_gateways_are_reported() -> None:
    assert "| p50 and p99, ms | overloaded |" in run("--gateways", "1").stdout


@pytest.mark.parametrize("option", ["--caregivers", "--clients", "--gateways"])
def test_a_number_that_is_not_positive_is_rejected(option: str) -> None:
    ended = run(option, "0")

    assert ended.returncode == 2
    assert ended.stderr.endswith(f"argument {option}: 0 is not a positive whole number\n")
