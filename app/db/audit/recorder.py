"""Stores the audit records of reads before the response is sent."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context

from app.db.audit.records import COUNT, Record, as_text, recording
from app.db.drivers.interface import Database, DatabaseUnavailable

MAX_GROUP = 32  # records in one transaction
# To let records of concurrent reads arrive; a commit of PostgreSQL takes about as long. The writer of SQLite
# lets writes arrive itself.
GATHER_SECONDS = 0.003
MAX_REJECTIONS = 20  # rejections of one kind and viewer that get a record each, per window and process
WINDOW_SECONDS = 60
# The operation of the record with the count, for rejected reads and for rejected changes; and its outcome.
MORE_REFUSALS, MORE_REJECTED_CHANGES, REFUSED = "moreRefusals", "moreRejectedChanges", "REFUSED"
SHUTDOWN_SECONDS = 2  # to store the last counts when the process ends

# This does not say that nothing was changed, because the read may follow a committed change.
NOT_RECORDED = "the database cannot store the audit record of this now, so it is not shown"

Counted = tuple[str, int | None, str]  # the actor, its id, and the operation of the record with the count

logger = logging.getLogger("care.audit")


class Rejections:
    """Records each rejection up to `MAX_REJECTIONS` of a viewer in a window, and then their number. Rejected
    reads and rejected changes count separately.

    An account that tries identifiers is recorded, but cannot fill the disk with records.
    """

    def __init__(self, keep: Callable[[Record], Awaitable[None]]) -> None:
        self.keep_record = keep
        self.counts: Counter[Counted] = Counter()
        self.last: dict[Counted, Record] = {}  # the last record of each viewer over the limit
        self.window: asyncio.Task[None] | None = None

    async def keep(self, record: Record, more: str = MORE_REFUSALS) -> None:
        """Returns after the record is stored or counted."""
        if self.window is None or self.window.done():
            self.window = asyncio.create_task(self.end_window(), context=Context())
        key = record.actor, record.actor_id, more
        self.counts[key] += 1
        if self.counts[key] > MAX_REJECTIONS:
            self.last[key] = record
        else:
            await self.keep_record(record)

    async def end_window(self) -> None:
        await asyncio.sleep(WINDOW_SECONDS)
        self.window = None
        await self.record_counts()

    async def record_counts(self) -> None:
        counts, self.counts = self.counts, Counter()
        last, self.last = self.last, {}
        for key, record in last.items():
            count = counts[key] - MAX_REJECTIONS
            about = as_text([(None, None, {COUNT: [count]})])
            try:
                await self.keep_record(record._replace(operation=key[2], outcome=REFUSED, about=about))
            except Exception as fault:
                logger.warning("%d refusals could not be recorded: %s", count, type(fault).__name__)

    async def close(self) -> None:
        if self.window is not None:
            self.window.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self.record_counts()


class AuditRecorder:
    """Stores the records of reads. Concurrent records share a commit."""

    def __init__(self, db: Database, gather_seconds: float = GATHER_SECONDS) -> None:
        self.db = db
        self.gather_seconds = gather_seconds
        self.waiting: list[tuple[Record, asyncio.Future[None]]] = []
        self.work: asyncio.Task[None] | None = None
        self.had_several = False  # did the last group have several records?
        self.rejections = Rejections(self.keep)

    async def keep(self, record: Record) -> None:
        """Returns after the record is committed; raises if it cannot be stored."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((record, stored))
        if self.work is None:
            # It works for all callers: it does not wait for the turn of the first, who does not pay for it.
            self.work = asyncio.create_task(self.write_groups(), context=Context())
        await stored

    async def write_groups(self) -> None:
        group: list[tuple[Record, asyncio.Future[None]]] = []
        try:
            while self.waiting:
                await self.collect()
                group, self.waiting = self.waiting, []
                self.had_several = len(group) > 1
                fault = await self.store([record for record, _ in group])
                for _, stored in group:
                    set_outcome(stored, fault)
        finally:
            self.work = None
            left, self.waiting = [*group, *self.waiting], []
            for _, stored in left:  # not empty only if this task was stopped
                set_outcome(stored, DatabaseUnavailable())

    async def collect(self) -> None:
        """Waits for concurrent reads to finish, because a commit takes longer than a turn of the loop. After
        a group of several records it waits longer, so that the next group is large too."""
        if self.had_several:
            await asyncio.sleep(self.gather_seconds)
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
