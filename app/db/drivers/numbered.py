"""Equal statements of several requests in one round trip to PostgreSQL, whose single rows carry the number of
their request."""

from dataclasses import dataclass, field
from typing import Any

from app.db.drivers.fair_turns import Waiting
from app.db.drivers.faults import raising_unavailable
from app.db.drivers.interface import DatabaseUnavailable
from app.db.sql import AtOnce, DatabaseKind, Numbered

MAX_TOGETHER = 8  # statements in one round trip


class MixedUp(Exception):
    """A row that is not of its request: a bug, after which no request gets a row."""


@dataclass(eq=False)
class NumberedWork:
    step: Numbered | AtOnce
    kind: DatabaseKind
    rows: list[Any] = field(default_factory=list)
    is_taken: bool = False  # by another caller, so it may be done

    def is_equal(self, work: Any) -> bool:
        return work is not None and work.step.statement is self.step.statement

    def sql(self) -> str:
        return self.step.statement.for_(self.kind).sql

    def values(self, number: int) -> list[Any]:
        return self.step.statement.for_(self.kind).values({**self.step.values, "number": number})


async def fetch_together(connection: Any, own: NumberedWork, others: list[Waiting]) -> list[list[Any]]:
    """The row of each, in one transaction of PostgreSQL."""
    values = [own.values(0), *[waiting.work.values(place) for place, waiting in enumerate(others, 1)]]
    if not others:
        return [await connection.fetch(own.sql(), *values[0])]
    rows = await connection.fetchmany(own.sql(), values)
    if [row[0] for row in rows] != list(range(len(values))):
        raise MixedUp
    return [[row] for row in rows]


async def read_together(connection: Any, own: NumberedWork, others: list[Waiting]) -> None:
    """If the connection is lost or too slow, all reads fail. After any other error, each runs by itself."""
    try:
        with raising_unavailable():
            own.rows, *found = await fetch_together(connection, own, others)
    except DatabaseUnavailable as fault:
        for waiting in others:
            fail(waiting, DatabaseUnavailable(), fault.__cause__)
        raise
    except Exception:
        if not others:
            raise
        for waiting in others:
            await read_alone(connection, waiting)
        await read_together(connection, own, [])
    else:
        for waiting, rows in zip(others, found, strict=True):
            give(waiting, rows)


async def read_alone(connection: Any, waiting: Waiting) -> None:
    try:
        await read_together(connection, waiting.work, [])
    except DatabaseUnavailable as fault:
        fail(waiting, DatabaseUnavailable(), fault.__cause__)
    except Exception as error:
        fail(waiting, error, error.__cause__)
    else:
        give(waiting, waiting.work.rows)


def give(waiting: Waiting, rows: list[Any]) -> None:
    waiting.work.rows = rows
    if not waiting.turn.done():  # the caller was cancelled
        waiting.turn.set_result(False)


def fail(waiting: Waiting, error: Exception, cause: BaseException | None) -> None:
    """With an exception of its own: a shared one would collect the tracebacks of all callers."""
    error.__cause__ = cause
    if not waiting.turn.done():
        waiting.turn.set_exception(error)
