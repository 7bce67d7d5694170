"""Actions of caregivers and clients through the functions of `care`, and the invariants of the stored
rows."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from app.care.answers import Answers, save_answers, submit_answers
from app.care.assignment_changes import (
    extend_assignment,
    reopen_assignment,
    set_reminders,
    withdraw_assignment,
)
from app.care.context import Context, Role, Viewer
from app.care.errors import CareError
from app.care.feedback import FeedbackInput, give_feedback
from app.care.homework import Homework, assign_homework
from app.care.questions import GivenAnswer
from app.care.sessions import close_session
from app.db.drivers.interface import Database
from app.db.reader.selection import Selection
from app.db.session_counters import differences
from tests.database_rows import Stored, all_rows, of_other_people
from tests.factories import (
    DAY,
    NOW,
    Record,
    a_book,
    a_module,
    a_session,
    an_assignment,
    people,
)

DONE = "DONE"
QUESTION = 1  # the one that every book here asks; what is chosen is what it scores
OPTIONS = ["0", "1", "2", "3"]


def a_catalogue() -> list[Record]:
    scale = {"kind": "SCALE", "text": "How strongly?", "options": OPTIONS, "weights": [0, 1, 2, 3]}
    return [*people(), a_module(1), a_book(1, isTest=True, questions=[{**scale, "required": True}])]


def sessions_with_homework(count: int, each: int = 1) -> list[Record]:
    """Sessions 1 to `count` of caregiver 1 with client 1, each with `each` pending assignments."""
    sessions = [a_session(number) for number in range(1, count + 1)]
    reminders = [{"remindDate": NOW + DAY}]
    homework = [
        an_assignment(number, session=(number - 1) // each + 1, reminders=reminders)
        for number in range(1, count * each + 1)
    ]
    return [*a_catalogue(), *sessions, *homework]


def as_caregiver(db: Database, number: int = 1, now: datetime = NOW) -> Context:
    return Context(Viewer(Role.CAREGIVER, number), db, now, "request", "UTC")


def as_client(db: Database, number: int = 1, now: datetime = NOW) -> Context:
    return Context(Viewer(Role.CLIENT, number), db, now, "request", "UTC")


async def outcome_of(change: Awaitable[Any]) -> str:
    """Returns DONE or the code of the rejection. Other errors fail the test."""
    try:
        await change
    except CareError as refusal:
        return refusal.code
    return DONE


# --- what is done, by caregiver 1 and usually client 1 ----------------------------------------------

Verb = Callable[[Database, int], Awaitable[Any]]  # to the assignment, or the session, of this number


def submitting(answer: str, revision: int = 0, client: int = 1) -> Verb:
    return lambda db, number: submit_answers(as_client(db, client), answers_of(number, answer, revision))


def saving(answer: str, revision: int = 0) -> Verb:
    return lambda db, number: save_answers(as_client(db), answers_of(number, answer, revision), False, None)


def answers_of(assignment: int, answer: str, revision: int = 0) -> Answers:
    return Answers(assignment, (GivenAnswer(QUESTION, answer),), revision)


def extending(days: int) -> Verb:
    return lambda db, number: extend_assignment(as_caregiver(db), number, NOW + days * DAY, None)


def giving(text: str, score: int | None = None) -> Verb:
    """Gives feedback on the only submission of the assignment."""

    async def give(db: Database, number: int) -> Any:
        rows = await db.read(all_rows())
        (submission,) = (each["id"] for each in rows["answer_set"] if each["assignment_id"] == number)
        return await give_feedback(as_caregiver(db), FeedbackInput(submission, text, score))

    return give


def reminding(hours: int) -> Verb:
    moments = (NOW + DAY / 24 * hours,)
    return lambda db, number: set_reminders(as_caregiver(db), number, moments, None)


def withdrawing(db: Database, number: int) -> Awaitable[Any]:
    return withdraw_assignment(as_caregiver(db), number, None)


def reopening(db: Database, number: int) -> Awaitable[Any]:
    return reopen_assignment(as_caregiver(db), number, None)


def closing(db: Database, number: int) -> Awaitable[Any]:
    return close_session(as_caregiver(db), number, None)


def assigning(db: Database, number: int) -> Awaitable[Any]:
    return assign_homework(as_caregiver(db), Homework(number, (1,), NOW, NOW + DAY), None)


DRAFT = Selection(frozenset({"id", "revision"}))

# --- what is true whatever they did ----------------------------------------------------------------


async def consistent_rows(db: Database) -> Stored:
    """Returns every row after checking that the rows are consistent."""
    assert await db.read(differences()) == []
    rows = await db.read(all_rows())
    assert of_other_people(rows) == []
    sessions = {each["id"]: each for each in rows["session"]}
    emitted = Counter((each["kind"], each["assignment_id"]) for each in rows["event"])
    for assignment in rows["assignment"]:
        number, is_complete = assignment["id"], assignment["status"] == "COMPLETE"
        sets = [each for each in rows["answer_set"] if each["assignment_id"] == number]
        attempts = sorted(each["attempt"] for each in sets if each["save_type"] == "FINAL")
        assert attempts == list(range(1, assignment["attempt"] + is_complete)), number
        assert len(sets) - len(attempts) <= (not is_complete), number
        assert emitted["SUBMITTED", number] == len(attempts)
        assert emitted["REOPENED", number] == assignment["attempt"] - 1
        assert emitted["WITHDRAWN", number] == (assignment["withdraw_date"] is not None)
        assert is_complete == (assignment["submit_date"] is not None)
        if is_complete or assignment["withdraw_date"] or sessions[assignment["session_id"]]["is_closed"]:
            states = {each["state"] for each in rows["reminder"] if each["assignment_id"] == number}
            assert "SCHEDULED" not in states, number
    assert all(len(each["answers"]) == 1 for each in rows["answer_set"] if each["save_type"] == "FINAL")
    for number, session in sessions.items():
        of_session = Counter(each["kind"] for each in rows["event"] if each["session_id"] == number)
        assert of_session["SESSION_CLOSED"] == session["is_closed"]
    return rows
