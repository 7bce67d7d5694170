"""Tables under a name in a statement, with columns that are written by that name.

An alias of SQLAlchemy copies all columns of its table into objects that refer to each other. A page of linked
rows took 170 kB, which only the garbage collector freed.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlalchemy import Alias, ColumnElement, FromClause, Select, Subquery, literal_column
from sqlalchemy import Table as SqlTable

from app.db.tables import Table, table_of

NewName = Callable[[str], str]


def numbering() -> NewName:
    """A function that returns a new name for each table of one statement, such as `session_1`."""
    counts: Counter[str] = Counter()

    def new_name(table: str) -> str:
        counts[table] += 1
        return f"{table}_{counts[table]}"

    return new_name


class Columns:
    """The columns of a table, each made at its first use."""

    def __init__(self, table: SqlTable, name: str) -> None:
        self._table = table
        self._name = name

    def __getattr__(self, column: str) -> ColumnElement[Any]:
        if column not in self._table.c:
            raise AttributeError(column)
        made = literal_column(f"{self._name}.{column}", self._table.c[column].type)
        setattr(self, column, made)
        return made

    def __getitem__(self, column: str) -> ColumnElement[Any]:
        found: ColumnElement[Any] = getattr(self, column)
        return found


class NamedTable(Alias):
    inherit_cache = False
    named_columns: Columns

    @property
    def c(self) -> Any:
        return self.named_columns


def named_table(table: Table, new_name: NewName) -> NamedTable:
    sql_table = table_of(table)
    named = NamedTable._construct(sql_table, name=new_name(sql_table.name))
    named.named_columns = Columns(sql_table, named.name)
    return named


def rows_of_page(table: NamedTable, page: Select[Any]) -> FromClause:
    """A page of the table, under the name of the table, so that the same columns read it."""
    return Subquery._construct(page, name=table.name)


def all_columns(table: NamedTable) -> ColumnElement[Any]:
    return literal_column(f"{table.name}.*")
