"""Audit records: what they contain, and the statements that add them."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple, TypeVar

import orjson
from sqlalchemy import insert

from app.db.moments import moment_as_text
from app.db.reader.selection import Shown
from app.db.sql import (
    FastPath,
    OnlyStatement,
    Repeatable,
    Statement,
    Step,
    Steps,
    Together,
    Values,
    changes_of,
    mapping_steps,
    parameters_of,
    repeatable,
    statement_of_text,
)
from app.db.tables import AUDIT_RECORD, AuditActor, Contract, EventKind, SaveType

Result = TypeVar("Result")

DONE = "DONE"  # the outcome of a successful operation

# Caregiver, client, and the ids of their rows by the names below. Records of operators may be about one
# person or about none.
Rows = dict[tuple[int, int], dict[str, list[int]]]
About = list[tuple[int | None, int | None, dict[str, list[int]]]]
ANSWER_SETS, ASSIGNMENTS, SESSIONS, BOOKS = "answerSets", "assignments", "sessions", "books"
CAREGIVERS, CLIENTS, EVENTS, COUNT = "caregivers", "clients", "events", "count"
DRAFTS = "drafts"  # answer sets before submission; caregivers do not see these records


class Record(NamedTuple):
    """The columns of AuditRecord without the id, in their order."""

    moment: datetime
    actor: AuditActor
    actor_id: int | None
    contract: Contract
    operation: str
    outcome: str
    about: str
    request_id: str


def about_answers(shown: Iterable[Shown]) -> About:
    of: Rows = defaultdict(lambda: defaultdict(list))
    for caregiver, client, kind, answer_set in shown:
        of[caregiver, client][ANSWER_SETS if kind == SaveType.FINAL else DRAFTS].append(answer_set)
    return [(caregiver, client, dict(rows)) for (caregiver, client), rows in of.items()]


def about_events(steps: Iterable[Values]) -> About:
    """The relationships and rows that the events of a change name."""
    of: Rows = {}
    for values in steps:
        rows = of.setdefault((values["caregiver"], values["client"]), {})
        changed = DRAFTS if values["event"] == EventKind.DRAFT_SAVED else ASSIGNMENTS
        for name in (SESSIONS, changed):
            for id in values.get(name) or ():
                if id not in rows.setdefault(name, []):
                    rows[name].append(id)
    return [(caregiver, client, rows) for (caregiver, client), rows in of.items()]


def as_text(about: About) -> str:
    return orjson.dumps(about).decode()


def operator_record(now: datetime, operation: str, about: About) -> Record:
    """The service does not know which operator runs a command; there is no request id."""
    return Record(now, AuditActor.OPERATOR, None, Contract.COMMAND, operation, DONE, as_text(about), "")


# --- writing records ------------------------------------------------------------------------------


ADD_RECORD = Statement(insert(AUDIT_RECORD).values(parameters_of(AUDIT_RECORD, Record._fields)))
# One statement for all records: the writer thread waits for the interpreter lock after each statement.
ADD_RECORDS = statement_of_text(
    f"INSERT INTO audit_record ({', '.join(Record._fields)})"
    " SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7"
    " FROM json_each(:records)",  # in the order of the list, as in `in_order`
    f"INSERT INTO audit_record ({', '.join(Record._fields)})"
    " SELECT CAST(value->>0 AS timestamptz), value->>1, CAST(value->>2 AS bigint), value->>3, value->>4,"
    " value->>5, value->>6, value->>7"
    " FROM json_array_elements(CAST(:records AS json)) WITH ORDINALITY AS one (value, place) ORDER BY place",
    "records",
)


def recording(records: Iterable[Record]) -> Steps[None]:
    rows = [(moment_as_text(moment), *others) for moment, *others in records]
    yield OnlyStatement(ADD_RECORDS, {"records": orjson.dumps(rows).decode()})


@repeatable
def recorded(
    steps: Steps[Result] | Repeatable[Result], record_of: Callable[[About], Record]
) -> Steps[Result]:
    """Runs a change and adds its audit record in the same transaction; no record if it inserts no events.

    The inserted events name the relationships and rows of the record.
    """
    events: list[Values] = []

    def add_record(step: Step) -> Step:
        events.extend(values for statement, values in changes_of(step) if statement.adds_events)
        if isinstance(step, Together) and step.is_last:
            record = record_of(about_events(events))._asdict()
            events.clear()
            return Together((*step.changes, (ADD_RECORD, record)))
        if isinstance(step, FastPath):
            record = record_of(about_events(step.events))._asdict()
            values = {f"record_{name}": value for name, value in record.items()}
            return FastPath(step.recorded, step.recorded, {**step.values, **values})
        return step

    result = yield from mapping_steps(steps, add_record)
    if events:
        yield ADD_RECORD, record_of(about_events(events))._asdict()
    return result
