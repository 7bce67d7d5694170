"""What the tables say about themselves, beside their types: own data, erasure, import and Citus follow it."""

import re
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import Any

from pydantic.alias_generators import to_camel
from sqlalchemy import BigInteger, Column, Integer, Table, Text, cast, literal, null
from sqlmodel import Field

Id = BigInteger().with_variant(Integer(), "sqlite")  # SQLite generates ids for INTEGER columns only


ERASED_PREFIX = "erased-"  # followed by the id of the row


def is_erased_text(text: str) -> bool:
    return re.fullmatch(f"{ERASED_PREFIX}[0-9]+", text) is not None


class Erased(Enum):
    """What a text is after its client was erased, if it is no fixed text."""

    UNCHANGED = auto()  # no personal text of a client
    NULL = auto()
    NUMBERED = auto()  # ERASED_PREFIX and the id, so that it stays unique
    ANSWERS = auto()  # a document in which each answer is empty


class Place(Enum):
    """Where Citus stores a table that no column distributes; it does not know the others."""

    EVERYWHERE = auto()  # copied to every machine; rarely written, because each write needs all machines
    # On the coordinator. Citus knows it, and so commits its rows and the rows of a worker by two-phase
    # commit, all or none.
    COORDINATOR = auto()


@dataclass(frozen=True)
class Facts:
    """About a column."""

    erased: Erased | str | None = None  # None of a text fails a test
    exported: bool = True  # in own data
    recorded: bool = False  # in a recording of the old service
    fixed: bool = False  # an imported change of it is a conflict
    set_later: bool = False  # an import leaves it empty
    distributes: bool = False  # Citus stores the row on the machine of this value
    member: str | None = None  # in the lines of an import, if it is not the name in camel case


def stored(kind: Any = None, *, column: dict[str, Any] | None = None, **options: Any) -> Any:
    """A column with its facts; `column` has options of SQLAlchemy, the others are of SQLModel."""
    facts = Facts(**{each.name: options.pop(each.name) for each in fields(Facts) if each.name in options})
    if kind is not None:
        options["sa_type"] = kind
    return Field(sa_column_kwargs={"info": {"facts": facts}, **(column or {})}, **options)


def code(**options: Any) -> Any:
    """A text of the service or of a fixed list, such as a state."""
    return stored(erased=Erased.UNCHANGED, **options)


def party(**options: Any) -> Any:
    """The caregiver or the client of a row, which own data shows by name."""
    return stored(Id, exported=False, **options)


def about_table(line: str | None = None, place: Place | None = None) -> dict[str, Any]:
    """`line` is the kind of the import's lines that contain the rows of the table."""
    return {"info": {"line": line, "place": place}}


# --- reading --------------------------------------------------------------------------------------


def facts_of(column: Column[Any]) -> Facts:
    facts: Facts = column.info.get("facts", Facts())
    return facts


def member_of(column: Column[Any]) -> str:
    """The name of the column in the lines of an import."""
    return facts_of(column).member or to_camel(column.name)


def is_personal(column: Column[Any]) -> bool:
    """Is it a personal text of a client?"""
    return facts_of(column).erased not in (None, Erased.UNCHANGED)


def erased_texts(table: Table) -> dict[str, Any]:
    """The columns of the table with personal texts, and their values after an erasure."""
    computed = {
        Erased.NULL: null(),
        Erased.NUMBERED: literal(ERASED_PREFIX) + cast(table.primary_key.columns[0], Text),
    }
    becomes = {column.name: facts_of(column).erased for column in table.columns if is_personal(column)}
    return {name: computed[how] if isinstance(how, Erased) else how for name, how in becomes.items()}


def distribution_key(table: Table) -> str | None:
    """The column by which Citus distributes the rows."""
    return next((column.name for column in table.columns if facts_of(column).distributes), None)
