"""Validates the lines of an import, and converts them into rows of the tables."""

from collections import defaultdict
from typing import Any

import orjson

from app.db.admin.questions import QUESTION_COLUMNS, read_questions
from app.db.admin.records import Consequence, Problem, Record, is_id
from app.db.sql import Bulk
from app.db.statements.books import words_of
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
    Reminder,
    ReminderState,
    SaveType,
    Session,
    Table,
    table_of,
)

# The order of insertion: parents before children.
COLUMNS: dict[Table, tuple[str, ...]] = {
    Caregiver: ("id", "name", "position", "user_name", "is_disabled"),
    Client: ("id", "name", "oppt_id", "user_name", "is_disabled"),
    Module: ("id", "name"),
    Book: ("id", "module_id", "name", "is_test", "retire_date"),
    BookWord: ("word", "book_id"),
    Question: QUESTION_COLUMNS,
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
        "score", "own_score",
    ),
    Answer: ("answer_set_id", "position", "caregiver_id", "client_id", "question_text", "answer"),
}  # fmt: skip
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


class World:
    """The collected rows, and the ids of the file and of the database that they may refer to."""

    def __init__(self) -> None:
        self.rows: dict[Table, list[tuple[Any, ...]]] = defaultdict(list)
        self.known: dict[Table, dict[int, Parties | None]] = defaultdict(dict)
        self.refused: set[tuple[Table, int]] = set()  # ids of rejected lines
        self.unique: dict[str, set[str]] = defaultdict(set)
        self.tests: set[int] = set()  # books that are tests
        # assignment -> attempt, status, and score if it has one
        self.attempts: dict[int, tuple[int, str, int | None]] = {}
        self.submitted: set[tuple[int, int]] = set()  # assignment and attempt
        self.drafted: set[int] = set()  # assignments that have a draft
        self.sessions: set[int] = set()  # new, or with new assignments
        self.books: set[int] = set()  # with new assignments
        self.read = {
            "caregiver": self.caregiver,
            "client": self.client,
            "module": self.module,
            "book": self.book,
            "session": self.session,
            "assignment": self.assignment,
            "answer_set": self.answer_set,
        }

    def take(self, line: str | bytes | dict[str, Any]) -> str:
        try:
            given = line if isinstance(line, dict) else orjson.loads(line)
        except orjson.JSONDecodeError:
            raise Problem("the line", "is not JSON") from None
        record = Record(given)
        kind = record.take(
            "kind", f"one of {', '.join(self.read)}", lambda v: isinstance(v, str) and v in self.read
        )
        table, row_id = TABLES[kind], record.given.get("id", 0)
        is_new = is_id(row_id) and row_id not in self.known[table]
        try:
            self.read[kind](record)
            record.finish()
        except Problem:
            if is_new:
                self.known[table].pop(row_id, None)
                self.refused.add((table, row_id))
            raise
        return str(kind)

    def new(self, table: Table, record: Record, parties: Parties | None = None) -> int:
        row_id = record.id("id")
        if row_id in self.known[table]:
            raise Problem("id", f"{row_id} is there already")
        self.known[table][row_id] = parties
        return row_id

    def refer(self, table: Table, record: Record, member: str) -> tuple[int, Any]:
        row_id = record.id(member)
        if (table, row_id) in self.refused:
            raise Consequence(member, f"{row_id} is refused")
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
        name, is_test = record.text("name"), record.flag("isTest")
        retired = record.optional_moment("retireDate")
        if is_test:
            self.tests.add(row_id)
        self.rows[Book].append((row_id, module_id, name, is_test, retired))
        self.rows[BookWord] += [(word, row_id) for word in words_of(name)]
        self.rows[Question] += [(row_id, *question) for question in read_questions(record, is_test)]

    def session(self, record: Record) -> None:
        caregiver_id, _ = self.refer(Caregiver, record, "caregiverId")
        client_id, _ = self.refer(Client, record, "clientId")
        row_id = self.new(Session, record, (caregiver_id, client_id))
        self.sessions.add(row_id)
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
        self.sessions.add(session_id)
        self.books.add(book_id)
        status = record.one_of("status", AssignmentStatus, AssignmentStatus.PENDING)
        submit_date = record.optional_moment("submitDate")
        if (status == AssignmentStatus.COMPLETE) != (submit_date is not None):
            raise Problem("submitDate", "belongs to a COMPLETE assignment, and to no other")
        attempt = record.number("attempt", 1)
        score = record.number("score", 0)
        self.attempts[row_id] = (attempt, status, self.counted(book_id, score))
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
                score,
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
        score = None
        if save_type == SaveType.FINAL:
            if submit_date is None:
                raise Problem("submitDate", "is missing")
            score = self.submit(assignment_id, attempt)
        elif submit_date is not None:
            raise Problem("submitDate", "belongs to a FINAL answer set only")
        elif assignment_id in self.drafted:
            raise Problem("saveType", f"{save_type} is a second draft of assignment {assignment_id}")
        else:
            self.drafted.add(assignment_id)
        self.rows[AnswerSet].append(
            (row_id, *parties, assignment_id, save_type, attempt, revision, submit_date, score, score)
        )
        for position, answer in enumerate(record.records("answers"), 1):
            texts = (answer.text("questionText"), answer.text("answer"))
            self.rows[Answer].append((row_id, position, *parties, *texts))
            answer.finish()

    def counted(self, book_id: int, score: int) -> int | None:
        """A score of 0 means no score, except for tests."""
        return score if score or book_id in self.tests else None

    def submit(self, assignment_id: int, attempt: int) -> int | None:
        """Every attempt has one submission; the submission of the current attempt makes it COMPLETE.

        The current attempt has the score of the assignment; scores of earlier attempts are unknown.
        """
        current, status, score = self.attempts[assignment_id]
        if attempt > current or (attempt == current and status != AssignmentStatus.COMPLETE):
            raise Problem("attempt", f"{attempt} of the assignment is not submitted")
        if (assignment_id, attempt) in self.submitted:
            raise Problem("attempt", f"{attempt} of the assignment is there already")
        self.submitted.add((assignment_id, attempt))
        return score if attempt == current else None

    def take_rows(self) -> list[Bulk]:
        """Returns the collected rows, parents first, and forgets them."""
        bulks = [
            Bulk(table_of(table).name, columns, self.rows[table])
            for table, columns in COLUMNS.items()
            if self.rows[table]
        ]
        self.rows = defaultdict(list)
        return bulks
