"""What callers do in one session, by the model of `tests/care`."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.care.model import Code, Homework, Model, planned
from tests.factories import Record, a_book, a_caregiver, a_client, a_module, a_session

MINUTE = timedelta(minutes=1)
BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
LATER = datetime(2020, 1, 1, tzinfo=UTC)  # the present of the model: whatever is assigned has begun by then
FAR = 50_000_000  # minutes from BEGIN, in 2095: no reminder of then becomes due
OPTIONS = ["0", "1", "2", "3"]  # what is chosen is what it scores
DONE = "DONE"
BOOK, FIRST_BOOK = 1, 2  # the second one is assigned with new sessions only
FIRST = 0  # the assignment of the second book
PARTIES = {1: (1, 1), 2: (1, 2), 3: (2, 3), 4: (2, 1)}  # the caregiver and the client of each session
# Sessions for what subscribers receive first and last.
FIRSTS = {10 + session: parties for session, parties in PARTIES.items()}
LASTS = {20 + session: parties for session, parties in PARTIES.items()}

Name = str  # of a session: its description, which never changes


def a_catalogue() -> list[Record]:
    scale = {"kind": "SCALE", "text": "How strongly?", "options": OPTIONS, "weights": [0, 1, 2, 3]}
    questions = [{**scale, "required": True}]
    return [
        *(a_caregiver(number) for number in (1, 2)),
        *(a_client(number) for number in (1, 2, 3)),
        a_module(1),
        *(a_book(number, isTest=True, questions=questions) for number in (BOOK, FIRST_BOOK)),
    ]


def a_world() -> list[Record]:
    began = {"startDate": BEGIN - MINUTE, "createDate": BEGIN - MINUTE}
    sessions = {**PARTIES, **FIRSTS, **LASTS}.items()
    return [
        *a_catalogue(),
        *(
            a_session(number, *parties, title=str(number), description=str(number), **began)
            for number, parties in sessions
        ),
    ]


def marker(session: int) -> dict[str, Any]:
    """The input that assigns homework in a session of FIRSTS or LASTS."""
    start, end = BEGIN.isoformat(), LATER.isoformat()
    return {"sessionId": str(session), "bookIds": [str(BOOK)], "startDate": start, "endDate": end}


@dataclass
class Life(Model):
    """The model of one session. An assignment of BOOK is known by its start, which is unique: minutes from
    BEGIN. That of a new session, which moves with it, is FIRST."""

    title: str = ""
    keys: set[str] = field(default_factory=set)  # the idempotency keys of the changes that were performed
    kinds: dict[int | None, list[str]] = field(default_factory=dict)  # of the events, by assignment

    def add_event(self, kind: str, now: datetime, session: Any, assignment: int | None = None) -> None:
        """Not in the order of all events, because changes of two assignments need not wait for each other."""
        self.kinds.setdefault(assignment, []).append(kind)

    def __repr__(self) -> str:
        """The same for equal models."""
        kinds = sorted(self.kinds.items(), key=str)
        return f"{self.title} {self.sessions} {self.homework} {sorted(self.keys)} {kinds}"

    def leads_to(self, kinds: dict[int | None, list[str]], numbers: list[int]) -> bool:
        """Whether the events of the model are the first ones of these, and its assignments those of these
        numbers, which are in the order of their ids."""
        made = list(self.homework)
        return made == numbers[: len(made)] and all(
            kinds.get(number, [])[: len(own)] == own for number, own in self.kinds.items()
        )


def new_life(name: Name) -> Life:
    """Of a session that is there from the beginning; others are opened."""
    life = Life()
    if name.isdigit():
        life.open(name, PARTIES[int(name)], BEGIN - MINUTE)  # type: ignore[arg-type]
        life.title = name
    return life


@dataclass(frozen=True)
class Change:
    verb: str
    session: Any  # its name, or its number
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
        if self.verb != "open" and self.session not in life.sessions:
            return "NOT_FOUND"
        if self.verb in ("open", "update", "assign", "repeat"):
            return getattr(self, self.verb)(life, *self.arguments)  # type: ignore[no-any-return]
        if self.verb == "close":
            return life.close(self.session, LATER)
        number, *others = self.arguments
        if life.people_of(number) is None:
            return "NOT_FOUND"
        if self.verb == "extend":
            return life.extend(number, moment(others[0]), LATER)
        if self.verb == "remind":
            return life.remind(number, list(others[0]), LATER)
        if self.verb == "submit":
            return self.submit(life, number, *others)
        if self.verb == "give" and others[0] not in life.homework[number].submissions:
            return "NOT_FOUND"
        change = getattr(life, self.verb)
        return change(number, *others, LATER)  # type: ignore[no-any-return]

    def open(self, life: Life, start: int, parties: tuple[int, int], reminders: Any) -> Code:
        """With homework if `reminders` is not None."""
        life.open(self.session, parties, moment(start))
        life.title = self.session
        life.add_event("SESSION_CREATED", LATER, self.session)
        if reminders is not None:
            life.assign(FIRST, self.session, moment(start), moment(start + 60), LATER)
            set_reminders(life.homework[FIRST], reminders)
        return None

    def update(self, life: Life, title: str, start: int | None) -> Code:
        before = life.sessions[self.session].start
        code = life.move(self.session, before if start is None else moment(start), LATER)
        if code is None and title != life.title:
            life.title = title
            if life.sessions[self.session].start == before:
                life.add_event("SESSION_UPDATED", LATER, self.session)
        return code

    def assign(self, life: Life, number: int, end: int, reminders: tuple[datetime, ...] = ()) -> Code:
        if not life.is_running(self.session, LATER):
            return "NOT_RUNNING"
        life.assign(number, self.session, moment(number), moment(end), LATER)
        set_reminders(life.homework[number], reminders)
        return None

    def repeat(self, life: Life, number: int, end: int) -> Code:
        """As by a legacy path without a key."""
        return None if number in life.homework else self.assign(life, number, end)

    def submit(self, life: Life, number: int, answer: str, revision: int) -> Code:
        code = life.submit(number, answer, revision, LATER, OPTIONS)
        submissions = life.homework[number].submissions
        if 0 in submissions:  # known by its attempt from now on
            submissions[life.homework[number].attempt] = submissions.pop(0)
        return code


def set_reminders(one: Homework, moments: tuple[datetime, ...]) -> None:
    one.reminders = [planned(each, LATER) for each in dict.fromkeys(moments)]


@dataclass(frozen=True)
class Due:
    """A reminder becomes due: the dispatcher sends it. If it was set too late it is skipped."""

    number: int
    moment: datetime
    is_late: bool

    def __call__(self, life: Life) -> str:
        one = life.homework.get(self.number)
        if one is not None and (self.moment, "SCHEDULED") in one.reminders:
            one.reminders.remove((self.moment, "SCHEDULED"))
            one.reminders = sorted([*one.reminders, (self.moment, "SKIPPED" if self.is_late else "SENT")])
            if not self.is_late:
                life.add_event("REMINDER_DUE", LATER, one.session, self.number)
        return DONE


def number_of(book: int, start: datetime) -> int:
    """The name of an assignment in its session."""
    return FIRST if book == FIRST_BOOK else minutes(start)


def moment(number: int) -> datetime:
    return BEGIN + number * MINUTE


def minutes(then: datetime) -> int:
    return (then - BEGIN) // MINUTE


def minutes_in(text: str) -> int:
    return minutes(datetime.fromisoformat(text))
