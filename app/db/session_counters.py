"""The numbers that sessions keep of their assignments, recomputed: to set them, or to compare."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import table_of
from app.db.sql import DatabaseKind, Operation, Statement, among
from app.db.tables import Assignment, AssignmentStatus, Session

SESSION = table_of(Session)
ASSIGNMENT = table_of(Assignment)
KEPT = ("assignment_count", "completed_assignment_count", "latest_assignment_id", "last_assignment_score")


def recomputed(caregiver: ColumnElement[int] = SESSION.c.caregiver_id) -> dict[str, ColumnElement[int]]:
    """Of one session, or of all; whoever knows the caregiver names them, as every statement has to."""
    mine = and_(
        ASSIGNMENT.c.session_id == SESSION.c.id,
        ASSIGNMENT.c.caregiver_id == caregiver,
        ASSIGNMENT.c.withdraw_date.is_(None),
    )
    complete = and_(mine, ASSIGNMENT.c.status == AssignmentStatus.COMPLETE.value)
    last_complete = select(ASSIGNMENT.c.score).where(complete).order_by(ASSIGNMENT.c.id.desc()).limit(1)
    return {
        "assignment_count": select(func.count()).where(mine).scalar_subquery(),
        "completed_assignment_count": select(func.count()).where(complete).scalar_subquery(),
        "latest_assignment_id": select(func.max(ASSIGNMENT.c.id)).where(mine).scalar_subquery(),
        "last_assignment_score": last_complete.scalar_subquery(),
    }


def lock_sessions(kind: DatabaseKind) -> ClauseElement:
    """Until the transaction ends no other transaction changes an assignment of `sessions`."""
    rows = select(SESSION.c.id).where(among(SESSION.c.id, "sessions", kind))
    return rows.order_by(SESSION.c.id).with_for_update()


def set_kept(kind: DatabaseKind) -> ClauseElement:
    """Of `sessions`, which have to be locked: PostgreSQL counts on the snapshot with which the statement
    began. It would miss an assignment that another transaction commits while the statement waits."""
    return update(SESSION).where(among(SESSION.c.id, "sessions", kind)).values(recomputed())


def find_differences(kind: DatabaseKind) -> ClauseElement:
    found = recomputed()
    differ = or_(*(SESSION.c[name].is_distinct_from(found[name]) for name in KEPT))
    return (
        select(SESSION.c.id, *(SESSION.c[name] for name in KEPT), *(found[name] for name in KEPT))
        .where(differ)
        .order_by(SESSION.c.id)
    )


LOCK_SESSIONS = Statement(lock_sessions)
SET_KEPT = Statement(set_kept)
FIND_DIFFERENCES = Statement(find_differences)


@dataclass(frozen=True)
class Difference:
    session_id: int
    name: str
    kept: int | None
    recomputed: int | None


def differences() -> Operation[list[Difference]]:
    """Where a session's kept numbers are not what its assignments say."""
    rows = yield FIND_DIFFERENCES, {}
    return [
        Difference(session_id, name, kept, true)
        for session_id, *numbers in rows
        for name, kept, true in zip(KEPT, numbers[:4], numbers[4:], strict=True)
        if kept != true
    ]
