"""Checks how the lines of an import refer to each other and to the database, and converts them into rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import orjson
from pydantic import ValidationError
from sqlalchemy import Table

from app.db.answers import Answer, as_document
from app.db.facts import ERASED_PREFIX, facts_of, is_erased_text, member_of
from app.db.interchange.import_format import (
    IMPORT_LINE,
    AnswerSetLine,
    AssignmentLine,
    BookLine,
    CaregiverLine,
    ClientLine,
    ImportLine,
    LineRejected,
    QuestionItem,
    SessionLine,
)
from app.db.sql import Bulk, Values
from app.db.statements.books import words_of
from app.db.tables import IMPORTED_TABLES, LINE_TABLES, AssignmentStatus, ReminderState, SaveType


def columns_of(table: Table) -> tuple[str, ...]:
    """The columns that an import fills: the database gives ids to rows that are parts of a line."""
    columns = (column for column in table.columns if not facts_of(column).set_later)
    return tuple(each.name for each in columns if each.name != "id" or table.name in LINE_TABLES)


# By table, in the order of insertion.
COLUMNS = {table.name: columns_of(table) for table in IMPORTED_TABLES}
ROW_OF = {name: itemgetter(*columns) for name, columns in COLUMNS.items()}
# By kind: the kinds of the rows that a row refers to, each with the column and the member of its id.
PARENTS = {
    kind: [
        (key.column.table.name, column.name, member_of(column))
        for column in table.columns
        for key in column.foreign_keys
    ]
    for kind, table in LINE_TABLES.items()
}
Parties = tuple[int, int]  # caregiver and client


class ParentRejected(LineRejected):
    """The line refers to a rejected line, and may be correct itself."""


class ImportRows:
    """The rows of the lines so far, and the ids and values of the file and of the database."""

    def __init__(self) -> None:
        self.now = datetime.min.replace(tzinfo=UTC)  # scheduled reminders until it are skipped
        self.rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self.known: dict[str, dict[int, Parties | None]] = defaultdict(dict)
        self.rejected: set[tuple[str, int]] = set()
        self.erased: set[int] = set()  # clients
        self.disabled: set[tuple[str, int]] = set()  # people, also those who are not in the database
        self.unique: dict[tuple[str, str], set[str | None]] = defaultdict(set)
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
        if line.id in self.known[line.kind]:
            raise LineRejected(f"id: {line.id} exists already")
        try:
            self.known[line.kind][line.id] = self.add_row(line)
        except LineRejected:
            self.rejected.add((line.kind, line.id))
            raise
        return line.kind

    def reject(self, text: str | bytes) -> None:
        """Stores the id of an invalid line, so that lines which refer to it are not reported as well."""
        with suppress(orjson.JSONDecodeError):
            match orjson.loads(text):
                case {"kind": str(kind), "id": int(row_id)} if kind in LINE_TABLES:
                    if row_id not in self.known[kind]:
                        self.rejected.add((kind, row_id))

    def add_row(self, line: ImportLine) -> Parties | None:
        """Returns the caregiver and the client of the row, if it has them."""
        if isinstance(line, ClientLine):
            self.reject_erased("id", line.id)
        values = vars(line)
        for parent, column, member in PARENTS[line.kind]:
            parties = self.require(parent, member, values[column])
            if parties is not None:
                values = {**values, "caregiver_id": parties[0], "client_id": parties[1]}
        match line:
            case CaregiverLine() | ClientLine():
                values = {**values, **self.add_person(line)}
            case BookLine():
                self.add_parts_of_book(line)
            case SessionLine():
                self.sessions.add(line.id)
                values = {**values, "assignment_count": 0, "completed_assignment_count": 0}
            case AssignmentLine():
                self.add_parts_of_assignment(line, values)
            case AnswerSetLine():
                values = {**values, **self.add_submission(line)}
        self.rows[line.kind].append(ROW_OF[line.kind](values))
        return (values["caregiver_id"], values["client_id"]) if "client_id" in values else None

    def require(self, kind: str, member: str, row_id: int) -> Any:
        """The parties of the row that a line refers to."""
        if (kind, row_id) in self.rejected:
            raise ParentRejected
        if kind == "client":
            self.reject_erased(member, row_id)
        if row_id not in self.known[kind]:
            raise LineRejected(f"{member}: {row_id} does not exist before this line")
        parties = self.known[kind][row_id]
        if parties is not None:
            self.reject_erased(member, parties[1])
        return parties

    def reject_erased(self, member: str, client: int) -> None:
        if client in self.erased:
            raise LineRejected(f"{member}: client {client} is erased")

    def require_unique(self, kind: str, member: str, value: str | None) -> None:
        taken = self.unique[kind, member]
        if value is not None and value in taken:
            raise LineRejected(f"{member}: exists already")
        taken.add(value)

    def require_identifier(self, client: int, oppt_id: str) -> None:
        """Rejects an identifier that the erasure of another client would set."""
        if is_erased_text(oppt_id) and oppt_id != f"{ERASED_PREFIX}{client}":
            raise LineRejected("opptId: can only be that of an erased client")
        self.require_unique("client", "opptId", oppt_id)

    def add_person(self, line: CaregiverLine | ClientLine) -> Values:
        self.require_unique(line.kind, "userName", line.user_name)
        if isinstance(line, ClientLine):
            self.require_identifier(line.id, line.oppt_id)
        return {"is_disabled": (line.kind, line.id) in self.disabled}

    def add_parts_of_book(self, line: BookLine) -> None:
        if line.is_test:
            self.tests.add(line.id)
        self.rows["book_word"] += [(word, line.id) for word in words_of(line.name)]
        self.rows["question"] += question_rows(line.id, line.questions)

    def add_parts_of_assignment(self, line: AssignmentLine, values: Values) -> None:
        self.sessions.add(line.session_id)
        self.books.add(line.book_id)
        self.attempts[line.id] = (line.attempt, line.status, self.counted(line.book_id, line.score))
        for item in line.reminders:
            is_late = item.state == ReminderState.SCHEDULED and item.remind_date <= self.now
            state = ReminderState.SKIPPED if is_late else item.state
            self.rows["reminder"].append(
                ROW_OF["reminder"]({**values, **vars(item), "assignment_id": line.id, "state": state})
            )

    def add_submission(self, line: AnswerSetLine) -> Values:
        score = None
        if line.save_type == SaveType.FINAL:
            score = self.submit(line.assignment_id, line.attempt)
        elif line.assignment_id in self.drafted:
            raise LineRejected(f"saveType: assignment {line.assignment_id} has a draft already")
        else:
            self.drafted.add(line.assignment_id)
        answers = as_document(Answer(None, one.question_text, one.answer) for one in line.answers)
        return {"score": score, "own_score": score, "answers": answers}

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
        known = self.known["session"]
        return {each: parties[0] for each in sessions if (parties := known[each]) is not None}

    def take_rows(self) -> list[Bulk]:
        """Returns the collected rows, parents first, and forgets them."""
        rows, self.rows = self.rows, defaultdict(list)
        return [Bulk(table, columns, rows[table]) for table, columns in COLUMNS.items() if rows[table]]


def question_rows(book_id: int, questions: Iterable[QuestionItem]) -> Iterator[tuple[Any, ...]]:
    for position, question in enumerate(questions, 1):
        weights = None if question.weights is None else as_json(question.weights)
        values = {"book_id": book_id, "position": position, "options": as_json(question.options)}
        yield ROW_OF["question"]({**vars(question), **values, "weights": weights})


def as_json(value: object) -> str:
    return orjson.dumps(value).decode()
