"""How ids and moments are read and written; the interface Node; and the metadata that resolvers declare.

DateTime is RFC 3339 with an offset, converted to UTC and written with `Z`. Date is a day, output only.
"""

import base64
import binascii
import re
from binascii import b2a_base64
from collections.abc import Callable
from datetime import UTC, date, datetime
from operator import methodcaller
from typing import Annotated, Any

import strawberry
from strawberry import ID, argument, field

from app.care.bounds import BLANK_ID
from app.care.errors import InvalidValue
from app.db.reader.plans import Row
from app.db.reader.selection import Order
from app.db.tables import MAX_ID, Table

NUMBER = re.compile(r"[0-9]{1,19}")
GLOBAL_ID = "Global id: opaque and unique across all types."
COMPUTES = {"computes": True}  # marks resolvers without side effects (engine/codegen.py)


def needing(*columns: str) -> dict[str, Any]:
    """Metadata of a resolver that reads other columns than the field's own."""
    return {**COMPUTES, "columns": columns}


def gathering(gather: Callable[..., None]) -> dict[str, Any]:
    """Metadata of a resolver that reads linked rows (schema/selection.py)."""
    return {**COMPUTES, "gathers": gather}


def paging(filter: Callable[[dict[str, Any]], Any], orders: dict[Any, Order]) -> dict[str, Any]:
    """Metadata of a list inside a row. `filter` maps arguments to conditions and their values."""
    return {**COMPUTES, "filter": filter, "orders": orders}


def converting(column: str, converter_for: Callable[[str], Callable[[Any], Any]]) -> dict[str, Any]:
    """Metadata of a resolver that converts one column. `converter_for` takes the name of the type."""
    return {**needing(column), "from_column": (column, converter_for)}


def global_id_converter(kind: str) -> Callable[[int], str]:
    form = kind.encode().replace(b"%", b"%%") + b":%d"  # `kind` can be text of a request
    return lambda number: b2a_base64(form % number, newline=False).decode()


def global_id(kind: str, number: int) -> str:
    return global_id_converter(kind)(number)


def id_field() -> Any:
    return field(
        resolver=lambda self: global_id(self.table.__name__, self.id),
        metadata=converting("id", global_id_converter),
        description=GLOBAL_ID,
    )


def legacy_id_field() -> Any:
    return field(
        resolver=lambda self: str(self.id),
        metadata=converting("id", lambda kind: str),
        description="Numeric id of the legacy paths. Accepted as an id, except by `node` and `nodes`.",
    )


EitherId = Annotated[ID, argument(description="A global id or a legacy id.")]


@strawberry.interface(description="An object with a global id.")
class Node:
    id: ID = id_field()
    legacy_id: ID = legacy_id_field()

    @classmethod
    def resolve_type(cls, row: Row, *_: object) -> str:
        return row.table.__name__


def read_number(text: str) -> int | None:
    """An id as a number; None if no row can have it."""
    if NUMBER.fullmatch(text) and (number := int(text)) <= MAX_ID:
        return number
    return None


def read_global_id(text: str) -> tuple[str, int] | None:
    """Kind and number of a global id; None if invalid."""
    try:
        kind, _, number_text = base64.b64decode(text, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        return None
    number = read_number(number_text)
    # An object has exactly one global id: reject leading zeros and other padding.
    if number is None or global_id(kind, number) != text:
        return None
    return kind, number


def read_filter_id(text: str | None, table: Table, argument: str) -> int | None:
    """None if not given; 0, which no row has, for a number that is too large. Rejects an id of another kind,
    which would match nothing: it is a mistake in the app."""
    number = None if text is None else read_id(text, table)
    if text is not None and number is None and not (text.isascii() and text.isdigit()):
        raise InvalidValue(argument, f"must be the id of a {table.__name__.lower()}")
    return None if text is None else number or 0


def read_input_id(text: str, table: Table) -> int | None:
    """The id in a required member of an input; a blank text is missing."""
    number = read_id(text, table)
    return number if number is not None or text.strip() else BLANK_ID


def read_id(text: str, table: Table) -> int | None:
    """Reads a global id or a legacy id; None for a global id of another kind."""
    if text.isascii() and text.isdigit():
        return read_number(text)
    found = read_global_id(text)
    return found[1] if found is not None and found[0] == table.__name__ else None


# --- moments -----------------------------------------------------------------------------------------

# Converts a text stored by SQLite, which always has a fraction, to output.
write_stored = methodcaller("replace", ".000000Z", "Z")

RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def write_moment(moment: datetime | str) -> str:
    if isinstance(moment, str):
        return str(write_stored(moment))
    return moment.isoformat().replace("+00:00", "Z")


def read_moment(text: object) -> datetime:
    """Accepts a datetime too: the legacy paths parse times before they run their documents."""
    if isinstance(text, datetime) and text.tzinfo is UTC:
        return text
    match = RFC_3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("a DateTime reads like 2026-11-21T09:00:00Z or 2026-11-21T10:00:00+01:00")
    date, time, fraction, offset = match.groups()
    try:
        local = datetime.fromisoformat(f"{date}T{time}{(fraction or '')[:7]}{offset.upper()}")
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("this DateTime does not exist") from None


DATE_TIME = strawberry.scalar(
    name="DateTime",
    description="A point in time in RFC 3339. Input requires an offset; output is in UTC with `Z`.",
    specified_by_url="https://www.rfc-editor.org/rfc/rfc3339",
    serialize=write_moment,
    parse_value=read_moment,
)

DATE = strawberry.scalar(
    name="Date",
    description="A day in the time zone of the service, such as 2026-11-21.",
    specified_by_url="https://www.rfc-editor.org/rfc/rfc3339#section-5.6",
    serialize=date.isoformat,
    parse_value=date.fromisoformat,
)
