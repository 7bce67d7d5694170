"""The rows of a recording, as imports and comparisons with the database need them."""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby, islice
from typing import Any

from app.care.context import Role
from app.db.interchange.recorded import Key, Members, RecordedRow, members_of
from app.db.tables import AssignmentStatus
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
BATCH = 500  # rows in memory; some have long texts


def erased_rows(recording: Recording, erased: Collection[int]) -> set[Key]:
    """The rows of these clients."""
    facts = recording.facts
    client_of = {number: row["clientId"] for number, row in facts["session"].items()}
    found = {("client", number) for number in facts["client"] if number in erased}
    found |= {("session", number) for number, client in client_of.items() if client in erased}
    return found | {
        ("assignment", number)
        for number, row in facts["assignment"].items()
        if client_of[row["sessionId"]] in erased
    }


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


def in_batches(rows: Iterable[RecordedRow]) -> Iterator[tuple[str, list[RecordedRow]]]:
    """Each batch has rows of one kind."""
    for kind, of_kind in groupby(rows, lambda row: row.kind):
        while batch := list(islice(of_kind, BATCH)):
            yield kind, batch
