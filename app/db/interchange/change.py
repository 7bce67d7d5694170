"""Writes the recorded members of a row over the stored ones, and removes rows that are gone."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import orjson
from sqlalchemy import DateTime, bindparam, delete, null, update

from app.db.answers import Answer, as_document
from app.db.facts import facts_of
from app.db.interchange.recorded import COLUMNS, Members, RecordedRow, StoredRow
from app.db.interchange.rows import ImportRows
from app.db.reader.access import is_final, is_of_caregiver
from app.db.sql import Bulk, Statement, Steps, Values, id_parameter, moment_parameter, parameters_of
from app.db.statements.answers import ANSWERS, TAKE_SET_ID
from app.db.statements.assignments import SKIP_REMINDERS, WITHDRAW
from app.db.statements.books import DROP_WORDS, words_of
from app.db.statements.sessions import CLOSE_SESSION, SKIP_REMINDERS_OF_SESSION
from app.db.tables import ANSWER_SET, LINE_TABLES, AssignmentStatus, EventKind, FeedbackStatus


def change_row(kind: str, columns: Iterable[str]) -> Statement:
    """The parameters have the names of the columns; the id is `row`."""
    table = LINE_TABLES[kind]
    values = parameters_of(table, columns)
    conditions = [table.c.id == id_parameter("row")]
    if kind in ("session", "assignment"):
        conditions.append(is_of_caregiver(table))
    return Statement(update(table).where(*conditions).values(values))


CHANGE_SET = Statement(
    update(ANSWER_SET)
    .where(ANSWER_SET.c.id == id_parameter("answer_set"), is_of_caregiver(ANSWER_SET))
    .values(
        answers=ANSWERS,
        submit_date=moment_parameter("submit_date"),
        score=bindparam("score", type_=ANSWER_SET.c.score.type),
        own_score=bindparam("score", type_=ANSWER_SET.c.score.type),
    )
)
DROP_DRAFTS = Statement(
    delete(ANSWER_SET).where(
        ANSWER_SET.c.assignment_id == id_parameter("assignment"),
        is_of_caregiver(ANSWER_SET),
        ~is_final(ANSWER_SET),
    )
)

TAKEN = "the id belongs to another row here"  # both services gave it away
# A different value means that the id is of another thing here.
FIXED = {
    kind: [member for member, name in columns.items() if facts_of(LINE_TABLES[kind].c[name]).fixed]
    for kind, columns in COLUMNS.items()
}
CHANGEABLE = {
    kind: {member: column for member, column in columns.items() if member not in FIXED[kind]}
    for kind, columns in COLUMNS.items()
}
CHANGE_ROW = {
    kind: change_row(kind, (*columns.values(), *(["attempt"] if kind == "assignment" else [])))
    for kind, columns in CHANGEABLE.items()
}
CHANGE_IDENTIFIER = change_row("client", ["oppt_id"])
REMOVE = {
    "session": (CLOSE_SESSION, SKIP_REMINDERS_OF_SESSION),
    "assignment": (WITHDRAW, SKIP_REMINDERS),
}


def restore(kind: str, column: str) -> Statement:
    table = LINE_TABLES[kind]
    changed = update(table).where(table.c.id == id_parameter("row"), is_of_caregiver(table))
    return Statement(changed.values({column: null()}))


# Undoes REMOVE, except for reminders.
RESTORE = {"session": restore("session", "close_date"), "assignment": restore("assignment", "withdraw_date")}


class ChangeRejected(Exception):
    """The row stays as it is. The arguments are the members that say why."""

    def __str__(self) -> str:
        return ", ".join(self.args)


def changing_row(collected: ImportRows, row: RecordedRow, found: StoredRow) -> Steps[None]:
    check_fixed(row, found)
    if row.kind == "client" and row.members["opptId"] != found.members["opptId"]:
        collected.require_identifier(row.id, row.members["opptId"])
    values = {"row": row.id, "caregiver": row.members.get("caregiverId"), **values_of(row)}
    yield CHANGE_ROW[row.kind], values
    if row.kind == "book":
        (collected.tests.add if row.members["isTest"] else collected.tests.discard)(row.id)
    if row.kind == "book" and row.members["name"] != found.members["name"]:
        yield DROP_WORDS, {"books": [row.id]}
        yield Bulk(
            "book_word", ("word", "book_id"), [(each, row.id) for each in words_of(row.members["name"])]
        )
    if row.kind == "session" and row.members["isClosed"]:
        yield SKIP_REMINDERS_OF_SESSION, {"session": row.id, "caregiver": values["caregiver"]}


def changing_assignment(collected: ImportRows, row: RecordedRow, found: StoredRow) -> Steps[None]:
    check_fixed(row, found)
    attempt = adding_attempts(collected, row, found)
    caregiver, answers = found.caregiver, row.members["answers"]
    values = {"row": row.id, "caregiver": caregiver, "attempt": attempt, **values_of(row)}
    yield CHANGE_ROW["assignment"], values
    if answers is not None and answers["id"] in found.sets:
        texts = (Answer(None, each["questionText"], each["answer"]) for each in answers["answers"])
        yield (
            CHANGE_SET,
            {
                "answer_set": answers["id"],
                "caregiver": caregiver,
                "answers": as_document(texts),
                "submit_date": datetime.fromisoformat(answers["submitDate"]),
                "score": score_of(collected, row),
            },
        )
    if row.members["status"] == AssignmentStatus.COMPLETE:
        yield SKIP_REMINDERS, {"assignment": row.id, "caregiver": caregiver}
        if found.has_draft:
            yield DROP_DRAFTS, {"assignment": row.id, "caregiver": caregiver}


def renumbering(collected: ImportRows, row: RecordedRow, found: StoredRow | None) -> Steps[RecordedRow]:
    """Gives the submission another id, if its id is taken or a later one of the assignment is here."""
    answers = row.members["answers"]
    if answers is None:
        return row
    known, sets = collected.known["answer_set"], found.sets if found else {}
    here, number = found and found.members["answers"], answers["id"]
    newest = max(sets, default=0)
    if here and {**here, "id": number} == answers:
        number = here["id"]
    elif number != newest and (number < newest or number in known):
        number = max((yield TAKE_SET_ID, {})[0][0], max(known) + 1)
    records = [
        {**each, "id": number} if (each["kind"], each["id"]) == ("answer_set", answers["id"]) else each
        for each in row.records
    ]
    return replace(row, members={**row.members, "answers": {**answers, "id": number}}, records=records)


def adding_attempts(collected: ImportRows, row: RecordedRow, found: StoredRow) -> int:
    """Adds the submissions that are new here; returns the current attempt."""
    new = new_submissions(row, found)
    answers, is_complete = row.members["answers"], row.members["status"] == AssignmentStatus.COMPLETE
    newest = max(found.sets, default=0)
    is_late = all(each["id"] > newest for each in new)
    is_shown = answers is not None or found.members["answers"] is None  # pages may lack answers
    is_newest = new or answers is None or answers["id"] == newest
    if any(each["id"] in collected.known["answer_set"] for each in new):
        raise ChangeRejected(TAKEN, "answers")
    if not is_late or (is_complete and not (is_shown and is_newest)):
        raise ChangeRejected("answers")
    last = max(found.sets.values(), default=0)
    attempt = max(last + len(new) + (not is_complete), 1)
    collected.attempts[row.id] = (attempt, row.members["status"], score_of(collected, row))
    for number, record in enumerate(new, last + 1):
        collected.add_line(orjson.dumps({**record, "attempt": number}))
    return attempt


def new_submissions(row: RecordedRow, found: StoredRow) -> list[Members]:
    sets = [record for record in row.records if record["kind"] == "answer_set"]
    return [record for record in sets if record["id"] not in found.sets]


def score_of(collected: ImportRows, row: RecordedRow) -> int | None:
    return collected.counted(row.members["bookId"], row.members["score"])


def check_fixed(row: RecordedRow, found: StoredRow) -> None:
    if different := different_fixed(row, found):
        raise ChangeRejected(TAKEN, *different)


def different_fixed(row: RecordedRow, found: StoredRow) -> list[str]:
    return [name for name in FIXED[row.kind] if row.members[name] != found.members[name]]


def values_of(row: RecordedRow) -> Values:
    columns = LINE_TABLES[row.kind].c
    values = {column: row.members[member] for member, column in CHANGEABLE[row.kind].items()}
    return {
        name: datetime.fromisoformat(value) if value and isinstance(columns[name].type, DateTime) else value
        for name, value in values.items()
    }


def event_of(row: RecordedRow, before: Members | None) -> EventKind:
    """The event of the change in the old service, which follows from the row before and after."""
    now = row.members
    if before is None:
        return EventKind.SESSION_CREATED if row.kind == "session" else EventKind.ASSIGNED
    if row.kind == "session":
        return EventKind.SESSION_CLOSED if now["isClosed"] > before["isClosed"] else EventKind.SESSION_UPDATED
    if now["feedbackStatus"] == FeedbackStatus.SUBMITTED and now["answers"] == before["answers"]:
        return EventKind.FEEDBACK_GIVEN
    if now["status"] == AssignmentStatus.COMPLETE:
        return EventKind.SUBMITTED
    return EventKind.REOPENED if before["status"] == AssignmentStatus.COMPLETE else EventKind.EXTENDED
