"""A connection keeps a bounded text of prepared statements: callers choose the statements of reads."""

import pytest

from app.db.drivers.connections import MAX_STATEMENT_TEXT
from app.db.drivers.interface import Database
from app.db.sql import Statement, Steps
from tests.db.small_steps import sql, with_database

LENGTH = 3000
KEPT = sql("SELECT statement FROM pg_prepared_statements ORDER BY prepare_time, name")


def long_statement(number: int) -> Statement:
    return sql(f"SELECT {number} WHERE '' <> '{'x' * LENGTH}'")


def texts_after(*statements: Statement) -> Steps[list[str]]:
    for statement in statements:
        yield statement, {}
    return [text for (text,) in (yield KEPT, {})]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_oldest_statements_are_dropped_above_the_limit(database_url: str) -> None:
    async def use(db: Database) -> list[str]:
        return await db.read(texts_after(*map(long_statement, range(60))))

    kept = with_database(database_url, use)
    numbers = [int(text.split()[1]) for text in kept if len(text) > LENGTH]

    assert MAX_STATEMENT_TEXT - LENGTH < sum(map(len, kept)) <= MAX_STATEMENT_TEXT + LENGTH
    assert numbers == list(range(60 - len(numbers), 60))
    assert 15 < len(numbers) < 25
