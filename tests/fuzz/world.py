"""A database with many sessions of a few people, with homework in every state."""

from collections.abc import Iterator

from tests.factories import (
    DAY,
    NOW,
    Record,
    a_book,
    a_complete_assignment,
    a_module,
    a_session,
    an_answer_set,
    an_assignment,
    people,
)

SESSIONS = 150
KINDS = ("TEXT", "NUMBER", "YES_NO", "SINGLE_CHOICE", "MULTIPLE_CHOICE", "SCALE")
CHOOSING = KINDS[3:]


def a_wide_world() -> Iterator[Record]:
    """Books 1 to 6 with questions of every kind. Of every ten sessions six are running, one is in the
    future, one is closed and two belong to caregiver 2. Each has pending, submitted and reopened
    assignments."""
    yield from people()
    yield from (a_module(1), a_module(2))
    for number in range(1, 7):
        questions = [
            {
                "text": f"Question of kind {kind}?",
                "kind": kind,
                "options": ["1", "2", "3"] if kind in CHOOSING else [],
                "required": kind == "TEXT",
            }
            for kind in KINDS
        ]
        yield a_book(number, moduleId=1 + number % 2, isTest=number % 3 == 0, questions=questions)
    for number in range(1, SESSIONS + 1):
        yield a_session(
            number,
            caregiver=2 if number % 10 >= 8 else 1,
            client=1 + number % 2 if number % 10 >= 8 else 1,
            startDate=NOW + DAY if number % 10 == 6 else NOW - 30 * DAY,
            isClosed=number % 10 == 7,
            **({"closeDate": NOW - DAY} if number % 10 == 7 else {}),
        )
    for session in range(1, SESSIONS + 1):
        first = 3 * session - 2
        yield an_assignment(first, session, book=1 + session % 6, reminders=[{"remindDate": NOW + DAY}])
        yield a_complete_assignment(first + 1, session, book=1 + session % 3)
        yield an_answer_set(2 * session - 1, assignment=first + 1)
        yield an_assignment(first + 2, session, book=1 + session % 2, attempt=2)
        yield an_answer_set(2 * session, assignment=first + 2, attempt=1)
