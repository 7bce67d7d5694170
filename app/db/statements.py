"""SQL statements as values: written once for each database, run by whoever holds a connection."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Dialect,
    FromClause,
    Integer,
    String,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeEngine

from app.db.tables import Moment

DatabaseKind = Literal["sqlite", "postgresql"]
Values = dict[str, Any]

DIALECTS: dict[DatabaseKind, Dialect] = {
    "sqlite": SQLiteDialect_pysqlite(paramstyle="qmark"),
    "postgresql": PGDialect_asyncpg(paramstyle="numeric_dollar"),  # type: ignore[no-untyped-call]
}


@dataclass(frozen=True)
class Written:
    """A statement's text, and the names of its parameters in order, each with the value it has by itself."""

    sql: str
    parameters: tuple[tuple[str, Any], ...]

    def values(self, given: Values) -> list[Any]:
        return [given.get(name, own) for name, own in self.parameters]


class Statement:
    """Built from SQLAlchemy expressions when first run on a kind of database; after that it is only text."""

    def __init__(self, build: Callable[[DatabaseKind], ClauseElement]) -> None:
        self.build = build
        self.written: dict[DatabaseKind, Written] = {}

    def for_(self, kind: DatabaseKind) -> Written:
        if kind not in self.written:
            self.written[kind] = write_out(self.build(kind), kind)
        return self.written[kind]


def write_out(expression: ClauseElement, kind: DatabaseKind) -> Written:
    compiled = expression.compile(dialect=DIALECTS[kind])
    assert isinstance(compiled, SQLCompiler)
    names = compiled.positiontup or ()
    return Written(compiled.string, tuple((name, compiled.params[name]) for name in names))


@dataclass(frozen=True)
class Bulk:
    """Many rows for one table at once."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


Step = tuple[Statement, Values] | Bulk
Result = TypeVar("Result")
# An operation says what to run next and is sent the rows: it knows no connection, thread or event loop.
Operation = Generator[Step, list[Any], Result]


@cache
def each(name: str, kind: DatabaseKind, item: TypeEngine[Any] | None = None) -> FromClause:
    """The items of the list parameter `name` as a table (value, position)."""
    item = item or BigInteger()
    if kind == "sqlite":
        items = func.json_each(bindparam(name)).table_valued("value", "key", name=name)
        return (
            select(items.c.value.label("value"), items.c.key.label("position"))
            .select_from(items)
            .subquery(name)
        )
    items = func.unnest(bindparam(name, type_=ARRAY(item))).table_valued(
        column("value", item), with_ordinality="position", name=name
    )
    return items.render_derived()


def among(subject: ColumnElement[Any], name: str, kind: DatabaseKind) -> ColumnElement[bool]:
    """`subject` is one of the ids in the list parameter `name`."""
    if kind == "sqlite":
        items = func.json_each(bindparam(name)).table_valued("value")
        return subject.in_(select(items.c.value))
    return subject == func.any(bindparam(name, type_=ARRAY(BigInteger)))


def moment_parameter(name: str) -> ColumnElement[datetime]:
    return bindparam(name, type_=Moment)


def text_parameter(name: str) -> ColumnElement[str]:
    return bindparam(name, type_=String)


def id_parameter(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=BigInteger)


def count_parameter(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=Integer)
