"""Locks the assignment that a mutation changes, and its session, until the transaction ends."""

from dataclasses import dataclass
from datetime import datetime

from app.care.errors import CLOSED, NotFound, NotRunning, WrongState
from app.care.sessions.reading import time_state
from app.db.moments import as_moment, known_moment
from app.db.reader.reads import reading_scope_values
from app.db.reader.selection import AccessScope
from app.db.sql import Operation, Values
from app.db.statements.assignments import LOCK_ASSIGNMENT
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS
from app.db.tables import Actor, AssignmentStatus, EventKind, TimeState


@dataclass(frozen=True)
class LockedAssignment:
    values: Values  # parameters of the statements about it
    now: datetime
    book_id: int
    start_date: datetime
    end_date: datetime | None
    status: AssignmentStatus
    attempt: int
    session_state: TimeState


def locking_assignment(
    access: AccessScope, assignment_id: int | None, what: str = "assignment", member: str = "assignmentId"
) -> Operation[LockedAssignment]:
    """Raises the same NotFound for a missing and for a foreign assignment."""
    values = {**(yield from reading_scope_values(access)), "assignment": assignment_id}
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


def refuse_closed(locked: LockedAssignment, member: str = "assignmentId") -> None:
    if locked.session_state is TimeState.COMPLETED:
        raise NotRunning(member, message=CLOSED)


def refuse_unless_running(locked: LockedAssignment, member: str = "assignmentId") -> None:
    refuse_closed(locked, member)
    if locked.session_state is not TimeState.RUNNING:
        raise NotRunning(member)


def refuse_unless_pending(locked: LockedAssignment) -> None:
    if locked.status is not AssignmentStatus.PENDING:
        raise WrongState("the assignment is submitted", "assignmentId")


def refuse_unless_complete(locked: LockedAssignment, member: str = "assignmentId") -> None:
    if locked.status is not AssignmentStatus.COMPLETE:
        raise WrongState("the assignment is not submitted", member)


def emitting_event(locked: LockedAssignment, event: EventKind, actor: Actor) -> Operation[int]:
    """Writes an event of the assignment. Returns the id of the assignment."""
    yield INSERT_ASSIGNMENT_EVENTS, {**locked.values, "event": event, "actor": actor}
    changed: int = locked.values["assignment"]
    return changed
