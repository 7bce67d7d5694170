"""Data and small helpers for the tests of the schema."""

import base64
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from app.db.sql import Bulk, Statement, Steps
from app.db.tables import Table, table_of
from tests.callers import Caller, Gateway, run_write
from tests.factories import (
    DAY,
    HOUR,
    NOW,
    Record,
    a_book,
    a_world,
    an_answer_set,
    an_assignment,
)

QUESTIONS = [
    {"text": "How was your mood?", "kind": "SCALE", "options": ["1", "2", "3"], "required": True},
    {"text": "Anything else?", "kind": "TEXT", "options": [], "required": False},
]


def a_full_world() -> list[Record]:
    """`a_world`, and: assignment 2 is drafted; assignment 6 (of a book with two kinds of questions, in
    session 4) is overdue by an hour and has reminders in every state; assignment 7 was submitted twice, the
    second time a minute late."""
    return [
        *a_world(),
        a_book(4, name="Weekly mood – über alles", moduleId=2, questions=QUESTIONS),
        an_assignment(
            6,
            session=4,
            book=4,
            endDate=NOW - HOUR,
            reminders=[
                {"remindDate": NOW - 3 * DAY, "state": "SENT"},
                {"remindDate": NOW - 2 * DAY, "state": "SKIPPED"},
                {"remindDate": NOW - 2 * HOUR, "state": "SCHEDULED"},
            ],
        ),
        an_assignment(
            7,
            attempt=2,
            status="COMPLETE",
            endDate=NOW - DAY,
            submitDate=NOW - DAY + timedelta(seconds=60),
            score=12,
            feedbackStatus="SUBMITTED",
            feedbackSubmitDate=NOW - HOUR,
        ),
        an_answer_set(4, assignment=7, attempt=1, submitDate=NOW - 3 * DAY),
        an_answer_set(5, assignment=7, attempt=2, submitDate=NOW - DAY + timedelta(seconds=60)),
        a_draft(6, assignment=2),
    ]


def a_draft(number: int, assignment: int, **changed: Any) -> Record:
    said = [{"questionText": "How was it?", "answer": "Not yet don"}]
    draft = {"saveType": "DRAFT", "submitDate": None, "revision": 3, "answers": said} | changed
    return an_answer_set(number, assignment, **draft)


def given_feedback(gateway: Gateway) -> None:
    """Feedback of caregiver 1 on answer set 5."""
    columns = (
        "id",
        "caregiver_id",
        "client_id",
        "assignment_id",
        "answer_set_id",
        "text",
        "score",
        "submit_date",
    )
    row = (1, 1, 1, 7, 5, "Well done – schön!", 12, NOW - HOUR)

    def giving() -> Steps[None]:
        yield Bulk("feedback", columns, [row])

    run_write(gateway.settings.database, giving())


def global_id(kind: str, number: int) -> str:
    return in_base64(f"{kind}:{number}")


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def not_found(path: str, message: str | None = None, column: int = 0) -> dict[str, Any]:
    """The whole response to a lookup of a missing object."""
    return {
        "data": {path: None},
        "errors": [refusal("NOT_FOUND", message or f"{path} not found", path, column=column)],
    }


def refusal(code: str, message: str, *path: str | int, column: int, line: int = 1) -> dict[str, Any]:
    error: dict[str, Any] = {"message": message, "locations": [{"line": line, "column": column}]}
    if path:
        error["path"] = list(path)
    return error | {"extensions": {"code": code}}


def numbers(page: dict[str, Any]) -> list[int]:
    return [int(node["legacyId"]) for node in page["nodes"]]


# --- stored rows -----------------------------------------------------------------------------------


def count(gateway: Gateway, table: Table) -> int:
    statement = Statement(lambda kind: select(func.count()).select_from(table_of(table)))

    def counting() -> Steps[int]:
        return int((yield statement, {})[0][0])

    return gateway.read(counting())


def stored(gateway: Gateway, table: Table, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows, oldest first."""
    source = table_of(table).c
    statement = Statement(lambda kind: select(*(source[name] for name in columns)).order_by(source.id))

    def reading() -> Steps[list[tuple[Any, ...]]]:
        return [tuple(row) for row in (yield statement, {})]

    return gateway.read(reading())


def every_page(caller: Caller, root: str, first: int, filter: str = "") -> list[int]:
    """The numbers of all rows, read page by page with cursors."""
    found: list[int] = []
    after: str | None = None
    while True:
        query = f"""query($first: Int!, $after: String) {{
            list: {root}(first: $first, after: $after {filter}) {{
                nodes {{ legacyId }} pageInfo {{ hasNextPage endCursor }} }} }}"""
        page = caller.data(query, first=first, after=after)["list"]
        found += numbers(page)
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]
