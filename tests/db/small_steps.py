"""Small steps on modules, and a database that is open while a test uses it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy import text

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.sql import Statement, Steps
from tests.db import raw

Result = TypeVar("Result")


class Broken(Exception):
    """An error that steps raise."""


def sql(statement: str) -> Statement:
    return Statement(lambda kind: text(statement))


COUNT_MODULES = sql("SELECT count(*) FROM module")


def add_module(name: str) -> Statement:
    return sql(f"INSERT INTO module (name) VALUES ('{name}')")


def modules(url: str) -> list[str]:
    return [row[0] for row in raw.run(url, "SELECT name FROM module ORDER BY id")]


def with_database(url: str, use: Callable[[Database], Awaitable[Result]], **options: Any) -> Result:
    async def used() -> Result:
        db = await open_database(url, **options)
        try:
            return await use(db)
        finally:
            await db.close()

    return asyncio.run(used())


def adding(name: str) -> Steps[str]:
    yield add_module(name), {}
    return name


def adding_and_failing(fault: Exception | None) -> Steps[None]:
    yield add_module("never"), {}
    if fault is not None:
        raise fault
    yield sql("INSERT INTO book (module_id, name, is_test) VALUES (77, 'x', false)"), {}


def counting() -> Steps[int]:
    return int((yield COUNT_MODULES, {})[0][0])


def running(statement: str) -> Steps[Any]:
    rows = yield sql(statement), {}
    return rows[0][0] if rows else None
