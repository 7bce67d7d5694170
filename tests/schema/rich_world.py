"""Random data of a year and a half of care, and the expected statistics."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

from app.db.session_counters import RECOMPUTE_COUNTERS
from app.db.sql import Steps
from tests.callers import Gateway, run_write
from tests.db import raw
from tests.factories import (
    DAY,
    HOUR,
    NOW,
    Record,
    a_book,
    a_client,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
)


def a_rich_world(rng: Random) -> list[Record]:
    """A year and a half of two caregivers with four clients, three of them shared."""
    world = [*a_world()[:4], a_client(3), a_client(4), *a_world()[4:9], a_book(7), a_book(8)]
    sessions = [
        a_session(
            number,
            caregiver=rng.randint(1, 2),
            client=rng.choice((1, 2, 3)) if number < 12 else 4,
            isClosed=rng.random() < 0.3,
            startDate=NOW - 600 * DAY if rng.random() < 0.8 else NOW + DAY,
        )
        for number in range(1, 13)
    ]
    assignments: list[Record] = []
    answer_sets: list[Record] = []
    for number in range(1, 161):
        assigned = NOW - timedelta(hours=rng.randint(1, 13_000))
        end = rng.choice((None, assigned + 7 * DAY))
        attempt = rng.choice((1, 1, 1, 2, 3))
        submitted = min(NOW, assigned + timedelta(hours=rng.randint(1, 400))) if rng.random() < 0.6 else None
        assignments.append(
            an_assignment(
                number,
                session=rng.randint(1, 11),
                book=rng.randint(1, 3),
                assignDate=assigned,
                endDate=end,
                attempt=attempt,
                submitDate=submitted,
                status="PENDING" if submitted is None else "COMPLETE",
            )
        )
        for one in range(1, attempt + (submitted is not None)):
            moment = submitted if one == attempt else assigned + one * HOUR
            answer_sets.append(an_answer_set(len(answer_sets) + 1, number, attempt=one, submitDate=moment))
    return [*world, *sessions, *assignments, *answer_sets]


WORLD = a_rich_world(Random(20261121))
WITHDRAWN = {number for number in range(1, 161) if number % 17 == 0}


def score_of(answer_set: int) -> int | None:
    return None if answer_set % 5 == 0 else answer_set % 40


def given_a_rich_world(gateway: Gateway) -> None:
    """With the counters of the sessions."""
    gateway.import_records(WORLD)
    raw.run(
        gateway.settings.database,
        "UPDATE answer_set SET score = CASE WHEN id % 5 = 0 THEN NULL ELSE id % 40 END",
        f"UPDATE assignment SET withdraw_date = assign_date WHERE id IN ({', '.join(map(str, WITHDRAWN))})",
    )
    run_write(gateway.settings.database, counting_again())


def counting_again() -> Steps[None]:
    yield RECOMPUTE_COUNTERS, {"sessions": [session["id"] for session in records("session")]}


def records(kind: str) -> Iterator[Record]:
    return (record for record in WORLD if record["kind"] == kind)


SESSION_BY_ID = {record["id"]: record for record in records("session")}


def naive(of: str, number: int, **viewer: int) -> dict[str, Any]:
    """The expected progress and scores of a client or session, whose id is the member `of`."""
    mine = [
        record
        for record in records("assignment")
        for session in [SESSION_BY_ID[record["sessionId"]]]
        if record["id"] not in WITHDRAWN
        and session[of] == number
        and all(session[member] == value for member, value in viewer.items())
    ]
    return {
        "legacyId": str(number),
        "progress": naive_progress(mine),
        "one": naive_scores(mine, 1),
        "other": naive_scores(mine, 2),
    }


def naive_progress(assignments: list[Record]) -> dict[str, Any]:
    submitted = [record for record in assignments if record["submitDate"]]
    pending = [record for record in assignments if not record["submitDate"]]
    return {
        "assignmentCount": len(assignments),
        "completedAssignmentCount": len(submitted),
        "pendingAssignmentCount": len(pending),
        "overdueAssignmentCount": len([record for record in pending if naive_is_overdue(record)]),
        "lateAssignmentCount": len(
            [record for record in submitted if record["endDate"] and record["submitDate"] > record["endDate"]]
        ),
        "completion": naive_weeks(
            [record["assignDate"] for record in assignments], [record["submitDate"] for record in submitted]
        ),
    }


def naive_is_overdue(assignment: Record) -> bool:
    session = SESSION_BY_ID[assignment["sessionId"]]
    is_running = not session["isClosed"] and session["startDate"] <= NOW
    end = assignment["endDate"]
    return assignment["submitDate"] is None and end is not None and end < NOW and is_running


def naive_weeks(assigned: list[datetime], submitted: list[datetime]) -> list[dict[str, Any]]:
    """Counts on every day, and returns the Mondays."""
    found = []
    midnight = min(assigned, default=NOW + DAY).replace(hour=0, minute=0, second=0)
    day = midnight - 6 * DAY
    while day <= NOW:
        if day.weekday() == 0:
            next_monday = day + 7 * DAY
            counts = [sum(moment < next_monday for moment in moments) for moments in (assigned, submitted)]
            if counts[0]:
                week = day.date().isoformat()
                found.append({"week": week, "assigned": counts[0], "completed": counts[1]})
        day += DAY
    return found


def naive_scores(assignments: list[Record], book: int) -> list[dict[str, Any]]:
    names = {record["id"]: record["name"] for record in records("book")}
    books = {record["id"]: record["bookId"] for record in assignments}
    points = [
        (answer_set["submitDate"], answer_set["id"], answer_set)
        for answer_set in records("answer_set")
        if books.get(answer_set["assignmentId"]) == book and score_of(answer_set["id"]) is not None
    ]
    return [
        {
            "submitDate": moment.isoformat().replace("+00:00", "Z"),
            "score": score_of(number),
            "attempt": answer_set["attempt"],
            "assignment": {"legacyId": str(answer_set["assignmentId"]), "name": names[book]},
        }
        for moment, number, answer_set in sorted(points, key=lambda point: point[:2])
    ]


def clients_of(caregiver: int) -> list[int]:
    shared = {each["clientId"] for each in SESSION_BY_ID.values() if each["caregiverId"] == caregiver}
    return sorted(shared, reverse=True)
