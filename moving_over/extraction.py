"""Extracts people, books, sessions and assignments from a recording, and finds what the recording lacks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from app.care.context import Role
from app.db.interchange.import_format import LineRejected
from app.db.interchange.recorded import Key, Members, fingerprint_of
from app.db.tables import AssignmentStatus, TimeState
from moving_over.pages import Reading, RecordedResponse, assignment_members, read_response
from moving_over.recorded_calls import Call, invalid_line


class Gap(StrEnum):
    """What a recording lacks or contradicts; the value is the heading in the report.

    Rows that were not seen, are invalid or contradict each other need `--partial`, and the rest does not.
    """

    LIST = "incomplete lists"
    SESSION = "sessions on no client's page, skipped with their assignments"
    ASSIGNMENT = "assignments on no caregiver's page"
    ANSWERS = "missing answers: the list omits them, and the assignment was not requested by its id"
    ASIDE = "invalid rows, set aside with their assignments; map their values (--map) or correct them there"
    CONTRADICTION = "contradictions; the last value is used"
    COUNTERS = "wrong counters; the recorded rows count"
    IGNORED = "not imported"


NEED_NO_CONSENT = (Gap.COUNTERS, Gap.IGNORED)
Gaps = dict[Gap, dict[str, None]]  # the inner keys are texts, in the order in which they were found
# Of one list in one size, by number: totals and items' ids.
Pages = dict[int, tuple[int, int, list[int | None]]]


@dataclass
class Recording:
    """What a recording contains, without the answers, which are read again when they are needed."""

    reading: Reading
    read_again: Callable[[], Iterable[Call]]
    facts: dict[str, dict[int, Members]] = field(default_factory=lambda: defaultdict(dict))  # by kind and id
    first_lines: dict[tuple[str, int], int] = field(default_factory=dict)  # by kind and id
    users: dict[Role, dict[str, set[int]]] = field(default_factory=lambda: {role: {} for role in Role})
    lists: dict[tuple[Role, str, TimeState], dict[int, Pages]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )  # of a user and a state, by page size
    gaps: Gaps = field(default_factory=lambda: {gap: {} for gap in Gap})
    aside: dict[Key, int | None] = field(default_factory=dict)  # invalid rows with their sessions
    complete: set[tuple[Role, str]] = field(default_factory=set)  # users, all of whose lists were seen
    moments: list[datetime] = field(default_factory=list)  # the first and the last
    line: int = 0  # that is being read

    @property
    def zone(self) -> ZoneInfo:
        return self.reading.zone

    @property
    def is_incomplete(self) -> bool:
        return any(found for gap, found in self.gaps.items() if gap not in NEED_NO_CONSENT)

    def has_seen(self, key: Key) -> bool:
        return key[1] in self.facts[key[0]] or key in self.aside

    def report(self, gap: Gap, text: str) -> None:
        self.gaps[gap][text] = None

    def add(self, kind: str, number: int, **members: Any) -> Members:
        """Overwrites and reports earlier values that are different."""
        known = self.facts[kind].setdefault(number, {})
        self.first_lines.setdefault((kind, number), self.line)
        for name, value in members.items():
            if known.setdefault(name, value) != value:
                self.report(Gap.CONTRADICTION, f"{kind} {number}: {name}")
                known[name] = value
        return known

    def assignments_by_session(self) -> dict[int, list[int]]:
        """Newest first."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, facts in sorted(self.facts["assignment"].items(), reverse=True):
            found[facts["sessionId"]].append(number)
        return found

    def user_names(self, role: Role) -> dict[int, str]:
        """By the person's id on their own pages."""
        return {next(iter(ids)): user for user, ids in self.users[role].items() if len(ids) == 1}


def extract(
    path: Path, reading: Reading, calls: Iterable[Call], read_again: Callable[[], Iterable[Call]]
) -> Recording:
    recording = Recording(reading, read_again)
    for call in calls:
        recording.line = call.line
        if call.moment is not None:
            known = [*recording.moments, call.moment]
            recording.moments = [min(known), max(known)]
        try:
            response = read_response(call, reading)
            if response is not None:
                add_response(recording, str(call.user), response)
        except LineRejected as rejection:
            raise invalid_line(path, call.line, rejection) from None
    for role in Role:
        for number, user in recording.user_names(role).items():
            recording.facts[role.lower()].setdefault(number, {})["userName"] = user
    leave_out(recording)
    find_gaps(recording)
    return recording


def leave_out(recording: Recording) -> None:
    """Drops the valid values of rows that are invalid elsewhere."""
    for kind, number in recording.aside:
        if kind == "assignment":
            recording.facts[kind].pop(number, None)
        elif session := recording.facts[kind].get(number):
            session.pop(COMPLETE_SESSION, None)


def add_response(recording: Recording, user: str, response: RecordedResponse) -> None:
    role, state, page = response.role, response.state, response.page
    people = recording.users[role].setdefault(user, set())
    ids = [each.id for each in response.aside]
    for each in response.aside:
        recording.report(Gap.ASIDE, each.text)
        if each.id is not None:
            recording.aside["session" if role is Role.CLIENT else "assignment", each.id] = each.session
        people |= set() if each.person is None else {each.person}
    for index, item in response.items.items():
        if role is Role.CLIENT:
            add_session(recording, item, state)
            people.add(item["clientId"])
        else:
            known = add_assignment(recording, item, index)
            known["isRequested"] = known.get("isRequested", False) or page is None  # by its id
            people.add(item["caregiverId"])
        ids.append(item["id"])
    if state is not None and page is not None:
        pages = recording.lists[role, user, state][page.size]
        pages[page.number] = (page.total_elements, page.total_pages, ids)


def add_session(recording: Recording, read: Members, state: TimeState | None) -> None:
    add, number = recording.add, read["id"]
    add("session", number, **{name: value for name, value in read.items() if name not in NOT_STORED})
    add("caregiver", read["caregiverId"], name=read["caregiverName"], position=read["caregiverPosition"])
    add("client", read["clientId"], name=read["clientName"], opptId=read["clientOpptId"])
    if read["bookId"] is not None and read["assignmentName"] is not None:
        add("book", read["bookId"], name=read["assignmentName"])
    if state != read["runningStatus"]:
        recording.report(Gap.CONTRADICTION, f"session {number}: in the list of {state} sessions")


NOT_STORED = {"id", "caregiverName", "caregiverPosition", "clientOpptId", "clientName"}  # with a session


def add_assignment(recording: Recording, read: Members, index: int) -> Members:
    add, number = recording.add, read["id"]
    add(
        "session",
        read["sessionId"],
        title=read["sessionTitle"],
        caregiverId=read["caregiverId"],
        clientId=read["clientId"],
    )
    add("caregiver", read["caregiverId"], name=read["caregiverName"])
    add("client", read["clientId"], name=read["clientName"])
    add("module", read["moduleId"], name=read["moduleName"])
    add("book", read["bookId"], name=read["name"], moduleId=read["moduleId"], isTest=read["isTest"])
    answers = fingerprint_of(read["answers"]) if read["answers"] else None
    facts = {name: read[name] for name in ("sessionId", "status", "score")}
    known = add("assignment", number, **facts, content=fingerprint_of({**read, "answers": None}))
    if answers is not None and known.get("answers") is not None:
        add("assignment", number, answers=answers)  # a list may omit answers, which is no contradiction
    if answers is not None or known.get("answers") is None:
        known.update(answers=answers, place=(recording.line, index))
        known["sets"] = [each["id"] for each in read["answers"]]
        known["fingerprint"] = fingerprint_of(assignment_members(read))
    return known


COMPLETE_SESSION = "chatId"  # a member that only clients' pages have


def is_complete(session: Members) -> bool:
    """Whether a client's page contains the session; caregivers' pages contain only some of its members."""
    return COMPLETE_SESSION in session


# --- gaps -----------------------------------------------------------------------------------------


def find_gaps(recording: Recording) -> None:
    find_incomplete_lists(recording)
    assignments, sessions = recording.facts["assignment"], recording.facts["session"]
    for number, newest_first in recording.assignments_by_session().items():
        if not is_complete(sessions[number]) and ("session", number) not in recording.aside:
            recording.report(Gap.SESSION, f"session {number} of client {sessions[number]['clientId']}")
        for assignment in newest_first:
            facts = assignments[assignment]
            is_known = facts["answers"] or facts["isRequested"]
            if facts["status"] == AssignmentStatus.COMPLETE and not is_known:
                recording.report(Gap.ANSWERS, f"assignment {assignment}")
    find_wrong_counters(recording)
    find_mixed_users(recording)
    for text, number in recording.reading.ignored.items():
        recording.report(Gap.IGNORED, f"{text} ({number:,} times)")


def find_incomplete_lists(recording: Recording) -> None:
    numbers = {number for sizes in recording.lists.values() for pages in sizes.values() for number in pages}
    first = 0 if 0 in numbers else 1  # of the old service
    for role, users in recording.users.items():
        for user in users:
            missing = dict(missing_lists(recording, role, user, first))
            if not missing:
                recording.complete.add((role, user))
            for state, reason in missing.items():
                recording.report(Gap.LIST, f"{role.lower()} {user}: {state}{reason}")


def missing_lists(recording: Recording, role: Role, user: str, first: int) -> Iterator[tuple[TimeState, str]]:
    for state in TimeState:
        sizes = recording.lists[role, user, state].values()
        reasons = [missing_part(pages, first) for pages in sizes]
        if not reasons:
            yield state, " was not requested"
        elif all(reasons):
            yield state, f": {reasons[-1]}"
        for pages, reason in zip(sizes, reasons, strict=True):
            total = next(iter(pages.values()))[0]
            if reason is None and total != sum(len(ids) for _, _, ids in pages.values()):
                name = f"{role.lower()} {user}: {state}"
                recording.report(Gap.COUNTERS, f"{name}: totalElements is {total:,}")


def missing_part(pages: Pages, first: int) -> str | None:
    """A list is complete if it has as many items as it states, or ends with an empty page."""
    totals = {total for total, _, _ in pages.values()}
    ids = [each for _, _, ids in pages.values() for each in ids]
    if None in ids:
        return "an item has no valid id"
    if len(totals) > 1 or len(set(ids)) < len(ids):
        return "it changed while it was recorded"
    newest = max(pages)
    has_end = newest > first and not pages[newest][2] and len(pages) == newest + 1 - first
    if len(ids) == max(totals) or has_end:
        return None
    last = max(1, *(number for _, number, _ in pages.values()))
    if lacking := last - sum(number < first + last for number in pages):
        page = next(number for number in count(first) if number not in pages)
        return f"page {page} of {last:,}" + (f" and {lacking - 1:,} more" if lacking > 1 else "")
    return "it changed while it was recorded"


def find_wrong_counters(recording: Recording) -> None:
    """Compares what a session's page states about its assignments with the recorded assignments."""
    assignments, by_session = recording.facts["assignment"], recording.assignments_by_session()
    aside = Counter(recording.aside.values())
    for number, session in recording.facts["session"].items():
        if not is_complete(session):
            continue
        newest_first = by_session.get(number, [])
        total = session["assignmentCount"] - aside[number]
        if len(newest_first) < total:
            name = f"session {number} of caregiver {session['caregiverId']}"
            recording.report(Gap.ASSIGNMENT, f"{name}: {len(newest_first)} of {total}")
            continue
        if session["isClosed"] != (session["runningStatus"] == TimeState.COMPLETED):
            recording.report(Gap.CONTRADICTION, f"session {number}: isClosed")
        if aside[number]:
            continue
        complete = [each for each in newest_first if assignments[each]["status"] == AssignmentStatus.COMPLETE]
        computed = {
            "assignmentCount": len(newest_first),
            "completedAssignmentCount": len(complete),
            "pendingAssignmentCount": len(newest_first) - len(complete),
            "assignmentId": newest_first[0] if newest_first else None,
            "lastAssignmentScore": assignments[complete[0]]["score"] if complete else None,
        }
        for name, value in computed.items():
            if session[name] != value:
                recording.report(Gap.COUNTERS, f"session {number}: {name}")


def find_mixed_users(recording: Recording) -> None:
    for role, users in recording.users.items():
        names: dict[int, str] = {}
        for user, ids in users.items():
            if len(ids) > 1:
                recording.report(Gap.CONTRADICTION, f"{role.lower()} {user}: pages of several people")
            for number in ids:
                if names.setdefault(number, user) != user:
                    recording.report(Gap.CONTRADICTION, f"{role.lower()} {number}: two user names")
