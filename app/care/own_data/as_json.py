"""Own data as one JSON document, in the members that docs/own-data.md lists."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import orjson

from app.db.reader.own_data import Data


class JsonDocument:
    """Open from its client to its events; a session is forgotten when it is written."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.has_sessions = False

    def begin(self, client: Data) -> None:
        self.write(f'{{\n  "client": {indented(client_as_json(client), 2)},\n  "sessions": [')

    def add_session(self, session: Data) -> None:
        self.write(f"{',' if self.has_sessions else ''}\n    {indented(session_as_json(session), 4)}")
        self.has_sessions = True

    def end(self, events: Iterable[Data]) -> None:
        after_sessions = "\n  " if self.has_sessions else ""
        told = ",".join(f"\n    {orjson.dumps(event_as_json(event)).decode()}" for event in events)
        after_events = "\n  " if told else ""
        self.write(f'{after_sessions}],\n  "events": [{told}{after_events}]\n}}\n')


def indented(value: object, spaces: int) -> str:
    """Line breaks in texts are escaped, so that every line here is one of the layout."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().replace("\n", "\n" + " " * spaces)


def rfc3339(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def client_as_json(client: Data) -> dict[str, Any]:
    return {
        "id": client["id"],
        "name": client["name"],
        "opptId": client["oppt_id"],
        "userName": client["user_name"],
        "isDisabled": client["is_disabled"],
        "eraseDate": rfc3339(client["erase_date"]),
    }


def session_as_json(session: Data) -> dict[str, Any]:
    return {
        "id": session["id"],
        "title": session["title"],
        "description": session["description"],
        "chatId": session["chat_id"],
        "createDate": rfc3339(session["create_date"]),
        "startDate": rfc3339(session["start_date"]),
        "isClosed": session["is_closed"],
        "closeDate": rfc3339(session["close_date"]),
        "caregiver": {
            "id": session["caregiver_id"],
            "name": session["caregiver_name"],
            "position": session["caregiver_position"],
        },
        "assignments": [assignment_as_json(assignment) for assignment in session["assignments"]],
    }


def assignment_as_json(assignment: Data) -> dict[str, Any]:
    return {
        "id": assignment["id"],
        "book": {
            "id": assignment["book_id"],
            "name": assignment["book_name"],
            "isTest": assignment["is_test"],
            "module": {"id": assignment["module_id"], "name": assignment["module_name"]},
        },
        "assignDate": rfc3339(assignment["assign_date"]),
        "startDate": rfc3339(assignment["start_date"]),
        "endDate": rfc3339(assignment["end_date"]),
        "submitDate": rfc3339(assignment["submit_date"]),
        "status": assignment["status"],
        "attempt": assignment["attempt"],
        "score": assignment["score"],
        "feedbackStatus": assignment["feedback_status"],
        "feedbackSubmitDate": rfc3339(assignment["feedback_submit_date"]),
        "isWithdrawn": assignment["withdraw_date"] is not None,
        "withdrawDate": rfc3339(assignment["withdraw_date"]),
        "reminders": [reminder_as_json(reminder) for reminder in assignment["reminders"]],
        "answerSets": [answer_set_as_json(answer_set) for answer_set in assignment["answer_sets"]],
    }


def reminder_as_json(reminder: Data) -> dict[str, Any]:
    return {
        "id": reminder["id"],
        "remindDate": rfc3339(reminder["remind_date"]),
        "state": reminder["state"],
    }


def answer_set_as_json(answer_set: Data) -> dict[str, Any]:
    return {
        "id": answer_set["id"],
        "saveType": answer_set["save_type"],
        "attempt": answer_set["attempt"],
        "revision": answer_set["revision"],
        "submitDate": rfc3339(answer_set["submit_date"]),
        "score": answer_set["score"],
        "ownScore": answer_set["own_score"],
        "answers": [answer_as_json(answer) for answer in answer_set["answers"]],
        "feedbacks": [feedback_as_json(feedback) for feedback in answer_set["feedbacks"]],
    }


def answer_as_json(answer: Data) -> dict[str, Any]:
    return {
        "position": answer["position"],
        "questionId": answer["question_id"],
        "questionText": answer["question_text"],
        "answer": answer["answer"],
    }


def feedback_as_json(feedback: Data) -> dict[str, Any]:
    return {
        "id": feedback["id"],
        "text": feedback["text"],
        "score": feedback["score"],
        "submitDate": rfc3339(feedback["submit_date"]),
    }


def event_as_json(event: Data) -> dict[str, Any]:
    return {
        "id": event["id"],
        "kind": event["kind"],
        "actor": event["actor"],
        "sessionId": event["session_id"],
        "assignmentId": event["assignment_id"],
        "reminderId": event["reminder_id"],
        "moment": rfc3339(event["moment"]),
    }
