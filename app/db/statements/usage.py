"""Counts calls of the legacy paths and uses of deprecated parts by day, and the minutes with counting; reads
both, removes old ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.moments import known_moment
from app.db.sql import INSERT, DatabaseKind, Statement, Steps, text_parameter
from app.db.tables import LEGACY_HOUR, LEGACY_USAGE

ANONYMOUS = ""  # the role of a call without a valid token
TURNED_AWAY = "UNKNOWN"  # of a call that was rejected before its token was verified
SERVED = "SERVED"  # of no call: on this day the schema had the deprecated part


class Counted(NamedTuple):
    """A number of calls to add to the count of a day."""

    day: str
    path: str
    role: str
    application: str
    requests: int
    last_date: datetime


def day_of(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def hour_of(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H}"


def next_minute(moment: datetime) -> datetime:
    """The moment itself, if a minute begins with it."""
    begun = moment.replace(second=0, microsecond=0)
    return begun if begun == moment else begun + timedelta(minutes=1)


def add_usage(kind: DatabaseKind) -> ClauseElement:
    """Adds in the database, because several processes count. The parameters are all columns."""
    added = INSERT[kind](LEGACY_USAGE)
    later = func.max if kind == "sqlite" else func.greatest
    return added.on_conflict_do_update(
        index_elements=[*LEGACY_USAGE.primary_key],
        set_={
            "requests": LEGACY_USAGE.c.requests + added.excluded.requests,
            "last_date": later(LEGACY_USAGE.c.last_date, added.excluded.last_date),
        },
    )


def add_minutes(kind: DatabaseKind) -> ClauseElement:
    added = INSERT[kind](LEGACY_HOUR)
    return added.on_conflict_do_update(
        index_elements=[*LEGACY_HOUR.primary_key],
        set_={"minutes": LEGACY_HOUR.c.minutes.bitwise_or(added.excluded.minutes)},
    )


ADD_USAGE, ADD_MINUTES = Statement(add_usage), Statement(add_minutes)
REMOVE_OLD_USAGE = Statement(delete(LEGACY_USAGE).where(LEGACY_USAGE.c.day < text_parameter("day")))
REMOVE_OLD_HOURS = Statement(delete(LEGACY_HOUR).where(LEGACY_HOUR.c.hour < text_parameter("day")))


def adding_usage(calls: Iterable[Counted]) -> Steps[None]:
    """Sorted, to avoid deadlocks between processes."""
    for counted in sorted(calls):
        yield ADD_USAGE, counted._asdict()


def adding_minutes(hours: Mapping[str, int]) -> Steps[None]:
    for hour, minutes in sorted(hours.items()):
        yield ADD_MINUTES, {"hour": hour, "minutes": minutes}


def removing_old_usage(oldest: str) -> Steps[None]:
    yield REMOVE_OLD_USAGE, {"day": oldest}
    yield REMOVE_OLD_HOURS, {"day": oldest}


def minutes_between(since: datetime, until: datetime) -> dict[str, int]:
    """The complete minutes, as bits by hour."""
    hours: dict[str, int] = {}
    minute = next_minute(since)
    while minute + timedelta(minutes=1) <= until:
        next_hour = minute.replace(minute=0) + timedelta(hours=1)
        number = (min(until, next_hour) - minute) // timedelta(minutes=1)
        hours[hour_of(minute)] = ((1 << number) - 1) << minute.minute
        minute = next_hour
    return hours


# --- reading --------------------------------------------------------------------------------------

FIND_USAGE = Statement(select(*LEGACY_USAGE.c[Counted._fields]).order_by(*LEGACY_USAGE.primary_key))
FIND_HOURS = Statement(select(LEGACY_HOUR.c.hour, LEGACY_HOUR.c.minutes).order_by(LEGACY_HOUR.c.hour))


@dataclass(frozen=True)
class StoredUsage:
    """The calls, and the minutes with counting."""

    usage: list[Counted]
    hours: dict[str, int]  # the minutes of each hour as bits

    @property
    def since(self) -> datetime | None:
        """The first minute."""
        if not self.hours:
            return None
        hour, minutes = next(iter(self.hours.items()))
        return datetime.fromisoformat(f"{hour}:{(minutes & -minutes).bit_length() - 1:02}+00:00")


def reading_usage() -> Steps[StoredUsage]:
    rows = yield FIND_USAGE, {}
    usage = [Counted._make((*columns, known_moment(last_date))) for *columns, last_date in rows]
    hours = {hour: int(minutes) for hour, minutes in (yield FIND_HOURS, {})}
    return StoredUsage(usage, hours)
