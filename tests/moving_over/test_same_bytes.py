"""A recorded and imported service is served again byte for byte, for every user."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from app.db.session_counters import RECOMPUTE_COUNTERS, differences
from app.db.sql import Steps
from app.settings import Settings
from tests.callers import Gateway, load, run_read, run_write
from tests.cli.conftest import Command
from tests.db import random_world, raw
from tests.factories import NOW, Record, a_session, an_assignment
from tests.moving_over.conftest import serving
from tests.moving_over.recordings import PATHS, caller_of, pages, recording, write_lines

ROLES = {"caregiver": random_world.CAREGIVERS, "client": random_world.CLIENTS}
TEXTS = ("Zoë", 'a"b\\c/d', "two\nlines\tand \x01", "\u2028 🌱 \x9b", "", "  ", "<b>&amp;", "naïve ﬁ")
CLOCKS_WENT_BACK = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)


def a_random_world(url: str, rng: Random) -> None:
    load(url, chain(varied(random_world.records(rng), rng), homework_of_each_caregiver()))
    raw.run(
        url,
        *random_world.submissions(rng),
        *random_world.feedbacks(rng),
        *random_world.withdrawals(rng),
    )
    run_write(url, recomputing_counters())


def homework_of_each_caregiver() -> Iterator[Record]:
    """Caregivers without assignments are on no page, so a recording cannot contain them."""
    for caregiver in range(1, random_world.CAREGIVERS + 1):
        session = random_world.SESSIONS + caregiver
        yield a_session(session, caregiver, 1)
        yield an_assignment(random_world.ASSIGNMENTS + caregiver, session)


def varied(records: Iterator[Record], rng: Random) -> Iterator[Record]:
    """Adds texts that need escapes, seconds, and moments in the repeated hour of a clock change."""
    for record in records:
        for member in ("name", "position", "title", "description", "chatId"):
            if member in record and rng.random() < 0.5:
                record[member] = f"{record[member]} {rng.choice(TEXTS)}"
        for member in ("createDate", "assignDate", "submitDate"):
            if record.get(member):
                near = rng.choice((record[member], CLOCKS_WENT_BACK))
                record[member] = near + timedelta(seconds=rng.uniform(0, 7200))
        if record["kind"] == "assignment" and record["status"] == "COMPLETE" and rng.random() < 0.3:
            record |= {"feedbackStatus": "SUBMITTED", "feedbackSubmitDate": NOW - timedelta(seconds=1)}
        yield record


def recomputing_counters() -> Steps[None]:
    last = random_world.SESSIONS + random_world.CAREGIVERS
    yield RECOMPUTE_COUNTERS, {"sessions": list(range(1, last + 1))}


def everything(gateway: Gateway, size: int) -> dict[str, bytes]:
    """Every response of the legacy paths, by user and path."""
    seen = {
        f"{role} {number} {path}": body
        for role, total in ROLES.items()
        for number in range(1, total + 1)
        for path, body in pages(caller_of(gateway, role, number), role, size)
    }
    for caregiver in range(1, ROLES["caregiver"] + 1):
        for assignment in range(1, random_world.ASSIGNMENTS + 1):
            response = gateway.as_caregiver(caregiver).get(f"{PATHS['caregiver']}/{assignment}")
            if response.status_code == 200:
                seen[f"caregiver {caregiver} assignment {assignment}"] = response.content
    return seen


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("seed", "zone"), [(1, "UTC"), (2, "Europe/Berlin")])
def test_an_imported_recording_is_served_as_the_same_bytes(
    settings: Settings, new_settings: Settings, command: Command, tmp_path: Path, seed: int, zone: str
) -> None:
    check_same_bytes(settings, new_settings, command, tmp_path, seed, zone)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_imported_recordings_are_served_as_the_same_bytes(
    settings: Settings, new_settings: Settings, command: Command, tmp_path: Path, seed: int
) -> None:
    zone = Random(seed).choice(("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"))
    check_same_bytes(settings, new_settings, command, tmp_path, seed, zone)


def check_same_bytes(
    settings: Settings, new_settings: Settings, command: Command, tmp_path: Path, seed: int, zone: str
) -> None:
    rng = Random(seed)
    a_random_world(settings.database, rng)
    with serving(settings.model_copy(update={"time_zone": zone})) as old:
        lines = recording(
            old, *(range(1, total + 1) for total in ROLES.values()), size=rng.choice((3, 7, 20))
        )
        seen = everything(old, size=11)
    file = write_lines(tmp_path / "recording.jsonl", lines)

    result = command("import", str(file), database_url=new_settings.database, time_zone=zone)
    assert (result.exit_code, result.exception) == (0, None), result.output
    account = ("--role", "client", "--user", f"client-{ROLES['client']}", "--oppt-id", "OPPT-new")
    assert result.stderr.splitlines()[-1] == f"  client client-{ROLES['client']}"  # without a session
    assert (
        command("account", "add", *account, "--name", "New", database_url=new_settings.database).exit_code
        == 0
    )

    with serving(new_settings.model_copy(update={"time_zone": zone})) as new:
        assert everything(new, size=11) == seen
    assert run_read(new_settings.database, differences()) == []
