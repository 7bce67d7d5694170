"""Checks how the lines of an import refer to each other and to the database, and converts them into rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from typing import Any

import orjson
from pydantic import ValidationError

from app.db.admin.import_format import (
    IMPORT_LINE,
    AnswerSetLine,
    AssignmentLine,
    BookLine,
    CaregiverLine,
    ClientLine,
    LineRejected,
    ModuleLine,
    QuestionItem,
    SessionLine,
)
from app.db.answers import Answer, as_document
from app.db.sql import Bulk, Values
from app.db.statements.books import words_of
from app.db.tables import (
    AnswerSet,
    Assignment,
    AssignmentStatus,
    Book,
    BookWord,
    Caregiver,
    Client,
    Module,
    Question,
    Reminder,
    SaveType,
    Session,
    Table,
    table_of,
)

# The tables in the order of insertion, parents before children, and the columns that an import leaves empty.
EMPTY_COLUMNS: dict[Table, set[str]] = {
    Caregiver: set(),
    Client: {"erase_date"},
    Module: set(),
    Book: {"is_assigned"},
    BookWord: set(),
    Question: {"id"},
    Session: {"latest_assignment_id", "last_assignment_score"},
    Assignment: {"withdraw_date"},
    Reminder: {"id"},
    AnswerSet: set(),
}
COLUMNS = {
    table: tuple(column.name for column in table_of(table).columns if column.name not in empty)
    for table, empty in EMPTY_COLUMNS.items()
}
ROW_OF = {table: itemgetter(*columns) for table, columns in COLUMNS.items()}
TABLES: dict[str, Table] = {
    "caregiver": Caregiver,
    "client": Client,
    "module": Module,
    "book": Book,
    "session": Session,
    "assignment": Assignment,
    "answer_set": AnswerSet,
}
Parties = tuple[int, int]  # caregiver and client


class ParentRejected(LineRejected):
    """The line refers to a rejected line, and may be correct itself."""


class ImportRows:
    """The rows of the lines so far, and the ids and values of the file and of the database."""

    def __init__(self) -> None:
        self.rows: dict[Table, list[tuple[Any, ...]]] = defaultdict(list)
        self.known: dict[Table, dict[int, Parties | None]] = defaultdict(dict)
        self.rejected: set[tuple[Table, int]] = set()
        self.erased: set[int] = set()  # clients
        self.disabled: set[tuple[Table, int]] = set()  # people, also those who are not in the database
        self.unique: dict[tuple[Table, str], set[str | None]] = defaultdict(set)
        self.tests: set[int] = set()  # books that are tests
        # assignment -> attempt, status, and score if it has one
        self.attempts: dict[int, tuple[int, str, int | None]] = {}
        self.submitted: set[tuple[int, int]] = set()  # assignment and attempt
        self.drafted: set[int] = set()  # assignments that have a draft
        self.sessions: set[int] = set()  # new, or with new assignments
        self.books: set[int] = set()  # with new assignments

    def add_line(self, text: str | bytes) -> str:
        """Returns the kind of the line. Raises LineRejected."""
        try:
            line = IMPORT_LINE.validate_json(text)
        except ValidationError as error:
            self.reject(text)
            raise LineRejected.of(error) from None
        table = TABLES[line.kind]
        if line.id in self.known[table]:
            raise LineRejected(f"id: {line.id} exists already")
        parties = None
        try:
            match line:
                case AssignmentLine():
                    parties = self.add_assignment(line)
                case AnswerSetLine():
                    parties = self.add_answer_set(line)
                case SessionLine():
                    parties = self.add_session(line)
                case BookLine():
                    self.add_book(line)
                case ModuleLine():
                    self.add(Module, vars(line))
                case ClientLine() | CaregiverLine():
                    self.add_person(line, table)
        except LineRejected:
            self.rejected.add((table, line.id))
            raise
        self.known[table][line.id] = parties
        return line.kind

    def reject(self, text: str | bytes) -> None:
        """Stores the id of an invalid line, so that lines which refer to it are not reported as well."""
        with suppress(orjson.JSONDecodeError):
            match orjson.loads(text):
                case {"kind": str(kind), "id": int(row_id)} if kind in TABLES:
                    if row_id not in self.known[TABLES[kind]]:
                        self.rejected.add((TABLES[kind], row_id))

    def add(self, table: Table, values: Values) -> None:
        self.rows[table].append(ROW_OF[table](values))

    def require(self, table: Table, member: str, row_id: int) -> Any:
        """The parties of the row that a line refers to."""
        if (table, row_id) in self.rejected:
            raise ParentRejected
        if table is Client:
            self.refuse_erased(member, row_id)
        if row_id not in self.known[table]:
            raise LineRejected(f"{member}: {row_id} does not exist before this line")
        parties = self.known[table][row_id]
        if parties is not None:
            self.refuse_erased(member, parties[1])
        return parties

    def refuse_erased(self, member: str, client: int) -> None:
        if client in self.erased:
            raise LineRejected(f"{member}: client {client} is erased")

    def require_unique(self, table: Table, member: str, value: str | None) -> None:
        taken = self.unique[table, member]
        if value is not None and value in taken:
            raise LineRejected(f"{member}: exists already")
        taken.add(value)

    def add_person(self, line: CaregiverLine | ClientLine, table: Table) -> None:
        if isinstance(line, ClientLine):
            self.refuse_erased("id", line.id)
        self.require_unique(table, "userName", line.user_name)
        if isinstance(line, ClientLine):
            self.require_unique(table, "opptId", line.oppt_id)
        self.add(table, {**vars(line), "is_disabled": (table, line.id) in self.disabled})

    def add_book(self, line: BookLine) -> None:
        self.require(Module, "moduleId", line.module_id)
        if line.is_test:
            self.tests.add(line.id)
        self.add(Book, vars(line))
        self.rows[BookWord] += [(word, line.id) for word in words_of(line.name)]
        self.rows[Question] += question_rows(line.id, line.questions)

    def add_session(self, line: SessionLine) -> Parties:
        self.require(Caregiver, "caregiverId", line.caregiver_id)
        self.require(Client, "clientId", line.client_id)
        self.sessions.add(line.id)
        counters = {"assignment_count": 0, "completed_assignment_count": 0}
        self.add(Session, {**vars(line), **counters})
        return line.caregiver_id, line.client_id

    def add_assignment(self, line: AssignmentLine) -> Parties:
        parties: Parties = self.require(Session, "sessionId", line.session_id)
        self.require(Book, "bookId", line.book_id)
        self.sessions.add(line.session_id)
        self.books.add(line.book_id)
        self.attempts[line.id] = (line.attempt, line.status, self.counted(line.book_id, line.score))
        key = {"caregiver_id": parties[0], "client_id": parties[1]}
        self.add(Assignment, {**vars(line), **key})
        for item in line.reminders:
            self.add(Reminder, {**vars(item), **key, "assignment_id": line.id})
        return parties

    def add_answer_set(self, line: AnswerSetLine) -> Parties:
        parties: Parties = self.require(Assignment, "assignmentId", line.assignment_id)
        score = None
        if line.save_type == SaveType.FINAL:
            score = self.submit(line.assignment_id, line.attempt)
        elif line.assignment_id in self.drafted:
            raise LineRejected(f"saveType: assignment {line.assignment_id} has a draft already")
        else:
            self.drafted.add(line.assignment_id)
        key = {"caregiver_id": parties[0], "client_id": parties[1]}
        answers = as_document(Answer(None, one.question_text, one.answer) for one in line.answers)
        values = {**key, "score": score, "own_score": score, "answers": answers}
        self.add(AnswerSet, {**vars(line), **values})
        return parties

    def counted(self, book_id: int, score: int) -> int | None:
        """A score of 0 means no score, except for tests."""
        return score if score or book_id in self.tests else None

    def submit(self, assignment_id: int, attempt: int) -> int | None:
        """Every attempt has one submission; the submission of the current attempt makes it COMPLETE.

        The current attempt has the score of the assignment; scores of earlier attempts are unknown.
        """
        current, status, score = self.attempts[assignment_id]
        if attempt > current or (attempt == current and status != AssignmentStatus.COMPLETE):
            raise LineRejected(f"attempt: {attempt} of the assignment is not submitted")
        if (assignment_id, attempt) in self.submitted:
            raise LineRejected(f"attempt: {attempt} of the assignment exists already")
        self.submitted.add((assignment_id, attempt))
        return score if attempt == current else None

    def with_caregivers(self, sessions: Iterable[int]) -> dict[int, int]:
        """The sessions, each with its caregiver."""
        known = self.known[Session]
        return {each: parties[0] for each in sessions if (parties := known[each]) is not None}

    def take_rows(self) -> list[Bulk]:
        """Returns the collected rows, parents first, and forgets them."""
        rows, self.rows = self.rows, defaultdict(list)
        return [
            Bulk(table_of(table).name, columns, rows[table])
            for table, columns in COLUMNS.items()
            if rows[table]
        ]


def question_rows(book_id: int, questions: Iterable[QuestionItem]) -> Iterator[tuple[Any, ...]]:
    for position, question in enumerate(questions, 1):
        weights = None if question.weights is None else as_json(question.weights)
        values = {"book_id": book_id, "position": position, "options": as_json(question.options)}
        yield ROW_OF[Question]({**vars(question), **values, "weights": weights})


def as_json(value: object) -> str:
    return orjson.dumps(value).decode()
