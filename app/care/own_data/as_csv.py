"""Own data as a table with one row per answer. No value runs as a formula in a spreadsheet."""

import csv
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from io import StringIO
from typing import Any

from app.db.reader.own_data import Data

# The columns of the table in their order, each with the column of the row that holds its value.
CLIENT = {"clientId": "id", "clientName": "name"}
SESSION = {
    "caregiverId": "caregiver.id",
    "caregiverName": "caregiver.name",
    "sessionId": "id",
    "sessionTitle": "title",
}
ASSIGNMENT = {
    "assignmentId": "id",
    "bookId": "book.id",
    "bookName": "book.name",
    "moduleName": "book.module.name",
    "isTest": "book.is_test",
    "assignDate": "assign_date",
    "startDate": "start_date",
    "endDate": "end_date",
    "submitDate": "submit_date",
    "status": "status",
    "attempt": "attempt",
    "score": "score",
    "withdrawDate": "withdraw_date",
}
ANSWER_SET = {
    "answerSetId": "id",
    "saveType": "save_type",
    "answerSetAttempt": "attempt",
    "revision": "revision",
    "answerSetSubmitDate": "submit_date",
    "answerSetScore": "score",
}
ANSWER = {"position": "position", "questionText": "question_text", "answer": "answer"}
FEEDBACK = {"feedbackText": "text", "feedbackScore": "score", "feedbackSubmitDate": "submit_date"}
LEVELS = (CLIENT, SESSION, ASSIGNMENT, ANSWER_SET, ANSWER, FEEDBACK)
HEADER = tuple(name for columns in LEVELS for name in columns)

FORMULA = tuple("=+-@＝＋－＠")  # first characters of a formula; some spreadsheets accept the wide forms too
BREAK = ("\t", "\r", "\n")  # some spreadsheets begin the next cell at these characters
PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


class CsvDocument:
    """RFC 4180: a header, lines that end in CR LF, quotes where they are needed.

    Sessions without assignments, reminders and events are in the JSON document only.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.client: Data = {}

    def begin(self, client: Data) -> None:
        self.client = client
        self.write(as_csv([HEADER]))

    def add_session(self, session: Data) -> None:
        for assignment in session["assignments"]:
            self.write(as_csv(map(values_of, rows_of(self.client, session, assignment))))

    def end(self, events: Iterable[Data]) -> None: ...


def rows_of(client: Data, session: Data, assignment: Data) -> Iterable[tuple[Data, ...]]:
    """One row per answer; an assignment or answer set without answers has one row with empty cells."""
    for answer_set in assignment["answer_sets"] or [{}]:
        feedback: Data = next(iter(answer_set.get("feedbacks", ())), {})  # an answer set has at most one
        for answer in answer_set.get("answers") or [{}]:
            yield client, session, assignment, answer_set, answer, feedback


def values_of(rows: tuple[Data, ...]) -> list[Any]:
    return [row.get(name) for columns, row in zip(LEVELS, rows, strict=True) for name in columns.values()]


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    text = StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return without_formula(value) if isinstance(value, str) else str(value)


def without_formula(text: str) -> str:
    """Prefixes a formula with an apostrophe, so that a spreadsheet shows it as text."""
    is_formula = text.lstrip().startswith(FORMULA) and not PLAIN_NUMBER.fullmatch(text)
    return "'" + text if is_formula or text.startswith(BREAK) else text
