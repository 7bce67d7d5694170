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
from tests.live.people import Person, Stream, subscribe_by_event_stream, subscribe_by_websocket
from tests.live.processes import PATIENCE, Served, serving, start

pytestmark = pytest.mark.live

DETAIL = "/caregiver/session/assignment"
LIST = "/client/session"
FIRST, SECOND = "1", "2"  # ids of the assignments
LONG_AGO = "2020-01-01T09:00:00.000000Z"

CREATE_SESSION = """mutation($input: CreateSessionInput!) { createSession(input: $input) {
    sessions { legacyId runningStatus assignments { nodes { legacyId } } } userErrors { code } } }"""
QUESTIONS = "query($id: ID!) { assignment(id: $id) { book { questions { id } } } }"
SAVE_ANSWERS = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
    draft { revision } userErrors { code } } }"""
SUBMIT_ANSWERS = """mutation($input: SubmitAnswersInput!) { submitAnswers(input: $input) {
    answerSet { id attempt score } userErrors { code } } }"""
GIVE_FEEDBACK = """mutation($input: GiveFeedbackInput!) { giveFeedback(input: $input) {
    feedback { text } userErrors { code } } }"""
SET_REMINDERS = """mutation($input: SetRemindersInput!) { setReminders(input: $input) {
    assignment { reminders { state } } userErrors { code } } }"""
REOPEN_ASSIGNMENT = """mutation { reopenAssignment(input: {assignmentId: "1"}) {
    assignment { attempt } userErrors { code } } }"""
WITHDRAW_ASSIGNMENT = """mutation { withdrawAssignment(input: {assignmentId: "2"}) {
    session { assignmentCount } userErrors { code } } }"""
CLOSE_SESSION = (
    'mutation { closeSession(input: {sessionId: "1"}) { session { runningStatus } userErrors { code } } }'
)
SCORES = '{ session(id: "1") { scoreHistory(bookId: "1") { attempt score } } }'
ASSIGNMENT_CHANGED = """subscription($after: ID) { assignmentChanged(after: $after) {
    id what assignmentId assignment { legacyId status attempt } } }"""
REMINDER_DUE = "subscription { reminderDue { id assignment { legacyId } reminder { state } } }"
ASSIGNED = "RXZlbnQ6Mg=="  # id of the second event; the first one is about the session


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def care(database_url: str, receiver: Receiver, tmp_path: Path) -> dict[str, str]:
    """A caregiver, a client, and a book that is a test."""
    questions = [
        {
            "text": "How rested?",
            "kind": "SCALE",
            "options": ["1", "2", "3"],
            "weights": [0, 5, 9],
            "required": True,
        },
        {"text": "What helped?", "kind": "TEXT"},
    ]
    book = a_book(1, isTest=True, questions=questions)
    load(database_url, [a_caregiver(1), a_client(1), a_module(1), book, a_book(2)])
    return {
        "env": "production",
        "database_url": database_url,
        "token_key": keys.public_pem(),
        "var": str(tmp_path / "var"),
        "webhook_url": receiver.url,
        "webhook_secret": SECRET,
        "dispatcher": "off",  # a worker dispatches
    }


@contextmanager
def running_worker(care: dict[str, str]) -> Iterator[Any]:
    process = start("worker", **care)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def moment(distance: timedelta) -> str:
    return (datetime.now(UTC) + distance).isoformat()


def next_event(stream: Stream, *names: str) -> list[Any]:
    event = stream.receive()
    return [event[name] for name in names]


def legacy_fields(detail: dict[str, Any]) -> list[Any]:
    """The members of the legacy response that an old client shows."""
    dates = [detail[name] is not None for name in ("submitDate", "feedbackSubmitDate")]
    answers = [[one["answer"] for one in answer_set["answers"]] for answer_set in detail["answers"]]
    return [detail["status"], detail["feedbackStatus"], detail["score"], *dates, answers]


def session_fields(person: Person, state: str) -> list[Any]:
    [session] = person.legacy(LIST, **{"time-state": state})["content"]
    names = ("assignmentId", "assignmentCount", "completedAssignmentCount", "lastAssignmentScore")
    return [session[name] for name in names]


def test_a_course_of_care_survives_a_restart_and_a_killed_worker(
    care: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    with serving(tmp_path / "first", **care) as served, running_worker(care) as worker:
        caregiver = Person(served.url, "CAREGIVER", "caregiver-1")
        client = Person(served.url, "CLIENT", "client-1")
        last = first_days(caregiver, client)
        reminder_with_killed_worker(caregiver, client, receiver, worker, care)
        stop_service(served)

    with serving(tmp_path / "second", **care) as served, running_worker(care):
        caregiver.url = client.url = served.url
        later_days(caregiver, client, last)
        stop_service(served)
        event_types = {one.verified(SECRET)["type"] for one in receiver.received}
        while event_types < EVENT_TYPES:
            assert receiver.has_received.acquire(timeout=PATIENCE)
            event_types = {one.verified(SECRET)["type"] for one in receiver.received}

    assert event_types == EVENT_TYPES
    assert run_read(care["database_url"], differences()) == []


EVENT_TYPES = {
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


def stop_service(served: Served) -> None:
    code, output = served.stop(signal.SIGTERM)
    assert (code, "Traceback" in output) == (0, False), output


def first_days(caregiver: Person, client: Person) -> str:
    """A session with homework, a draft and a submission. Returns the id of the last event."""
    homework = {"bookIds": ["1"], "startDate": moment(timedelta(0)), "endDate": moment(timedelta(days=7))}
    opened = caregiver.mutate(
        CREATE_SESSION,
        input={
            "clientOpptId": "OPPT-1",
            "title": "Nights",
            "startDate": moment(timedelta(minutes=-1)),
            "homework": homework,
        },
    )
    session = {"legacyId": "1", "runningStatus": "RUNNING", "assignments": {"nodes": [{"legacyId": FIRST}]}}
    assert opened == {"sessions": [session]}
    assert session_fields(client, "RUNNING") == [1, 1, 0, None]
    assert legacy_fields(caregiver.legacy(f"{DETAIL}/{FIRST}")) == ["PENDING", "WAITING", 0, False, False, []]

    with (
        subscribe_by_websocket(caregiver, ASSIGNMENT_CHANGED, after=ASSIGNED) as caregiver_events,
        subscribe_by_event_stream(client, ASSIGNMENT_CHANGED, after=ASSIGNED) as client_events,
    ):
        questions = [one["id"] for one in client.query(QUESTIONS, id=FIRST)["book"]["questions"]]
        answers = [{"questionId": questions[0], "answer": "2"}]
        draft = {"assignmentId": FIRST, "answers": answers}
        assert client.mutate(SAVE_ANSWERS, input=draft) == {"draft": {"revision": 1}}
        assert next_event(client_events, "what") == ["DRAFT_SAVED"]
        assert legacy_fields(caregiver.legacy(f"{DETAIL}/{FIRST}")) == [
            "PENDING",
            "WAITING",
            0,
            False,
            False,
            [],
        ]

        submission = {"assignmentId": FIRST, "answers": answers, "revision": 1}
        answer_set = client.mutate(SUBMIT_ANSWERS, input=submission)["answerSet"]
        assert (answer_set["attempt"], answer_set["score"]) == (1, 5)
        complete = {"legacyId": FIRST, "status": "COMPLETE", "attempt": 1}
        assert next_event(caregiver_events, "what", "assignment") == ["SUBMITTED", complete]  # not the draft
        assert next_event(client_events, "what", "assignment") == ["SUBMITTED", complete]
        assert legacy_fields(caregiver.legacy(f"{DETAIL}/{FIRST}")) == [
            "COMPLETE", "WAITING", 5, True, False, [["2", ""]],
        ]  # fmt: skip
        assert session_fields(client, "RUNNING") == [1, 1, 1, 5]

        feedback = {"answerSetId": answer_set["id"], "text": "Better", "score": 7}
        assert caregiver.mutate(GIVE_FEEDBACK, input=feedback) == {"feedback": {"text": "Better"}}
        assert next_event(caregiver_events, "what") == ["FEEDBACK_GIVEN"]
        [last, what] = next_event(client_events, "id", "what")
        assert what == "FEEDBACK_GIVEN"
        assert legacy_fields(caregiver.legacy(f"{DETAIL}/{FIRST}")) == [
            "COMPLETE", "SUBMITTED", 7, True, True, [["2", ""]],
        ]  # fmt: skip
    return str(last)


def reminder_with_killed_worker(
    caregiver: Person, client: Person, receiver: Receiver, worker: Any, care: dict[str, str]
) -> None:
    """The subscriber receives the reminder at once. The next worker delivers it to the webhook again,
    with the same id."""
    assert caregiver.mutate(REOPEN_ASSIGNMENT) == {"assignment": {"attempt": 2}}
    assert legacy_fields(caregiver.legacy(f"{DETAIL}/{FIRST}")) == ["PENDING", "WAITING", 0, False, False, []]
    assert session_fields(client, "RUNNING") == [1, 1, 0, None]
    with subscribe_by_event_stream(client, REMINDER_DUE) as stream:
        receiver.hold("reminder.due")  # nothing else, as deliveries wait for the others of their batch
        tomorrow = {"assignmentId": FIRST, "remindDates": [moment(timedelta(days=1))]}
        caregiver.mutate(SET_REMINDERS, input=tomorrow)
        raw.run(care["database_url"], f"UPDATE reminder SET remind_date = '{LONG_AGO}'")
        due = stream.receive()
        assert (due["assignment"], due["reminder"]) == ({"legacyId": FIRST}, {"state": "SENT"})
    while "reminder.due" not in {one.verified(SECRET)["type"] for one in receiver.received}:
        assert receiver.has_received.acquire(timeout=PATIENCE)
    worker.kill()
    worker.wait()
    receiver.is_released.set()
    raw.run(care["database_url"], f"UPDATE delivery SET next_date = '{LONG_AGO}' WHERE state = 'WAITING'")


def later_days(caregiver: Person, client: Person, last: str) -> None:
    """A subscriber that reconnects receives the missed events; then the course continues to its
    end."""
    with subscribe_by_event_stream(client, ASSIGNMENT_CHANGED, after=last) as stream:
        assert [next_event(stream, "what") for _ in range(2)] == [["REOPENED"], ["REMINDERS_SET"]]
        questions = [one["id"] for one in client.query(QUESTIONS, id=FIRST)["book"]["questions"]]
        answers = [{"questionId": questions[0], "answer": "3"}, {"questionId": questions[1], "answer": "Tea"}]
        submitted = client.mutate(SUBMIT_ANSWERS, input={"assignmentId": FIRST, "answers": answers})
        assert (submitted["answerSet"]["attempt"], submitted["answerSet"]["score"]) == (2, 9)
        assert next_event(stream, "what") == ["SUBMITTED"]
        assert legacy_fields(caregiver.legacy(f"{DETAIL}/{FIRST}")) == [
            "COMPLETE", "WAITING", 9, True, False, [["3", "Tea"]],
        ]  # fmt: skip
        assert caregiver.query(SCORES) == {
            "scoreHistory": [{"attempt": 1, "score": 7}, {"attempt": 2, "score": 9}]
        }

        again = caregiver.put(DETAIL, more_homework(), **{"idempotency-key": "more"})
        once_more = caregiver.put(DETAIL, more_homework(), **{"idempotency-key": "more"})
        assert (again.status_code, once_more.status_code) == (200, 200)
        assert once_more.headers["idempotency-replayed"] == "true"
        assert next_event(stream, "what", "assignment") == [
            "ASSIGNED", {"legacyId": SECOND, "status": "PENDING", "attempt": 1},
        ]  # fmt: skip
        assert session_fields(client, "RUNNING") == [2, 2, 1, 9]

        assert caregiver.mutate(WITHDRAW_ASSIGNMENT) == {"session": {"assignmentCount": 1}}
        assert next_event(stream, "what", "assignment") == ["WITHDRAWN", None]
        assert caregiver.legacy_status(f"{DETAIL}/{SECOND}") == 404
        assert session_fields(client, "RUNNING") == [1, 1, 1, 9]

    assert caregiver.mutate(CLOSE_SESSION) == {"session": {"runningStatus": "COMPLETED"}}
    late = client.query(SAVE_ANSWERS, input={"assignmentId": FIRST, "answers": []})
    assert late == {"draft": None, "userErrors": [{"code": "NOT_RUNNING"}]}
    assert session_fields(client, "COMPLETED") == [1, 1, 1, 9]
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
