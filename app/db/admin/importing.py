"""Imports data from JSON Lines in one transaction, with the ids of the file."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import cast, false, func, literal, select, text
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.sql.elements import ClauseElement

from app.db.admin.records import Consequence, Problem
from app.db.admin.world import COLUMNS, World
from app.db.reader.access import is_final
from app.db.session_counters import LOCK_SESSIONS, RECOMPUTE_COUNTERS
from app.db.sql import INSERT, DatabaseKind, Operation, Statement, among
from app.db.statements.assignments import MARK_BOOKS_ASSIGNED
from app.db.tables import (
    AnswerSet,
    Assignment,
    Book,
    Caregiver,
    Client,
    Module,
    Question,
    Relationship,
    Reminder,
    Session,
    Table,
    table_of,
)

SESSION_ID = COLUMNS[Assignment].index("session_id")

MAX_ROWS_IN_MEMORY = 50_000  # rows collected before they are inserted

NUMBERED = (Caregiver, Client, Module, Book, Question, Session, Assignment, Reminder, AnswerSet)


MOST_MISTAKES = 20  # maximum in one refusal; reading stops there


class Mistake(NamedTuple):
    line: int
    member: str
    reason: str


class ImportRefused(Exception):
    """Lines cannot be imported; the message has a line of text per mistake: file, line, member and reason."""

    def __init__(self, mistakes: Sequence[Mistake], file: str = "") -> None:
        place = file and f"{file}, "
        lines = [
            f"{place}line {line}: {member} {reason}" for line, member, reason in mistakes[:MOST_MISTAKES]
        ]
        if len(mistakes) >= MOST_MISTAKES:
            lines.append(f"there may be more than these {MOST_MISTAKES} mistakes")
        super().__init__("\n".join(lines))
        self.mistakes = mistakes

    @classmethod
    def of_file(cls, file: str, refusal: "ImportRefused") -> "ImportRefused":
        return cls(refusal.mistakes, file)


def find_columns(table: Table, *columns: str) -> Statement:
    return Statement(lambda kind: select(*(table_of(table).c[name] for name in columns)))


def relate(kind: DatabaseKind) -> ClauseElement:
    """Adds the relationships of `sessions`, which another transaction may add too."""
    session = table_of(Session).c
    rows = select(session.client_id, session.caregiver_id).where(among(session.id, "sessions")).distinct()
    added = INSERT[kind](table_of(Relationship)).from_select(["client_id", "caregiver_id"], rows)
    return added.on_conflict_do_nothing()  # type: ignore[no-any-return]


def set_next_id(table: Table) -> Statement:
    """Sets the next id after the imported ids; SQLite does this itself."""

    def build(kind: DatabaseKind) -> ClauseElement:
        if kind == "sqlite":
            return text("SELECT 1")
        name = table_of(table).name
        sequence = cast(func.pg_get_serial_sequence(literal(name), literal("id")), REGCLASS)
        given = func.coalesce(func.pg_sequence_last_value(sequence), 0)  # may belong to a deleted row
        newest = func.coalesce(func.max(table_of(table).c.id), 0)
        return select(func.setval(sequence, func.greatest(newest, given) + 1, false()))

    return Statement(build)


FIND_PEOPLE: dict[Table, Statement] = {
    table: find_columns(table, "id", "user_name") for table in (Caregiver, Client)
}
ANY_PERSON = (
    Statement(lambda kind: select(table_of(Caregiver).c.id).limit(1)),
    Statement(lambda kind: select(table_of(Client).c.id).limit(1)),
)
FIND_OPPT_IDS = find_columns(Client, "oppt_id")
FIND_MODULES = find_columns(Module, "id")
FIND_BOOKS = find_columns(Book, "id", "is_test")
FIND_CARE: dict[Table, Statement] = {
    table: find_columns(table, "id", "caregiver_id", "client_id")
    for table in (Session, Assignment, AnswerSet)
}
FIND_ATTEMPTS = find_columns(Assignment, "id", "attempt", "status", "book_id", "score")
FIND_SUBMITTED = Statement(
    lambda kind: select(table_of(AnswerSet).c.assignment_id, table_of(AnswerSet).c.attempt).where(
        is_final(table_of(AnswerSet))
    )
)
FIND_DRAFTED = Statement(
    lambda kind: select(table_of(AnswerSet).c.assignment_id).where(~is_final(table_of(AnswerSet)))
)
RELATE = Statement(relate)
SET_NEXT_ID = [set_next_id(table) for table in NUMBERED]


def reading_world() -> Operation[World]:
    world = World()
    for table, statement in FIND_PEOPLE.items():
        for row_id, user_name in (yield statement, {}):
            world.known[table][row_id] = None
            world.unique[table_of(table).name].add(user_name)
    world.unique["opptId"] = {row[0] for row in (yield FIND_OPPT_IDS, {})}
    world.known[Module] = {row[0]: None for row in (yield FIND_MODULES, {})}
    for book_id, is_test in (yield FIND_BOOKS, {}):
        world.known[Book][book_id] = None
        if is_test:
            world.tests.add(book_id)
    for table, statement in FIND_CARE.items():
        world.known[table] = {row[0]: (row[1], row[2]) for row in (yield statement, {})}
    for row_id, attempt, status, book_id, score in (yield FIND_ATTEMPTS, {}):
        world.attempts[row_id] = (attempt, status, world.counted(book_id, score))
    world.submitted = {(row[0], row[1]) for row in (yield FIND_SUBMITTED, {})}
    world.drafted = {row[0] for row in (yield FIND_DRAFTED, {})}
    return world


def is_empty() -> Operation[bool]:
    """Are there no caregivers and no clients?"""
    for statement in ANY_PERSON:
        if (yield statement, {}):
            return False
    return True


def importing(lines: Iterable[str | bytes]) -> Operation[dict[str, int]]:
    """Returns the number of imported lines of each kind. Raises ImportRefused and then imports nothing."""
    numbered = enumerate(lines, 1)
    return (yield from importing_records((number, line) for number, line in numbered if line.strip()))


def importing_records(
    records: Iterable[tuple[int, str | bytes | dict[str, Any]]],
) -> Operation[dict[str, int]]:
    """The same for records with their line numbers, parsed or not."""
    world = yield from reading_world()
    counts: dict[str, int] = defaultdict(int)
    mistakes: list[Mistake] = []
    for number, record in records:
        try:
            counts[world.take(record)] += 1
        except Consequence:
            continue
        except Problem as problem:
            mistakes.append(Mistake(number, problem.member, problem.reason))
            if len(mistakes) == MOST_MISTAKES:
                break
        if sum(map(len, world.rows.values())) >= MAX_ROWS_IN_MEMORY:
            if mistakes:
                world.take_rows()  # frees the rows, because nothing will be imported
            else:
                yield from inserting_rows(world)
    if mistakes:
        raise ImportRefused(mistakes)
    yield from inserting_rows(world)
    sessions = {"sessions": sorted(world.sessions)}
    yield RELATE, sessions
    yield RECOMPUTE_COUNTERS, sessions
    yield MARK_BOOKS_ASSIGNED, {"books": sorted(world.books)}
    for statement in SET_NEXT_ID:
        yield statement, {}
    return dict(counts)


def inserting_rows(world: World) -> Operation[None]:
    """Locks the sessions before it adds their assignments, in the order of every other change."""
    yield LOCK_SESSIONS, {"sessions": sorted({row[SESSION_ID] for row in world.rows[Assignment]})}
    for bulk in world.take_rows():  # noqa: UP028 (a list cannot be sent the rows)
        yield bulk
