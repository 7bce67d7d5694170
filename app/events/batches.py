"""Rounds: what waits is found among all caregivers, and taken caregiver by caregiver."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Operation, Statement, Values

logger = logging.getLogger("care.dispatch")

Result = TypeVar("Result")
Keys = list[tuple[int, int]]  # of rows that wait: whose they are, and which

Take = Callable[[datetime, int, list[int]], Operation[list[int]]]  # at a moment, of a caregiver

MOST_TAKEN = 100  # in one transaction


def finding(statement: Statement, values: Values) -> Operation[Keys]:
    rows = yield statement, values
    return [(row[0], row[1]) for row in rows]


async def take_each(
    db: Database,
    found: Keys,
    take: Callable[[int, list[int]], Operation[list[Result]]],
    taken: list[Result] | None = None,
) -> list[Result]:
    """All that was taken. A fault with one caregiver's rows does not hold up the others.

    Raises DatabaseUnavailable. A caller that has to finish what was taken before hands in the list for it.
    """
    taken = [] if taken is None else taken
    for caregiver, ids in portions(found):
        try:
            taken += await db.write(take(caregiver, ids))
        except DatabaseUnavailable:
            raise  # to them all
        except Exception:
            logger.exception("what waits of caregiver %s cannot be taken", caregiver)
    return taken


def portions(found: Keys) -> Iterator[tuple[int, list[int]]]:
    for caregiver, keys in groupby(sorted(found), key=lambda key: key[0]):
        ids = [id for _, id in keys]
        for at in range(0, len(ids), MOST_TAKEN):
            yield caregiver, ids[at : at + MOST_TAKEN]
