"""`extendAssignment` and `setReminders`: the payload, the stored rows, and what both roles see.

Contract: pending homework of running and future sessions. New reminders replace the scheduled ones; sent
and past reminders stay, and are not scheduled again.
"""

from datetime import datetime
from typing import Any

import pytest

from tests.callers import Gateway
from tests.database_rows import Stored, added, added_events, changed, stored
from tests.factories import DAY, HOUR, NOW, an_assignment
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.schema.changing import a_world_to_change, change, check_refusals
from tests.schema.worlds import global_id

EXTENDED = "assignment { legacyId startDate endDate status attempt lateness { state seconds } }"
ON_TIME = {"lateness": {"state": "ON_TIME", "seconds": 0}}
REMINDED = "assignment { legacyId reminders { remindDate state } }"
EVENT = ("CAREGIVER", 1, 101, 1)


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    """`a_world_to_change`; in session 1 assignment 10 has reminders in every state, one of them due; 11 has
    no end date, 12 is overdue; 13 was reopened, and its future reminder was skipped when it was submitted."""
    reminders = [
        {"remindDate": NOW - 3 * DAY, "state": "SENT"},
        {"remindDate": NOW - 2 * DAY, "state": "SKIPPED"},
        {"remindDate": NOW - HOUR, "state": "SCHEDULED"},
        {"remindDate": NOW + HOUR, "state": "SCHEDULED"},
    ]
    gateway.import_records(
        [
            *a_world_to_change(),
            an_assignment(10, endDate=NOW + 2 * HOUR, reminders=reminders),
            an_assignment(11, endDate=None),
            an_assignment(12, endDate=NOW - HOUR),
            an_assignment(13, attempt=2, reminders=[{"remindDate": NOW + HOUR, "state": "SKIPPED"}]),
        ]
    )
    return gateway


# --- extension -------------------------------------------------------------------------------------


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("number", "session", "end", "lateness"),
    [
        (2, 1, "2026-12-24T17:00:00Z", ON_TIME),
        (2, 1, "2999-12-31T23:59:59.999999Z", ON_TIME),
        (7, 2, "2026-12-24T17:00:00Z", ON_TIME),
        (8, 1, "2026-12-24T17:00:00Z", ON_TIME),
        (11, 1, "2026-12-24T17:00:00Z", ON_TIME),
        (11, 1, "2026-11-12T09:00:00Z", {"lateness": {"state": "OVERDUE", "seconds": 9 * 86400}}),
        (12, 1, "2026-11-21T08:59:30Z", {"lateness": {"state": "OVERDUE", "seconds": 30}}),
        (12, 1, "2026-11-21T09:00:00Z", ON_TIME),
    ],
    ids=[
        "in a running session",
        "until the last moment there is",
        "in a session to come",
        "a reopened one",
        "one without an end",
        "one without an end, to its start",
        "one that stays overdue",
        "one that is overdue no more",
    ],
)
def test_an_assignment_is_extended(
    world: Gateway, number: int, session: int, end: str, lateness: dict[str, Any]
) -> None:
    before = stored(world)
    row = next(row for row in before["assignment"] if row["id"] == number)

    response = change(
        world.as_caregiver(1), "extendAssignment", EXTENDED, assignmentId=str(number), endDate=end
    )

    assert response == {
        "assignment": {
            "legacyId": str(number),
            "startDate": row["start_date"].isoformat().replace("+00:00", "Z"),
            "endDate": end,
            "status": "PENDING",
            "attempt": row["attempt"],
            **lateness,
        }
    }
    after = stored(world)
    ((table, rows),) = changed(before, after).items()
    assert (table, list(rows), list(rows[number])) == ("assignment", [number], ["end_date"])
    assert added_events(before, after) == [("EXTENDED", "CAREGIVER", 1, 101, session, number, NOW)]
    assert world.as_client(1).data(f"{{ assignment(id: {number}) {{ endDate }} }}") == {
        "assignment": {"endDate": end}
    }


@pytest.mark.sqlite_only
def test_an_extension_to_the_same_end_writes_nothing(world: Gateway) -> None:
    before = stored(world)

    response = change(
        world.as_caregiver(1),
        "extendAssignment",
        EXTENDED,
        assignmentId=global_id("Assignment", 2),
        endDate="2026-11-26T10:00:00+01:00",
    )

    assert response["assignment"]["endDate"] == "2026-11-26T09:00:00Z"
    assert stored(world) == before


@pytest.mark.sqlite_only
def test_an_assignment_without_an_end_date_is_bounded_by_its_start(world: Gateway) -> None:
    """It starts on 2026-11-12T09:00:00Z."""
    earlier = "2026-11-12T08:59:59.999999Z"
    end = {"end": ({"endDate": earlier}, "UNREADABLE", "endDate", "endDate is before the current end")}
    outside = "remindDates must lie between startDate and endDate"
    reminder = {"reminder": ({"remindDates": [earlier]}, "UNREADABLE", "remindDates.0", outside)}

    check_refusals(world, "extendAssignment", {"assignmentId": "11"}, end)
    check_refusals(world, "setReminders", {"assignmentId": "11"}, reminder)


@pytest.mark.sqlite_only
def test_the_legacy_paths_show_an_extended_assignment_unchanged(world: Gateway) -> None:
    """The legacy paths do not return the end date."""
    path = f"{ASSIGNMENTS}/2"
    shown = world.as_caregiver(1).get(path).json()

    change(world.as_caregiver(1), "extendAssignment", assignmentId="2", endDate="2026-12-24T17:00:00Z")

    assert world.as_caregiver(1).get(path).json() == shown


# --- reminders -------------------------------------------------------------------------------------

SENT = {"remindDate": "2026-11-18T09:00:00Z", "state": "SENT"}
SKIPPED = {"remindDate": "2026-11-19T09:00:00Z", "state": "SKIPPED"}


def scheduled(moment: str) -> dict[str, str]:
    return {"remindDate": moment, "state": "SCHEDULED"}


SET: dict[str, tuple[list[str], list[dict[str, str]]]] = {
    "others": (
        ["2026-11-21T11:00:00Z", "2026-11-21T10:30:00+01:00"],
        [SENT, SKIPPED, scheduled("2026-11-21T09:30:00Z"), scheduled("2026-11-21T11:00:00Z")],
    ),
    "none": ([], [SENT, SKIPPED]),
    "one of both": (["2026-11-21T10:00:00Z"], [SENT, SKIPPED, scheduled("2026-11-21T10:00:00Z")]),
    "the one that is due, and another": (
        ["2026-11-21T11:00:00Z", "2026-11-21T08:00:00Z"],
        [SENT, SKIPPED, scheduled("2026-11-21T08:00:00Z"), scheduled("2026-11-21T11:00:00Z")],
    ),
    "one right now": (["2026-11-21T09:00:00Z"], [SENT, SKIPPED, scheduled("2026-11-21T09:00:00Z")]),
    "one in the past": (
        ["2026-11-20T09:00:00Z"],
        [SENT, SKIPPED, {"remindDate": "2026-11-20T09:00:00Z", "state": "SKIPPED"}],
    ),
    "what was sent and skipped, and a new one twice": (
        [SENT["remindDate"], SKIPPED["remindDate"], "2026-11-21T11:00:00Z", "2026-11-21T12:00:00+01:00"],
        [SENT, SKIPPED, scheduled("2026-11-21T11:00:00Z")],
    ),
    "both ends of the window": (
        ["2026-11-12T09:00:00Z", "2026-11-21T11:00:00Z"],
        [
            {"remindDate": "2026-11-12T09:00:00Z", "state": "SKIPPED"},
            SENT,
            SKIPPED,
            scheduled("2026-11-21T11:00:00Z"),
        ],
    ),
    "fifty": (
        [f"2026-11-21T10:{minute:02}:00Z" for minute in range(50)],
        [SENT, SKIPPED, *(scheduled(f"2026-11-21T10:{minute:02}:00Z") for minute in range(50))],
    ),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("moments", "reminders"), SET.values(), ids=SET)
def test_set_reminders_replaces_the_scheduled_ones(
    world: Gateway, moments: list[str], reminders: list[dict[str, str]]
) -> None:
    before = stored(world)

    response = change(world.as_caregiver(1), "setReminders", REMINDED, assignmentId="10", remindDates=moments)

    assert response == {"assignment": {"legacyId": "10", "reminders": reminders}}
    after = stored(world)
    was, now = reminders_of_10(before), reminders_of_10(after)
    assert changed(before, after) == {"reminder": {was[moment]: {} for moment in was.keys() - now.keys()}}
    assert len(added(before, after, "reminder")) == len(now.keys() - was.keys())
    assert added_events(before, after) == [("REMINDERS_SET", *EVENT, 10, NOW)]


def reminders_of_10(stored: Stored) -> dict[datetime, int]:
    return {row["remind_date"]: row["id"] for row in stored["reminder"] if row["assignment_id"] == 10}


@pytest.mark.sqlite_only
def test_reminders_can_be_set_in_a_future_session(world: Gateway) -> None:
    before = stored(world)

    response = change(
        world.as_caregiver(1),
        "setReminders",
        REMINDED,
        assignmentId="7",
        remindDates=["2026-11-26T09:00:00Z"],
    )

    assert response == {"assignment": {"legacyId": "7", "reminders": [scheduled("2026-11-26T09:00:00Z")]}}
    assert added_events(before, stored(world)) == [("REMINDERS_SET", "CAREGIVER", 1, 101, 2, 7, NOW)]


@pytest.mark.sqlite_only
def test_a_reminder_has_no_upper_bound_without_an_end_date(world: Gateway) -> None:
    moments = ["2026-11-21T09:00:00.000001Z", "2999-12-31T23:59:59.999999Z"]

    response = change(world.as_caregiver(1), "setReminders", REMINDED, assignmentId="11", remindDates=moments)

    assert response == {"assignment": {"legacyId": "11", "reminders": [scheduled(each) for each in moments]}}


@pytest.mark.sqlite_only
def test_a_skipped_reminder_can_be_scheduled_again(world: Gateway) -> None:
    input_fields: dict[str, Any] = {"assignmentId": "13", "remindDates": ["2026-11-21T10:00:00Z"]}

    responses = [change(world.as_caregiver(1), "setReminders", REMINDED, **input_fields) for _ in range(2)]

    both = [{"remindDate": "2026-11-21T10:00:00Z", "state": "SKIPPED"}, scheduled("2026-11-21T10:00:00Z")]
    assert responses == [{"assignment": {"legacyId": "13", "reminders": both}}] * 2


@pytest.mark.sqlite_only
@pytest.mark.parametrize("moment", ["2026-11-21T09:00:00Z", "2026-11-21T09:00:01Z"])
@pytest.mark.parametrize(("state", "is_again"), [("SKIPPED", True), ("SENT", False)])
def test_a_reminder_of_this_moment_is_scheduled_again_unless_it_was_sent(
    world: Gateway, moment: str, state: str, is_again: bool
) -> None:
    """A dispatcher whose clock is ahead sends it early."""
    reminder = {"remindDate": moment, "state": state}
    world.import_records([an_assignment(14, reminders=[reminder])])

    response = change(
        world.as_caregiver(1), "setReminders", REMINDED, assignmentId="14", remindDates=[moment]
    )

    assert response["assignment"]["reminders"] == [reminder, *[scheduled(moment)] * is_again]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("number", "moments"),
    [
        ("10", ["2026-11-21T10:00:00Z", "2026-11-21T08:00:00Z"]),
        (
            "10",
            ["2026-11-21T08:00:00Z", "2026-11-21T11:00:00+01:00", SENT["remindDate"], SKIPPED["remindDate"]],
        ),
        ("8", []),
    ],
    ids=["those there are", "all there are", "still none"],
)
def test_setting_the_same_reminders_writes_nothing(world: Gateway, number: str, moments: list[str]) -> None:
    before = stored(world)

    change(world.as_caregiver(1), "setReminders", assignmentId=number, remindDates=moments)

    assert stored(world) == before
