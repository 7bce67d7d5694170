"""Takes a recording over: its people, books, sessions, assignments and answers, in one operation."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select

from app.care.context import Role
from app.db.admin.importing import importing_records
from app.db.reader.entities import Table, table_of
from app.db.sql import Operation, Statement
from app.db.tables import AssignmentStatus, Book, Caregiver, Client, Module, Session
from app.legacy_migration.errors import MovingRefused
from app.legacy_migration.extraction import Facts, Gap, Gathered, is_whole, user_names
from app.legacy_migration.pages import read_answer, read_assignment
from app.legacy_migration.recorded_calls import Call

Line = tuple[int, dict[str, Any]]  # where it was told of first, and what `import` reads


class RecordingIncomplete(MovingRefused):
    """Something is missing, and nobody said that this may be."""

    def __init__(self, gaps: dict[Gap, dict[str, None]]) -> None:
        super().__init__(
            "the recording is not complete; nothing was imported (--partial takes what is there)"
        )
        self.gaps = gaps


class AlreadyThere(MovingRefused):
    """The database has some of it."""


@dataclass(frozen=True)
class Taken:
    counts: dict[str, int]
    gaps: dict[Gap, dict[str, None]]
    without_account: list[tuple[Role, int]]  # people whose own pages were not seen
    without_number: list[tuple[Role, str]]  # accounts of whom no page tells
    without_questions: list[int]  # books that are new here: no page tells what they ask


def stored(table: Table, **members: str) -> tuple[Statement, tuple[str, ...]]:
    """What the database may know already, by the names that recordings have for it."""
    columns = ("id", *members.values())
    statement = Statement(lambda kind: select(*(table_of(table).c[name] for name in columns)))
    return statement, tuple(members)


THERE = {
    "caregiver": stored(Caregiver, name="name", position="position", userName="user_name"),
    "client": stored(Client, name="name", opptId="oppt_id", userName="user_name"),
    "module": stored(Module, name="name"),
    "book": stored(Book, name="name", moduleId="module_id", isTest="is_test"),
}
# Not every page tells all of somebody or something: without this a row cannot be made.
NEEDED = {"caregiver": "position", "client": "opptId", "module": "name", "book": "moduleId"}
THERE_SESSIONS = Statement(lambda kind: select(table_of(Session).c.id))


def taking(
    gathered: Gathered, calls: Callable[[], Iterable[Call]], zone: ZoneInfo, is_partial: bool
) -> Operation[Taken]:
    """`calls` begins the recording anew: it is read a second time, so that it need not be held."""
    if known := {row[0] for row in (yield THERE_SESSIONS, {})} & gathered.told["session"].keys():
        raise AlreadyThere(
            f"session {min(known)} is in the database already: was this recording imported before? "
            "Nothing was imported"
        )
    for role in Role:
        for number, user in user_names(gathered, role).items():
            gathered.told[role.lower()][number]["userName"] = user
    there: dict[str, dict[int, Facts]] = {}
    for kind, (statement, members) in THERE.items():
        rows = yield statement, {}
        there[kind] = {number: dict(zip(members, values, strict=True)) for number, *values in rows}
        compare_with_stored(gathered, kind, there[kind])
    if any(gathered.gaps.values()) and not is_partial:
        raise RecordingIncomplete(gathered.gaps)
    counts = yield from importing_records(lines_of(gathered, there, calls, zone))
    bare = [number for number in sorted(gathered.told["book"]) if number not in there["book"]]
    return Taken(counts, gathered.gaps, *without(gathered, there), bare)


def compare_with_stored(gathered: Gathered, kind: str, there: dict[int, Facts]) -> None:
    """What is stored stays. An account that a stored person lacks is given by `account link`, not here."""
    for number in there.keys() & gathered.told[kind].keys():
        for name, value in gathered.told[kind][number].items():
            found = there[number].get(name)
            if found != value and not (name == "userName" and found is None):
                gathered.lacks(Gap.TWO_WAYS, f"{kind} {number}: {name} is another in the database, and stays")


def without(
    gathered: Gathered, there: dict[str, dict[int, Facts]]
) -> tuple[list[tuple[Role, int]], list[tuple[Role, str]]]:
    people, accounts = [], []
    for role in Role:
        kind = role.lower()
        stored_users = {facts["userName"] for facts in there[kind].values()}
        for number, facts in sorted(gathered.told[kind].items()):
            known = there[kind].get(number, facts)
            if known.get("userName") is None and (number in there[kind] or NEEDED[kind] in facts):
                people.append((role, number))
        accounts += [
            (role, user)
            for user, ids in gathered.users[role].items()
            if len(ids) != 1 and user not in stored_users
        ]
    return people, accounts


# --- what `import` reads --------------------------------------------------------------------------


def lines_of(
    gathered: Gathered,
    there: dict[str, dict[int, Facts]],
    calls: Callable[[], Iterable[Call]],
    zone: ZoneInfo,
) -> Iterator[Line]:
    """Parents first. What the database has is not told again; what lacks its parent is left out."""
    told = gathered.told
    for kind, needed in NEEDED.items():
        for number, facts in sorted(told[kind].items()):
            if number not in there[kind] and needed in facts:
                yield gathered.first[kind, number], {"kind": kind, "id": number, **facts}
    for number, facts in sorted(told["session"].items()):
        if is_whole(facts):
            yield gathered.first["session", number], session_line(number, facts)
    for call in calls():
        answered = read_answer(call)
        if answered is None or answered.role is Role.CLIENT:
            continue
        for index, item in enumerate(answered.items):
            facts = told["assignment"][item.id("id")]
            if facts["place"] == (call.line, index) and is_whole(told["session"][facts["sessionId"]]):
                yield from assignment_lines(call.line, read_assignment(item, zone, lambda _: None))


def session_line(number: int, facts: Facts) -> dict[str, Any]:
    """Since when a session is closed, the pages do not tell."""
    return {
        "kind": "session",
        "id": number,
        "caregiverId": facts["caregiverId"],
        "clientId": facts["clientId"],
        "title": facts["title"],
        "description": facts["description"],
        "chatId": facts["chatId"],
        "createDate": facts["createDate"],
        "startDate": facts["startDate"],
        "isClosed": facts["isClosed"],
    }


def assignment_lines(line: int, read: Facts) -> Iterator[Line]:
    """When it ends, of what it reminds and what was said of it, the pages do not tell."""
    sets = sorted(read["answers"], key=lambda one: one["id"])
    is_pending = read["status"] == AssignmentStatus.PENDING
    yield (
        line,
        {
            "kind": "assignment",
            "id": read["id"],
            "sessionId": read["sessionId"],
            "bookId": read["bookId"],
            "assignDate": read["assignDate"],
            "startDate": read["startDate"],
            "submitDate": read["submitDate"],
            "status": read["status"],
            "attempt": max(len(sets), 1) + (1 if sets and is_pending else 0),
            "score": read["score"],
            "feedbackStatus": read["feedbackStatus"],
            "feedbackSubmitDate": read["feedbackSubmitDate"],
        },
    )
    for attempt, one in enumerate(sets, 1):
        yield line, {"kind": "answer_set", "assignmentId": read["id"], "attempt": attempt, **one}
