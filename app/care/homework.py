"""Homework: assigning books of a session, and recognizing a retry of that."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.care.assignments import get_my_assignments
from app.care.bounds import REMINDER_BYTES, ROW_BYTES, check_moment, check_required
from app.care.context import Context, Role
from app.care.errors import InvalidValue, NotFound, NotRunning
from app.care.sessions import time_state
from app.db.moments import as_moment, known_moment
from app.db.reader.reads import Row, known_rows
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import FastPath, Steps, Together, Values, repeatable
from app.db.statements.assignments import (
    ADD_ASSIGNMENTS,
    ADD_REMINDERS,
    COUNT_NEW_ASSIGNMENTS,
    FIND_RECENT_ASSIGNMENTS,
    FIND_REMINDERS_OF_ASSIGNMENTS,
    LOCK_SESSION_AND_BOOKS,
    MARK_BOOKS_ASSIGNED,
    TAKE_NEW_IDS,
)
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS
from app.db.statements.fast_paths import ASSIGN_ON_FAST_PATH
from app.db.tables import Actor, Assignment, EventKind, TimeState

MAX_BOOKS = 50
MAX_REMINDERS = 50
MAX_FAST_PATH_ROWS = 20  # more would delay the other requests of a batch
ASSIGNED = {"event": EventKind.ASSIGNED, "actor": Actor.CAREGIVER}


@dataclass(frozen=True)
class Homework:
    """Input for assigning books. An id is None if it is not a valid id."""

    session_id: int | None
    book_ids: tuple[int | None, ...]
    start_date: datetime
    end_date: datetime
    remind_dates: tuple[datetime, ...] = ()


async def assign_homework(ctx: Context, homework: Homework, selection: Selection | None) -> list[Row]:
    """Adds one assignment per book, all or none, and returns the new assignments.

    They are read after the transaction, so that a large selection does not make other writers wait.
    """
    access = ctx.access_as(Role.CAREGIVER)
    check_required(bookIds=homework.book_ids, sessionId=homework.session_id)
    check_homework(homework)
    ctx.charge_stored(stored_length_of_homework(homework))
    added = await ctx.write("assignHomework", assigning(access, homework, ctx.repeats_within))
    if selection is None:
        return []
    # The assignments of an earlier request may have been withdrawn since.
    if ctx.idempotent_request is None:
        rows = known_rows(Assignment, selection, [{"id": each} for each in added])
        if rows is not None:
            return rows
    return await get_my_assignments(ctx, added, selection)


def stored_length_of_homework(homework: Homework) -> int:
    return len(set(homework.book_ids)) * (ROW_BYTES + len(homework.remind_dates) * REMINDER_BYTES)


def check_homework(homework: Homework, within: str = "") -> None:
    """`within` prefixes the names of members that errors name."""
    if len(homework.book_ids) > MAX_BOOKS:
        raise InvalidValue(f"{within}bookIds", f"may hold at most {MAX_BOOKS} books")
    check_moment(f"{within}startDate", homework.start_date)
    check_moment(f"{within}endDate", homework.end_date)
    if homework.end_date < homework.start_date:
        raise InvalidValue(f"{within}endDate", "is before startDate")
    check_reminders(homework.remind_dates, homework.start_date, homework.end_date, within)


def check_reminders(
    moments: tuple[datetime, ...], start: datetime, end: datetime | None, within: str = ""
) -> None:
    member = f"{within}remindDates"
    if len(moments) > MAX_REMINDERS:
        raise InvalidValue(member, f"may hold at most {MAX_REMINDERS} moments")
    for index, moment in enumerate(moments):
        check_moment(member, moment, index)
        if moment < start or (end is not None and moment > end):
            raise InvalidValue(member, "must lie between startDate and endDate", index)


@repeatable
def assigning(
    access: AccessScope, homework: Homework, repeats_within: timedelta | None = None
) -> Steps[list[int]]:
    """Adds rows, reminders, counters and the event in one transaction. Returns the new ids. A repetition
    within `repeats_within` writes nothing and returns the ids of the first request."""
    values = values_of(homework)
    values |= {"caregiver": access.caregiver, "session": homework.session_id, "now": access.now}
    if len(values["books"]) * (1 + len(values["moments"])) <= MAX_FAST_PATH_ROWS:
        added = yield fast_path_of(values, repeats_within)
        if added:
            return list(added[0][2])
    found = yield LOCK_SESSION_AND_BOOKS, values
    if not found:
        raise NotFound("session", "sessionId")
    values["client"], is_closed, start_date = found[0][:3]
    if repeats_within is not None:
        first = yield from finding_repeated(values, access.now - repeats_within)
        if first is not None:
            return first
    yield from choosing_books(homework, values, [row[4:] for row in found if row[4] is not None])
    if time_state(bool(is_closed), known_moment(start_date), access.now) is not TimeState.RUNNING:
        raise NotRunning("sessionId")
    new_ids = [row[3] for row in found]
    if None in new_ids:
        new_ids = [row[0] for row in (yield TAKE_NEW_IDS, values)]
    return (yield from adding_homework(values, new_ids, is_last=True))


def fast_path_of(values: Values, repeats_within: timedelta | None) -> FastPath:
    statement, recorded = [ASSIGN_ON_FAST_PATH[repeats_within is not None, is_on] for is_on in (False, True)]
    values = values | {"added": len(values["books"]), **ASSIGNED}
    if repeats_within is not None:
        values["since"] = values["now"] - repeats_within
    return FastPath(statement, recorded, values)


def choosing_books(
    homework: Homework, values: Values, found: Sequence[Sequence[Any]], within: str = ""
) -> Steps[None]:
    """Rejects unknown books and marks the others as assigned. `found` are rows of a book's id and whether it
    was ever assigned."""
    if len(found) < len(values["books"]):
        known = {row[0] for row in found}
        index = next(index for index, each in enumerate(homework.book_ids) if each not in known)
        raise NotFound("book", f"{within}bookIds.{index}")
    if not all([is_assigned for _, is_assigned in found]):
        yield MARK_BOOKS_ASSIGNED, values


def values_of(homework: Homework) -> Values:
    """Removes duplicate books and moments."""
    return {
        "books": list(dict.fromkeys(homework.book_ids)),
        "start": homework.start_date,
        "end": homework.end_date,
        "moments": list(dict.fromkeys(homework.remind_dates)),
    }


def adding_homework(values: Values, new_ids: list[int], is_last: bool = False) -> Steps[list[int]]:
    """Adds assignments of existing books to a running session. Returns the ids in the order of the books."""
    added = sorted(new_ids)
    values = {**values, "assignments": added, "added": len(added), "latest": added[-1]}
    values |= ASSIGNED
    statements = [ADD_ASSIGNMENTS, COUNT_NEW_ASSIGNMENTS, INSERT_ASSIGNMENT_EVENTS]
    if values["moments"]:
        statements.insert(1, ADD_REMINDERS)
    yield Together(tuple([(statement, values) for statement in statements]), is_last)
    return added


# --- retries --------------------------------------------------------------------------------------


def finding_repeated(values: Values, since: datetime) -> Steps[list[int] | None]:
    """Returns the assignments of the same homework that were assigned since then and not changed, or None.

    The assignments of one request share their moment. All of them must match: half of an earlier request, or
    the rest after a withdrawal, is other homework.
    """
    together: dict[Any, list[Any]] = defaultdict(list)
    for row in (yield FIND_RECENT_ASSIGNMENTS, {**values, "since": since}):
        together[row[2]].append(row)
    for rows in together.values():
        if is_same_work(rows, values):
            ids = [row[0] for row in rows]
            reminders = yield FIND_REMINDERS_OF_ASSIGNMENTS, {**values, "assignments": ids}
            if are_same_reminders(reminders, ids, values["moments"]):
                return ids
    return None


def is_same_work(rows: list[Any], values: Values) -> bool:
    window = (values["start"], values["end"])
    return Counter(row[1] for row in rows) == Counter(values["books"]) and all(
        is_untouched and (as_moment(start), as_moment(end)) == window
        for _, _, _, start, end, is_untouched in rows
    )


def are_same_reminders(rows: list[Any], ids: list[int], moments: list[datetime]) -> bool:
    found: dict[int, list[datetime | None]] = {each: [] for each in ids}
    for assignment_id, remind_date in rows:
        found[assignment_id].append(as_moment(remind_date))
    return all(set(dates) == set(moments) for dates in found.values())
