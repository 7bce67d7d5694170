"""Own data: all stored data of a client as one document, for the client and for the operator."""

import csv
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from functools import cache
from io import StringIO
from typing import Any

import orjson

from app.care.context import Context, Role
from app.care.errors import ResponseTooLong
from app.db.audit.records import About
from app.db.interchange.dump import Data, reading_client, reading_events, reading_key, reading_sessions
from app.db.sql import Steps

MAX_OWN_DATA = 16 * 1024 * 1024  # bytes; decades of weekly homework


class DataFormat(StrEnum):
    JSON = "JSON"
    CSV = "CSV"


async def get_own_data(ctx: Context, format: DataFormat) -> str:
    client_id = await ctx.require_role(Role.CLIENT, "ownData")
    parts: list[bytes] = []
    about = await ctx.db.read(exporting(client_id, format, bounded(parts)))
    await ctx.record("ownData", about)
    text = b"".join(parts).decode()
    ctx.exempt_length += len(orjson.dumps(text))
    return text


def bounded(parts: list[bytes]) -> Callable[[str], object]:
    """Appends to `parts`. The document is one value of a response, so it has a limit of its own."""
    length = 0

    def write(part: str) -> None:
        nonlocal length
        parts.append(part.encode())
        length += len(parts[-1])
        if length > MAX_OWN_DATA:
            raise ResponseTooLong(
                f"the data have more than {MAX_OWN_DATA} bytes: the operator exports them with"
                " `care-gateway export`"
            )

    return write


def exporting(client_id: int, format: DataFormat, write: Callable[[str], object]) -> Steps[About]:
    """Writes the document part by part from one snapshot; the content does not depend on the current time.

    Returns the relationships of the client for the audit record.
    """
    document = JsonDocument(write) if format is DataFormat.JSON else CsvDocument(write)
    document.begin((yield from reading_client(client_id)))
    key = yield from reading_key(client_id)
    after = 0
    while sessions := (yield from reading_sessions(key, after)):
        for session in sessions:
            document.add_session(session)
        after = sessions[-1]["id"]
    document.end((yield from reading_events(key)))
    return [(caregiver, client_id, {}) for caregiver in sorted(key["caregivers"])]


# --- JSON -----------------------------------------------------------------------------------------


class JsonDocument:
    """One document in the members that docs/own-data.md lists. Keeps no session in memory."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.has_sessions = False

    def begin(self, client: Data) -> None:
        self.write(f'{{\n  "client": {indented(client, 2)},\n  "sessions": [')

    def add_session(self, session: Data) -> None:
        self.write(f"{',' if self.has_sessions else ''}\n    {indented(session, 4)}")
        self.has_sessions = True

    def end(self, events: Iterable[Data]) -> None:
        after_sessions = "\n  " if self.has_sessions else ""
        lines = ",".join(f"\n    {as_json(event)}" for event in events)
        after_events = "\n  " if lines else ""
        self.write(f'{after_sessions}],\n  "events": [{lines}{after_events}]\n}}\n')


def indented(row: Data, spaces: int) -> str:
    """Every line break is one of the layout, because line breaks in texts are escaped."""
    return as_json(row, orjson.OPT_INDENT_2).replace("\n", "\n" + " " * spaces)


def as_json(row: Data, option: int = 0) -> str:
    return orjson.dumps(object_of(row), option=option | orjson.OPT_UTC_Z).decode()


def object_of(row: Data) -> dict[str, Any]:
    """The members of a row: the column `book.is_test` is the member `isTest` of the object `book`."""
    members: dict[str, Any] = {}
    for column, value in row.items():
        *objects, member = path_of(column)
        target = members
        for name in objects:
            target = target.setdefault(name, {})
        target[member] = list(map(object_of, value)) if isinstance(value, list) else value
    return members


@cache
def path_of(column: str) -> list[str]:
    words = column.title().replace("_", "").split(".")
    return [word[0].lower() + word[1:] for word in words]


# --- CSV ------------------------------------------------------------------------------------------


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

# The first characters of a formula; some spreadsheets accept the wide forms too.
FORMULA = re.compile(r'[\s"]*[=+\-@＝＋－＠]')
BREAK = ("\t", "\r", "\n")  # some spreadsheets begin the next cell at these characters
# In many countries spreadsheets separate cells by `;`. Quotes then stand within a cell, where they do not
# protect the separators and line breaks between them.
SEPARATOR = re.compile(r"([;\t\r\n])")
PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


class CsvDocument:
    """A table with one row per answer (RFC 4180). No value runs as a formula in a spreadsheet.

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
            self.write(as_csv(map(cells_of, rows_of(self.client, session, assignment))))

    def end(self, events: Iterable[Data]) -> None: ...


def rows_of(client: Data, session: Data, assignment: Data) -> Iterable[tuple[Data, ...]]:
    """One row per answer; an assignment or answer set without answers has one row with empty cells."""
    for answer_set in assignment["answer_sets"] or [{}]:
        feedback: Data = next(iter(answer_set.get("feedbacks", ())), {})  # an answer set has at most one
        for answer in answer_set.get("answers") or [{}]:
            yield client, session, assignment, answer_set, answer, feedback


def cells_of(rows: tuple[Data, ...]) -> list[Any]:
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
    return without_formulas(value) if isinstance(value, str) else str(value)


def without_formulas(text: str) -> str:
    """Prefixes each formula with an apostrophe, so that a spreadsheet shows it as text."""
    cells = ["'" + each if is_formula(each) else each for each in SEPARATOR.split(text)]
    return "".join(["'" if text.startswith(BREAK) else "", *cells])


def is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and PLAIN_NUMBER.fullmatch(text.strip()) is None
