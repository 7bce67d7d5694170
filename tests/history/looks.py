"""What callers are shown of one session, by the model and in responses of both contracts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.care.model import Homework
from tests.history.life import LATER, Life, Name, minutes, minutes_in


@dataclass(frozen=True)
class Look:
    """A read of the whole session, or of one assignment."""

    session: Any
    is_client: bool
    number: int | None = None

    def __call__(self, life: Life) -> Any:
        there = assignments(life)
        if self.number is not None:
            return self.shown(there[self.number]) if self.number in there else None
        if self.session not in life.sessions:
            return None
        return {
            **counted(life, self.session),
            "startDate": minutes(life.sessions[self.session].start),
            "assignments": {number: self.shown(one) for number, one in there.items()},
            "newestFirst": list(there)[::-1],
        }

    def shown(self, one: Homework) -> dict[str, Any]:
        shown = {
            "startDate": minutes(one.start),
            "endDate": minutes(one.end),
            "status": status(one),
            "feedbackStatus": feedback_status(one),
            "attempt": one.attempt,
            "score": one.score,
            "reminders": sorted(one.reminders),
            "answerSets": [
                (attempt, of.answer, of.score, of.feedback and of.feedback[0])
                for attempt, of in sorted(one.submissions.items())
            ],
        }
        return {**shown, "draft": one.draft} if self.is_client else shown


@dataclass(frozen=True)
class LegacySessions:
    """The session in the list of a time state; None if it is in another one."""

    session: Name
    state: str

    def __call__(self, life: Life) -> Any:
        if state_of(life, self.session) != self.state:
            return None
        there = assignments(life)
        return {**counted(life, self.session), "newest": next(reversed(there), None)}


@dataclass(frozen=True)
class LegacyAssignments:
    """The assignments of the session in the list of a time state, newest first, or the one of a number."""

    session: Name
    state: str | None
    number: int | None = None

    def __call__(self, life: Life) -> Any:
        there = assignments(life)
        if self.number is not None:
            return self.shown(life, there[self.number]) if self.number in there else None
        if state_of(life, self.session) != self.state:
            return []
        return [(number, self.shown(life, one)) for number, one in reversed(there.items())]

    def shown(self, life: Life, one: Homework) -> dict[str, Any]:
        return {
            "sessionTitle": life.title,
            "startDate": minutes(one.start),
            "status": status(one),
            "feedbackStatus": feedback_status(one),
            "score": one.score,
            "answers": [one.submissions[one.attempt].answer] if one.submit_date else [],
        }


def assignments(life: Life) -> dict[int, Homework]:
    return {number: one for number, one in life.homework.items() if not one.withdraw_date}


def counted(life: Life, session: Any) -> dict[str, Any]:
    there = assignments(life).values()
    complete = [one.score for one in there if one.submit_date]
    return {
        "title": life.title,
        "isClosed": life.is_closed(session),
        "runningStatus": state_of(life, session),
        "assignmentCount": len(there),
        "pendingAssignmentCount": len(there) - len(complete),
        "lastAssignmentScore": complete[-1] if complete else None,
    }


def state_of(life: Life, session: Any) -> str | None:
    """None before it was opened."""
    if session not in life.sessions:
        return None
    if life.is_closed(session):
        return "COMPLETED"
    return "RUNNING" if life.is_running(session, LATER) else "FUTURE"


def status(one: Homework) -> str:
    return "COMPLETE" if one.submit_date else "PENDING"


def feedback_status(one: Homework) -> str:
    return "SUBMITTED" if one.feedback_date else "WAITING"


COUNTED = "title isClosed runningStatus assignmentCount pendingAssignmentCount lastAssignmentScore"
FIELDS = """legacyId book { legacyId } startDate endDate status feedbackStatus attempt score
    reminders { remindDate state }
    answerSets { legacyId attempt score answers { answer } feedback { text } }"""
CLIENT_FIELDS = f"{FIELDS} draft {{ revision answers {{ answer }} }}"


def read_assignment(node: dict[str, Any]) -> dict[str, Any]:
    """An assignment in a response, as `Look` shows it."""
    shown = {name: node[name] for name in ("status", "feedbackStatus", "attempt", "score")}
    shown |= {name: minutes_in(node[name]) for name in ("startDate", "endDate")}
    shown["reminders"] = sorted(
        (datetime.fromisoformat(each["remindDate"]), each["state"]) for each in node["reminders"]
    )
    shown["answerSets"] = sorted(
        (each["attempt"], text_of(each), each["score"], each["feedback"] and each["feedback"]["text"])
        for each in node["answerSets"]
    )
    if "draft" in node:
        draft = node["draft"]
        shown["draft"] = draft and (draft["revision"], text_of(draft))
    return shown


def read_legacy_assignment(body: dict[str, Any]) -> dict[str, Any]:
    """As `LegacyAssignments` shows it."""
    names = ("sessionTitle", "status", "feedbackStatus", "score")
    shown = {name: body[name] for name in names}
    shown["startDate"] = minutes_in(body["startDate"].replace("/", "-") + "Z")
    shown["answers"] = [text_of(each) for each in body["answers"]]
    return shown


def text_of(answer_set: dict[str, Any]) -> str:
    [answer] = answer_set["answers"]
    return str(answer["answer"])
