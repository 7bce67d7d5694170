"""A model of the rules in docs/domain.md, written as simply as possible.

Every method returns the code of the rejection, or None if the change is performed. Callers handle NOT_FOUND.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Code = str | None


@dataclass
class Submission:
    attempt: int
    answer: str
    own_score: int
    score: int
    feedback: tuple[str, int | None, datetime] | None = None


@dataclass
class Homework:
    session: int
    start: datetime
    end: datetime
    attempt: int = 1
    submit_date: datetime | None = None
    feedback_date: datetime | None = None
    withdraw_date: datetime | None = None
    score: int = 0
    draft: tuple[int, str] | None = None  # its revision, and the answer
    last_revision: int = 0  # of earlier attempts
    submissions: dict[int, Submission] = field(default_factory=dict)
    reminders: list[tuple[datetime, str]] = field(default_factory=list)  # with their states

    def skip_reminders(self) -> None:
        skipped = {"SCHEDULED": "SKIPPED"}
        self.reminders = [(moment, skipped.get(state, state)) for moment, state in self.reminders]

    def move(self, by: timedelta, now: datetime) -> None:
        self.start, self.end = self.start + by, self.end + by
        self.reminders = [
            (moment, state) if state != "SCHEDULED" else planned(moment + by, now)
            for moment, state in self.reminders
        ]


def planned(moment: datetime, now: datetime) -> tuple[datetime, str]:
    return moment, "SKIPPED" if moment < now else "SCHEDULED"


@dataclass
class Period:
    parties: tuple[int, int]
    start: datetime
    close_date: datetime | None = None


@dataclass
class Model:
    sessions: dict[int, Period] = field(default_factory=dict)
    homework: dict[int, Homework] = field(default_factory=dict)
    events: list[tuple[Any, ...]] = field(default_factory=list)

    def add_event(self, kind: str, now: datetime, session: int, assignment: int | None = None) -> None:
        actor = "CLIENT" if kind in ("SUBMITTED", "DRAFT_SAVED") else "CAREGIVER"
        self.events.append((kind, actor, *self.sessions[session].parties, session, assignment, now))

    def people_of(self, number: int) -> tuple[int, int] | None:
        """The caregiver and the client of an existing assignment."""
        one = self.homework.get(number)
        return None if one is None or one.withdraw_date else self.sessions[one.session].parties

    def is_closed(self, session: int) -> bool:
        return self.sessions[session].close_date is not None

    def is_running(self, session: int, now: datetime) -> bool:
        return not self.is_closed(session) and self.sessions[session].start <= now

    # --- sessions ---

    def open(self, number: int, parties: tuple[int, int], start: datetime) -> None:
        self.sessions[number] = Period(parties, start)

    def move(self, number: int, start: datetime, now: datetime) -> Code:
        session = self.sessions[number]
        if self.is_closed(number):
            return "NOT_RUNNING"
        if start != session.start:
            if session.start <= now:
                return "WRONG_STATE"
            for one in self.homework.values():
                if one.session == number and not one.withdraw_date:
                    one.move(start - session.start, now)
            session.start = start
            self.add_event("SESSION_UPDATED", now, number)
        return None

    def close(self, number: int, now: datetime) -> Code:
        if self.is_closed(number):
            return "NOT_RUNNING"
        self.sessions[number].close_date = now
        for one in self.homework.values():
            if one.session == number:
                one.skip_reminders()
        self.add_event("SESSION_CLOSED", now, number)
        return None

    # --- homework ---

    def assign(self, number: int, session: int, start: datetime, end: datetime, now: datetime) -> None:
        self.homework[number] = Homework(session, start, end)
        self.add_event("ASSIGNED", now, session, number)

    def why_not_pending(self, number: int) -> Code:
        if self.is_closed(self.homework[number].session):
            return "NOT_RUNNING"
        return "WRONG_STATE" if self.homework[number].submit_date else None

    def extend(self, number: int, end: datetime, now: datetime) -> Code:
        one = self.homework[number]
        if why := self.why_not_pending(number):
            return why
        if end < one.end:
            return "UNREADABLE"
        if end != one.end:
            one.end = end
            self.add_event("EXTENDED", now, one.session, number)
        return None

    def remind(self, number: int, moments: list[datetime], now: datetime) -> Code:
        one = self.homework[number]
        if why := self.why_not_pending(number):
            return why
        if any(not one.start <= moment <= one.end for moment in moments):
            return "UNREADABLE"
        kept = [each for each in one.reminders if each[1] != "SCHEDULED" or each[0] in moments]
        existing = {moment for moment, state in kept if state != "SKIPPED" or moment < now}
        new = [planned(each, now) for each in dict.fromkeys(moments) if each not in existing]
        if new or kept != one.reminders:
            one.reminders = sorted(kept + new)
            self.add_event("REMINDERS_SET", now, one.session, number)
        return None

    def withdraw(self, number: int, now: datetime) -> Code:
        one = self.homework[number]
        if why := self.why_not_pending(number):
            return why
        one.withdraw_date = now
        one.skip_reminders()
        self.add_event("WITHDRAWN", now, one.session, number)
        return None

    # --- answers and feedback ---

    def why_not_answerable(self, number: int, now: datetime) -> Code:
        one = self.homework[number]
        if not self.is_running(one.session, now):
            return "NOT_RUNNING"
        return "WRONG_STATE" if one.submit_date or one.start > now else None

    def save(self, number: int, answer: str, revision: int, now: datetime) -> Code:
        one = self.homework[number]
        if why := self.why_not_answerable(number, now):
            return why
        saved = (revision or one.last_revision) + 1, answer
        if one.draft == saved:
            return None  # the same save again
        if revision != (one.draft[0] if one.draft else 0):
            return "DRAFT_CONFLICT"
        one.draft = saved
        self.add_event("DRAFT_SAVED", now, one.session, number)
        return None

    def submit(self, number: int, answer: str, revision: int, now: datetime, options: list[str]) -> Code:
        """The submission has the number 0 until its real id is known."""
        one = self.homework[number]
        if one.submit_date:
            is_same = max(one.submissions.values(), key=lambda each: each.attempt).answer == answer
            return None if is_same else "WRONG_STATE"
        if why := self.why_not_answerable(number, now):
            return why
        if revision != (one.draft[0] if one.draft else 0):
            return "DRAFT_CONFLICT"
        if answer not in options:
            return "UNREADABLE"
        score = options.index(answer)
        one.submissions[0] = Submission(one.attempt, answer, score, score)
        one.last_revision = one.draft[0] if one.draft else one.last_revision + 1
        one.draft, one.score, one.submit_date = None, score, now
        one.skip_reminders()
        self.add_event("SUBMITTED", now, one.session, number)
        return None

    def give(self, number: int, submission: int, text: str, score: int | None, now: datetime) -> Code:
        one = self.homework[number]
        of = one.submissions[submission]
        if not self.is_running(one.session, now):
            return "NOT_RUNNING"
        if not one.submit_date or of.attempt != one.attempt:
            return "WRONG_STATE"
        if of.feedback is None or of.feedback[:2] != (text, score):
            of.feedback = text, score, now
            of.score = one.score = of.own_score if score is None else score
            one.feedback_date = now
            self.add_event("FEEDBACK_GIVEN", now, one.session, number)
        return None

    def reopen(self, number: int, now: datetime) -> Code:
        one = self.homework[number]
        if not self.is_running(one.session, now):
            return "NOT_RUNNING"
        if not one.submit_date:
            return "WRONG_STATE"
        one.attempt, one.score, one.submit_date, one.feedback_date = one.attempt + 1, 0, None, None
        self.add_event("REOPENED", now, one.session, number)
        return None
