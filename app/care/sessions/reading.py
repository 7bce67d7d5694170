"""Sessions: their time state, and reading the viewer's sessions."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from sqlalchemy import ColumnElement, FromClause, and_, false, true

from app.care.context import Context
from app.db.reader.reads import Page, Row, get_rows, list_rows
from app.db.reader.selection import Order, PageRequest, Selection, Where
from app.db.sql import moment_parameter
from app.db.tables import Session, TimeState

NOW = moment_parameter("now")
Moments = TypeVar("Moments", datetime, str)  # moments, or texts as SQLite stores them


def time_state(is_closed: bool, start_date: Moments, now: Moments) -> TimeState:
    """Computed from the moment of the request, never stored."""
    if is_closed:
        return TimeState.COMPLETED
    return TimeState.FUTURE if start_date > now else TimeState.RUNNING


def is_completed(session: FromClause) -> ColumnElement[bool]:
    return session.c.is_closed == true()


def is_future(session: FromClause) -> ColumnElement[bool]:
    return and_(session.c.is_closed == false(), session.c.start_date > NOW)


def is_running(session: FromClause) -> ColumnElement[bool]:
    return and_(session.c.is_closed == false(), session.c.start_date <= NOW)


# The same rule in SQL; tests/care/test_time_state.py compares both.
IN_TIME_STATE = {
    TimeState.COMPLETED: is_completed,
    TimeState.FUTURE: is_future,
    TimeState.RUNNING: is_running,
}


class SessionOrder(StrEnum):
    NEWEST = "NEWEST"
    STARTS_SOONEST = "STARTS_SOONEST"


# Every other order is newest first.
ORDERS: dict[str | None, Order] = {
    SessionOrder.STARTS_SOONEST: Order(SessionOrder.STARTS_SOONEST, "start_date")
}


async def list_my_sessions(
    ctx: Context, state: TimeState | None, window: PageRequest, wanted: Selection
) -> Page:
    where = () if state is None else (Where(IN_TIME_STATE[state]),)
    window, access = replace(window, where=where), ctx.access()
    return await ctx.read("sessions", access, list_rows(Session, access, window, wanted))


async def get_my_sessions(ctx: Context, ids: list[int], wanted: Selection) -> list[Row]:
    """Returns those sessions of `ids` that the viewer may see."""
    access = ctx.access()
    return await ctx.read("session", access, get_rows(Session, access, ids, wanted))


async def changed_session(ctx: Context, session_id: int, wanted: Selection | None) -> Row | None:
    if wanted is None:
        return None
    rows = await get_my_sessions(ctx, [session_id], wanted)
    return rows[0] if rows else None
