"""What callers do in one session and what they are shown, by the model of `tests/care`."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.care.model import Code, Homework, Model
from tests.factories import Record, a_book, a_caregiver, a_client, a_module, a_session

MINUTE = timedelta(minutes=1)
BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
LATER = datetime(2020, 1, 1, tzinfo=UTC)  # the present of the model: whatever is assigned has begun by then
OPTIONS = ["0", "1", "2", "3"]  # what is chosen is what it scores
DONE = "DONE"
PARTIES = {1: (1, 1), 2: (1, 2), 3: (2, 3), 4: (2, 1)}  # the caregiver and the client of each session
# Sessions for what subscribers receive first and last.
FIRSTS = {10 + session: parties for session, parties in PARTIES.items()}
LASTS = {20 + session: parties for session, parties in PARTIES.items()}


def a_catalogue() -> list[Record]:
    scale = {"kind": "SCALE", "text": "How strongly?", "options": OPTIONS, "weights": [0, 1, 2, 3]}
    return [
        *(a_caregiver(number) for number in (1, 2)),
        *(a_client(number) for number in (1, 2, 3)),
        a_module(1),
        a_book(1, isTest=True, questions=[{**scale, "required": True}]),
    ]


def a_world() -> list[Record]:
    began = {"startDate": BEGIN - MINUTE, "createDate": BEGIN - MINUTE}
    sessions = {**PARTIES, **FIRSTS, **LASTS}.items()
    return [*a_catalogue(), *(a_session(number, *parties, **began) for number, parties in sessions)]


def marker(session: int) -> dict[str, Any]:
    """The input that assigns homework in a session of FIRSTS or LASTS."""
    start, end = BEGIN.isoformat(), LATER.isoformat()
    return {"sessionId": str(session), "bookIds": ["1"], "startDate": start, "endDate": end}


@dataclass
class Life(Model):
    """The model of one session. An assignment is known by its start, which is unique: minutes from BEGIN."""

    keys: set[str] = field(default_factory=set)  # the idempotency keys of the changes that were performed
    kinds: dict[int | None, list[str]] = field(default_factory=dict)  # of the events, by assignment

    def add_event(self, kind: str, now: datetime, session: int, assignment: int | None = None) -> None:
        """Not in the order of all events, because changes of two assignments need not wait for each other."""
        self.kinds.setdefault(assignment, []).append(kind)

    def __repr__(self) -> str:
        """The same for equal models."""
        homework, kinds = sorted(self.homework.items()), sorted(self.kinds.items(), key=str)
        return f"{self.sessions} {homework} {sorted(self.keys)} {kinds}"

    def leads_to(self, kinds: dict[int | None, list[str]]) -> bool:
        """Whether the events of the model are the first ones of these."""
        return all(kinds.get(number, [])[: len(own)] == own for number, own in self.kinds.items())


def new_life(session: int) -> Life:
    life = Life()
    life.open(session, PARTIES[session], BEGIN - MINUTE)
    return life


@dataclass(frozen=True)
class Change:
    verb: str
    session: int
    key: str | None
    arguments: tuple[Any, ...]

    def __call__(self, life: Life) -> str:
        """Performs the change unless its key was used. A rejected change leaves its key free."""
        if self.key in life.keys:
            return DONE
        code = self.perform(life)
        if code is None and self.key is not None:
            life.keys.add(self.key)
        return code or DONE

    def perform(self, life: Life) -> Code:
        if self.verb == "close":
            return life.close(self.session, LATER)
        if self.verb == "assign":
            return self.assign(life, *self.arguments)
        number, *others = self.arguments
        if life.people_of(number) is None:
            return "NOT_FOUND"
        if self.verb == "extend":
            return life.extend(number, moment(others[0]), LATER)
        if self.verb == "remind":
            return life.remind(number, [moment(each) for each in others[0]], LATER)
        if self.verb == "submit":
            return self.submit(life, number, *others)
        if self.verb == "give" and others[0] not in life.homework[number].submissions:
            return "NOT_FOUND"
        change = getattr(life, self.verb)
        return change(number, *others, LATER)  # type: ignore[no-any-return]

    def assign(self, life: Life, number: int, end: int) -> Code:
        if not life.is_running(self.session, LATER):
            return "NOT_RUNNING"
        life.assign(number, self.session, moment(number), moment(end), LATER)
        return None

    def submit(self, life: Life, number: int, answer: str, revision: int) -> Code:
        code = life.submit(number, answer, revision, LATER, OPTIONS)
        submissions = life.homework[number].submissions
        if 0 in submissions:  # known by its attempt from now on
            submissions[life.homework[number].attempt] = submissions.pop(0)
        return code


@dataclass(frozen=True)
class Look:
    """A read of the whole session, or of one assignment."""

    session: int
    is_client: bool
    number: int | None = None

    def __call__(self, life: Life) -> Any:
        there = {number: one for number, one in life.homework.items() if not one.withdraw_date}
        if self.number is not None:
            return self.shown(there[self.number]) if self.number in there else None
        return {
            "isClosed": life.is_closed(self.session),
            "assignmentCount": len(there),
            "pendingAssignmentCount": sum(one.submit_date is None for one in there.values()),
            "assignments": {number: self.shown(one) for number, one in there.items()},
        }

    def shown(self, one: Homework) -> dict[str, Any]:
        shown = {
            "endDate": minutes(one.end),
            "status": "COMPLETE" if one.submit_date else "PENDING",
            "feedbackStatus": "SUBMITTED" if one.feedback_date else "WAITING",
            "attempt": one.attempt,
            "score": one.score,
            "reminders": sorted((minutes(each), state) for each, state in one.reminders.items()),
            "answerSets": [
                (attempt, of.answer, of.score, of.feedback and of.feedback[0])
                for attempt, of in sorted(one.submissions.items())
            ],
        }
        return {**shown, "draft": one.draft} if self.is_client else shown


FIELDS = """legacyId startDate endDate status feedbackStatus attempt score reminders { remindDate state }
    answerSets { legacyId attempt score answers { answer } feedback { text } }"""
CLIENT_FIELDS = f"{FIELDS} draft {{ revision answers {{ answer }} }}"


def read_assignment(node: dict[str, Any]) -> dict[str, Any]:
    """An assignment in a response, as `Look` shows it."""
    shown = {name: node[name] for name in ("status", "feedbackStatus", "attempt", "score")}
    shown["endDate"] = minutes_in(node["endDate"])
    shown["reminders"] = sorted((minutes_in(each["remindDate"]), each["state"]) for each in node["reminders"])
    shown["answerSets"] = sorted(
        (each["attempt"], text_of(each), each["score"], each["feedback"] and each["feedback"]["text"])
        for each in node["answerSets"]
    )
    if "draft" in node:
        draft = node["draft"]
        shown["draft"] = draft and (draft["revision"], text_of(draft))
    return shown


def text_of(answer_set: dict[str, Any]) -> str:
    [answer] = answer_set["answers"]
    return str(answer["answer"])


def moment(number: int) -> datetime:
    return BEGIN + number * MINUTE


def minutes(then: datetime) -> int:
    return (then - BEGIN) // MINUTE


def minutes_in(text: str) -> int:
    return minutes(datetime.fromisoformat(text))
