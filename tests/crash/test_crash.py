"""Acknowledged changes are stored exactly once, although the process is killed during writes, during its
start or during recovery. Homework of several books is stored as a whole or not at all, and a retry of an
interrupted request leads to one change and one response."""

import os

import pytest

from tests.crash.crashes import Crashes
from tests.live.processes import run

pytestmark = pytest.mark.live
KILLS = int(os.environ.get("SOAK_KILLS", "100"))
ACKNOWLEDGEMENTS = int(os.environ.get("SOAK_ACKNOWLEDGEMENTS", "20000"))
RESPONSES_PER_RUN = 1 + ACKNOWLEDGEMENTS // (
    KILLS * 3 // 4
)  # about one run in four is killed during its start


def readiness(seconds: list[float]) -> str:
    seconds = sorted(seconds)
    return f"{seconds[len(seconds) // 2]:.2f} s (median), {seconds[-1]:.2f} s (longest)"


def test_acknowledged_changes_survive_a_killed_process(crashes: Crashes) -> None:
    crashes.run_and_kill(150)
    crashes.kill_during_start()
    crashes.run_and_kill(100)


@pytest.mark.sqlite_only
def test_a_rejection_by_a_busy_service_is_repeated(crashes: Crashes) -> None:
    crashes.care["most_requests"] = "1"

    crashes.run_and_kill(100)


@pytest.mark.soak
def test_acknowledged_changes_survive_many_killed_processes(crashes: Crashes) -> None:
    kills = 0
    while kills < KILLS or crashes.acknowledgements < ACKNOWLEDGEMENTS:
        crashes.run_and_kill(RESPONSES_PER_RUN)
        kills += 1
        while crashes.chance.random() < 0.25:
            crashes.kill_during_start()
            kills += 1
    print(f"{kills} kills, {crashes.acknowledgements} acknowledgements, {crashes.unanswered} unanswered,")
    print(f"ready again, the program loaded, after {readiness(crashes.seconds_until_ready)}")

    verified = run("verify", **crashes.care)
    assert (verified.returncode, verified.stdout) == (0, "0 differences\n"), verified.stderr
