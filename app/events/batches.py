"""Batches: finds waiting rows of all caregivers, and processes them in one transaction per caregiver."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Operation

logger = logging.getLogger("care.dispatch")

Result = TypeVar("Result")
Keys = list[tuple[int, int]]  # rows of a caregiver id and the id of a waiting row

# Locks and processes rows: moment, caregiver id, row ids. Returns the ids of the processed rows.
Take = Callable[[datetime, int, list[int]], Operation[list[int]]]

BATCH_SIZE = 100  # in one transaction


async def take_each(
    db: Database,
    found: Keys,
    take: Callable[[int, list[int]], Operation[list[Result]]],
    taken: list[Result] | None = None,
) -> list[Result]:
    """Runs `take` in one transaction per caregiver and batch, and returns all results. An error with the rows
    of one caregiver is logged and does not delay others.

    Raises DatabaseUnavailable. A caller that needs the results up to this error passes the list `taken`.
    """
    taken = [] if taken is None else taken
    for caregiver, ids in batches_of(found):
        try:
            taken += await db.write(take(caregiver, ids))
        except DatabaseUnavailable:
            raise  # the next caregiver would fail as well
        except Exception:
            logger.exception("waiting rows of caregiver %s cannot be processed", caregiver)
    return taken


def batches_of(found: Keys) -> Iterator[tuple[int, list[int]]]:
    for caregiver, keys in groupby(sorted(map(tuple, found)), key=lambda key: key[0]):
        ids = [id for _, id in keys]
        for at in range(0, len(ids), BATCH_SIZE):
            yield caregiver, ids[at : at + BATCH_SIZE]
