"""Reads the counted calls of the legacy paths."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from app.db.moments import known_moment
from app.db.sql import Operation, Statement, text_parameter
from app.db.statements.usage import Counted
from app.db.tables import LegacyDay, LegacyUsage, table_of

USAGE = table_of(LegacyUsage)
DAY = table_of(LegacyDay)

FIND_USAGE = Statement(
    lambda kind: (
        select(*(USAGE.c[name] for name in Counted._fields))
        .where(USAGE.c.day >= text_parameter("first"))
        .order_by(*USAGE.primary_key)
    )
)
FIND_LAST_USES = Statement(
    lambda kind: select(USAGE.c.path, USAGE.c.role, func.max(USAGE.c.last_date)).group_by(
        USAGE.c.path, USAGE.c.role
    )
)
FIND_DAYS = Statement(lambda kind: select(DAY.c.day, DAY.c.since).order_by(DAY.c.day))


@dataclass(frozen=True)
class Known:
    """The calls since a day, the last call of each path, and the days with counting."""

    usage: list[Counted]
    last_uses: dict[tuple[str, str], datetime]  # by path and role
    days: list[tuple[str, datetime]]  # with the moment since when


def reading_usage(first: str) -> Operation[Known]:
    usage = [counted_of(*row) for row in (yield FIND_USAGE, {"first": first})]
    last = {(path, role): known_moment(moment) for path, role, moment in (yield FIND_LAST_USES, {})}
    days = [(day, known_moment(since)) for day, since in (yield FIND_DAYS, {})]
    return Known(usage, last, days)


def counted_of(day: str, path: str, role: str, application: str, requests: int, last_date: Any) -> Counted:
    return Counted(day, path, role, application, requests, known_moment(last_date))
