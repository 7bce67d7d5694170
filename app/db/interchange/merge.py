"""Applies recorded rows to the stored ones.

A row that both services have changed is a conflict: it stays as it is here, until an operator decides.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson

from app.db.audit.records import About
from app.db.facts import ERASED_PREFIX, is_erased_text
from app.db.interchange.change import (
    CHANGE_IDENTIFIER,
    REMOVE,
    RESTORE,
    TAKEN,
    ChangeRejected,
    changing_assignment,
    changing_row,
    check_fixed,
    different_fixed,
    event_of,
    new_submissions,
    renumbering,
)
from app.db.interchange.import_format import LineRejected
from app.db.interchange.recorded import (
    CONFLICT,
    FOREIGN,
    KEPT,
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
from app.telemetry.wording import OperatorError, counted

MAX_REMOVED, MAX_SHARE = 20, 0.02  # rows, and of a caregiver's rows, that go without --yes-remove
EVENT = (
    "caregiver_id", "client_id", "session_id", "assignment_id", "kind", "actor", "moment", "hand_over_date",
)  # fmt: skip


class Choice(StrEnum):
    """What an operator decides about a conflict."""

    TAKE_OLD = "take-old"
    KEEP_HERE = "keep-here"


@dataclass
class Update:
    """An update in progress, and afterwards what it has done."""

    now: datetime
    base: dict[Key, str]  # fingerprints of the last import
    rows: ImportRows  # new rows
    choices: dict[Key, Choice] = field(default_factory=dict)
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

    def marks(self) -> list[Fingerprint]:
        """Of the conflicts, which `legacy ready` counts."""
        return [(CONFLICT + kind, number, None, "") for kind, number in self.conflicts]

    def check_limit(self) -> None:
        """Rejects the removal of more rows than usual, which may be a fault of the old service."""
        rows = {kind: self.rows.known[kind] for kind in ("session", "assignment")}
        total = Counter(parties[0] for of_kind in rows.values() for parties in of_kind.values() if parties)
        gone = Counter(parties[0] for kind, number in self.gone if (parties := rows[kind][number]))
        if len(self.gone) > MAX_REMOVED or any(gone[each] > total[each] * MAX_SHARE for each in gone):
            raise OperatorError(
                f"{len(self.gone):,} of {total.total():,} rows are gone from the old service, of "
                f"{counted(len(gone), 'caregiver')}; nothing was imported. List them without --remove-gone. "
                f"If people deleted them there, add --yes-remove {len(self.gone)}"
            )

    def about(self) -> About:
        """The changed relationships and rows, for the audit record."""
        of: dict[tuple[int, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for caregiver, client, session, assignment, *_ in self.events:
            name = "sessions" if assignment is None else "assignments"
            of[caregiver, client][name].append(assignment or session)
        return [(caregiver, client, dict(rows)) for (caregiver, client), rows in of.items()]


# --- added and changed rows -----------------------------------------------------------------------


def updating_row(update: Update, row: RecordedRow, found: StoredRow | None) -> Steps[None]:
    choice, recorded = update.choices.get(row.key), row.fingerprint
    if choice is Choice.KEEP_HERE:
        is_foreign = found is not None and different_fixed(row, found)
        update.saved[row.key] = marked(recorded, FOREIGN if is_foreign else KEPT)
        return
    is_equal = found is not None and found.members == row.members and not found.is_withdrawn
    is_removed = update.base.get(row.key, "").startswith(REMOVED)
    is_reopened = found is not None and has_reopened_submission(update, row, found)
    try:
        if choice is Choice.TAKE_OLD and row.kind == "assignment":
            row = yield from renumbering(update.rows, row, found)
        if found is None:
            add(update, row)
            update.added[row.kind] += 1
        elif not is_equal or is_removed or is_reopened:
            yield from writing_over(update, row, found, is_removed)
            update.changed[row.kind] += 1
    except (ChangeRejected, LineRejected) as rejection:
        update.conflicts[row.key] = str(rejection)
        return
    update.saved[row.key] = recorded if row.fingerprint == recorded else marked(recorded, KEPT)
    if row.kind in ("session", "assignment") and (not is_equal or is_reopened):
        session = row.id if row.kind == "session" else row.members["sessionId"]
        before = None if found is None or found.is_withdrawn else found.members
        update.note(row.key, session, EventKind.REOPENED if is_reopened else event_of(row, before))


def has_reopened_submission(update: Update, row: RecordedRow, found: StoredRow) -> bool:
    """A submission since the last recording that was reopened, so that the row is as it was before."""
    new, newest = new_submissions(row, found), max(found.sets, default=0)
    is_known = update.base.get(row.key) == row.fingerprint[3]
    return is_known and bool(new) and all(each["id"] > newest for each in new)


def releasing_identifiers(
    update: Update, rows: Sequence[RecordedRow], stored: dict[int, StoredRow]
) -> Steps[None]:
    """Clients may exchange identifiers. Before the changes, gives each of these clients a temporary one that
    no other client can have. A client whose new identifier is taken keeps its own."""
    unique = update.rows.unique["client", "opptId"]
    former = {
        each.id: stored[each.id].members["opptId"]
        for each in rows
        if changes_identifier(update, each, stored)
    }
    kept = set(former)
    while kept:  # an identifier that one client keeps is taken for the others
        takers = [each for each in rows if each.id in former or each.id not in stored]
        wanted = Counter(each.members["opptId"] for each in takers)
        taken = {each for each in wanted if wanted[each] > 1 or is_erased_text(each)}
        taken |= unique & wanted.keys() - set(former.values())
        kept = {each.id for each in takers if each.members["opptId"] in taken} & former.keys()
        former = {number: value for number, value in former.items() if number not in kept}
    for number, value in former.items():
        if value in wanted:
            yield CHANGE_IDENTIFIER, {"row": number, "oppt_id": f"{ERASED_PREFIX}{number}"}
            unique.discard(value)


def changes_identifier(update: Update, row: RecordedRow, stored: dict[int, StoredRow]) -> bool:
    if row.id not in stored or (here := stored[row.id].members)["opptId"] == row.members["opptId"]:
        return False
    choice, base = update.choices.get(row.key), update.base.get(row.key)
    return choice is Choice.TAKE_OLD or (choice is None and base == fingerprint_of(here))


def writing_over(update: Update, row: RecordedRow, found: StoredRow, is_removed: bool) -> Steps[None]:
    is_chosen = row.key in update.choices
    if not is_chosen:
        check_unchanged(update, row, found)
    is_closed = row.members.get("isClosed")  # and keeps its close date
    change = changing_assignment if row.kind == "assignment" else changing_row
    yield from change(update.rows, row, found)  # first, because it may reject the row
    if row.kind in RESTORE and (is_removed or is_chosen) and not is_closed:
        caregiver = found.caregiver or row.members["caregiverId"]
        yield RESTORE[row.kind], {"row": row.id, "caregiver": caregiver}


def marked(recorded: Fingerprint, mark: str) -> Fingerprint:
    kind, number, client, fingerprint = recorded
    return kind, number, client, mark + fingerprint


def add(update: Update, row: RecordedRow) -> None:
    """Rejects a row whose parent was not imported: its id may be of another thing here."""
    is_chosen = row.key in update.choices
    if row.key in update.base and not is_chosen:
        raise ChangeRejected("removed here")
    parents = {name: (kind, row.members[name]) for kind, _, name in PARENTS[row.kind]}
    if rejected := [
        name for name, key in parents.items() if key not in update.saved and not is_imported(update, key)
    ]:
        raise ChangeRejected(*rejected)
    session = parents.get("sessionId")
    if session and session[1] in update.closed and session not in update.saved and not is_chosen:
        raise ChangeRejected("the session was closed here")
    sets = {record["id"] for record in row.records if record["kind"] == "answer_set"}
    if sets & update.rows.known["answer_set"].keys():
        raise ChangeRejected(TAKEN, "answers")
    for record in row.records:
        update.rows.add_line(orjson.dumps(record))


def is_imported(update: Update, key: Key) -> bool:
    fingerprint = update.base.get(key)
    return bool(fingerprint) and not str(fingerprint).startswith(FOREIGN)


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
    choice = update.choices.get(key)
    base = update.base.get(key, "")
    if found is None or found.is_withdrawn or base.startswith(FOREIGN):
        update.dropped.append(key)
        return
    caregiver, client = update.rows.known[kind][number] or (0, 0)
    if choice is Choice.KEEP_HERE:
        update.saved[key] = (kind, number, client, KEPT)
        return
    is_changed = found.has_draft or base != fingerprint_of(found.members)
    if is_changed and choice is None:
        update.conflicts[key] = "gone from the old service, changed here"
        return
    update.gone.append(key)
    if not is_removed:
        return
    members = {**found.members, "isClosed": True} if kind == "session" else found.members
    update.saved[key] = (kind, number, client, REMOVED + fingerprint_of(members))
    if found.members == members and kind == "session":
        return  # closed already, at its own date
    session = number if kind == "session" else found.members["sessionId"]
    for statement in REMOVE[kind]:
        yield statement, {"caregiver": caregiver, kind: number, "now": update.now}
    update.note(key, session, EventKind.SESSION_CLOSED if kind == "session" else EventKind.WITHDRAWN)
