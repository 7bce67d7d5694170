"""An old and a new service that share a recording, and random changes by the people of either."""

import asyncio
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from app.care.errors import CareError
from app.care.feedback import FeedbackInput, give_feedback
from app.care.new_sessions import NewSession, create_session
from app.care.sessions import SessionChange, update_session
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.interchange.recorded import COLUMNS, StoredRow, reading_rows
from app.db.reader.selection import Selection
from app.db.sql import Steps
from app.settings import Settings
from tests.care.actions import (
    as_caregiver,
    assigning,
    closing,
    extending,
    reopening,
    saving,
    submitting,
    withdrawing,
)
from tests.database_rows import all_rows
from tests.factories import HOUR, NOW
from tests.moving_over.conftest import serving
from tests.moving_over.recordings import recording, write_lines

PEOPLE = (1, 2)
Rows = dict[tuple[str, int], StoredRow]


def record(settings: Settings, file: Path, people: tuple[int, ...] = PEOPLE) -> Path:
    with serving(settings) as old:
        return write_lines(file, recording(old, people, people, size=7))


def change_randomly(url: str, rng: Random, count: int) -> None:
    asyncio.run(changing(url, rng, count))


async def changing(url: str, rng: Random, count: int) -> None:
    db = await open_database(url)
    try:
        for _ in range(count):
            try:
                await change_one(db, rng)
            except CareError:
                continue  # for example, the homework is complete
    finally:
        await db.close()


async def change_one(db: Database, rng: Random) -> None:
    rows = await db.read(all_rows())
    session = rng.choice(rows["session"])["id"]
    assignment = rng.choice(rows["assignment"])["id"]
    sets = [each["id"] for each in rows["answer_set"] if each["save_type"] == "FINAL"]
    draft = next((each for each in rows["answer_set"] if each["assignment_id"] == assignment), None)
    revision = draft["revision"] if draft and draft["save_type"] != "FINAL" else 0
    answer = rng.choice("0123")
    match rng.randrange(12):
        case 0:
            await assigning(db, session)
        case 1:
            start = NOW - rng.randrange(1, 9) * HOUR
            request = NewSession(None, f"OPPT-{rng.choice(PEOPLE)}", f"Title {answer}", "", start, None)
            await create_session(as_caregiver(db), request, Selection(frozenset({"id"})))
        case 2:
            change = SessionChange(session, title=f"Another title {rng.randrange(99)}")
            await update_session(as_caregiver(db), change, None)
        case 3 | 4:
            await saving(answer, revision)(db, assignment)
        case 5 | 6 | 7:
            await submitting(answer, revision)(db, assignment)
        case 8 if sets:
            await give_feedback(as_caregiver(db), FeedbackInput(rng.choice(sets), f"Well {answer}", None))
        case 9:
            await reopening(db, assignment)
        case 10:
            await rng.choice((withdrawing, extending(rng.randrange(2, 9))))(db, assignment)
        case 11 if rng.random() < 0.2:
            await closing(db, session)


def rows_of(url: str) -> Rows:
    """Every row in the form in which imports compare it."""

    async def read() -> Rows:
        db = await open_database(url)
        try:
            return await db.read(reading_everything())
        finally:
            await db.close()

    return asyncio.run(read())


def reading_everything() -> Steps[Rows]:
    stored = yield from all_rows()
    found: Rows = {}
    for kind in COLUMNS:
        rows = yield from reading_rows(kind, [row["id"] for row in stored[kind]], ZoneInfo("UTC"))
        found |= {(kind, number): row for number, row in rows.items()}
    return found
