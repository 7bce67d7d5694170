"""PostgreSQL runs a change again that it rolled back because of a deadlock or a serialization failure."""

from typing import Any

import pytest

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Steps, repeatable
from tests.db.small_steps import add_module, modules, sql, with_database

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)

ATTEMPTS = 5  # of the driver, which the suite on SQLite does without
CODES = pytest.mark.parametrize("code", ["40001", "40P01"], ids=["serialization failure", "deadlock"])


def failing(code: str) -> Any:
    return sql(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$")


@CODES
def test_a_change_with_a_conflict_is_run_again_and_made_once(database_url: str, code: str) -> None:
    began = []

    @repeatable
    def adding_after_a_conflict(name: str) -> Steps[str]:
        began.append(name)
        yield add_module(name), {}
        if len(began) < ATTEMPTS:
            yield failing(code), {}
        return name

    @repeatable
    def surrounding() -> Steps[str]:
        return (yield from adding_after_a_conflict("inside")) + " is done"

    async def use(db: Database) -> str:
        return await db.write(surrounding())

    assert with_database(database_url, use) == "inside is done"
    assert began == ["inside"] * ATTEMPTS
    assert modules(database_url) == ["inside"]


@CODES
def test_a_change_that_always_has_a_conflict_is_unavailable(database_url: str, code: str) -> None:
    began = []

    @repeatable
    def conflicting() -> Steps[None]:
        began.append(1)
        yield add_module("never"), {}
        yield failing(code), {}

    async def use(db: Database) -> None:
        with pytest.raises(DatabaseUnavailable, match="nothing was changed"):
            await db.write(conflicting())

    with_database(database_url, use)
    assert len(began) == ATTEMPTS
    assert modules(database_url) == []


def test_another_error_of_a_change_is_raised_at_once(database_url: str) -> None:
    began = []

    @repeatable
    def wrong() -> Steps[None]:
        began.append(1)
        yield sql("SELECT nonsense FROM module"), {}

    async def use(db: Database) -> None:
        with pytest.raises(Exception, match="nonsense"):
            await db.write(wrong())

    with_database(database_url, use)
    assert len(began) == 1
