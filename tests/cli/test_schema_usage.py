"""Promise: `schema usage` states who still uses deprecated parts of the schema, and never calls a part unused
of the days before it was deprecated."""

from datetime import datetime, timedelta

import orjson
import pytest

from app.care.context import utc_now
from app.db.statements.usage import SERVED, Counted, day_of
from app.settings import Settings
from tests.callers import run_write
from tests.cli.conftest import Command
from tests.cli.test_legacy_report import calls, days_since, midnight, storing_usage
from tests.factories import DAY
from tests.schema.deprecating import ARGUMENT, FIELD, PARTS, deprecated

__all__ = ["deprecated"]


@pytest.fixture
def now() -> datetime:
    """The command uses the real clock."""
    return utc_now()


def served(now: datetime, days: int, *parts: str) -> list[Counted]:
    """The marks of a schema that has had deprecated parts for some days."""
    moments = [now - day * DAY for day in range(days + 1)]
    return [Counted(day_of(moment), part, SERVED, "", 0, moment) for part in parts for moment in moments]


@pytest.mark.sqlite_only
def test_a_schema_without_deprecated_parts(command: Command) -> None:
    result, as_json = command("schema", "usage"), command("schema", "usage", "--json")

    assert (result.exit_code, result.stdout) == (0, "The schema has no deprecated parts.\n")
    assert (as_json.exit_code, orjson.loads(as_json.stdout)["parts"]) == (0, [])


@pytest.mark.usefixtures("deprecated")
def test_applications_are_listed_by_part(command: Command, settings: Settings, now: datetime) -> None:
    used = [
        *served(now, 40, *PARTS),
        calls(FIELD, "web-app", 1500, now),
        calls(FIELD, "web-app", 3000, now - 31 * DAY),
        calls(ARGUMENT, "cron", 1, now - 31 * DAY),
    ]
    run_write(settings.database, storing_usage(used, days_since(now, 100)))

    result = command("schema", "usage")

    lines = result.stdout.splitlines()
    at = lines.index(FIELD)
    assert result.exit_code == 1
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        f"still 1 application: web-app (1,500 requests, last on {day_of(now)})".split(),
        ["application", "role", "requests", "before", "trend", "last", "use", "(UTC)"],
        ["web-app", "caregiver", "1,500", "-", "-", *f"{now:%Y-%m-%d %H:%M}".split()],
    ]
    assert {part: lines[lines.index(part) + 1].strip() for part in PARTS if part != FIELD} == {
        part: "no calls for 31 days" if part == ARGUMENT else "no calls since counting began, 40 days ago"
        for part in PARTS
        if part != FIELD
    }
    assert lines[-1] == "Deprecated parts are in use."


@pytest.mark.usefixtures("deprecated")
def test_days_before_the_deprecation_are_not_counted(
    command: Command, settings: Settings, now: datetime
) -> None:
    """Requests were counted then, but not by this part."""
    run_write(settings.database, storing_usage(served(now, 4, *PARTS), days_since(now, 100)))

    found = [command("schema", "usage", "--days", days) for days in ("30", "5", "4")]

    assert [each.exit_code for each in found] == [3, 3, 0]
    again = day_of(now + 26 * DAY)
    sentence = f"no calls, but counted only for 4 days; check again on {again}\n"
    assert found[0].stdout.count(sentence) == len(PARTS)
    assert found[2].stdout.endswith("\nThe deprecated parts may be removed: no calls in this period.\n")


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("deprecated")
def test_days_on_which_another_version_served_are_not_counted(
    command: Command, settings: Settings, now: datetime
) -> None:
    days = [mark for mark in served(now, 40, *PARTS) if mark.day != day_of(now - 3 * DAY)]
    run_write(settings.database, storing_usage(days, days_since(now, 100)))

    result = command("schema", "usage")

    sentence = "not known: no calls, but on 1 of these days calls were counted for less than 23 hours"
    assert (result.exit_code, result.stdout.count(sentence)) == (3, len(PARTS))


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("deprecated")
def test_a_part_that_is_used_counts_more_than_one_that_is_not_known(
    command: Command, settings: Settings, now: datetime
) -> None:
    """A part is not known if calls were not counted on a day on which the schema had it."""
    gap = midnight(now) - 3 * DAY
    counted = [(now - 100 * DAY, gap), (gap + DAY, now + timedelta(minutes=2))]
    run_write(settings.database, storing_usage(served(now, 40, *PARTS), counted))
    unknown = command("schema", "usage", "--json")
    run_write(settings.database, storing_usage([calls(FIELD, "web-app", 1, now)], []))

    used = command("schema", "usage", "--json")

    states = [[part["state"] for part in orjson.loads(each.stdout)["parts"]] for each in (unknown, used)]
    assert (unknown.exit_code, used.exit_code) == (3, 1)
    assert [sorted(each) for each in states] == [
        ["NOT_KNOWN"] * len(PARTS),
        [*["NOT_KNOWN"] * (len(PARTS) - 1), "USED"],
    ]


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("deprecated")
def test_a_schema_that_was_never_served(command: Command, settings: Settings, now: datetime) -> None:
    run_write(settings.database, storing_usage([], days_since(now, 100)))

    result = command("schema", "usage", "--json")

    assert result.exit_code == 3
    assert sorted(orjson.loads(result.stdout)["parts"], key=lambda found: found["part"]) == [
        {"part": part, "state": "NOT_KNOWN", "verdict": "not known: calls have not been counted yet"}
        | {"lastUse": None, "refused": 0, "applications": []}
        for part in sorted(PARTS)
    ]
