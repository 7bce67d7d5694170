"""Own data as a table: one row per answer, which spreadsheets open without running anything in it."""

import csv
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from io import StringIO
from typing import Any

from app.care.own_data.as_json import rfc3339
from app.db.reader.own_data import Data

HEADER = (
    "clientId", "clientName", "caregiverId", "caregiverName", "sessionId", "sessionTitle",
    "assignmentId", "bookId", "bookName", "moduleName", "isTest", "assignDate", "startDate", "endDate",
    "submitDate", "status", "attempt", "score", "withdrawDate",
    "answerSetId", "saveType", "answerSetAttempt", "revision", "answerSetSubmitDate", "answerSetScore",
    "position", "questionText", "answer",
    "feedbackText", "feedbackScore", "feedbackSubmitDate",
)  # fmt: skip
FORMULA = tuple("=+-@＝＋－＠")  # how one begins; some spreadsheets take the wide ones for the others
BREAK = ("\t", "\r", "\n")  # some begin the next cell at such a character
PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")

NO_ANSWER: tuple[None, ...] = (None,) * 3
NO_SET: tuple[None, ...] = (None,) * 6
NO_FEEDBACK: tuple[None, ...] = (None,) * 3


class CsvDocument:
    """RFC 4180: a header, lines that end in CR LF, quotes where they are needed. Not told: sessions without
    assignments, reminders and events; those are in the JSON document."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.client: tuple[Any, ...] = ()

    def begin(self, client: Data) -> None:
        self.client = (client["id"], client["name"])
        self.write(as_csv([HEADER]))

    def add_session(self, session: Data) -> None:
        of_session = (
            *self.client,
            session["caregiver_id"],
            session["caregiver_name"],
            session["id"],
            session["title"],
        )
        for assignment in session["assignments"]:
            rows = [(*of_session, *of_assignment(assignment), *row) for row in rows_of(assignment)]
            self.write(as_csv(rows))

    def end(self, events: Iterable[Data]) -> None: ...


def rows_of(assignment: Data) -> Iterable[tuple[Any, ...]]:
    """One per answer; what has none still has its row."""
    for answer_set in assignment["answer_sets"]:
        feedbacks = [of_feedback(feedback) for feedback in answer_set["feedbacks"]]
        feedback = feedbacks[0] if feedbacks else NO_FEEDBACK  # there is one at the most
        answers = [of_answer(answer) for answer in answer_set["answers"]]
        for answer in answers or [NO_ANSWER]:
            yield (*of_answer_set(answer_set), *answer, *feedback)
    if not assignment["answer_sets"]:
        yield (*NO_SET, *NO_ANSWER, *NO_FEEDBACK)


def of_assignment(assignment: Data) -> tuple[Any, ...]:
    return (
        assignment["id"],
        assignment["book_id"],
        assignment["book_name"],
        assignment["module_name"],
        assignment["is_test"],
        assignment["assign_date"],
        assignment["start_date"],
        assignment["end_date"],
        assignment["submit_date"],
        assignment["status"],
        assignment["attempt"],
        assignment["score"],
        assignment["withdraw_date"],
    )


def of_answer_set(answer_set: Data) -> tuple[Any, ...]:
    return (
        answer_set["id"],
        answer_set["save_type"],
        answer_set["attempt"],
        answer_set["revision"],
        answer_set["submit_date"],
        answer_set["score"],
    )


def of_answer(answer: Data) -> tuple[Any, ...]:
    return (answer["position"], answer["question_text"], answer["answer"])


def of_feedback(feedback: Data) -> tuple[Any, ...]:
    return (feedback["text"], feedback["score"], feedback["submit_date"])


def as_csv(rows: Iterable[tuple[Any, ...]]) -> str:
    text = StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return rfc3339(value) or ""
    return defused(value) if isinstance(value, str) else str(value)


def defused(text: str) -> str:
    """A spreadsheet shows what stands behind an apostrophe as text, instead of running it as a formula."""
    is_formula = text.lstrip().startswith(FORMULA) and not PLAIN_NUMBER.fullmatch(text)
    return "'" + text if is_formula or text.startswith(BREAK) else text
