"""Identity: the opaque global id, the number the legacy paths show, and how an id argument is read."""

import base64
import binascii
import re
from binascii import b2a_base64
from collections.abc import Callable
from typing import Annotated, Any

import strawberry

from app.db.reader.entities import Table
from app.db.reader.plans import Row
from app.db.reader.selection import NEWEST

NUMBER = re.compile(r"[0-9]{1,19}")
GLOBAL_ID = "Global id: opaque and unique across all types."
COMPUTES = {"computes": True}  # tells the engine that a resolver does nothing else (engine/codegen.py)


def needing(*columns: str) -> dict[str, Any]:
    """Tells the selection which columns a resolver reads, where they are not the field's own name."""
    return {**COMPUTES, "columns": columns}


def gathering(gather: Callable[..., None]) -> dict[str, Any]:
    """Tells the selection how to gather what a resolver reads of linked rows (schema/selection.py)."""
    return {**COMPUTES, "gathers": gather}


def of_id(make: Callable[[str], Callable[[int], str]]) -> dict[str, Any]:
    """Tells the engine, too, that there is nothing to it but the number: ids are asked for very often."""
    return {**needing("id"), "of": ("id", make)}


def global_ids(kind: str) -> Callable[[int], str]:
    form = b"%b:%%d" % kind.encode()
    return lambda number: b2a_base64(form % number, newline=False).decode()


def global_id(kind: str, number: int) -> str:
    return global_ids(kind)(number)


def own_global_id(row: strawberry.Parent[Row]) -> strawberry.ID:
    return strawberry.ID(global_id(row.table.__name__, row.id))


def own_number(row: strawberry.Parent[Row]) -> strawberry.ID:
    return strawberry.ID(str(row.id))


def id_field() -> Any:
    return strawberry.field(resolver=own_global_id, metadata=of_id(global_ids), description=GLOBAL_ID)


def legacy_id_field() -> Any:
    return strawberry.field(
        resolver=own_number,
        metadata=of_id(lambda kind: str),
        description="Numeric id of the legacy paths. Accepted as an id, except by `node` and `nodes`.",
    )


# The argument by which one object is asked for.
EitherId = Annotated[strawberry.ID, strawberry.argument(description="A global id or a legacy id.")]


@strawberry.interface(description="An object with a global id.")
class Node:
    id: strawberry.ID = id_field()
    legacy_id: strawberry.ID = legacy_id_field()

    @classmethod
    def resolve_type(cls, row: Row, *_: object) -> str:
        return row.table.__name__


def read_number(text: str) -> int | None:
    """An id as a number, or None where no row can have it."""
    if NUMBER.fullmatch(text) and (number := int(text)) <= NEWEST:
        return number
    return None


def read_global_id(text: str) -> tuple[str, int] | None:
    """Kind and number of a global id, or None where it is none."""
    try:
        kind, _, number_text = base64.b64decode(text, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        return None
    number = read_number(number_text)
    # Compared as written: an object has one id, without leading zeros or other paddings.
    if number is None or global_id(kind, number) != text:
        return None
    return kind, number


def read_id(text: str, table: Table) -> int | None:
    """An id argument in either form; an id of another kind names nothing here."""
    if text.isascii() and text.isdigit():
        return read_number(text)
    found = read_global_id(text)
    return found[1] if found is not None and found[0] == table.__name__ else None
