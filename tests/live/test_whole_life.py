"""One course of care over real sockets: websocket, event stream, legacy paths and webhook, with a restart
of the service and a killed worker."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.db.session_counters import differences
from tests import keys
from tests.callers import load, run_read
from tests.db import raw
from tests.events.receiver import SECRET, Receiver, receiving
from tests.factories import a_book, a_caregiver, a_client, a_module
from tests.live.people import Person, Stream, at_a_websocket, at_an_event_stream
from tests.live.processes import PATIENCE, Served, serving, start

pytestmark = pytest.mark.live

DETAIL = "/caregiver/session/assignment"
LIST = "/client/session"
FIRST, SECOND = "1", "2"  # the assignments

OPEN = """mutation($input: CreateSessionInput!) { createSession(input: $input) {
    sessions { legacyId runningStatus assignments { nodes { legacyId } } } userErrors { code } } }"""
QUESTIONS = "query($id: ID!) { assignment(id: $id) { book { questions { id } } } }"
SAVE = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
    draft { revision } userErrors { code } } }"""
SUBMIT = """mutation($input: SubmitAnswersInput!) { submitAnswers(input: $input) {
    answerSet { id attempt score } userErrors { code } } }"""
GIVE = """mutation($input: GiveFeedbackInput!) { giveFeedback(input: $input) {
    feedback { text } userErrors { code } } }"""
REMIND = """mutation($input: SetRemindersInput!) { setReminders(input: $input) {
    assignment { reminders { state } } userErrors { code } } }"""
REOPEN = """mutation { reopenAssignment(input: {assignmentId: "1"}) {
    assignment { attempt } userErrors { code } } }"""
WITHDRAW = """mutation { withdrawAssignment(input: {assignmentId: "2"}) {
    session { assignmentCount } userErrors { code } } }"""
CLOSE = 'mutation { closeSession(input: {sessionId: "1"}) { session { runningStatus } userErrors { code } } }'
SCORES = '{ session(id: "1") { scoreHistory(bookId: "1") { attempt score } } }'
WATCH = """subscription($after: ID) { assignmentChanged(after: $after) {
    id what assignmentId assignment { legacyId status attempt } } }"""
AWAIT = "subscription { reminderDue { id assignment { legacyId } reminder { state } } }"
ASSIGNED = "RXZlbnQ6Mg=="  # the second event: the first tells of the session


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def care(database_url: str, receiver: Receiver, tmp_path: Path) -> dict[str, str]:
    """A caregiver, a client, and a book that is a test."""
    asked = [
        {
            "text": "How rested?",
            "kind": "SCALE",
            "options": ["1", "2", "3"],
            "weights": [0, 5, 9],
            "required": True,
        },
        {"text": "What helped?", "kind": "TEXT"},
    ]
    book = a_book(1, isTest=True, questions=asked)
    load(database_url, [a_caregiver(1), a_client(1), a_module(1), book, a_book(2)])
    return {
        "env": "production",
        "database_url": database_url,
        "token_key": keys.public_pem(),
        "var": str(tmp_path / "var"),
        "webhook_url": receiver.url,
        "webhook_secret": SECRET,
        "dispatcher": "off",  # the worker does it
    }


@contextmanager
def working(care: dict[str, str]) -> Iterator[Any]:
    process = start("worker", **care)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def moment(distance: timedelta) -> str:
    return (datetime.now(UTC) + distance).isoformat()


def told(stream: Stream, *names: str) -> list[Any]:
    event = stream.hear()
    return [event[name] for name in names]


def seen(detail: dict[str, Any]) -> list[Any]:
    """The members of the legacy response that an old client shows."""
    dates = [detail[name] is not None for name in ("submitDate", "feedbackSubmitDate")]
    answers = [[one["answer"] for one in answer_set["answers"]] for answer_set in detail["answers"]]
    return [detail["status"], detail["feedbackStatus"], detail["score"], *dates, answers]


def counted(person: Person, state: str) -> list[Any]:
    [session] = person.legacy(LIST, **{"time-state": state})["content"]
    names = ("assignmentId", "assignmentCount", "completedAssignmentCount", "lastAssignmentScore")
    return [session[name] for name in names]


def test_a_course_of_care_survives_a_restart_and_a_killed_worker(
    care: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    with serving(tmp_path / "first", **care) as served, working(care) as worker:
        caregiver = Person(served.url, "CAREGIVER", "caregiver-1")
        client = Person(served.url, "CLIENT", "client-1")
        last = first_days(caregiver, client)
        a_reminder_and_a_killed_worker(caregiver, client, receiver, worker, care)
        stop(served)

    with serving(tmp_path / "second", **care) as served, working(care):
        caregiver.url = client.url = served.url
        later_days(caregiver, client, last)
        stop(served)
        heard = {one.verified(SECRET)["type"] for one in receiver.received}
        while heard < HEARD:
            assert receiver.has_received.acquire(timeout=PATIENCE)
            heard = {one.verified(SECRET)["type"] for one in receiver.received}

    assert heard == HEARD
    assert run_read(care["database_url"], differences()) == []


HEARD = {
    "session.created",
    "session.closed",
    "assignment.assigned",
    "assignment.reminders_set",
    "assignment.submitted",
    "assignment.feedback_given",
    "assignment.reopened",
    "assignment.withdrawn",
    "reminder.due",
}


def stop(served: Served) -> None:
    code, said = served.stop(signal.SIGTERM)
    assert (code, "Traceback" in said) == (0, False), said


def first_days(caregiver: Person, client: Person) -> str:
    """A session with homework, a draft and a submission. Returns the id of the last event."""
    homework = {
        "bookIds": ["1"],
        "startDate": moment(timedelta(0)),
        "endDate": moment(timedelta(days=7)),
    }
    opened = caregiver.change(
        OPEN,
        input={
            "clientOpptId": "OPPT-1",
            "title": "Nights",
            "startDate": moment(timedelta(minutes=-1)),
            "homework": homework,
        },
    )
    session = {"legacyId": "1", "runningStatus": "RUNNING", "assignments": {"nodes": [{"legacyId": FIRST}]}}
    assert opened == {"sessions": [session]}
    assert counted(client, "RUNNING") == [1, 1, 0, None]
    assert seen(caregiver.legacy(f"{DETAIL}/{FIRST}")) == ["PENDING", "WAITING", 0, False, False, []]

    with (
        at_a_websocket(caregiver, WATCH, after=ASSIGNED) as of_caregiver,
        at_an_event_stream(client, WATCH, after=ASSIGNED) as of_client,
    ):
        questions = [one["id"] for one in client.ask(QUESTIONS, id=FIRST)["book"]["questions"]]
        answers = [{"questionId": questions[0], "answer": "2"}]
        draft = {"assignmentId": FIRST, "answers": answers}
        assert client.change(SAVE, input=draft) == {"draft": {"revision": 1}}
        assert told(of_client, "what") == ["DRAFT_SAVED"]
        assert seen(caregiver.legacy(f"{DETAIL}/{FIRST}")) == ["PENDING", "WAITING", 0, False, False, []]

        submission = {"assignmentId": FIRST, "answers": answers, "revision": 1}
        answer_set = client.change(SUBMIT, input=submission)["answerSet"]
        assert (answer_set["attempt"], answer_set["score"]) == (1, 5)
        complete = {"legacyId": FIRST, "status": "COMPLETE", "attempt": 1}
        assert told(of_caregiver, "what", "assignment") == ["SUBMITTED", complete]  # and of no draft
        assert told(of_client, "what", "assignment") == ["SUBMITTED", complete]
        assert seen(caregiver.legacy(f"{DETAIL}/{FIRST}")) == [
            "COMPLETE", "WAITING", 5, True, False, [["2", ""]],
        ]  # fmt: skip
        assert counted(client, "RUNNING") == [1, 1, 1, 5]

        opinion = {"answerSetId": answer_set["id"], "text": "Better", "score": 7}
        assert caregiver.change(GIVE, input=opinion) == {"feedback": {"text": "Better"}}
        assert told(of_caregiver, "what") == ["FEEDBACK_GIVEN"]
        [last, what] = told(of_client, "id", "what")
        assert what == "FEEDBACK_GIVEN"
        assert seen(caregiver.legacy(f"{DETAIL}/{FIRST}")) == [
            "COMPLETE", "SUBMITTED", 7, True, True, [["2", ""]],
        ]  # fmt: skip
    return str(last)


def a_reminder_and_a_killed_worker(
    caregiver: Person, client: Person, receiver: Receiver, worker: Any, care: dict[str, str]
) -> None:
    """The subscriber receives the reminder at once. The next worker delivers it to the webhook again,
    with the same id."""
    assert caregiver.change(REOPEN) == {"assignment": {"attempt": 2}}
    assert seen(caregiver.legacy(f"{DETAIL}/{FIRST}")) == ["PENDING", "WAITING", 0, False, False, []]
    assert counted(client, "RUNNING") == [1, 1, 0, None]
    with at_an_event_stream(client, AWAIT) as stream:
        receiver.hold("reminder.due")  # and nothing else: deliveries wait for those that went out with them
        soon = {"assignmentId": FIRST, "remindDates": [moment(timedelta(seconds=2))]}
        caregiver.change(REMIND, input=soon)
        due = stream.hear()
        assert (due["assignment"], due["reminder"]) == ({"legacyId": FIRST}, {"state": "SENT"})
    while "reminder.due" not in {one.verified(SECRET)["type"] for one in receiver.received}:
        assert receiver.has_received.acquire(timeout=PATIENCE)
    worker.kill()
    worker.wait()
    receiver.goes_on.set()
    long_ago = "2020-01-01T09:00:00Z"
    raw.run(care["database_url"], f"UPDATE delivery SET next_date = '{long_ago}' WHERE state = 'WAITING'")


def later_days(caregiver: Person, client: Person, last: str) -> None:
    """A subscriber that reconnects receives the missed events; then the course continues to its
    end."""
    with at_an_event_stream(client, WATCH, after=last) as stream:
        assert [told(stream, "what") for _ in range(2)] == [["REOPENED"], ["REMINDERS_SET"]]
        questions = [one["id"] for one in client.ask(QUESTIONS, id=FIRST)["book"]["questions"]]
        answers = [{"questionId": questions[0], "answer": "3"}, {"questionId": questions[1], "answer": "Tea"}]
        submitted = client.change(SUBMIT, input={"assignmentId": FIRST, "answers": answers})
        assert (submitted["answerSet"]["attempt"], submitted["answerSet"]["score"]) == (2, 9)
        assert told(stream, "what") == ["SUBMITTED"]
        assert seen(caregiver.legacy(f"{DETAIL}/{FIRST}")) == [
            "COMPLETE", "WAITING", 9, True, False, [["3", "Tea"]],
        ]  # fmt: skip
        assert caregiver.ask(SCORES) == {
            "scoreHistory": [{"attempt": 1, "score": 7}, {"attempt": 2, "score": 9}]
        }

        again = caregiver.put(DETAIL, more_homework(), **{"idempotency-key": "more"})
        once_more = caregiver.put(DETAIL, more_homework(), **{"idempotency-key": "more"})
        assert (again.status_code, once_more.status_code) == (200, 200)
        assert once_more.headers["idempotency-replayed"] == "true"
        assert told(stream, "what", "assignment") == [
            "ASSIGNED", {"legacyId": SECOND, "status": "PENDING", "attempt": 1},
        ]  # fmt: skip
        assert counted(client, "RUNNING") == [2, 2, 1, 9]

        assert caregiver.change(WITHDRAW) == {"session": {"assignmentCount": 1}}
        assert told(stream, "what", "assignment") == ["WITHDRAWN", None]
        assert caregiver.legacy_status(f"{DETAIL}/{SECOND}") == 404
        assert counted(client, "RUNNING") == [1, 1, 1, 9]

    assert caregiver.change(CLOSE) == {"session": {"runningStatus": "COMPLETED"}}
    late = client.ask(SAVE, input={"assignmentId": FIRST, "answers": []})
    assert late == {"draft": None, "userErrors": [{"code": "NOT_RUNNING"}]}
    assert counted(client, "COMPLETED") == [1, 1, 1, 9]
    assert client.legacy(LIST, **{"time-state": "RUNNING"})["content"] == []


def more_homework() -> dict[str, Any]:
    return {
        "bookIds": [2],
        "startDate": "2026/11/22",
        "startTime": "08:00",
        "endDate": "2036/11/29",
        "endTime": "18:30",
        "remindDates": [],
        "sessionId": 1,
    }
