"""Reads a world from JSON Lines into the tables: numeric ids kept, all of it or nothing."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import orjson
from sqlalchemy import cast, func, literal, select, text
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.sql.elements import ClauseElement

from app.db.entities import Table, table_of
from app.db.statements import Bulk, DatabaseKind, Operation, Statement
from app.db.tables import (
    Answer,
    AnswerSet,
    Assignment,
    AssignmentStatus,
    Book,
    BookWord,
    Caregiver,
    Client,
    FeedbackStatus,
    Module,
    Question,
    QuestionKind,
    Relationship,
    Reminder,
    ReminderState,
    SaveType,
    Session,
)
from app.db.upkeep.kept import SET_KEPT
from app.db.upkeep.records import Problem, Record
from app.db.words import words_of

ROWS_HELD = 50_000  # rows gathered before they are handed to the database

# Parents before children: rows are handed over in this order.
COLUMNS: dict[Table, tuple[str, ...]] = {
    Caregiver: ("id", "name", "position", "user_name", "is_disabled"),
    Client: ("id", "name", "oppt_id", "user_name", "is_disabled"),
    Module: ("id", "name"),
    Book: ("id", "module_id", "name", "is_test"),
    BookWord: ("word", "book_id"),
    Question: ("book_id", "position", "text", "kind", "options", "is_required"),
    Session: (
        "id", "caregiver_id", "client_id", "title", "description", "chat_id", "create_date", "start_date",
        "is_closed", "close_date", "assignment_count", "completed_assignment_count",
    ),
    Assignment: (
        "id", "caregiver_id", "client_id", "session_id", "book_id", "assign_date", "start_date", "end_date",
        "submit_date", "status", "attempt", "score", "feedback_status", "feedback_submit_date",
    ),
    Reminder: ("caregiver_id", "client_id", "assignment_id", "remind_date", "state"),
    AnswerSet: (
        "id", "caregiver_id", "client_id", "assignment_id", "save_type", "attempt", "revision", "submit_date",
    ),
    Answer: ("answer_set_id", "position", "caregiver_id", "client_id", "question_text", "answer"),
}  # fmt: skip
NUMBERED = (Caregiver, Client, Module, Book, Question, Session, Assignment, Reminder, AnswerSet)


class ImportRefused(Exception):
    """A line cannot be taken; names the file, the line and the member."""

    def __init__(self, line: int, member: str, reason: str, file: str = "") -> None:
        super().__init__(f"{file and file + ', '}line {line}: {member} {reason}")
        self.line = line
        self.member = member
        self.reason = reason

    @classmethod
    def of_file(cls, file: str, refusal: "ImportRefused") -> "ImportRefused":
        return cls(refusal.line, refusal.member, refusal.reason, file)


# --- reading one line -----------------------------------------------------------------------------

Parties = tuple[int, int]  # caregiver and client


class World:
    """The rows gathered so far, and what they may refer to: ids of the file and of the database."""

    def __init__(self) -> None:
        self.rows: dict[Table, list[tuple[Any, ...]]] = defaultdict(list)
        self.known: dict[Table, dict[int, Parties | None]] = defaultdict(dict)
        self.unique: dict[str, set[str]] = defaultdict(set)
        self.attempts: dict[int, tuple[int, str]] = {}  # assignment -> its attempt and status
        self.submitted: set[tuple[int, int]] = set()  # assignment and attempt
        self.read = {
            "caregiver": self.caregiver,
            "client": self.client,
            "module": self.module,
            "book": self.book,
            "session": self.session,
            "assignment": self.assignment,
            "answer_set": self.answer_set,
        }

    def line(self, line: str | bytes) -> str:
        try:
            given = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise Problem("the line", "is not JSON") from None
        record = Record(given)
        kind = record.take(
            "kind", f"one of {', '.join(self.read)}", lambda v: isinstance(v, str) and v in self.read
        )
        self.read[kind](record)
        record.finish()
        return str(kind)

    def new(self, table: Table, record: Record, parties: Parties | None = None) -> int:
        row_id = record.id("id")
        if row_id in self.known[table]:
            raise Problem("id", f"{row_id} is there already")
        self.known[table][row_id] = parties
        return row_id

    def refer(self, table: Table, record: Record, member: str) -> tuple[int, Any]:
        row_id = record.id(member)
        if row_id not in self.known[table]:
            raise Problem(member, f"{row_id} is not known before this line")
        return row_id, self.known[table][row_id]

    def once(self, kind: str, member: str, value: str | None) -> str | None:
        if value is not None:
            if value in self.unique[kind]:
                raise Problem(member, "is there already")
            self.unique[kind].add(value)
        return value

    def caregiver(self, record: Record) -> None:
        row_id = self.new(Caregiver, record)
        user_name = self.once("caregiver", "userName", record.optional_text("userName"))
        self.rows[Caregiver].append((row_id, record.text("name"), record.text("position"), user_name, False))

    def client(self, record: Record) -> None:
        row_id = self.new(Client, record)
        oppt_id = self.once("opptId", "opptId", record.text("opptId"))
        user_name = self.once("client", "userName", record.optional_text("userName"))
        self.rows[Client].append((row_id, record.text("name"), oppt_id, user_name, False))

    def module(self, record: Record) -> None:
        self.rows[Module].append((self.new(Module, record), record.text("name")))

    def book(self, record: Record) -> None:
        row_id = self.new(Book, record)
        module_id, _ = self.refer(Module, record, "moduleId")
        name = record.text("name")
        self.rows[Book].append((row_id, module_id, name, record.flag("isTest")))
        self.rows[BookWord] += [(word, row_id) for word in words_of(name)]
        for position, question in enumerate(record.records("questions", []), 1):
            kind = question.one_of("kind", QuestionKind, QuestionKind.TEXT)
            options = orjson.dumps(question.texts("options")).decode()
            self.rows[Question].append(
                (row_id, position, question.text("text"), kind, options, question.flag("required"))
            )
            question.finish()

    def session(self, record: Record) -> None:
        caregiver_id, _ = self.refer(Caregiver, record, "caregiverId")
        client_id, _ = self.refer(Client, record, "clientId")
        row_id = self.new(Session, record, (caregiver_id, client_id))
        is_closed, close_date = record.flag("isClosed"), record.optional_moment("closeDate")
        if close_date is not None and not is_closed:
            raise Problem("closeDate", "belongs to a closed session only")
        self.rows[Session].append(
            (
                row_id,
                caregiver_id,
                client_id,
                record.text("title"),
                record.text("description"),
                record.text("chatId"),
                record.moment("createDate"),
                record.moment("startDate"),
                is_closed,
                close_date,
                0,
                0,
            )
        )

    def assignment(self, record: Record) -> None:
        session_id, parties = self.refer(Session, record, "sessionId")
        book_id, _ = self.refer(Book, record, "bookId")
        row_id = self.new(Assignment, record, parties)
        status = record.one_of("status", AssignmentStatus, AssignmentStatus.PENDING)
        submit_date = record.optional_moment("submitDate")
        if (status == AssignmentStatus.COMPLETE) != (submit_date is not None):
            raise Problem("submitDate", "belongs to a COMPLETE assignment, and to no other")
        attempt = record.number("attempt", 1)
        self.attempts[row_id] = (attempt, status)
        feedback_status = record.one_of("feedbackStatus", FeedbackStatus, FeedbackStatus.WAITING)
        feedback_date = record.optional_moment("feedbackSubmitDate")
        if (feedback_status == FeedbackStatus.SUBMITTED) != (feedback_date is not None):
            raise Problem("feedbackSubmitDate", "belongs to a SUBMITTED feedbackStatus, and to no other")
        self.rows[Assignment].append(
            (
                row_id,
                *parties,
                session_id,
                book_id,
                record.moment("assignDate"),
                record.moment("startDate"),
                record.optional_moment("endDate"),
                submit_date,
                status,
                attempt,
                record.number("score", 0),
                feedback_status,
                feedback_date,
            )
        )
        for reminder in record.records("reminders", []):
            state = reminder.one_of("state", ReminderState, ReminderState.SCHEDULED)
            self.rows[Reminder].append((*parties, row_id, reminder.moment("remindDate"), state))
            reminder.finish()

    def answer_set(self, record: Record) -> None:
        assignment_id, parties = self.refer(Assignment, record, "assignmentId")
        row_id = self.new(AnswerSet, record, parties)
        save_type = record.one_of("saveType", SaveType, SaveType.FINAL)
        submit_date = record.optional_moment("submitDate")
        attempt, revision = record.number("attempt", 1), record.number("revision", 1)
        if save_type == SaveType.FINAL:
            if submit_date is None:
                raise Problem("submitDate", "is missing")
            self.submit(assignment_id, attempt)
        elif submit_date is not None:
            raise Problem("submitDate", "belongs to a FINAL answer set only")
        self.rows[AnswerSet].append(
            (row_id, *parties, assignment_id, save_type, attempt, revision, submit_date)
        )
        for position, answer in enumerate(record.records("answers"), 1):
            said = (answer.text("questionText"), answer.text("answer"))
            self.rows[Answer].append((row_id, position, *parties, *said))
            answer.finish()

    def submit(self, assignment_id: int, attempt: int) -> None:
        """Every attempt is submitted once, and the current one makes its assignment COMPLETE."""
        current, status = self.attempts[assignment_id]
        if attempt > current or (attempt == current and status != AssignmentStatus.COMPLETE):
            raise Problem("attempt", f"{attempt} of the assignment is not submitted")
        if (assignment_id, attempt) in self.submitted:
            raise Problem("attempt", f"{attempt} of the assignment is there already")
        self.submitted.add((assignment_id, attempt))

    def hand_over(self) -> list[Bulk]:
        """The rows gathered, parents first; from here on the database holds them."""
        bulks = [
            Bulk(table_of(table).name, columns, self.rows[table])
            for table, columns in COLUMNS.items()
            if self.rows[table]
        ]
        self.rows = defaultdict(list)
        return bulks


# --- the operation --------------------------------------------------------------------------------


def know(table: Table, *columns: str) -> Statement:
    return Statement(lambda kind: select(*(table_of(table).c[name] for name in columns)))


def relate(kind: DatabaseKind) -> ClauseElement:
    """Who has or had a session with whom."""
    session, known = table_of(Session).c, table_of(Relationship)
    there = select(literal(1)).where(
        known.c.client_id == session.client_id, known.c.caregiver_id == session.caregiver_id
    )
    rows = select(session.client_id, session.caregiver_id).where(~there.exists()).distinct()
    return known.insert().from_select(["client_id", "caregiver_id"], rows)


def number_on(table: Table) -> Statement:
    """The next id the database gives is behind those that were given here; SQLite sees to that itself."""

    def build(kind: DatabaseKind) -> ClauseElement:
        if kind == "sqlite":
            return text("SELECT 1")
        name = table_of(table).name
        sequence = cast(func.pg_get_serial_sequence(literal(name), literal("id")), REGCLASS)
        given = func.coalesce(func.pg_sequence_last_value(sequence), 1)  # of rows that are gone, maybe
        return select(func.setval(sequence, func.greatest(func.max(table_of(table).c.id), given)))

    return Statement(build)


KNOW_PEOPLE: dict[Table, Statement] = {table: know(table, "id", "user_name") for table in (Caregiver, Client)}
ANYBODY = (
    Statement(lambda kind: select(table_of(Caregiver).c.id).limit(1)),
    Statement(lambda kind: select(table_of(Client).c.id).limit(1)),
)
KNOW_OPPT_IDS = know(Client, "oppt_id")
KNOW_CATALOGUE: dict[Table, Statement] = {table: know(table, "id") for table in (Module, Book)}
KNOW_CARE: dict[Table, Statement] = {
    table: know(table, "id", "caregiver_id", "client_id") for table in (Session, Assignment, AnswerSet)
}
KNOW_ATTEMPTS = know(Assignment, "id", "attempt", "status")
KNOW_SUBMITTED = Statement(
    lambda kind: select(table_of(AnswerSet).c.assignment_id, table_of(AnswerSet).c.attempt).where(
        table_of(AnswerSet).c.save_type == SaveType.FINAL.value
    )
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
    for table, statement in KNOW_CATALOGUE.items():
        world.known[table] = {row[0]: None for row in (yield statement, {})}
    for table, statement in KNOW_CARE.items():
        world.known[table] = {row[0]: (row[1], row[2]) for row in (yield statement, {})}
    world.attempts = {row[0]: (row[1], row[2]) for row in (yield KNOW_ATTEMPTS, {})}
    world.submitted = {(row[0], row[1]) for row in (yield KNOW_SUBMITTED, {})}
    return world


def is_empty() -> Operation[bool]:
    """Nobody has entered yet."""
    for statement in ANYBODY:
        if (yield statement, {}):
            return False
    return True


def importing(lines: Iterable[str | bytes]) -> Operation[dict[str, int]]:
    """How many of each kind were loaded. Raises ImportRefused, and then nothing is."""
    world = yield from existing_world()
    counts: dict[str, int] = defaultdict(int)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            counts[world.line(line)] += 1
        except Problem as problem:
            raise ImportRefused(number, problem.member, problem.reason) from None
        if sum(map(len, world.rows.values())) >= ROWS_HELD:
            for bulk in world.hand_over():
                yield bulk
    for bulk in world.hand_over():
        yield bulk
    yield RELATE, {}
    yield SET_KEPT, {}
    for statement in NUMBER_ON:
        yield statement, {}
    return dict(counts)
