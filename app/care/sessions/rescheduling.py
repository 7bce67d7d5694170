"""Moves the pending homework of a session together with the start of the session."""

from collections import defaultdict
from datetime import datetime, timedelta

from app.care.bounds import check_moment
from app.db.moments import as_moment, known_moment
from app.db.sql import Operation, Values
from app.db.statements.sessions import (
    FIND_PENDING,
    FIND_SCHEDULED_REMINDERS,
    MOVE_ASSIGNMENTS,
    MOVE_REMINDERS,
)
from app.db.tables import ReminderState


def moving_homework(values: Values, by: timedelta) -> Operation[None]:
    """Moves windows and scheduled reminders by the same time. Otherwise homework could begin before its
    session, and would remind the client of assignments that do not accept answers yet."""
    windows: dict[tuple[datetime, datetime | None], list[int]] = defaultdict(list)
    for number, start, end in (yield FIND_PENDING, values):
        windows[known_moment(start), as_moment(end)].append(number)
    for (start, end), assignments in windows.items():
        window = {"start": moved(start, by), "end": None if end is None else moved(end, by)}
        yield MOVE_ASSIGNMENTS, {**values, **window, "assignments": assignments}
    reminders: dict[datetime, list[int]] = defaultdict(list)
    for number, moment in (yield FIND_SCHEDULED_REMINDERS, values):
        reminders[known_moment(moment)].append(number)
    for moment, numbers in reminders.items():
        to = moved(moment, by)
        state = ReminderState.SKIPPED if to < values["now"] else ReminderState.SCHEDULED
        yield MOVE_REMINDERS, {**values, "reminders": numbers, "remind": to, "state": state}


def moved(moment: datetime, by: timedelta) -> datetime:
    to = moment + by
    check_moment("startDate", to)
    return to
