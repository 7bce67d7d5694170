"""Recomputes the assignment counters of sessions, to store them or to compare them."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from app.db.sql import Operation, Statement, among
from app.db.tables import Assignment, AssignmentStatus, Session, table_of

SESSION = table_of(Session)
ASSIGNMENT = table_of(Assignment)
COUNTERS = ("assignment_count", "completed_assignment_count", "latest_assignment_id", "last_assignment_score")


def recomputed(caregiver: ColumnElement[int] = SESSION.c.caregiver_id) -> dict[str, ColumnElement[int]]:
    """The counters of the session in the outer statement; `caregiver` is its caregiver."""
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


# Until the transaction ends, no other transaction changes an assignment of `sessions`.
LOCK_SESSIONS = Statement(
    select(SESSION.c.id).where(among(SESSION.c.id, "sessions")).order_by(SESSION.c.id).with_for_update()
)
# The sessions must be locked before. PostgreSQL counts on the snapshot at the start of the statement, and
# would miss an assignment that another transaction commits while the statement waits for the lock.
RECOMPUTE_COUNTERS = Statement(update(SESSION).where(among(SESSION.c.id, "sessions")).values(recomputed()))


def find_differences() -> Statement:
    found = recomputed()
    columns = (*(SESSION.c[name] for name in COUNTERS), *(found[name] for name in COUNTERS))
    differ = or_(*(SESSION.c[name].is_distinct_from(found[name]) for name in COUNTERS))
    return Statement(select(SESSION.c.id, *columns).where(differ).order_by(SESSION.c.id))


FIND_DIFFERENCES = find_differences()


@dataclass(frozen=True)
class Difference:
    session_id: int
    name: str
    stored: int | None
    recomputed: int | None


def differences() -> Operation[list[Difference]]:
    """The counters that differ from the assignments of their session."""
    rows = yield FIND_DIFFERENCES, {}
    return [
        Difference(session_id, name, stored, true)
        for session_id, *numbers in rows
        for name, stored, true in zip(COUNTERS, numbers[:4], numbers[4:], strict=True)
        if stored != true
    ]
