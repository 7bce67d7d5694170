"""Rows that come from a recording of the old service: how both sides are compared, and their fingerprints."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import Boolean, DateTime, delete, select, update

from app.db.answers import read_answers
from app.db.facts import erased_texts, facts_of, member_of
from app.db.moments import is_storable, known_moment
from app.db.reader.access import is_final
from app.db.sql import Bulk, Statement, Steps, among, id_parameter, text_parameter
from app.db.tables import ANSWER_SET, ASSIGNMENT, IMPORTED_ROW, LINE_TABLES, SESSION, AssignmentStatus
from app.telemetry.wording import OperatorError

BATCH = 500  # rows in memory; some have long texts
LOCAL_TIME = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2}) ([0-9]{2}):([0-9]{2})")
ERASED = ""  # the fingerprint of a row of an erased client
REMOVED = "removed "  # before the fingerprint of a row that an update has removed here
# Before the fingerprint that an operator has decided not to take, because the row here stays, or because it
# is of another thing. Without a fingerprint: the row stays, although it is gone from the old service.
KEPT, FOREIGN = "kept ", "foreign "
CONFLICT = "conflict "  # before the kind of a row that both services have changed, until it is decided
MOMENT = "recording"  # the kind of a row whose id is the moment of the newest recording, in seconds
Key = tuple[str, int]  # kind and id
Members = dict[str, Any]  # with the names of the legacy paths
Fingerprint = tuple[str, int, int | None, str]  # kind, id, client and fingerprint of a row

# By kind: the members that recordings contain, with their columns.
COLUMNS = {
    kind: {member_of(each): each.name for each in table.columns if facts_of(each).recorded}
    for kind, table in LINE_TABLES.items()
    if any(facts_of(each).recorded for each in table.columns)
}
# Of an assignment, beside its members.
MORE_COLUMNS = ("caregiver_id", "attempt", "withdraw_date")


def fingerprint_of(members: Members) -> str:
    return blake2b(orjson.dumps(members, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def members_of(kind: str, facts: Members) -> Members:
    return {name: facts[name] for name in COLUMNS[kind]}


def different_members(one: Members, other: Members) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def decided(fingerprint: str) -> str:
    """The recorded fingerprint that needs no decision."""
    return fingerprint.removeprefix(KEPT).removeprefix(FOREIGN)


@dataclass(frozen=True)
class RecordedRow:
    line: int  # of the recording
    kind: str
    id: int
    client: int | None
    members: Members  # of an assignment with the answers of its current attempt
    records: list[Members]  # for `import`

    @property
    def key(self) -> Key:
        return self.kind, self.id

    @property
    def fingerprint(self) -> Fingerprint:
        return self.kind, self.id, self.client, fingerprint_of(self.members)


@dataclass
class StoredRow:
    members: Members  # in the form of a recording
    caregiver: int | None = None  # of an assignment, like the following
    attempt: int = 1
    is_withdrawn: bool = False
    has_draft: bool = False
    sets: dict[int, int] = field(default_factory=dict)  # submissions with their attempts


# --- fingerprints ---------------------------------------------------------------------------------

FIND_IMPORTED = Statement(select(*IMPORTED_ROW.c["kind", "id", "fingerprint"]))
DROP_IMPORTED = Statement(
    delete(IMPORTED_ROW).where(IMPORTED_ROW.c.kind == text_parameter("kind"), among(IMPORTED_ROW.c.id, "ids"))
)
ERASE_IMPORTED = Statement(
    update(IMPORTED_ROW)
    .where(IMPORTED_ROW.c.client_id == id_parameter("client"))
    .values(erased_texts(IMPORTED_ROW))
)


def reading_imported() -> Steps[dict[Key, str]]:
    """The fingerprint of each imported row."""
    return {(kind, row_id): fingerprint for kind, row_id, fingerprint in (yield FIND_IMPORTED, {})}


def saving_imported(rows: Iterable[Fingerprint], dropped: Iterable[Key] = ()) -> Steps[None]:
    """Replaces the fingerprints of these rows and removes the dropped ones."""
    saved = list(rows)
    ids: dict[str, list[int]] = {}
    for kind, row_id in (*dropped, *(row[:2] for row in saved)):
        ids.setdefault(kind, []).append(row_id)
    for kind, of_kind in ids.items():
        yield DROP_IMPORTED, {"kind": kind, "ids": of_kind}
    yield Bulk("imported_row", ("kind", "id", "client_id", "fingerprint"), saved)


def replacing_moment(moments: list[datetime], base: Iterable[Key]) -> tuple[list[Fingerprint], list[Key]]:
    """The row that keeps the moment of the newest recording, and the rows that it replaces.

    Rejects a recording that began before the newest one ended: it would undo later changes.
    """
    known = [key for key in base if key[0] == MOMENT]
    if not moments:
        return [], []
    first, last = (int(each.timestamp()) for each in moments)
    if any(first < moment != last for _, moment in known):
        start = f"{moments[0]:%Y-%m-%d %H:%M:%S} UTC"
        raise OperatorError(
            f"this recording began {start}, before the end of one that was imported already; "
            "nothing was imported. Record again"
        )
    return [(MOMENT, last, None, MOMENT)], known


# --- reading rows ---------------------------------------------------------------------------------


def find_rows(kind: str) -> Statement:
    table, more = LINE_TABLES[kind], MORE_COLUMNS if kind == "assignment" else ()
    columns = table.c["id", *COLUMNS[kind].values(), *more]
    return Statement(select(*columns).where(among(table.c.id, "ids")))


FIND_ROWS = {kind: find_rows(kind) for kind in COLUMNS}
FIND_SETS = Statement(
    select(*ANSWER_SET.c["assignment_id", "id", "attempt", "submit_date", "answers"], is_final(ANSWER_SET))
    .where(among(ANSWER_SET.c.assignment_id, "ids"))
    .order_by(ANSWER_SET.c.id)
)
FIND_SESSIONS = Statement(select(ASSIGNMENT.c.session_id).where(among(ASSIGNMENT.c.id, "ids")).distinct())
FIND_CLOSED_SESSIONS = Statement(select(SESSION.c.id).where(SESSION.c.is_closed))
FIND_CARE_IDS = {
    "session": Statement(select(SESSION.c.id)),
    "assignment": Statement(select(ASSIGNMENT.c.id).where(ASSIGNMENT.c.withdraw_date.is_(None))),
}


def reading_rows(kind: str, ids: Collection[int], zone: ZoneInfo) -> Steps[dict[int, StoredRow]]:
    """The stored rows with these ids, by id."""
    columns = LINE_TABLES[kind].c
    convert = {name: converter(columns[column].type, zone) for name, column in COLUMNS[kind].items()}
    found = {}
    for row_id, *values in (yield FIND_ROWS[kind], {"ids": sorted(ids)}):
        members = {name: convert[name](value) for name, value in zip(convert, values, strict=False)}
        row = found[row_id] = StoredRow(members)
        if kind == "assignment":
            row.caregiver, row.attempt, withdraw_date = values[len(members) :]
            row.is_withdrawn = withdraw_date is not None
            members["answers"] = None
    if kind == "assignment":
        yield from adding_answers(found, zone)
    return found


def converter(column_type: Any, zone: ZoneInfo) -> Callable[[Any], Any]:
    if isinstance(column_type, DateTime):
        return lambda value: to_minute(value, zone)
    return bool if isinstance(column_type, Boolean) else lambda value: value


def to_minute(stored: datetime | str | None, zone: ZoneInfo) -> str | None:
    """The moment as a recording contains it: local, with minute precision, the first of two equal ones."""
    if stored is None:
        return None
    local = known_moment(stored).astimezone(zone).replace(second=0, microsecond=0, fold=0)
    return local.astimezone(UTC).isoformat()


@lru_cache(maxsize=8192)
def from_local_time(text: str, zone: ZoneInfo) -> str:
    """The opposite, from the text of a recording. Raises ValueError."""
    local = utc = None
    if found := LOCAL_TIME.fullmatch(text):
        with suppress(ValueError, OverflowError):
            local = datetime(*map(int, found.groups()), tzinfo=zone)  # type: ignore[misc,arg-type]
            utc = local.astimezone(UTC)
    if utc is None or not is_storable(utc):
        raise ValueError("must be a date like 2026/11/21 09:00, of the years 1900 to 2999")
    if utc.astimezone(zone) != local:  # datetimes of one zone compare by their local time
        raise ValueError(
            f"is skipped by a clock change in {zone.key}: is CARE_TIME_ZONE that of the old service?"
        )
    return utc.isoformat()


def adding_answers(found: dict[int, StoredRow], zone: ZoneInfo) -> Steps[None]:
    sets = yield FIND_SETS, {"ids": sorted(found)}
    for assignment, row_id, attempt, moment, document, is_submitted in sets:
        row = found[assignment]
        if not is_submitted:
            row.has_draft = True
            continue
        row.sets[row_id] = attempt
        if row.members["status"] == AssignmentStatus.COMPLETE and attempt == row.attempt:
            answers = [{"questionText": text, "answer": answer} for _, text, answer in read_answers(document)]
            row.members["answers"] = {"id": row_id, "submitDate": to_minute(moment, zone), "answers": answers}


def in_batches(rows: Iterable[RecordedRow]) -> Iterator[tuple[str, list[RecordedRow]]]:
    """Each batch has rows of one kind. All clients are in one, because they may exchange identifiers."""
    for kind, of_kind in groupby(rows, lambda row: row.kind):
        size = None if kind == "client" else BATCH
        while batch := list(islice(of_kind, size)):
            yield kind, batch
