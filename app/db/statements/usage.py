"""Counts the calls of the legacy paths by day, reads the counts, and removes old ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, delete, func, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.moments import known_moment
from app.db.sql import (
    INSERT,
    DatabaseKind,
    Statement,
    Steps,
    insert_if_absent,
    moment_parameter,
    text_parameter,
)
from app.db.tables import LEGACY_DAY, LEGACY_USAGE

ANONYMOUS = ""  # the role of a call without a valid token


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


def add_usage(kind: DatabaseKind) -> ClauseElement:
    """Adds in the database, because several processes count."""
    added = INSERT[kind](LEGACY_USAGE).values(
        day=text_parameter("day"),
        path=text_parameter("path"),
        role=text_parameter("role"),
        application=text_parameter("application"),
        requests=bindparam("requests", type_=BigInteger),
        last_date=moment_parameter("last_date"),
    )
    later = func.max if kind == "sqlite" else func.greatest
    result: ClauseElement = added.on_conflict_do_update(
        index_elements=[*LEGACY_USAGE.primary_key],
        set_={
            "requests": LEGACY_USAGE.c.requests + added.excluded.requests,
            "last_date": later(LEGACY_USAGE.c.last_date, added.excluded.last_date),
        },
    )
    return result


ADD_USAGE = Statement(add_usage)
ADD_DAY = insert_if_absent(LEGACY_DAY, {"day": text_parameter("day"), "since": moment_parameter("since")})
REMOVE_OLD_USAGE = Statement(delete(LEGACY_USAGE).where(LEGACY_USAGE.c.day < text_parameter("day")))
REMOVE_OLD_DAYS = Statement(delete(LEGACY_DAY).where(LEGACY_DAY.c.day < text_parameter("day")))


def adding_usage(calls: Iterable[Counted]) -> Steps[None]:
    """Sorted, to avoid deadlocks between processes."""
    for counted in sorted(calls):
        yield ADD_USAGE, counted._asdict()


def beginning_day(day: str, since: datetime, oldest: str) -> Steps[None]:
    yield ADD_DAY, {"day": day, "since": since}
    yield REMOVE_OLD_USAGE, {"day": oldest}
    yield REMOVE_OLD_DAYS, {"day": oldest}


# --- reading --------------------------------------------------------------------------------------

FIND_USAGE = Statement(
    select(*LEGACY_USAGE.c[Counted._fields])
    .where(LEGACY_USAGE.c.day >= text_parameter("first"))
    .order_by(*LEGACY_USAGE.primary_key)
)
FIND_LAST_USES = Statement(
    select(LEGACY_USAGE.c.path, LEGACY_USAGE.c.role, func.max(LEGACY_USAGE.c.last_date)).group_by(
        LEGACY_USAGE.c.path, LEGACY_USAGE.c.role
    )
)
FIND_DAYS = Statement(select(LEGACY_DAY.c.day, LEGACY_DAY.c.since).order_by(LEGACY_DAY.c.day))


@dataclass(frozen=True)
class StoredUsage:
    """The calls since a day, the last call of each path, and the days with counting."""

    usage: list[Counted]
    last_uses: dict[tuple[str, str], datetime]  # by path and role
    days: list[tuple[str, datetime]]  # with the start of counting


def reading_usage(first: str) -> Steps[StoredUsage]:
    rows = yield FIND_USAGE, {"first": first}
    usage = [Counted._make((*columns, known_moment(last_date))) for *columns, last_date in rows]
    last = {(path, role): known_moment(moment) for path, role, moment in (yield FIND_LAST_USES, {})}
    days = [(day, known_moment(since)) for day, since in (yield FIND_DAYS, {})]
    return StoredUsage(usage, last, days)
