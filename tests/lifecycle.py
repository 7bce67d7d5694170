"""A client with rows in every table, and other people whose rows must be neither disclosed nor changed."""

from sqlalchemy import text

from app.db.session_counters import RECOMPUTE_COUNTERS
from app.db.sql import Bulk, Statement, Steps
from tests.callers import load, run_write
from tests.factories import (
    DAY,
    HOUR,
    NOW,
    Record,
    a_book,
    a_caregiver,
    a_client,
    a_complete_assignment,
    a_module,
    a_session,
    an_answer_set,
    an_assignment,
)

# Texts that occur only in the rows of client 1.
PRIVATE = ("Zoë Client 1", "OPPT-1", "client-1", "Moving-out", "kitchen-table", "chat-1", "Blue-bicycle")
FEEDBACK = (
    "id",
    "caregiver_id",
    "client_id",
    "assignment_id",
    "answer_set_id",
    "text",
    "score",
    "submit_date",
)
EVENT = ("caregiver_id", "client_id", "kind", "actor", "session_id", "assignment_id", "reminder_id", "moment")
DELIVERY = ("event_id", "caregiver_id", "client_id", "state", "attempts", "next_date", "last_answer")
KEPT = ("role", "viewer_id", "contract", "key", "fingerprint", "result", "status", "body", "moment")
WITHDRAW = Statement(
    lambda kind: text("UPDATE assignment SET withdraw_date = assign_date WHERE assignment.id = 3")
)


def one_client() -> list[Record]:
    """Client 1 with caregiver 1: session 1 (RUNNING) and 2 (closed), with caregiver 2: session 3 (FUTURE).
    Client 2 with caregiver 1: session 4. Assignment 1 was submitted twice, 2 is drafted and has reminders,
    3 will be withdrawn, 4 is client 2's."""
    said = [
        {"questionText": "How was it?", "answer": '=HYPERLINK("kitchen-table")'},
        {"questionText": "How many hours?", "answer": "-7.5"},
    ]
    return [
        *(a_caregiver(number) for number in (1, 2)),
        *(a_client(number) for number in (1, 2)),
        a_module(1),
        a_book(1, name="Sleep diary"),
        a_book(2, name="Mood check", isTest=True),
        a_session(1, title="Moving-out", description='The "kitchen-table", again'),
        a_session(2, title="Moving-out, before", isClosed=True, closeDate=NOW - 20 * DAY, chatId="chat-1b"),
        a_session(3, caregiver=2, title="Moving-out, after", startDate=NOW + DAY, chatId="chat-1c"),
        a_session(4, client=2, title="Neighbours", chatId="chat-n"),
        a_complete_assignment(
            1, book=2, attempt=2, score=12, feedbackStatus="SUBMITTED", feedbackSubmitDate=NOW - HOUR
        ),
        an_assignment(
            2,
            reminders=[{"remindDate": NOW - DAY, "state": "SENT"}, {"remindDate": NOW + DAY}],
        ),
        an_assignment(3),
        a_complete_assignment(4, session=4),
        an_answer_set(1, 1, attempt=1, submitDate=NOW - 4 * DAY),
        an_answer_set(2, 1, attempt=2, answers=said),
        an_answer_set(
            3,
            2,
            saveType="DRAFT",
            revision=4,
            answers=[{"questionText": "How was it?", "answer": "Blue-bicycle"}],
        ),
        an_answer_set(4, 4),
    ]


def load_one_client(url: str) -> None:
    load(url, one_client())
    run_write(url, inserting_service_rows())


def inserting_service_rows() -> Steps[None]:
    """Rows that the service writes and no import contains."""
    yield Bulk(
        "feedback",
        FEEDBACK,
        [
            (1, 1, 1, 1, 2, "A Blue-bicycle,\nso what?", 12, NOW - HOUR),
            (2, 1, 2, 4, 4, "Neighbourly", None, NOW - HOUR),
        ],
    )
    yield Bulk(
        "event",
        EVENT,
        [
            (1, 1, "ASSIGNED", "CAREGIVER", 1, 1, None, NOW - 10 * DAY),
            (1, 2, "ASSIGNED", "CAREGIVER", 4, 4, None, NOW - 10 * DAY),
            (1, 1, "REMINDER_DUE", "SERVICE", 1, 2, 1, NOW - DAY),
            (2, 1, "SESSION_CREATED", "CAREGIVER", 3, None, None, NOW - HOUR),
        ],
    )
    yield Bulk(
        "delivery",
        DELIVERY,
        [
            (1, 1, 1, "DEAD", 9, NOW, "500 Blue-bicycle unknown"),
            (2, 1, 2, "WAITING", 1, NOW, "500 neighbour unknown"),
        ],
    )
    yield Bulk(
        "idempotency_key",
        KEPT,
        [
            ("CLIENT", 1, "graphql", "a", "f", "[1]", 200, "Blue-bicycle", NOW),
            ("CLIENT", 2, "graphql", "a", "f", "[1]", 200, "neighbour", NOW),
            ("CAREGIVER", 1, "graphql", "a", "f", "[1]", 200, "Blue-bicycle", NOW),
            ("CAREGIVER", 2, "rest", "b", "f", "[1]", None, None, NOW),
            ("CAREGIVER", 3, "rest", "b", "f", "[1]", None, None, NOW),
        ],
    )
    yield WITHDRAW, {}
    yield RECOMPUTE_COUNTERS, {"sessions": [1, 2, 3]}
