"""Tombstones: the erased clients, and the accounts that an operator has disabled, or enabled after that.

A backup contains people as they were. Tombstones are kept beside their rows, also for ids that a restored
database does not contain, and are merged and never replaced: so no sequence of restores and imports forgets
one. They have no personal data besides the id.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Boolean, Insert, bindparam, func, null, select, update

from app.db.admin.sequences import skipping_ids
from app.db.drivers.interface import DatabaseError
from app.db.moments import is_storable, known_moment, moment_as_text
from app.db.sql import (
    INSERT,
    DatabaseKind,
    Statement,
    Steps,
    id_parameter,
    moment_parameter,
    only_on_postgresql,
    text_parameter,
)
from app.db.tables import MAX_ID, PEOPLE, TOMBSTONE, TombstoneState

Person = tuple[str, int]  # role and id
ROLES = {kind.upper(): table for kind, table in PEOPLE.items()}
TOMBSTONES_LOCK = 4_207_190_213  # an advisory lock


class Mark(NamedTuple):
    state: TombstoneState
    moment: datetime


Tombstones = Mapping[Person, Mark]


def merged(*several: Tombstones) -> dict[Person, Mark]:
    found: dict[Person, Mark] = {}
    for tombstones in several:
        for person, mark in tombstones.items():
            found[person] = decisive(mark, found.get(person, mark))
    return found


def decisive(one: Mark, other: Mark) -> Mark:
    """The first erasure, or else the last decision."""
    if erased := [mark for mark in (one, other) if mark.state is TombstoneState.ERASED]:
        return min(erased, key=lambda mark: mark.moment)
    return max(one, other, key=lambda mark: (mark.moment, mark.state is TombstoneState.DISABLED))


def people_in(tombstones: Tombstones, state: TombstoneState, role: str = "CLIENT") -> set[int]:
    return {id for (each, id), mark in tombstones.items() if (each, mark.state) == (role, state)}


# --- in the database ------------------------------------------------------------------------------


def save_tombstone(kind: DatabaseKind) -> Insert:
    """An erasure stays."""
    values = {
        "role": text_parameter("role"),
        "id": id_parameter("person"),
        "state": text_parameter("state"),
        "moment": moment_parameter("moment"),
    }
    added = INSERT[kind](TOMBSTONE).values(values)
    later = func.max if kind == "sqlite" else func.greatest
    return added.on_conflict_do_update(
        index_elements=["role", "id"],
        set_={  # a clock that was ahead must not let an earlier decision win a merge
            "state": added.excluded.state,
            "moment": later(TOMBSTONE.c.moment, added.excluded.moment),
        },
        where=TOMBSTONE.c.state != TombstoneState.ERASED.value,
    )


# An import checks its lines against the tombstones from before them: it and an erasure wait for each other.
LOCK_TOMBSTONES = only_on_postgresql(f"SELECT pg_advisory_xact_lock({TOMBSTONES_LOCK})")
FIND_TOMBSTONES = Statement(select(*TOMBSTONE.c["role", "id", "state", "moment"]))
SAVE_TOMBSTONE = Statement(save_tombstone)


def tombstones_of(rows: Iterable[tuple[str, int, str, datetime | str]]) -> dict[Person, Mark]:
    return {(role, id): Mark(TombstoneState(state), known_moment(moment)) for role, id, state, moment in rows}


def reading_tombstones() -> Steps[dict[Person, Mark]]:
    return tombstones_of((yield FIND_TOMBSTONES, {}))


def saving_tombstone(role: str, person: int, mark: Mark) -> Steps[None]:
    yield SAVE_TOMBSTONE, {"role": role, "person": person, "state": mark.state, "moment": mark.moment}


def merging_tombstones(given: Tombstones) -> Steps[dict[Person, Mark]]:
    """Adds tombstones, and returns all. No new person gets an id of one."""
    yield LOCK_TOMBSTONES, {}
    stored = yield from reading_tombstones()
    found = merged(stored, given)
    for (role, person), mark in sorted(found.items()):
        if stored.get((role, person)) != mark:
            yield from saving_tombstone(role, person, mark)
    for role, table in ROLES.items():
        if ids := [person for each, person in found if each == role]:
            yield from skipping_ids(table.name, max(ids))
    return found


def finding_contradictions(tombstones: Tombstones) -> Steps[dict[tuple[TombstoneState, str], list[int]]]:
    """The people who are not as their tombstones say, by the state that they should have, and by role."""
    people: dict[tuple[TombstoneState, str], list[int]] = {
        (state, role): [] for state in TombstoneState for role in ROLES
    }
    for role, table in ROLES.items():
        find = select(table.c.id, table.c.is_disabled, table.c.get("erase_date", null()))
        for person, is_disabled, erase_date in (yield Statement(find.order_by(table.c.id)), {}):
            found = TombstoneState.DISABLED if is_disabled else TombstoneState.ENABLED
            mark = tombstones.get((role, person))
            if mark is not None and erase_date is None and mark.state is not found:
                people[mark.state, role].append(person)
    return people


def switching(role: str, person: int, is_disabled: bool) -> Steps[None]:
    """Disables or enables an account."""
    table = ROLES[role]
    switched = update(table).values(is_disabled=bindparam("is_disabled", type_=Boolean))
    is_person = table.c.id == id_parameter("person")
    yield Statement(switched.where(is_person)), {"person": person, "is_disabled": is_disabled}


# --- in a file ------------------------------------------------------------------------------------
#
# A line has a role, an id, a state and a moment. A line of `erase --list` has the id of an erased client, and
# perhaps a moment.


def as_lines(tombstones: Tombstones) -> str:
    return "".join(
        f"{role.lower()}\t{person}\t{mark.state.lower()}\t{moment_as_text(mark.moment)}\n"
        for (role, person), mark in sorted(tombstones.items())
    )


def read_lines(name: str, lines: Iterable[str], now: datetime) -> dict[Person, Mark]:
    found: dict[Person, Mark] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                person, mark = read_line(line.strip().split("\t"), now)
            except (ValueError, OverflowError):
                text = "must be a client id, or a line of `tombstones save`"
                raise DatabaseError(f"{name}, line {number}: {text}") from None
            found = merged(found, {person: mark})
    return found


def read_line(words: list[str], now: datetime) -> tuple[Person, Mark]:
    """Raises ValueError."""
    if len(words) < 3:
        words = ["client", words[0], "erased", *(words[1:] or [moment_as_text(now)])]
    role, person, state, text = words
    mark = Mark(TombstoneState(state.upper()), datetime.fromisoformat(text))
    is_id = person.isascii() and person.isdigit() and int(person) < MAX_ID
    is_moment = mark.moment.tzinfo is not None and is_storable(mark.moment)
    if not (is_id and is_moment and role.upper() in ROLES):
        raise ValueError
    if mark.state is TombstoneState.ERASED and role != "client":
        raise ValueError
    return (role.upper(), int(person)), mark
