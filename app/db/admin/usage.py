"""Reads the usage of the legacy paths."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from app.db.moments import known_moment
from app.db.sql import Operation, Statement, text_parameter
from app.db.statements.usage import Counted
from app.db.tables import LegacyDay, LegacyUsage, table_of

USAGE = table_of(LegacyUsage)
DAY = table_of(LegacyDay)

FIND_USAGE = Statement(
    select(*USAGE.c[Counted._fields])
    .where(USAGE.c.day >= text_parameter("first"))
    .order_by(*USAGE.primary_key)
)
FIND_LAST_USES = Statement(
    select(USAGE.c.path, USAGE.c.role, func.max(USAGE.c.last_date)).group_by(USAGE.c.path, USAGE.c.role)
)
FIND_DAYS = Statement(select(DAY.c.day, DAY.c.since).order_by(DAY.c.day))


@dataclass(frozen=True)
class StoredUsage:
    """The calls since a day, the last call of each path, and the days with counting."""

    usage: list[Counted]
    last_uses: dict[tuple[str, str], datetime]  # by path and role
    days: list[tuple[str, datetime]]  # with the start of counting


def reading_usage(first: str) -> Operation[StoredUsage]:
    rows = yield FIND_USAGE, {"first": first}
    usage = [Counted._make((*columns, known_moment(last_date))) for *columns, last_date in rows]
    last = {(path, role): known_moment(moment) for path, role, moment in (yield FIND_LAST_USES, {})}
    days = [(day, known_moment(since)) for day, since in (yield FIND_DAYS, {})]
    return StoredUsage(usage, last, days)
