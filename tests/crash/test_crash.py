"""Promise: what was acknowledged is there exactly once, whenever the process is killed: while people write,
while it starts, while it reads what the last one left. Homework of several books is there whole or not at
all, and a repetition of what was cut off leads to one change and one answer."""

import os

import pytest

from tests.crash.killing import Crashes
from tests.live.processes import run

pytestmark = pytest.mark.live
KILLS = int(os.environ.get("SOAK_KILLS", "100"))
ACKNOWLEDGEMENTS = int(os.environ.get("SOAK_ACKNOWLEDGEMENTS", "20000"))
EACH_LIFE = 1 + ACKNOWLEDGEMENTS // (KILLS * 3 // 4)  # about one life in four ends before it begins


def readiness(seconds: list[float]) -> str:
    seconds = sorted(seconds)
    return f"{seconds[len(seconds) // 2]:.2f} s (median), {seconds[-1]:.2f} s (longest)"


def test_what_was_acknowledged_survives_a_killed_process(crashes: Crashes) -> None:
    crashes.live_and_die(150)
    crashes.die_early()
    crashes.live_and_die(100)


@pytest.mark.soak
def test_what_was_acknowledged_survives_many_killed_processes(crashes: Crashes) -> None:
    kills = 0
    while kills < KILLS or crashes.acknowledgements < ACKNOWLEDGEMENTS:
        crashes.live_and_die(EACH_LIFE)
        kills += 1
        while crashes.chance.random() < 0.25:
            crashes.die_early()
            kills += 1
    print(f"{kills} kills, {crashes.acknowledgements} acknowledgements, {crashes.cut} requests cut off,")
    print(f"ready again, the program loaded, after {readiness(crashes.seconds_until_ready)}")

    verified = run("verify", **crashes.care)
    assert (verified.returncode, verified.stdout) == (0, "0 differences\n"), verified.stderr
