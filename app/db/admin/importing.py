"""Reads a world from JSON Lines into the tables: numeric ids kept, all of it or nothing."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import cast, false, func, literal, select, text
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.sql.elements import ClauseElement

from app.db.admin.records import Consequence, Problem
from app.db.admin.world import COLUMNS, World
from app.db.reader.entities import Table, is_final, table_of
from app.db.session_counters import LOCK_SESSIONS, SET_KEPT
from app.db.sql import INSERT, DatabaseKind, Operation, Statement, among
from app.db.statements.homework import MARK_BOOKS_ASSIGNED
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
)

SESSION_ID = COLUMNS[Assignment].index("session_id")

ROWS_HELD = 50_000  # rows gathered before they are handed to the database

NUMBERED = (Caregiver, Client, Module, Book, Question, Session, Assignment, Reminder, AnswerSet)


MOST_MISTAKES = 20  # that one refusal lists; reading stops there


class Mistake(NamedTuple):
    line: int
    member: str
    reason: str


class ImportRefused(Exception):
    """Lines cannot be imported; the message has a line of text per mistake: file, line, member and reason."""

    def __init__(self, mistakes: Sequence[Mistake], file: str = "") -> None:
        place = file and f"{file}, "
        said = [f"{place}line {line}: {member} {reason}" for line, member, reason in mistakes[:MOST_MISTAKES]]
        if len(mistakes) >= MOST_MISTAKES:
            said.append(f"there may be more than these {MOST_MISTAKES} mistakes")
        super().__init__("\n".join(said))
        self.mistakes = mistakes

    @classmethod
    def of_file(cls, file: str, refusal: "ImportRefused") -> "ImportRefused":
        return cls(refusal.mistakes, file)


def know(table: Table, *columns: str) -> Statement:
    return Statement(lambda kind: select(*(table_of(table).c[name] for name in columns)))


def relate(kind: DatabaseKind) -> ClauseElement:
    """The caregiver and the client of each of `sessions`; another transaction may add the same ones."""
    session = table_of(Session).c
    rows = (
        select(session.client_id, session.caregiver_id).where(among(session.id, "sessions", kind)).distinct()
    )
    added = INSERT[kind](table_of(Relationship)).from_select(["client_id", "caregiver_id"], rows)
    return added.on_conflict_do_nothing()  # type: ignore[no-any-return]


def number_on(table: Table) -> Statement:
    """The next id the database gives is behind those that were given here; SQLite sees to that itself."""

    def build(kind: DatabaseKind) -> ClauseElement:
        if kind == "sqlite":
            return text("SELECT 1")
        name = table_of(table).name
        sequence = cast(func.pg_get_serial_sequence(literal(name), literal("id")), REGCLASS)
        given = func.coalesce(func.pg_sequence_last_value(sequence), 0)  # of rows that are gone, maybe
        newest = func.coalesce(func.max(table_of(table).c.id), 0)
        return select(func.setval(sequence, func.greatest(newest, given) + 1, false()))

    return Statement(build)


KNOW_PEOPLE: dict[Table, Statement] = {table: know(table, "id", "user_name") for table in (Caregiver, Client)}
ANYBODY = (
    Statement(lambda kind: select(table_of(Caregiver).c.id).limit(1)),
    Statement(lambda kind: select(table_of(Client).c.id).limit(1)),
)
KNOW_OPPT_IDS = know(Client, "oppt_id")
KNOW_MODULES = know(Module, "id")
KNOW_BOOKS = know(Book, "id", "is_test")
KNOW_CARE: dict[Table, Statement] = {
    table: know(table, "id", "caregiver_id", "client_id") for table in (Session, Assignment, AnswerSet)
}
KNOW_ATTEMPTS = know(Assignment, "id", "attempt", "status", "book_id", "score")
KNOW_SUBMITTED = Statement(
    lambda kind: select(table_of(AnswerSet).c.assignment_id, table_of(AnswerSet).c.attempt).where(
        is_final(table_of(AnswerSet))
    )
)
KNOW_DRAFTED = Statement(
    lambda kind: select(table_of(AnswerSet).c.assignment_id).where(~is_final(table_of(AnswerSet)))
)
RELATE = Statement(relate)
NUMBER_ON = [number_on(table) for table in NUMBERED]


def existing_world() -> Operation[World]:
    world = World()
    for table, statement in KNOW_PEOPLE.items():
        for row_id, user_name in (yield statement, {}):
            world.known[table][row_id] = None
            world.unique[table_of(table).name].add(user_name)
    world.unique["opptId"] = {row[0] for row in (yield KNOW_OPPT_IDS, {})}
    world.known[Module] = {row[0]: None for row in (yield KNOW_MODULES, {})}
    for book_id, is_test in (yield KNOW_BOOKS, {}):
        world.known[Book][book_id] = None
        if is_test:
            world.tests.add(book_id)
    for table, statement in KNOW_CARE.items():
        world.known[table] = {row[0]: (row[1], row[2]) for row in (yield statement, {})}
    for row_id, attempt, status, book_id, score in (yield KNOW_ATTEMPTS, {}):
        world.attempts[row_id] = (attempt, status, world.counted(book_id, score))
    world.submitted = {(row[0], row[1]) for row in (yield KNOW_SUBMITTED, {})}
    world.drafted = {row[0] for row in (yield KNOW_DRAFTED, {})}
    return world


def is_empty() -> Operation[bool]:
    """Nobody has entered yet."""
    for statement in ANYBODY:
        if (yield statement, {}):
            return False
    return True


def importing(lines: Iterable[str | bytes]) -> Operation[dict[str, int]]:
    """How many of each kind were loaded. Raises ImportRefused, and then nothing is."""
    numbered = enumerate(lines, 1)
    return (yield from importing_records((number, line) for number, line in numbered if line.strip()))


def importing_records(
    records: Iterable[tuple[int, str | bytes | dict[str, Any]]],
) -> Operation[dict[str, int]]:
    """The same of what need not be read first; each with the line that it stands on."""
    world = yield from existing_world()
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
        if sum(map(len, world.rows.values())) >= ROWS_HELD:
            if mistakes:
                world.hand_over()  # nothing is imported any more; the rows only take memory
            else:
                yield from handing_over(world)
    if mistakes:
        raise ImportRefused(mistakes)
    yield from handing_over(world)
    sessions = {"sessions": sorted(world.sessions)}
    yield RELATE, sessions
    yield SET_KEPT, sessions
    yield MARK_BOOKS_ASSIGNED, {"books": sorted(world.books)}
    for statement in NUMBER_ON:
        yield statement, {}
    return dict(counts)


def handing_over(world: World) -> Operation[None]:
    """Sessions are locked before their assignments are added, as every other change of them does."""
    yield LOCK_SESSIONS, {"sessions": sorted({row[SESSION_ID] for row in world.rows[Assignment]})}
    for bulk in world.hand_over():  # noqa: UP028 (a list cannot be sent the rows)
        yield bulk
