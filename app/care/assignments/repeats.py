"""Recognizes a retry of assigning homework: HTTP stacks repeat a PUT on their own."""

from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

from app.db.moments import as_moment
from app.db.sql import Operation, Values
from app.db.statements.assignments import FIND_RECENT_ASSIGNMENTS, FIND_REMINDERS_OF_ASSIGNMENTS
from app.db.tables import ReminderState


def finding_repeated(values: Values, since: datetime) -> Operation[list[int] | None]:
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
    for assignment_id, remind_date, state in rows:
        if state == ReminderState.SENT:
            return False
        found[assignment_id].append(as_moment(remind_date))
    return all(len(dates) == len(moments) and set(dates) == set(moments) for dates in found.values())
