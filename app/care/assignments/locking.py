"""The assignment that a change is about: held, with its session, until the transaction ends."""

from dataclasses import dataclass
from datetime import datetime

from app.care.errors import NotFound, NotRunning, WrongState
from app.care.sessions.reading import time_state
from app.db.reader.entities import as_moment, known_moment
from app.db.reader.reads import seen_from
from app.db.reader.selection import AccessScope
from app.db.sql import Operation, Values
from app.db.statements.assignments import LOCK_ASSIGNMENT
from app.db.tables import AssignmentStatus, TimeState

CLOSED = "the session is closed"


@dataclass(frozen=True)
class LockedAssignment:
    values: Values  # what the statements about it compare with
    now: datetime
    book_id: int
    start_date: datetime
    end_date: datetime | None
    status: AssignmentStatus
    attempt: int
    session_state: TimeState


def holding(
    access: AccessScope, assignment_id: int | None, what: str = "assignment", member: str = "assignmentId"
) -> Operation[LockedAssignment]:
    """Not there and not the viewer's are the same."""
    values = {**(yield from seen_from(access)), "assignment": assignment_id}
    found = yield LOCK_ASSIGNMENT[access.role], values
    if not found:
        raise NotFound(what, member)
    caregiver, client, session, book, start, end, status, attempt, is_closed, opens = found[0]
    values |= {"caregiver": caregiver, "client": client, "session": session, "assignments": [assignment_id]}
    return LockedAssignment(
        values=values,
        now=access.now,
        book_id=book,
        start_date=known_moment(start),
        end_date=as_moment(end),
        status=AssignmentStatus(status),
        attempt=attempt,
        session_state=time_state(bool(is_closed), known_moment(opens), access.now),
    )


def refuse_closed(held: LockedAssignment, member: str = "assignmentId") -> None:
    if held.session_state is TimeState.COMPLETED:
        raise NotRunning(member, message=CLOSED)


def refuse_unless_running(held: LockedAssignment, member: str = "assignmentId") -> None:
    refuse_closed(held, member)
    if held.session_state is not TimeState.RUNNING:
        raise NotRunning(member)


def refuse_unless_pending(held: LockedAssignment) -> None:
    if held.status is not AssignmentStatus.PENDING:
        raise WrongState("the assignment is submitted", "assignmentId")


def refuse_unless_complete(held: LockedAssignment, member: str = "assignmentId") -> None:
    if held.status is not AssignmentStatus.COMPLETE:
        raise WrongState("the assignment is not submitted", member)
