"""Imports a recording: people, books, sessions, assignments and answers, in one transaction."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select

from app.care.context import Role
from app.db.admin.importing import importing_records
from app.db.sql import Operation, Statement
from app.db.tables import AssignmentStatus, Book, Caregiver, Client, Module, Session, Table, table_of
from app.legacy_migration.errors import MovingRefused
from app.legacy_migration.extraction import Facts, Gap, Gathered, is_whole, user_names
from app.legacy_migration.pages import read_answer, read_assignment
from app.legacy_migration.recorded_calls import Call

Line = tuple[
    int, dict[str, Any]
]  # the line of the recording that first mentions it, and the record for `import`


class RecordingIncomplete(MovingRefused):
    """Something is missing, and --partial was not given."""

    def __init__(self, gaps: dict[Gap, dict[str, None]]) -> None:
        super().__init__(
            "the recording is not complete; nothing was imported (--partial imports what is there)"
        )
        self.gaps = gaps


class AlreadyImported(MovingRefused):
    """A session of the recording is already in the database."""


@dataclass(frozen=True)
class ImportResult:
    counts: dict[str, int]
    gaps: dict[Gap, dict[str, None]]
    without_account: list[tuple[Role, int]]  # people whose account is unknown
    without_number: list[tuple[Role, str]]  # accounts whose person is unknown
    without_questions: list[int]  # new books, imported without questions


def stored_columns(table: Table, **members: str) -> tuple[Statement, tuple[str, ...]]:
    """Selects stored rows; the members have the names that recordings use."""
    columns = ("id", *members.values())
    statement = Statement(lambda kind: select(*(table_of(table).c[name] for name in columns)))
    return statement, tuple(members)


STORED = {
    "caregiver": stored_columns(Caregiver, name="name", position="position", userName="user_name"),
    "client": stored_columns(Client, name="name", opptId="oppt_id", userName="user_name"),
    "module": stored_columns(Module, name="name"),
    "book": stored_columns(Book, name="name", moduleId="module_id", isTest="is_test"),
}
# Pages can be incomplete; a row needs at least this member.
NEEDED = {"caregiver": "position", "client": "opptId", "module": "name", "book": "moduleId"}
STORED_SESSIONS = Statement(lambda kind: select(table_of(Session).c.id))


def importing_recording(
    gathered: Gathered, calls: Callable[[], Iterable[Call]], zone: ZoneInfo, is_partial: bool
) -> Operation[ImportResult]:
    """`calls` reads the recording from its beginning again, so that it is not held in memory."""
    if known := {row[0] for row in (yield STORED_SESSIONS, {})} & gathered.facts["session"].keys():
        raise AlreadyImported(
            f"session {min(known)} is in the database already: was this recording imported before? "
            "Nothing was imported"
        )
    for role in Role:
        for number, user in user_names(gathered, role).items():
            gathered.facts[role.lower()][number]["userName"] = user
    stored: dict[str, dict[int, Facts]] = {}
    for kind, (statement, members) in STORED.items():
        rows = yield statement, {}
        stored[kind] = {number: dict(zip(members, values, strict=True)) for number, *values in rows}
        compare_with_stored(gathered, kind, stored[kind])
    if any(gathered.gaps.values()) and not is_partial:
        raise RecordingIncomplete(gathered.gaps)
    counts = yield from importing_records(lines_of(gathered, stored, calls, zone))
    new_books = [number for number in sorted(gathered.facts["book"]) if number not in stored["book"]]
    return ImportResult(counts, gathered.gaps, *find_unlinked(gathered, stored), new_books)


def compare_with_stored(gathered: Gathered, kind: str, stored: dict[int, Facts]) -> None:
    """Stored values are kept. `account link` adds a missing account, the import does not."""
    for number in stored.keys() & gathered.facts[kind].keys():
        for name, value in gathered.facts[kind][number].items():
            found = stored[number].get(name)
            if found != value and not (name == "userName" and found is None):
                gathered.lacks(
                    Gap.TWO_WAYS, f"{kind} {number}: {name} is different in the database, and is kept"
                )


def find_unlinked(
    gathered: Gathered, stored: dict[str, dict[int, Facts]]
) -> tuple[list[tuple[Role, int]], list[tuple[Role, str]]]:
    people, accounts = [], []
    for role in Role:
        kind = role.lower()
        stored_users = {facts["userName"] for facts in stored[kind].values()}
        for number, facts in sorted(gathered.facts[kind].items()):
            known = stored[kind].get(number, facts)
            if known.get("userName") is None and (number in stored[kind] or NEEDED[kind] in facts):
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
    stored: dict[str, dict[int, Facts]],
    calls: Callable[[], Iterable[Call]],
    zone: ZoneInfo,
) -> Iterator[Line]:
    """Parents first. Skips stored rows and rows without their parent."""
    recorded = gathered.facts
    for kind, needed in NEEDED.items():
        for number, facts in sorted(recorded[kind].items()):
            if number not in stored[kind] and needed in facts:
                yield gathered.first[kind, number], {"kind": kind, "id": number, **facts}
    for number, facts in sorted(recorded["session"].items()):
        if is_whole(facts):
            yield gathered.first["session", number], session_line(number, facts)
    for call in calls():
        answered = read_answer(call)
        if answered is None or answered.role is Role.CLIENT:
            continue
        for index, item in enumerate(answered.items):
            facts = recorded["assignment"][item.id("id")]
            if facts["place"] == (call.line, index) and is_whole(recorded["session"][facts["sessionId"]]):
                yield from assignment_lines(call.line, read_assignment(item, zone, lambda _: None))


def session_line(number: int, facts: Facts) -> dict[str, Any]:
    """The pages do not contain the date of closing."""
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
    """The pages contain no end date, reminders or feedback texts."""
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
