"""Batches: PostgreSQL runs the same statement for several requests in one round trip."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from app.db.drivers.fair_turns import Waiter
from app.db.drivers.faults import raising_unavailable
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from app.db.sql import Values

MAX_BATCH = 8  # reads
MAX_CHANGES = 16  # they share a commit, which takes longer than each
UNCONFIRMED = "the database did not confirm the change in time; whether it is kept is not known"
MISMATCH = "the database returned the row of another request"
Confirm = Callable[[Any, Awaitable[Any]], Awaitable[Any]]

logger = logging.getLogger("care.database")


@dataclass(eq=False)
class BatchItem(Waiter):
    """The run of the statement for one request. `rows` stays None if PostgreSQL rolled the batch back: the
    request then goes on without a batch."""

    values: Values = field(default_factory=dict)
    is_change: bool = False
    until: float | None = None  # the time of the event loop until which it waits
    rows: list[Any] | None = None

    def complete(self, rows: list[Any] | None) -> None:
        self.rows = rows
        if self.turn is not None and not self.turn.done():  # done: the request was cancelled
            self.turn.set_result(False)

    def time_out(self) -> None:
        if self.is_taken and self.is_change:
            self.fail(OutcomeUnknown(UNCONFIRMED))
        else:
            self.fail(DatabaseUnavailable())

    def fail(self, fault: DatabaseUnavailable) -> None:
        """Raises a new exception: a shared one would collect the tracebacks of all requests."""
        if self.turn is not None and not self.turn.done():
            own = type(fault)(str(fault))
            own.__cause__ = fault.__cause__
            self.turn.set_exception(own)


async def run_batch(connection: Any, items: list[Any], confirm: Confirm | None = None) -> None:
    """Runs the items in one transaction of PostgreSQL. `confirm` awaits the commit of changes. The first item
    is that of the request with the connection, which gets an exception by this function."""
    statement = items[0].statement
    compiled = statement.for_("postgresql")
    # As in `read_after_lock`, of which only the second run returns the row that counts.
    runs: list[Values] = [{"is_locked": False}, {"is_locked": True}] if statement.reads_after_lock else [{}]
    values = [
        compiled.values(item.values | run | {"number": number})
        for number, item in enumerate(items)
        for run in runs
    ]
    rows: list[Any] = [None] * len(items)
    try:
        with raising_unavailable():
            # The call itself raises if the connection was closed before.
            fetching = connection.fetchmany(compiled.sql, values)
            found = await (fetching if confirm is None else confirm(connection, fetching))
        if [row[0] for row in found] == [number for number in range(len(items)) for _ in runs]:
            rows = [[row] for row in found[len(runs) - 1 :: len(runs)]]
        else:
            logger.error(MISMATCH)
            if confirm is not None:
                raise OutcomeUnknown(MISMATCH)
    except DatabaseUnavailable as fault:
        for item in items[1:]:
            item.fail(fault)
        raise
    except Exception as error:
        logger.info("a batch was rolled back after %s", type(error).__name__)
    for item, own in zip(items, rows, strict=True):
        item.complete(own)
