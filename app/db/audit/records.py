"""Audit records: what they contain, and how they are stored before the response is sent."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeVar

import orjson
from sqlalchemy import bindparam, insert

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.moments import moment_as_text
from app.db.reader.selection import Shown
from app.db.sql import (
    OnlyStatement,
    Operation,
    Repeatable,
    Statement,
    Together,
    Values,
    changes_of,
    repeatable,
    statement_of_text,
)
from app.db.tables import AUDIT_RECORD, AuditActor, Contract, EventKind, SaveType

Result = TypeVar("Result")

DONE = "DONE"  # the outcome of a successful operation
MAX_GROUP = 32  # records in one transaction
MAX_REFUSALS = 20  # refusals of one viewer that get a record each, per window and process
WINDOW_SECONDS = 60
MORE_REFUSALS, REFUSED = "moreRefusals", "REFUSED"  # operation and outcome of the record with the count
SHUTDOWN_SECONDS = 2  # to store the last counts when the process ends

# This does not say that nothing was changed, because the read may follow a committed change.
NOT_RECORDED = "the database cannot store the audit record of this now, so it is not shown"

# Caregiver, client, and the ids of their rows by the names below. Records of operators may be about one
# person or about none.
Rows = dict[tuple[int, int], dict[str, list[int]]]
About = list[tuple[int | None, int | None, dict[str, list[int]]]]
ANSWER_SETS, ASSIGNMENTS, SESSIONS, BOOKS = "answerSets", "assignments", "sessions", "books"
CAREGIVERS, CLIENTS, EVENTS, COUNT = "caregivers", "clients", "events", "count"
DRAFTS = "drafts"  # answer sets before submission; caregivers do not see these records

logger = logging.getLogger("care.audit")


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


ADD_RECORD = Statement(
    insert(AUDIT_RECORD).values(
        {name: bindparam(name, type_=AUDIT_RECORD.c[name].type) for name in Record._fields}
    )
)
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


def recording(records: Iterable[Record]) -> Operation[None]:
    rows = [(moment_as_text(moment), *others) for moment, *others in records]
    yield OnlyStatement(ADD_RECORDS, {"records": orjson.dumps(rows).decode()})


@repeatable
def recorded(
    operation: Operation[Result] | Repeatable[Result], record_of: Callable[[About], Record]
) -> Operation[Result]:
    """Runs a change and adds its audit record in the same transaction; no record if it inserts no events.

    The inserted events name the relationships and rows of the record.
    """
    events: list[Values] = []
    operation = iter(operation)
    try:
        step = next(operation)
        while True:
            events += [values for statement, values in changes_of(step) if statement.adds_events]
            if isinstance(step, Together) and step.is_last:
                record = record_of(about_events(events))._asdict()
                step, events = Together((*step.changes, (ADD_RECORD, record))), []
            step = operation.send((yield step))
    except StopIteration as done:
        result: Result = done.value
    finally:
        operation.close()
    if events:
        yield ADD_RECORD, record_of(about_events(events))._asdict()
    return result


class Refusals:
    """Records each refused read up to `MAX_REFUSALS` of a viewer in a window, and then their number.

    An account that tries identifiers is recorded, but cannot fill the disk with records.
    """

    def __init__(self, keep: Callable[[Record], Awaitable[None]]) -> None:
        self.keep_record = keep
        self.counts: Counter[tuple[str, int | None]] = Counter()
        self.last: dict[tuple[str, int | None], Record] = {}  # the last record of each viewer over the limit
        self.window: asyncio.Task[None] | None = None

    async def keep(self, record: Record) -> None:
        """Returns after the record is stored or counted."""
        if self.window is None or self.window.done():
            self.window = asyncio.create_task(self.end_window())
        viewer = record.actor, record.actor_id
        self.counts[viewer] += 1
        if self.counts[viewer] > MAX_REFUSALS:
            self.last[viewer] = record
        else:
            await self.keep_record(record)

    async def end_window(self) -> None:
        await asyncio.sleep(WINDOW_SECONDS)
        self.window = None
        await self.record_counts()

    async def record_counts(self) -> None:
        counts, self.counts = self.counts, Counter()
        last, self.last = self.last, {}
        for viewer, record in last.items():
            count = counts[viewer] - MAX_REFUSALS
            about = as_text([(None, None, {COUNT: [count]})])
            try:
                await self.keep_record(record._replace(operation=MORE_REFUSALS, outcome=REFUSED, about=about))
            except Exception as fault:
                logger.warning("%d refused reads could not be recorded: %s", count, type(fault).__name__)

    async def close(self) -> None:
        if self.window is not None:
            self.window.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self.record_counts()


@dataclass
class Recorder:
    """Stores the records of reads. Concurrent records share a commit."""

    db: Database
    waiting: list[tuple[Record, asyncio.Future[None]]] = field(default_factory=list)
    work: asyncio.Task[None] | None = None
    refusals: Refusals = field(init=False)

    def __post_init__(self) -> None:
        self.refusals = Refusals(self.keep)

    async def keep(self, record: Record) -> None:
        """Returns after the record is committed; raises if it cannot be stored."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((record, stored))
        if self.work is None:
            self.work = asyncio.create_task(self.write_groups())
        await stored

    async def write_groups(self) -> None:
        group: list[tuple[Record, asyncio.Future[None]]] = []
        try:
            while self.waiting:
                await self.collect()
                group, self.waiting = self.waiting, []
                fault = await self.store([record for record, _ in group])
                for _, stored in group:
                    set_outcome(stored, fault)
        finally:
            self.work = None
            left, self.waiting = [*group, *self.waiting], []
            for _, stored in left:  # not empty only if this task was stopped
                set_outcome(stored, DatabaseUnavailable())

    async def collect(self) -> None:
        """Waits for concurrent reads to finish, because a commit takes longer than a turn of the loop."""
        known = 0
        while known < len(self.waiting) < MAX_GROUP:
            known = len(self.waiting)
            await asyncio.sleep(0)

    async def store(self, records: list[Record]) -> Exception | None:
        try:
            await self.db.write(recording(records))
        except Exception as fault:
            return fault
        return None


def set_outcome(stored: asyncio.Future[None], fault: Exception | None) -> None:
    if stored.done():  # the caller was cancelled
        return
    if fault is None:
        stored.set_result(None)
    elif isinstance(fault, DatabaseUnavailable):
        # A new exception for each caller: a shared exception would collect the tracebacks of all callers.
        own = DatabaseUnavailable(NOT_RECORDED)
        own.__cause__ = fault.__cause__
        stored.set_exception(own)
    else:
        stored.set_exception(fault)
