"""Imports a later recording: applies what has changed in the old service since the last import.

A row that both services have changed is a conflict: it stays as it is here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from app.db.audit.records import About
from app.db.drivers.citus import using_one_connection
from app.db.interchange.change import ChangeRejected, changing_assignment, changing_row
from app.db.interchange.lines import LineRejected
from app.db.interchange.load import completing_import, reading_ids
from app.db.interchange.recorded import (
    ERASED,
    FIND_SESSIONS,
    Fingerprint,
    Key,
    Members,
    RecordedRow,
    StoredRow,
    different_members,
    fingerprint_of,
    members_of,
    reading_imported,
    reading_rows,
    saving_imported,
)
from app.db.interchange.rows import PARENTS, ImportRows
from app.db.session_counters import locking_sessions
from app.db.sql import Bulk, Steps
from app.db.statements.assignments import SKIP_REMINDERS, WITHDRAW
from app.db.statements.sessions import CLOSE_SESSION, SKIP_REMINDERS_OF_SESSION
from app.db.tables import Actor, AssignmentStatus, EventKind, FeedbackStatus
from moving_over.extraction import Recording, is_complete
from moving_over.importer import RecordingIncomplete
from moving_over.recorded_rows import NEEDED, erased_rows, in_batches, recorded_rows
from moving_over.remaining_work import RemainingWork, reading_remaining_work

EVENT = (
    "caregiver_id", "client_id", "session_id", "assignment_id", "kind", "actor", "moment", "hand_over_date",
)  # fmt: skip


@dataclass
class Update:
    """An update in progress, and afterwards what it has done."""

    now: datetime
    base: dict[Key, str]  # fingerprints of the last import
    rows: ImportRows  # new rows
    saved: dict[Key, Fingerprint] = field(default_factory=dict)  # of rows that are as recorded now
    dropped: list[Key] = field(default_factory=list)  # rows that neither service has any more
    events: list[tuple[Any, ...]] = field(default_factory=list)
    added: Counter[str] = field(default_factory=Counter)  # by kind
    changed: Counter[str] = field(default_factory=Counter)
    conflicts: dict[Key, str] = field(default_factory=dict)  # the members that differ, or a reason
    gone: list[Key] = field(default_factory=list)
    erased: int = 0  # rows of erased clients
    remaining: RemainingWork = field(init=False)

    def note(self, key: Key, session: int, event: EventKind) -> None:
        """Notifies subscribers, but not the webhook: the old service has sent its own messages."""
        kind, number = key
        self.rows.sessions.add(session)
        assignment = number if kind == "assignment" else None
        parties = self.rows.known["session"][session] or ()
        self.events.append((*parties, session, assignment, event, Actor.SERVICE, self.now, self.now))

    def about(self) -> About:
        """The changed relationships and rows, for the audit record."""
        of: dict[tuple[int, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for caregiver, client, session, assignment, *_ in self.events:
            name = "sessions" if assignment is None else "assignments"
            of[caregiver, client][name].append(assignment or session)
        return [(caregiver, client, dict(rows)) for (caregiver, client), rows in of.items()]


def updating_from_recording(
    recording: Recording, now: datetime, is_partial: bool, removes_gone: bool
) -> Steps[Update]:
    if any(recording.gaps.values()) and not is_partial:
        raise RecordingIncomplete(recording.gaps)
    yield from using_one_connection()
    update = Update(now, (yield from reading_imported()), (yield from reading_ids()))
    recorded = fingerprints_in(recording)
    erased = erased_rows(recording, update.rows.erased)
    erased |= {key for key, fingerprint in update.base.items() if fingerprint == ERASED}
    changed = {key for key, found in recorded.items() if update.base.get(key) != found} - erased
    update.erased = len(erased & recorded.keys())
    gone = [
        key for key, found in update.base.items()
        if key[0] in ("session", "assignment") and key not in recorded and found != ERASED
    ]  # fmt: skip
    yield from locking(update.rows, recording, [*changed, *gone])
    rows = (row for row in recorded_rows(recording) if row.key in changed)
    for kind, batch in in_batches(rows):
        stored = yield from reading_rows(kind, [row.id for row in batch], recording.zone)
        for row in batch:
            yield from updating_row(update, row, stored.get(row.id))
    for kind in ("assignment", "session"):
        ids = sorted(number for each, number in gone if each == kind)
        stored = yield from reading_rows(kind, ids, recording.zone)
        for number in ids:
            yield from removing(update, (kind, number), stored.get(number), removes_gone)
    yield from completing_import(update.rows)
    yield from saving_imported(update.saved.values(), update.dropped)
    yield Bulk("event", EVENT, update.events)
    update.remaining = yield from reading_remaining_work(recording)
    return update


def fingerprints_in(recording: Recording) -> dict[Key, str]:
    """Of the rows that `recorded_rows` returns."""
    facts = recording.facts
    found: dict[Key, str] = {}
    for kind, needed in NEEDED.items():
        rows = {number: row for number, row in facts[kind].items() if needed in row}
        found |= {(kind, number): fingerprint_of(members_of(kind, row)) for number, row in rows.items()}
    for number, row in facts["assignment"].items():
        if is_complete(facts["session"][row["sessionId"]]):
            found["assignment", number] = row["fingerprint"]
    return found


def locking(rows: ImportRows, recording: Recording, keys: Iterable[Key]) -> Steps[None]:
    """Locks the sessions of the rows before the rows are read, in the order of every other change."""
    assignments = [number for kind, number in keys if kind == "assignment"]
    sessions = {number for kind, number in keys if kind == "session"}
    facts = recording.facts["assignment"]
    sessions |= {facts[each]["sessionId"] for each in assignments if each in facts}
    sessions |= {row[0] for row in (yield FIND_SESSIONS, {"ids": sorted(assignments)})}
    yield from locking_sessions(rows.with_caregivers(sorted(sessions & rows.known["session"].keys())))


# --- added and changed rows -----------------------------------------------------------------------


def updating_row(update: Update, row: RecordedRow, found: StoredRow | None) -> Steps[None]:
    try:
        if found is None:
            add(update, row)
            update.added[row.kind] += 1
        elif found.members != row.members:
            check_unchanged(update, row, found)
            yield from (changing_assignment if row.kind == "assignment" else changing_row)(
                update.rows, row, found
            )
            update.changed[row.kind] += 1
    except (ChangeRejected, LineRejected) as rejection:
        update.conflicts[row.key] = str(rejection)
        return
    update.saved[row.key] = row.fingerprint
    if row.kind in ("session", "assignment") and (found is None or found.members != row.members):
        session = row.id if row.kind == "session" else row.members["sessionId"]
        update.note(row.key, session, event_of(row, found.members if found else None))


def add(update: Update, row: RecordedRow) -> None:
    """Rejects a row whose parent was not imported: its id may be of another thing here."""
    if row.key in update.base:
        raise ChangeRejected("removed here")
    parents = {name: (kind, row.members[name]) for kind, _, name in PARENTS[row.kind]}
    if rejected := [
        name for name, key in parents.items() if not update.base.get(key) and key not in update.saved
    ]:
        raise ChangeRejected(*rejected)
    sets = {record["id"] for record in row.records if record["kind"] == "answer_set"}
    if sets & update.rows.known["answer_set"].keys():
        raise ChangeRejected("answers")  # the id of an answer set that was saved here
    for record in row.records:
        update.rows.add_line(orjson.dumps(record))


def check_unchanged(update: Update, row: RecordedRow, found: StoredRow) -> None:
    here = ["draft"] * found.has_draft + ["withdrawDate"] * found.is_withdrawn
    if here or update.base.get(row.key) != fingerprint_of(found.members):
        raise ChangeRejected(*different_members(row.members, found.members), *here)


def event_of(row: RecordedRow, before: Members | None) -> EventKind:
    """The event of the change that the old service seems to have made."""
    now = row.members
    if before is None:
        return EventKind.SESSION_CREATED if row.kind == "session" else EventKind.ASSIGNED
    if row.kind == "session":
        return EventKind.SESSION_CLOSED if now["isClosed"] > before["isClosed"] else EventKind.SESSION_UPDATED
    if now["feedbackStatus"] == FeedbackStatus.SUBMITTED and now["answers"] == before["answers"]:
        return EventKind.FEEDBACK_GIVEN
    if now["status"] == AssignmentStatus.COMPLETE:
        return EventKind.SUBMITTED
    return EventKind.REOPENED if before["status"] == AssignmentStatus.COMPLETE else EventKind.EXTENDED


# --- rows that are gone ---------------------------------------------------------------------------


def removing(update: Update, key: Key, found: StoredRow | None, is_removed: bool) -> Steps[None]:
    """Withdraws an assignment, or closes a session, that the old service no longer shows."""
    kind, number = key
    if found is None or found.is_withdrawn:
        update.dropped.append(key)
        return
    if found.has_draft or update.base[key] != fingerprint_of(found.members):
        update.conflicts[key] = "gone from the old service, changed here"
        return
    update.gone.append(key)
    if not is_removed:
        return
    update.dropped.append(key)
    if kind == "session" and found.members["isClosed"]:
        return  # closed already, at its own date
    session = number if kind == "session" else found.members["sessionId"]
    caregiver = update.rows.with_caregivers([session])[session]
    values = {"caregiver": caregiver, kind: number, "now": update.now}
    if kind == "session":
        yield CLOSE_SESSION, values
        yield SKIP_REMINDERS_OF_SESSION, values
    else:
        yield WITHDRAW, values
        yield SKIP_REMINDERS, values
    update.note(key, session, EventKind.SESSION_CLOSED if kind == "session" else EventKind.WITHDRAWN)
