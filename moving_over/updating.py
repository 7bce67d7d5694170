"""Imports a later recording: applies what has changed in the old service since the last import."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from app.db.drivers.citus import using_one_connection
from app.db.interchange.load import completing_import, reading_ids, reading_users
from app.db.interchange.merge import EVENT, Update, removing, updating_row
from app.db.interchange.recorded import (
    ERASED,
    FIND_CLOSED_SESSIONS,
    FIND_SESSIONS,
    REMOVED,
    Key,
    fingerprint_of,
    members_of,
    reading_imported,
    reading_rows,
    saving_imported,
)
from app.db.interchange.rows import ImportRows
from app.db.session_counters import locking_sessions
from app.db.sql import Bulk, Steps
from app.telemetry.wording import counted
from moving_over import LegacyMigrationError
from moving_over.extraction import Recording, is_complete
from moving_over.importer import RecordingIncomplete, moment_rows
from moving_over.recorded_rows import NEEDED, erased_rows, in_batches, recorded_rows
from moving_over.remaining_work import RemainingWork, reading_remaining_work

MAX_REMOVED, MAX_SHARE = 20, 0.02  # rows, and of a caregiver's rows, that go without --yes-remove


def updating_from_recording(
    recording: Recording, now: datetime, is_partial: bool, removes_gone: bool, confirmed: int
) -> Steps[tuple[Update, RemainingWork]]:
    if recording.is_incomplete and not is_partial:
        raise RecordingIncomplete(recording.gaps)
    yield from using_one_connection()
    update = Update(now, (yield from reading_imported()), (yield from reading_ids()))
    moment, older = moment_rows(recording, update.base)
    recorded = fingerprints_in(recording)
    erased = erased_rows(recording, update.rows.erased)
    erased |= {key for key, fingerprint in update.base.items() if fingerprint == ERASED}
    changed = {key for key, found in recorded.items() if update.base.get(key) != found} - erased
    update.erased = len(erased & recorded.keys())
    gone = [*finding_gone(update, recording, (yield from reading_users()))]
    yield from locking(update.rows, recording, [*changed, *gone])
    closed = {row[0] for row in (yield FIND_CLOSED_SESSIONS, {})}
    sessions = recording.facts["session"]
    update.closed = {each for each in closed if not sessions.get(each, {}).get("isClosed", False)}
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
    if removes_gone and confirmed != len(update.gone):
        check_limit(update)
    yield from completing_import(update.rows)
    yield from saving_imported([*update.saved.values(), *moment], [*update.dropped, *older])
    yield Bulk("event", EVENT, update.events)
    return update, (yield from reading_remaining_work(recording))


def finding_gone(update: Update, recording: Recording, users: dict[Key, str | None]) -> Iterator[Key]:
    """The imported rows that are on no page, if all lists of their person are there."""
    seen = {(role.lower(), each) for role, user in recording.complete for each in recording.users[role][user]}
    names = {(role.lower(), user) for role, user in recording.complete}
    seen |= {(kind, number) for (kind, number), user in users.items() if (kind, user) in names}
    for key, fingerprint in update.base.items():
        kind, number = key
        is_care = kind in ("session", "assignment") and fingerprint != ERASED
        if not is_care or fingerprint.startswith(REMOVED) or recording.has_seen(key):
            continue
        caregiver, client = update.rows.known[kind].get(number) or (0, 0)
        if not caregiver or (("client", client) if kind == "session" else ("caregiver", caregiver)) in seen:
            yield key
        else:
            update.unseen.append(key)


def check_limit(update: Update) -> None:
    """Rejects the removal of more rows than usual, which may be a fault of the old service."""
    rows = {kind: update.rows.known[kind] for kind in ("session", "assignment")}
    total = Counter(parties[0] for of_kind in rows.values() for parties in of_kind.values() if parties)
    gone = Counter(parties[0] for kind, number in update.gone if (parties := rows[kind][number]))
    if len(update.gone) > MAX_REMOVED or any(gone[each] > total[each] * MAX_SHARE for each in gone):
        raise LegacyMigrationError(
            f"{len(update.gone):,} of {total.total():,} rows are gone from the old service, of "
            f"{counted(len(gone), 'caregiver')}; nothing was imported. List them without --remove-gone. "
            f"If people deleted them there, add --yes-remove {len(update.gone)}"
        )


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
