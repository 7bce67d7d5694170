"""Recomputes the assignment counters of sessions, to store them or to compare them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from app.db.reader.access import is_not_withdrawn, is_of_caregiver
from app.db.sql import DATABASE_KIND, Statement, Steps, among, id_parameter
from app.db.tables import ASSIGNMENT, SESSION, AssignmentStatus


def recomputed(caregiver: ColumnElement[int] = SESSION.c.caregiver_id) -> dict[str, ColumnElement[int]]:
    """The counters of the session in the outer statement; `caregiver` is its caregiver."""
    mine = and_(
        ASSIGNMENT.c.session_id == SESSION.c.id,
        ASSIGNMENT.c.caregiver_id == caregiver,
        is_not_withdrawn(ASSIGNMENT),
    )
    complete = and_(mine, ASSIGNMENT.c.status == AssignmentStatus.COMPLETE.value)
    last_complete = select(ASSIGNMENT.c.score).where(complete).order_by(ASSIGNMENT.c.id.desc()).limit(1)
    return {
        "assignment_count": select(func.count()).where(mine).scalar_subquery(),
        "completed_assignment_count": select(func.count()).where(complete).scalar_subquery(),
        "latest_assignment_id": select(func.max(ASSIGNMENT.c.id)).where(mine).scalar_subquery(),
        "last_assignment_score": last_complete.scalar_subquery(),
    }


RECOMPUTED = recomputed()
IS_AMONG_SESSIONS = among(SESSION.c.id, "sessions")
OF_CAREGIVER = id_parameter("caregiver")

# Until the transaction ends, no other transaction changes an assignment of `sessions`.
LOCK = select(SESSION.c.id).order_by(SESSION.c.id).with_for_update()
LOCK_SESSIONS = Statement(LOCK.where(IS_AMONG_SESSIONS))
LOCK_SESSIONS_OF_CAREGIVER = Statement(LOCK.where(IS_AMONG_SESSIONS, is_of_caregiver(SESSION)))
# The sessions must be locked before. PostgreSQL counts on the snapshot at the start of the statement, and
# would miss an assignment that another transaction commits while the statement waits for the lock.
RECOMPUTE_COUNTERS = Statement(update(SESSION).where(IS_AMONG_SESSIONS).values(RECOMPUTED))
RECOMPUTE_COUNTERS_OF_CAREGIVER = Statement(
    update(SESSION).where(IS_AMONG_SESSIONS, is_of_caregiver(SESSION)).values(recomputed(OF_CAREGIVER))
)


def locking_sessions(sessions: Mapping[int, int]) -> Steps[None]:
    """`sessions` are ids with their caregivers."""
    yield from for_sessions(sessions, LOCK_SESSIONS, LOCK_SESSIONS_OF_CAREGIVER)


def recomputing_counters(sessions: Mapping[int, int]) -> Steps[None]:
    yield from for_sessions(sessions, RECOMPUTE_COUNTERS, RECOMPUTE_COUNTERS_OF_CAREGIVER)


def for_sessions(sessions: Mapping[int, int], statement: Statement, of_one: Statement) -> Steps[None]:
    """Citus locks rows of one caregiver at a time."""
    (kind,) = yield DATABASE_KIND
    if kind != "citus":
        yield statement, {"sessions": sorted(sessions)}
        return
    of_caregivers: dict[int, list[int]] = defaultdict(list)
    for session, caregiver in sorted(sessions.items()):
        of_caregivers[caregiver].append(session)
    for caregiver, ids in sorted(of_caregivers.items()):
        yield of_one, {"caregiver": caregiver, "sessions": ids}


FIND_DIFFERENCES = Statement(
    select(SESSION.c.id, *SESSION.c[tuple(RECOMPUTED)], *RECOMPUTED.values())
    .where(or_(*(SESSION.c[name].is_distinct_from(found) for name, found in RECOMPUTED.items())))
    .order_by(SESSION.c.id)
)


@dataclass(frozen=True)
class Difference:
    session_id: int
    name: str
    stored: int | None
    recomputed: int | None


def differences() -> Steps[list[Difference]]:
    """The counters that differ from the assignments of their session."""
    rows = yield FIND_DIFFERENCES, {}
    return [
        Difference(session_id, name, stored, true)
        for session_id, *numbers in rows
        for name, stored, true in zip(RECOMPUTED, numbers[:4], numbers[4:], strict=True)
        if stored != true
    ]
