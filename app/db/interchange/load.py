"""Imports data from JSON Lines in one transaction, with the ids of the file."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Table, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.admin.sequences import reserving_ids
from app.db.admin.tombstones import LOCK_TOMBSTONES, people_in, reading_tombstones
from app.db.drivers.citus import using_one_connection
from app.db.drivers.interface import DatabaseError
from app.db.facts import distribution_key
from app.db.interchange.import_format import LineRejected
from app.db.interchange.rows import COLUMNS, ImportRows, ParentRejected
from app.db.reader.access import is_final
from app.db.session_counters import locking_sessions, recomputing_counters
from app.db.sql import INSERT, DatabaseKind, Statement, Steps, among
from app.db.statements.assignments import MARK_BOOKS_ASSIGNED
from app.db.tables import (
    ANSWER_SET,
    ASSIGNMENT,
    BOOK,
    CAREGIVER,
    CLIENT,
    LINE_TABLES,
    MODULE,
    RELATIONSHIP,
    SESSION,
    TombstoneState,
)
from app.telemetry.wording import OperatorError

MAX_ROWS_IN_MEMORY = 10_000  # rows collected before they are inserted; some have all answers of a set
MAX_MISTAKES = 20  # in one rejection; reading stops there

SESSION_ID = COLUMNS["assignment"].index("session_id")
ASSIGNMENT_ID = COLUMNS["answer_set"].index("assignment_id")
ID = {kind: COLUMNS[kind].index("id") for kind in LINE_TABLES}


class Mistake(NamedTuple):
    line: int
    reason: str


class ImportRejected(OperatorError):
    """Lines cannot be imported; the message has a line of text per mistake: file, line, member and reason."""

    def __init__(self, mistakes: Sequence[Mistake], file: str = "") -> None:
        prefix = file and f"{file}, "
        lines = [f"{prefix}line {line}: {reason}" for line, reason in mistakes[:MAX_MISTAKES]]
        if len(mistakes) >= MAX_MISTAKES:
            lines.append(f"reading stopped after {MAX_MISTAKES} mistakes; there may be more")
        super().__init__("\n".join(lines))
        self.mistakes = mistakes

    def in_file(self, file: str) -> "ImportRejected":
        return ImportRejected(self.mistakes, file)


def find_columns(table: Table, *columns: str) -> Statement:
    return Statement(select(*table.c[columns]))


def relate(kind: DatabaseKind) -> ClauseElement:
    """Adds the relationships of `sessions`, which another transaction may add too."""
    session = SESSION.c
    rows = select(session.client_id, session.caregiver_id).where(among(session.id, "sessions")).distinct()
    added = INSERT[kind](RELATIONSHIP).from_select(["client_id", "caregiver_id"], rows)
    return added.on_conflict_do_nothing()


FIND_CAREGIVERS = find_columns(CAREGIVER, "id", "user_name")
FIND_CLIENTS = find_columns(CLIENT, "id", "user_name", "oppt_id")
FIND_MODULES = find_columns(MODULE, "id")
FIND_BOOKS = find_columns(BOOK, "id", "is_test")
FIND_CARE = {
    kind: find_columns(table, "id", "caregiver_id", "client_id")
    for kind, table in LINE_TABLES.items()
    if distribution_key(table)
}
FIND_ATTEMPTS = find_columns(ASSIGNMENT, "id", "attempt", "status", "book_id", "score")
FIND_SUBMITTED = Statement(select(*ANSWER_SET.c["assignment_id", "attempt"]).where(is_final(ANSWER_SET)))
FIND_DRAFTED = Statement(select(ANSWER_SET.c.assignment_id).where(~is_final(ANSWER_SET)))
FIND_STATES = Statement(
    select(*ASSIGNMENT.c["id", "attempt", "status"])
    .where(among(ASSIGNMENT.c.id, "assignments"))
    .order_by(ASSIGNMENT.c.id)
)
FIND_SESSIONS = Statement(select(ASSIGNMENT.c.session_id).where(among(ASSIGNMENT.c.id, "assignments")))
RELATE = Statement(relate)


def reading_ids() -> Steps[ImportRows]:
    """The ids and unique values of the database, without rows."""
    found, tombstones = ImportRows(), (yield from reading_tombstones())
    found.erased = people_in(tombstones, TombstoneState.ERASED)
    for kind, statement in (("caregiver", FIND_CAREGIVERS), ("client", FIND_CLIENTS)):
        disabled = people_in(tombstones, TombstoneState.DISABLED, kind.upper())
        found.disabled |= {(kind, each) for each in disabled}
        for row_id, user_name, *oppt_id in (yield statement, {}):
            found.known[kind][row_id] = None
            found.unique[kind, "userName"].add(user_name)
            found.unique[kind, "opptId"].update(oppt_id)
    found.known["module"] = {row[0]: None for row in (yield FIND_MODULES, {})}
    for book_id, is_test in (yield FIND_BOOKS, {}):
        found.known["book"][book_id] = None
        if is_test:
            found.tests.add(book_id)
    for kind, statement in FIND_CARE.items():
        found.known[kind] = {row[0]: (row[1], row[2]) for row in (yield statement, {})}
    for row_id, attempt, status, book_id, score in (yield FIND_ATTEMPTS, {}):
        found.attempts[row_id] = (attempt, status, found.counted(book_id, score))
    found.submitted = {(row[0], row[1]) for row in (yield FIND_SUBMITTED, {})}
    found.drafted = {row[0] for row in (yield FIND_DRAFTED, {})}
    return found


def reading_users() -> Steps[dict[tuple[str, int], str | None]]:
    """The user name of each person, by kind and id."""
    users: dict[tuple[str, int], str | None] = {}
    for kind, statement in (("caregiver", FIND_CAREGIVERS), ("client", FIND_CLIENTS)):
        users |= {(kind, row[0]): row[1] for row in (yield statement, {})}
    return users


def beginning_import() -> Steps[None]:
    yield from using_one_connection()
    yield LOCK_TOMBSTONES, {}


def importing(lines: Iterable[str | bytes], now: datetime | None = None) -> Steps[dict[str, int]]:
    """Returns the number of imported lines of each kind. Raises ImportRejected and then imports nothing.

    Skips the scheduled reminders of moments until `now`, because the dispatcher would send all of them.
    """
    return (yield from importing_numbered(enumerate(lines, 1), now))


def importing_numbered(
    lines: Iterable[tuple[int, str | bytes]], now: datetime | None = None
) -> Steps[dict[str, int]]:
    """The same for lines with their numbers, which messages name."""
    yield from beginning_import()
    collected = yield from reading_ids()
    collected.now = now or collected.now
    counts: dict[str, int] = defaultdict(int)
    mistakes: list[Mistake] = []
    for number, line in lines:
        if not line.strip():
            continue
        try:
            counts[collected.add_line(line)] += 1
        except ParentRejected:
            continue
        except LineRejected as rejection:
            mistakes.append(Mistake(number, str(rejection)))
            if len(mistakes) == MAX_MISTAKES:
                break
        if sum(map(len, collected.rows.values())) >= MAX_ROWS_IN_MEMORY:
            if mistakes:
                collected.take_rows()  # frees the rows, because nothing will be imported
            else:
                yield from inserting_rows(collected)
    if mistakes:
        raise ImportRejected(mistakes)
    yield from completing_import(collected)
    return dict(counts)


def completing_import(collected: ImportRows) -> Steps[None]:
    yield from inserting_rows(collected)
    yield RELATE, {"sessions": sorted(collected.sessions)}
    yield from recomputing_counters(collected.with_caregivers(collected.sessions))
    yield MARK_BOOKS_ASSIGNED, {"books": sorted(collected.books)}


def inserting_rows(collected: ImportRows) -> Steps[None]:
    """Locks the sessions before it adds their assignments and answer sets, in the order of every other
    change."""
    for kind, at in ID.items():
        if rows := collected.rows[kind]:
            yield from reserving_ids(kind, [row[at] for row in rows])
    sessions = {row[SESSION_ID] for row in collected.rows["assignment"]}
    answered = {"assignments": sorted({row[ASSIGNMENT_ID] for row in collected.rows["answer_set"]})}
    sessions |= {row[0] for row in (yield FIND_SESSIONS, answered)}
    yield from locking_sessions(collected.with_caregivers(sessions))
    for assignment, *state in (yield FIND_STATES, answered):
        if tuple(state) != collected.attempts[assignment][:2]:
            raise DatabaseError(
                f"assignment {assignment} was changed by another process meanwhile; nothing was imported: "
                "import again, or stop the service first"
            )
    for bulk in collected.take_rows():  # noqa: UP028 (a list cannot be sent the rows)
        yield bulk
