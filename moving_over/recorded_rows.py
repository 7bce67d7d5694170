"""The rows of a recording, as imports and comparisons need them, and what they leave to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.care.context import Role
from app.db.admin.tombstones import people_in, reading_tombstones
from app.db.interchange.load import reading_users
from app.db.interchange.recorded import ERASED, Key, Members, RecordedRow, members_of
from app.db.sql import Steps
from app.db.statements.books import FIND_BOOKS_WITHOUT_QUESTIONS
from app.db.tables import AssignmentStatus, TombstoneState
from moving_over.extraction import COMPLETE_SESSION, Recording, is_complete
from moving_over.pages import assignment_members, read_response

# Pages can be incomplete; a row needs at least this member.
NEEDED = {
    "caregiver": "position",
    "client": "opptId",
    "module": "name",
    "book": "moduleId",
    "session": COMPLETE_SESSION,
}


def reading_erased(recording: Recording, imported: Mapping[Key, str]) -> Steps[set[Key]]:
    """The rows of erased clients, in this recording and in earlier ones."""
    clients = people_in((yield from reading_tombstones()), TombstoneState.ERASED)
    facts = recording.facts
    client_of = {number: row["clientId"] for number, row in facts["session"].items()}
    found = {("client", number) for number in clients}
    found |= {("session", number) for number, client in client_of.items() if client in clients}
    found |= {
        ("assignment", number)
        for number, row in facts["assignment"].items()
        if client_of[row["sessionId"]] in clients
    }
    return found | {key for key, fingerprint in imported.items() if fingerprint == ERASED}


def recorded_rows(recording: Recording) -> Iterator[RecordedRow]:
    """Parents first, without rows that the recording lacks or whose parent it lacks."""
    recorded, first_lines = recording.facts, recording.first_lines
    for kind, needed in NEEDED.items():
        for number, facts in sorted(recorded[kind].items()):
            if needed in facts:
                members = members_of(kind, facts)
                user = {"userName": facts["userName"]} if "userName" in facts else {}
                record = {"kind": kind, "id": number, **members, **user}
                client = number if kind == "client" else members.get("clientId")
                yield RecordedRow(first_lines[kind, number], kind, number, client, members, [record])
    for call in recording.read_again():
        response = read_response(call, recording.reading)
        if response is None or response.role is Role.CLIENT:
            continue
        for index, item in response.items.items():
            facts = recorded["assignment"].get(item["id"], {"place": None})
            if facts["place"] == (call.line, index) and is_complete(recorded["session"][facts["sessionId"]]):
                members, records = assignment_members(item), list(assignment_records(item))
                yield RecordedRow(call.line, "assignment", item["id"], item["clientId"], members, records)


def assignment_records(read: Members) -> Iterator[dict[str, Any]]:
    """An assignment and its answer sets; pages contain no end date, reminders or feedback texts."""
    sets = sorted(read["answers"], key=lambda each: each["id"])
    is_reopened = bool(sets) and read["status"] == AssignmentStatus.PENDING
    members = members_of("assignment", read)
    yield {"kind": "assignment", "id": read["id"], **members, "attempt": max(len(sets), 1) + is_reopened}
    for attempt, each in enumerate(sets, 1):
        yield {"kind": "answer_set", "assignmentId": read["id"], "attempt": attempt, **each}


@dataclass(frozen=True)
class RemainingWork:
    """Of the people and books of a recording, as the database has them now."""

    people_without_account: list[tuple[Role, int]]
    users_without_person: list[tuple[Role, str]]
    books_without_questions: list[int]
    erased_clients: list[int]


def reading_remaining_work(recording: Recording) -> Steps[RemainingWork]:
    facts, users = recording.facts, (yield from reading_users())
    erased = people_in((yield from reading_tombstones()), TombstoneState.ERASED) & facts["client"].keys()
    known = {(kind, user) for (kind, _), user in users.items()}
    books = yield FIND_BOOKS_WITHOUT_QUESTIONS, {"books": sorted(facts["book"])}
    return RemainingWork(
        [
            (role, each)
            for role in Role
            for each in sorted(facts[role.lower()])
            if users.get((role.lower(), each), "") is None and not (role is Role.CLIENT and each in erased)
        ],
        [
            (role, user)
            for role, found in recording.users.items()
            for user, ids in found.items()
            if len(ids) != 1 and (role.lower(), user) not in known
        ],
        sorted(row[0] for row in books),
        sorted(erased),
    )
