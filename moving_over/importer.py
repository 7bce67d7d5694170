"""Imports a recording in one transaction, and later ones: what has changed since the last import."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import orjson

from app.care.context import Role
from app.db.interchange.load import (
    beginning_import,
    completing_import,
    importing_numbered,
    inserting_rows,
    reading_ids,
    reading_users,
)
from app.db.interchange.merge import EVENT, Choice, Update, releasing_identifiers, removing, updating_row
from app.db.interchange.recorded import (
    CONFLICT,
    ERASED,
    FIND_CARE_IDS,
    FIND_CLOSED_SESSIONS,
    FIND_SESSIONS,
    KEPT,
    REMOVED,
    Key,
    StoredRow,
    decided,
    fingerprint_of,
    in_batches,
    members_of,
    reading_imported,
    reading_rows,
    replacing_moment,
    saving_imported,
)
from app.db.interchange.rows import ImportRows
from app.db.session_counters import locking_sessions
from app.db.sql import Bulk, Steps
from app.db.statements.switch import SwitchState, reading_switch, saving_switch
from moving_over import LegacyMigrationError
from moving_over.extraction import Gap, Recording, is_complete
from moving_over.recorded_rows import (
    NEEDED,
    RemainingWork,
    reading_erased,
    reading_remaining_work,
    recorded_rows,
)

INCOMPLETE = "the recording is incomplete; nothing was imported (--partial imports the rest)"
DECLARED = "the switch was declared, so people use this service; nothing was imported (legacy switch --back)"


def importing_recording(
    recording: Recording, is_partial: bool
) -> Steps[tuple[dict[str, int], RemainingWork]]:
    yield from checking_switch()
    yield from beginning_import()
    here = {row[0] for row in (yield FIND_CARE_IDS["session"], {})}
    if known := here & recording.facts["session"].keys():
        raise LegacyMigrationError(
            f"session {min(known)} is in the database already: was this recording imported before? "
            "Nothing was imported"
        )
    stored: dict[str, dict[int, StoredRow]] = {}
    users = yield from reading_users()
    base = yield from reading_imported()
    erased = yield from reading_erased(recording, base)
    for kind in ("caregiver", "client", "module", "book"):
        stored[kind] = yield from reading_rows(kind, recording.facts[kind], recording.zone)
        compare_with_stored(recording, kind, stored[kind], users, erased)
    if recording.is_incomplete and not is_partial:
        raise LegacyMigrationError(INCOMPLETE)
    fingerprints, older = replacing_moment(recording.moments, base)

    def lines() -> Iterator[tuple[int, bytes]]:
        for row in recorded_rows(recording):
            if row.key in erased:
                continue
            fingerprints.append(row.fingerprint)
            if row.id not in stored.get(row.kind, ()):  # stored people, modules and books stay as they are
                for record in row.records:
                    yield row.line, orjson.dumps(record)

    counts = yield from importing_numbered(lines())
    yield from saving_imported(fingerprints, older)
    if not here:  # else the service is in use already
        yield from saving_switch(SwitchState.WAITING)
    return counts, (yield from reading_remaining_work(recording))


def checking_switch() -> Steps[None]:
    if (yield from reading_switch()) is SwitchState.DECLARED:
        raise LegacyMigrationError(DECLARED)


def compare_with_stored(
    recording: Recording,
    kind: str,
    stored: dict[int, StoredRow],
    users: dict[Key, str | None],
    erased: set[Key],
) -> None:
    """Stored values are kept. `account link` adds a missing account, the import does not."""
    for number, row in sorted(stored.items()):
        if (kind, number) in erased:
            continue
        user = users.get((kind, number))
        here = row.members if user is None else {**row.members, "userName": user}
        for name, value in recording.facts[kind][number].items():
            if name in here and here[name] != value:
                text = f"{kind} {number}: {name} is different in the database, which keeps its value"
                recording.report(Gap.CONTRADICTION, text)


def updating_from_recording(
    recording: Recording, now: datetime, is_partial: bool, removes_gone: bool, confirmed: int
) -> Steps[tuple[Update, RemainingWork]]:
    if recording.is_incomplete and not is_partial:
        raise LegacyMigrationError(INCOMPLETE)
    update = yield from applying(recording, now, {}, removes_gone)
    if removes_gone and confirmed != len(update.gone):
        update.check_limit()
    return update, (yield from reading_remaining_work(recording))


def deciding(recording: Recording, now: datetime, choices: dict[Key, Choice]) -> Steps[Update]:
    """Applies what an operator has decided about conflicts, and nothing else."""
    update = yield from applying(recording, now, choices, removes_gone=True)
    users = yield from reading_users()
    for (kind, number), choice in choices.items():
        user = recording.facts[kind].get(number, {}).get("userName")
        if choice is Choice.TAKE_OLD and user not in (None, users.get((kind, number))):
            update.conflicts[kind, number] = (
                "userName stays: `account link` adds a missing one, else keep-here"
            )
    if reasons := [f"{kind}:{number}: {reason}" for (kind, number), reason in update.conflicts.items()]:
        raise LegacyMigrationError("\n".join([*reasons, "nothing was changed"]))
    return update


def applying(
    recording: Recording, now: datetime, choices: dict[Key, Choice], removes_gone: bool
) -> Steps[Update]:
    """Applies all changes, or those with choices."""
    yield from checking_switch()
    yield from beginning_import()
    update = Update(now, (yield from reading_imported()), (yield from reading_ids()), choices)
    moment, older = replacing_moment(recording.moments, update.base)
    recorded = fingerprints_in(recording)
    erased = yield from reading_erased(recording, update.base)
    changed = {key for key, found in recorded.items() if decided(update.base.get(key, "")) != found}
    changed = (changed | finding_reopened(update, recording)) - erased
    update.erased = len(erased & recorded.keys())
    gone = {*finding_gone(update, recording, (yield from reading_users()))}
    marks = [key for key in update.base if key[0].startswith(CONFLICT)]
    if choices:
        changed, gone = choices.keys() & recorded.keys() - erased, gone & choices.keys()
        if unknown := sorted(choices.keys() - changed - gone):
            kind, number = unknown[0]
            raise LegacyMigrationError(f"{kind}:{number} is neither in this recording nor here")
        moment, older, marks = [], [], [(CONFLICT + kind, number) for kind, number in choices]
    yield from locking(update.rows, recording, [*changed, *gone])
    closed = {row[0] for row in (yield FIND_CLOSED_SESSIONS, {})}
    sessions = recording.facts["session"]
    update.closed = {each for each in closed if not sessions.get(each, {}).get("isClosed", False)}
    rows = (row for row in recorded_rows(recording) if row.key in changed)
    for kind, batch in in_batches(rows):
        yield from inserting_rows(update.rows)  # a changed book may refer to a new module
        stored = yield from reading_rows(kind, [row.id for row in batch], recording.zone)
        if kind == "client":
            yield from releasing_identifiers(update, batch, stored)
        for row in batch:
            yield from updating_row(update, row, stored.get(row.id))
    for kind in ("assignment", "session"):
        ids = sorted(number for each, number in gone if each == kind)
        stored = yield from reading_rows(kind, ids, recording.zone)
        for number in ids:
            yield from removing(update, (kind, number), stored.get(number), removes_gone)
    yield from completing_import(update.rows)
    saved = [*update.saved.values(), *moment, *update.marks()]
    yield from saving_imported(saved, [*update.dropped, *older, *marks])
    yield Bulk("event", EVENT, update.events)
    return update


def finding_reopened(update: Update, recording: Recording) -> set[Key]:
    """The assignments that have submissions which are not here, and are equal otherwise."""
    known = update.rows.known["answer_set"].keys()
    return {
        key
        for number, row in recording.facts["assignment"].items()
        if update.base.get(key := ("assignment", number)) == row["fingerprint"] and {*row["sets"]} - known
    }


def finding_gone(update: Update, recording: Recording, users: dict[Key, str | None]) -> Iterator[Key]:
    """The imported rows that are on no page, if all lists of their person are there."""
    seen = {
        (role.lower(), number)
        for role in Role
        for number, user in recording.user_names(role).items()
        if (role, user) in recording.complete
    }
    shown = {(role.lower(), user): recording.users[role][user] for role, user in recording.complete}
    for (kind, number), user in users.items():
        people = shown.get((kind, user or ""))
        if people is not None and (not people or number in people):  # the name may be of another person now
            seen.add((kind, number))
    for key in update.base.keys() | update.choices.keys():
        (kind, number), fingerprint = key, update.base.get(key, "only here")
        is_care = kind in ("session", "assignment") and fingerprint not in (ERASED, KEPT)
        if not is_care or fingerprint.startswith(REMOVED) or recording.has_seen(key):
            continue
        caregiver, client = update.rows.known[kind].get(number) or (0, 0)
        if not caregiver and key not in update.base:
            continue
        if not caregiver or (("client", client) if kind == "session" else ("caregiver", caregiver)) in seen:
            yield key
        else:
            update.unseen.append(key)


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
