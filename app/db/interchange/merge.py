"""Applies recorded rows to the stored ones.

A row that both services have changed is a conflict: it stays as it is here.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from app.db.audit.records import About
from app.db.interchange.change import (
    TAKEN,
    ChangeRejected,
    changing_assignment,
    changing_row,
    check_fixed,
    event_of,
    removing_row,
    restoring_row,
)
from app.db.interchange.lines import LineRejected
from app.db.interchange.recorded import (
    REMOVED,
    Fingerprint,
    Key,
    RecordedRow,
    StoredRow,
    different_members,
    fingerprint_of,
)
from app.db.interchange.rows import PARENTS, ImportRows
from app.db.sql import Steps
from app.db.tables import Actor, EventKind

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
    unseen: list[Key] = field(default_factory=list)  # rows that are missing with the lists of their person
    closed: set[int] = field(default_factory=set)  # sessions that were closed here

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


# --- added and changed rows -----------------------------------------------------------------------


def updating_row(update: Update, row: RecordedRow, found: StoredRow | None) -> Steps[None]:
    is_equal = found is not None and found.members == row.members and not found.is_withdrawn
    is_removed = update.base.get(row.key, "").startswith(REMOVED)
    try:
        if found is None:
            add(update, row)
            update.added[row.kind] += 1
        elif not is_equal or is_removed:
            check_unchanged(update, row, found)
            if is_removed and not row.members.get("isClosed"):  # a closed session keeps its close date
                yield from restoring_row(row.key, found.caregiver or row.members["caregiverId"])
            yield from (changing_assignment if row.kind == "assignment" else changing_row)(
                update.rows, row, found
            )
            update.changed[row.kind] += 1
    except (ChangeRejected, LineRejected) as rejection:
        update.conflicts[row.key] = str(rejection)
        return
    update.saved[row.key] = row.fingerprint
    if row.kind in ("session", "assignment") and not is_equal:
        session = row.id if row.kind == "session" else row.members["sessionId"]
        before = None if found is None or found.is_withdrawn else found.members
        update.note(row.key, session, event_of(row, before))


def add(update: Update, row: RecordedRow) -> None:
    """Rejects a row whose parent was not imported: its id may be of another thing here."""
    if row.key in update.base:
        raise ChangeRejected("removed here")
    parents = {name: (kind, row.members[name]) for kind, _, name in PARENTS[row.kind]}
    if rejected := [
        name for name, key in parents.items() if not update.base.get(key) and key not in update.saved
    ]:
        raise ChangeRejected(*rejected)
    session = parents.get("sessionId")
    if session and session[1] in update.closed and session not in update.saved:
        raise ChangeRejected("the session was closed here")
    sets = {record["id"] for record in row.records if record["kind"] == "answer_set"}
    if sets & update.rows.known["answer_set"].keys():
        raise ChangeRejected(TAKEN, "answers")
    for record in row.records:
        update.rows.add_line(orjson.dumps(record))


def check_unchanged(update: Update, row: RecordedRow, found: StoredRow) -> None:
    base = update.base.get(row.key, "")
    is_withdrawn = found.is_withdrawn and not base.startswith(REMOVED)
    here = ["draft"] * found.has_draft + ["withdrawDate"] * is_withdrawn
    if here or base.removeprefix(REMOVED) != fingerprint_of(found.members):
        check_fixed(row, found)
        raise ChangeRejected(*different_members(row.members, found.members), *here)


# --- rows that are gone ---------------------------------------------------------------------------


def removing(update: Update, key: Key, found: StoredRow | None, is_removed: bool) -> Steps[None]:
    """Withdraws an assignment, or closes a session, that the old service no longer shows.

    Keeps its fingerprint, with which it is restored if the old service shows it again.
    """
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
    members = {**found.members, "isClosed": True} if kind == "session" else found.members
    caregiver, client = update.rows.known[kind][number] or (0, 0)
    update.saved[key] = (kind, number, client, REMOVED + fingerprint_of(members))
    if found.members == members and kind == "session":
        return  # closed already, at its own date
    session = number if kind == "session" else found.members["sessionId"]
    yield from removing_row(key, caregiver, update.now)
    update.note(key, session, EventKind.SESSION_CLOSED if kind == "session" else EventKind.WITHDRAWN)
