"""Identity: the opaque global id, the number the legacy paths show, and how an id argument is read."""

import base64
import binascii
import re
from typing import Any

import strawberry

from app.db.entities import Table
from app.db.plans import Row
from app.db.selection import NEWEST


def needing(*columns: str) -> dict[str, tuple[str, ...]]:
    """Tells the selection which columns a resolver reads, where they are not the field's own name."""
    return {"columns": columns}


def through(*links: str) -> dict[str, tuple[str, ...]]:
    """Tells the selection that a field's value stands at the end of these links."""
    return {"through": links}


def global_id(kind: str, number: int) -> str:
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


def own_global_id(row: strawberry.Parent[Row]) -> strawberry.ID:
    return strawberry.ID(global_id(row.table.__name__, row.id))


def own_number(row: strawberry.Parent[Row]) -> strawberry.ID:
    return strawberry.ID(str(row.id))


def id_field() -> Any:
    return strawberry.field(resolver=own_global_id, metadata=needing("id"), description="Global and opaque.")


def legacy_id_field() -> Any:
    return strawberry.field(
        resolver=own_number, metadata=needing("id"), description="The number that the legacy paths show."
    )


@strawberry.interface(description="Anything that can be looked up by its global id.")
class Node:
    id: strawberry.ID = id_field()
    legacy_id: strawberry.ID = legacy_id_field()

    @classmethod
    def resolve_type(cls, row: Row, *_: object) -> str:
        return row.table.__name__


def read_number(text: str) -> int | None:
    """An id as a number, or None where no row can have it."""
    if re.fullmatch(r"[0-9]{1,19}", text) and (number := int(text)) <= NEWEST:
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
