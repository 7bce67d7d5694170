"""Assignments: how late they are, reading them, and locking one for a change."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_

from app.care.context import Context
from app.care.errors import CLOSED, NotFound, NotRunning, WrongState
from app.care.sessions import IN_TIME_STATE, NOW, Moments, is_running, time_state
from app.db.moments import as_moment, known_moment
from app.db.reader.access import reading_scope_values, scope_values
from app.db.reader.entities import due_of, is_due
from app.db.reader.queries import StoredCounter
from app.db.reader.reads import CountedBy, Page, Row, get_rows, list_rows
from app.db.reader.selection import AccessScope, Order, PageRequest, Selection, Where, equals
from app.db.sql import (
    DATABASE_KIND,
    Statement,
    Steps,
    Together,
    Values,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.statements.assignments import FIND_CAREGIVER_OF_ASSIGNMENT, LOCK_ASSIGNMENT
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS
from app.db.tables import Actor, Assignment, AssignmentStatus, EventKind, Session, TimeState

# --- how late -------------------------------------------------------------------------------------


class LatenessState(StrEnum):
    ON_TIME = "ON_TIME"
    LATE = "LATE"
    OVERDUE = "OVERDUE"


MAX_SECONDS = 2**31 - 1  # the largest Int of GraphQL: 68 years, and windows may lie further in the past


@dataclass(frozen=True)
class Lateness:
    state: LatenessState
    seconds: int


def is_past(end_date: Moments | None, moment: Moments) -> bool:
    """At its end date an assignment is still on time."""
    return end_date is not None and end_date < moment


def lateness(end_date: datetime | None, submit_date: datetime | None, now: datetime) -> Lateness:
    """LATE: submitted after the end date. OVERDUE: not submitted, and the end date has passed."""
    measured = submit_date or now
    if end_date is None or not is_past(end_date, measured):
        return Lateness(LatenessState.ON_TIME, 0)
    state = LatenessState.OVERDUE if submit_date is None else LatenessState.LATE
    return Lateness(state, min(int((measured - end_date).total_seconds()), MAX_SECONDS))


def is_overdue(status: str, end_date: Moments | None, now: Moments, state_of_session: TimeState) -> bool:
    """Only in a running session, since no other session accepts answers."""
    is_pending = status == AssignmentStatus.PENDING
    return is_pending and is_past(end_date, now) and state_of_session is TimeState.RUNNING


# The same rule in SQL; a test compares both. It is never null, so that its negation is correct too.
def is_overdue_row(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    has_ended = and_(assignment.c.end_date.is_not(None), assignment.c.end_date < NOW)
    return and_(has_ended, assignment.c.status == AssignmentStatus.PENDING.value, is_running(session))


def is_overdue_by_index(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    """The same rule in a form that uses the indexes by due date: only pending assignments are due."""
    return and_(due_of(assignment) < NOW, is_running(session))


def is_not_overdue_row(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    return ~is_overdue_row(assignment, session)


# --- lists ----------------------------------------------------------------------------------------


class AssignmentOrder(StrEnum):
    NEWEST = "NEWEST"
    DUE_SOONEST = "DUE_SOONEST"


DUE_SOONEST = Order(AssignmentOrder.DUE_SOONEST, "due")
# Every other order is newest first.
ORDERS: dict[str | None, Order] = {AssignmentOrder.DUE_SOONEST: DUE_SOONEST}


@dataclass(frozen=True)
class AssignmentFilter:
    time_state: TimeState | None = None
    status: AssignmentStatus | None = None
    session_id: int | None = None
    client_id: int | None = None
    is_overdue: bool | None = None
    submitted_since: datetime | None = None


def of_status(status: AssignmentStatus | None) -> tuple[tuple[Where, ...], dict[str, object]]:
    """The condition of the assignments of one session, and its parameters."""
    return ((Where(has_status),), {"status": status.value}) if status is not None else ((), {})


has_status = equals("status", text_parameter("status"))
is_in_session = equals("session_id", id_parameter("in_session"))
is_session = equals("id", id_parameter("in_session"))
is_of_client = equals("client_id", id_parameter("of_client"))
is_of_book = equals("book_id", id_parameter("of_book"))


def is_submitted_since(row: FromClause) -> ColumnElement[bool]:
    return row.c.submit_date >= moment_parameter("since")


COUNTERS: dict[AssignmentStatus | None, StoredCounter] = {
    None: lambda session: session.c.assignment_count,
    AssignmentStatus.COMPLETE: lambda session: session.c.completed_assignment_count,
    AssignmentStatus.PENDING: lambda session: (
        session.c.assignment_count - session.c.completed_assignment_count
    ),
}


async def list_my_assignments(
    ctx: Context, filter: AssignmentFilter, page_request: PageRequest, selection: Selection
) -> Page:
    access = ctx.access()
    page_request, counted_by = filtered(page_request, filter)
    steps = list_rows(Assignment, access, page_request, selection, counted_by)
    return await ctx.read("assignments", access, steps)


def filtered(page_request: PageRequest, filter: AssignmentFilter) -> tuple[PageRequest, CountedBy | None]:
    """Each condition on the assignments, and beside it the one on their sessions. The total is the sum of the
    sessions' counters, unless a filter needs the assignments themselves."""
    where: list[Where] = []
    of_sessions: list[Where] = []
    by_due_date = page_request.order is DUE_SOONEST
    if filter.time_state is not None:  # an assignment has the time state of its session
        where.append(Where(IN_TIME_STATE[filter.time_state], via="session"))
        of_sessions.append(Where(IN_TIME_STATE[filter.time_state]))
    if filter.status is not None:
        where.append(Where(has_status))
    if by_due_date and filter.status is AssignmentStatus.PENDING:
        where.append(Where(is_due))  # else the index scan also reads submitted assignments
    if filter.session_id is not None:
        where.append(Where(is_in_session, narrows=True))
        of_sessions.append(Where(is_session, narrows=True))
    if filter.client_id is not None:
        is_in_one = filter.session_id is not None  # then the session index finds the rows
        where.append(Where(is_of_client, "session") if is_in_one else Where(is_of_client, narrows=True))
        of_sessions.append(Where(is_of_client, narrows=True))
    if filter.is_overdue is not None:
        condition = is_overdue_row if filter.is_overdue else is_not_overdue_row
        if by_due_date and filter.is_overdue:
            condition = is_overdue_by_index
        where.append(Where(condition, via="session", beside=True))
    if filter.submitted_since is not None:
        where.append(Where(is_submitted_since))
    values = {
        "status": filter.status,
        "in_session": filter.session_id,
        "of_client": filter.client_id,
        "since": filter.submitted_since,
    }
    is_counted = filter.is_overdue is None and filter.submitted_since is None
    counted_by = CountedBy(Session, COUNTERS[filter.status], tuple(of_sessions)) if is_counted else None
    return page_request._replace(where=tuple(where), values=values), counted_by


async def get_my_assignments(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    """Returns those assignments of `ids` that the viewer may see."""
    access = ctx.access()
    return await ctx.read("assignment", access, get_rows(Assignment, access, ids, selection))


def is_joined(assignment: FromClause) -> ColumnElement[bool]:
    """False for a withdrawn assignment, whose columns are null in the join."""
    return assignment.c.id.is_not(None)


# Leaves out the rows of withdrawn assignments.
NOT_WITHDRAWN = Where(is_joined, via="assignment")


# --- locking --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LockedAssignment:
    id: int
    values: Values  # parameters of the statements about it
    now: datetime
    start_date: datetime
    end_date: datetime | None
    status: AssignmentStatus
    attempt: int
    session_state: TimeState
    other_columns: Sequence[Any]  # what another statement than LOCK_ASSIGNMENT reads besides


def locking_assignment(
    access: AccessScope,
    assignment_id: int | None,
    what: str = "assignment",
    member: str = "assignmentId",
    statement: Statement = LOCK_ASSIGNMENT,
) -> Steps[LockedAssignment]:
    """Raises the same NotFound for a missing and for a foreign assignment."""
    values = {**scope_values(access), "assignment": assignment_id}
    if access.client is not None and (yield DATABASE_KIND)[0] == "citus":
        values = yield from finding_caregiver({**(yield from reading_scope_values(access)), **values})
        if not values["caregivers"]:
            raise NotFound(what, member)
    found = yield statement, values
    if not found:
        raise NotFound(what, member)
    return assignment_of(found[0], values)


def assignment_of(row: Sequence[Any], values: Values) -> LockedAssignment:
    """Of a row of `select_assignment`, perhaps with other columns. Adds the ids of the row to `values`."""
    caregiver, client, session, start, end, status, attempt, is_closed, opens, *others = row
    named = {"caregiver": caregiver, "client": client, "session": session}
    values |= {**named, "assignments": [values["assignment"]]}
    return LockedAssignment(
        id=values["assignment"],
        values=values,
        now=values["now"],
        start_date=known_moment(start),
        end_date=as_moment(end),
        status=AssignmentStatus(status),
        attempt=attempt,
        session_state=time_state(bool(is_closed), known_moment(opens), values["now"]),
        other_columns=others,
    )


def finding_caregiver(values: Values) -> Steps[Values]:
    """Citus locks rows of one caregiver, so the caregiver of the assignment must be the only one."""
    if len(values["caregivers"]) > 1:
        found = yield FIND_CAREGIVER_OF_ASSIGNMENT, values
        return {**values, "caregivers": [row[0] for row in found]}
    return values


def reject_closed(locked: LockedAssignment, member: str = "assignmentId") -> None:
    if locked.session_state is TimeState.COMPLETED:
        raise NotRunning(member, message=CLOSED)


def reject_unless_running(locked: LockedAssignment, member: str = "assignmentId") -> None:
    reject_closed(locked, member)
    if locked.session_state is not TimeState.RUNNING:
        raise NotRunning(member)


def reject_unless_pending(locked: LockedAssignment) -> None:
    if locked.status is not AssignmentStatus.PENDING:
        raise WrongState("the assignment is submitted", "assignmentId")


def reject_unless_complete(locked: LockedAssignment, member: str = "assignmentId") -> None:
    if locked.status is not AssignmentStatus.COMPLETE:
        raise WrongState("the assignment is not submitted", member)


def emitting_event(
    locked: LockedAssignment, event: EventKind, actor: Actor, *changes: tuple[Statement, Values]
) -> Steps[int]:
    """Makes the last changes of the steps and adds the event. Returns the id of the assignment."""
    emitted = (INSERT_ASSIGNMENT_EVENTS, {**locked.values, "event": event, "actor": actor})
    yield Together((*changes, emitted), is_last=True)
    return locked.id
