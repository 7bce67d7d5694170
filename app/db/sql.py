"""SQL statements, compiled once for each database and run by the drivers."""

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
    Insert,
    Integer,
    Select,
    String,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
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


# INSERT with ON CONFLICT, which SQLAlchemy has in the dialects only.
INSERT: dict[DatabaseKind, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Required:
    """Marks a parameter without a default: the caller must pass its value."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()


class MissingParameter(Exception):
    """A bug: without the value the statement would compare with NULL or store NULL."""

    def __init__(self, name: str, sql: str) -> None:
        super().__init__(f"no value for :{name} in {sql[:200]}")


@dataclass(frozen=True)
class CompiledStatement:
    """The text of a statement and its parameters in order, each with its default or REQUIRED.

    Only constants that SQLAlchemy has moved out of the text have a default. There are no optional parameters:
    an operation passes None for NULL.
    """

    sql: str
    parameters: tuple[tuple[str, Any], ...]
    is_counted: bool = False  # an INSERT whose new ids SQLite derives from the last one

    def values(self, given: Values) -> list[Any]:
        try:
            return [given[name] if default is REQUIRED else default for name, default in self.parameters]
        except KeyError as missing:
            raise MissingParameter(missing.args[0], self.sql) from None


class Statement:
    """Compiles its SQLAlchemy expression at the first use on a kind of database and keeps the text."""

    def __init__(self, build: Callable[[DatabaseKind], ClauseElement], gives_ids: bool = False) -> None:
        self.build = build
        self.gives_ids = gives_ids
        self.written: dict[DatabaseKind, CompiledStatement] = {}

    def for_(self, kind: DatabaseKind) -> CompiledStatement:
        written = self.written.get(kind)
        if written is None:
            written = self.written[kind] = compile_statement(self.build(kind), kind, self.gives_ids)
        return written


def compile_statement(
    expression: ClauseElement, kind: DatabaseKind, gives_ids: bool = False
) -> CompiledStatement:
    if gives_ids and kind != "sqlite":
        assert isinstance(expression, Insert)
        expression = expression.returning(expression.table.c.id)
    compiled = expression.compile(dialect=DIALECTS[kind])
    assert isinstance(compiled, SQLCompiler)
    names = compiled.positiontup or ()
    parameters = tuple(
        (name, REQUIRED if compiled.binds[name].required else compiled.params[name]) for name in names
    )
    return CompiledStatement(compiled.string, parameters, gives_ids)


@dataclass(frozen=True)
class Bulk:
    """Rows to insert into one table."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


Step = tuple[Statement, Values] | Bulk
Result = TypeVar("Result")
# A generator that yields the next statement and receives its rows. It knows no connection, thread or loop.
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


def in_order(rows: Select[Any], kind: DatabaseKind, *lists: FromClause) -> Select[Any]:
    """Orders rows by their position in the lists. SQLite reads them in this order anyway."""
    return rows if kind == "sqlite" else rows.order_by(*(items.c.position for items in lists))


def among(subject: ColumnElement[Any], name: str, kind: DatabaseKind) -> ColumnElement[bool]:
    """`subject` is one of the ids in the list parameter `name`."""
    if kind == "sqlite":
        items = func.json_each(bindparam(name)).table_valued("value")
        return subject.in_(select(items.c.value))
    return subject == func.any(bindparam(name, type_=ARRAY(BigInteger)))


def the_one(subject: ColumnElement[Any], name: str, kind: DatabaseKind) -> ColumnElement[bool]:
    """The same for a single id, without a list: SQLite takes 2 us to open a list."""
    return subject == id_parameter(name)


IdCondition = Callable[[ColumnElement[Any], str, DatabaseKind], ColumnElement[bool]]


def moment_parameter(name: str) -> ColumnElement[datetime]:
    return bindparam(name, type_=Moment)


def text_parameter(name: str) -> ColumnElement[str]:
    return bindparam(name, type_=String)


def id_parameter(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=BigInteger)


def count_parameter(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=Integer)
