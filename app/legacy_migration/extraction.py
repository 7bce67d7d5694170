"""Gathers what a recording tells of each person and thing, and where it tells of one in two ways."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from app.care.context import Role
from app.db.tables import TimeState
from app.legacy_migration.json_object import Problem, Record
from app.legacy_migration.pages import (
    Answered,
    Envelope,
    read_answer,
    read_assignment,
    read_session,
)
from app.legacy_migration.recorded_calls import Call, CallRefused, file_of

Facts = dict[str, Any]
FactsByKind = dict[str, dict[int, Facts]]  # kind -> id -> members


class Gap(StrEnum):
    """What a recording can lack; the value is the heading in the report."""

    LIST = "lists that were not recorded to their end"
    SESSION = "sessions of which no client's page tells; they are left out, and their assignments"
    ASSIGNMENT = "assignments that no caregiver's page shows"
    ANSWERS = "answers that were not shown; their assignment was not asked for by itself"
    TWO_WAYS = "told in two ways; what came last counts"
    NOT_TAKEN = "not taken over"


@dataclass
class Gathered:
    facts: FactsByKind = field(default_factory=lambda: defaultdict(dict))
    users: dict[Role, dict[str, set[int]]] = field(default_factory=lambda: {role: {} for role in Role})
    lists: dict[tuple[Role, str, TimeState], list["Seen"]] = field(default_factory=dict)
    gaps: dict[Gap, dict[str, None]] = field(default_factory=lambda: {gap: {} for gap in Gap})
    odd: Counter[str] = field(default_factory=Counter)
    line: int = 0  # that is being read
    first: dict[tuple[str, int], int] = field(default_factory=dict)  # line of the first mention

    def lacks(self, gap: Gap, what: str) -> None:
        self.gaps[gap][what] = None

    def tell(self, kind: str, number: int, **members: Any) -> Facts:
        """The last value counts; a different earlier value is a gap."""
        known = self.facts[kind].setdefault(number, {})
        self.first.setdefault((kind, number), self.line)
        for name, value in members.items():
            if known.setdefault(name, value) != value:
                self.lacks(Gap.TWO_WAYS, f"{kind} {number}: {name}")
                known[name] = value
        return known

    def of_session(self) -> dict[int, list[int]]:
        """The assignments that were seen of each session, newest first."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, facts in sorted(self.facts["assignment"].items(), reverse=True):
            found[facts["sessionId"]].append(number)
        return found


@dataclass
class Seen:
    """The pages of one list that were recorded in one size."""

    size: int
    pages: dict[int, tuple[Envelope, list[int]]] = field(default_factory=dict)

    @property
    def missing(self) -> str | None:
        totals = {envelope.total for envelope, _ in self.pages.values()}
        if len(totals) > 1:
            return "it changed while it was recorded"
        of_all = max(1, *(envelope.pages for envelope, _ in self.pages.values()))
        lacking = of_all - sum(number < of_all for number in self.pages)
        if lacking:
            first = next(number for number in count() if number not in self.pages)
            return f"page {first} of {of_all:,}" + (f" and {lacking - 1:,} more" if lacking > 1 else "")
        ids = [one for _, found in self.pages.values() for one in found]
        return None if len(set(ids)) == len(ids) == max(totals) else "it changed while it was recorded"


def gather(path: Path, calls: Iterable[Call], zone: ZoneInfo) -> Gathered:
    gathered = Gathered()
    for call, answered in answers_of(path, calls):
        gathered.line = call.line
        try:
            gather_answer(gathered, call, answered, zone)
        except Problem as problem:
            raise CallRefused(file_of(path), call.line, problem) from None
    return gathered


def answers_of(path: Path, calls: Iterable[Call]) -> Iterator[tuple[Call, Answered]]:
    for call in calls:
        try:
            answered = read_answer(call)
            if answered is not None and call.user is None:
                raise Problem("userName", "is missing: whose token was it?")
        except Problem as problem:
            raise CallRefused(file_of(path), call.line, problem) from None
        if answered is not None:
            yield call, answered


def gather_answer(gathered: Gathered, call: Call, answered: Answered, zone: ZoneInfo) -> None:
    user = str(call.user)
    of_user = gathered.users[answered.role].setdefault(user, set())
    ids = []
    for index, item in enumerate(answered.items):
        odd: list[str] = []
        if answered.role is Role.CLIENT:
            session = read_session(item, zone, odd.append)
            tell_of_session(gathered, session, answered.envelope)
            of_user.add(session["clientId"])
            ids.append(session["id"])
        else:
            assignment = read_assignment(item, zone, odd.append)
            tell_of_assignment(gathered, assignment, item, (call.line, index))
            of_user.add(assignment["caregiverId"])
            ids.append(assignment["id"])
        gathered.odd.update(odd)
    if answered.envelope is not None:
        note_page(gathered, (answered.role, user, answered.envelope.state), answered.envelope, ids)


def note_page(
    gathered: Gathered, key: tuple[Role, str, TimeState], envelope: Envelope, ids: list[int]
) -> None:
    sizes = gathered.lists.setdefault(key, [])
    seen = next((one for one in sizes if one.size == envelope.size), None)
    if seen is None:
        seen = Seen(envelope.size)
        sizes.append(seen)
    seen.pages[envelope.number] = (envelope, ids)


def tell_of_session(gathered: Gathered, session: Facts, envelope: Envelope | None) -> None:
    tell, number = gathered.tell, session["id"]
    tell("session", number, **{name: value for name, value in session.items() if name not in OF_OTHERS})
    tell(
        "caregiver",
        session["caregiverId"],
        name=session["caregiverName"],
        position=session["caregiverPosition"],
    )
    tell("client", session["clientId"], name=session["clientName"], opptId=session["clientOpptId"])
    if session["bookId"] is not None:
        tell("book", session["bookId"], name=session["assignmentName"])
    if envelope is not None and envelope.state != session["runningStatus"]:
        gathered.lacks(Gap.TWO_WAYS, f"session {number}: in the list of what is {envelope.state}")


OF_OTHERS = {"id", "caregiverName", "caregiverPosition", "clientOpptId", "clientName"}


def tell_of_assignment(gathered: Gathered, read: Facts, item: Record, place: tuple[int, int]) -> None:
    tell, number = gathered.tell, read["id"]
    tell(
        "session",
        read["sessionId"],
        title=read["sessionTitle"],
        caregiverId=read["caregiverId"],
        clientId=read["clientId"],
    )
    tell("caregiver", read["caregiverId"], name=read["caregiverName"])
    tell("client", read["clientId"], name=read["clientName"])
    tell("module", read["moduleId"], name=read["moduleName"])
    tell("book", read["bookId"], name=read["name"], moduleId=read["moduleId"], isTest=read["isTest"])
    known = gathered.facts["assignment"].get(number)
    shown = fingerprint(read["answers"]) if read["answers"] else None
    facts = {name: read[name] for name in ("sessionId", "status", "score")}
    facts["content"] = fingerprint({**item.given, "answers": None})
    known = tell("assignment", number, **facts)
    if shown is not None and known.get("answers") is not None:
        tell("assignment", number, answers=shown)  # a list may show none that the assignment itself does
    if shown is not None or known.get("answers") is None:
        known.update(answers=shown, place=place)
    known["isAsked"] = known.get("isAsked", False) or not item.path  # by itself, and not in a list


def fingerprint(value: object) -> int:
    return hash(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def is_whole(session: Facts) -> bool:
    """Whether a client's page contains the session; pages of caregivers contain parts of it only."""
    return "chatId" in session


def user_names(gathered: Gathered, role: Role) -> dict[int, str]:
    """The person's number as their own pages tell it, and what their token calls them."""
    return {next(iter(ids)): user for user, ids in gathered.users[role].items() if len(ids) == 1}
