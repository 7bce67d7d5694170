"""Relay connections with keyset cursors, and how their arguments become a page request."""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Generic, TypeVar

import strawberry
from strawberry import Parent, argument, field

from app.care.errors import InvalidValue
from app.db.moments import moment_as_text
from app.db.reader.plans import Row
from app.db.reader.reads import Page
from app.db.reader.selection import After as Position
from app.db.reader.selection import Order, PageRequest
from app.db.tables import Table
from app.schema.types.scalars import COMPUTES, read_number

DEFAULT_PAGE_SIZE = 20
MAX_PAGE_SIZE = 100
LARGEST_INT = 2**31 - 1

# A decoded cursor. `before` means newest first, which needs no time.
CURSOR = re.compile(
    r"(?P<kind>[A-Za-z]+):(?P<order>[A-Z_]+|before):(?P<number>[0-9]+)(:(?P<moment>[0-9T:.-]{26}Z))?"
)

NodeType = TypeVar("NodeType")

# Arguments of all lists.
First = Annotated[
    int | None,
    argument(description=f"Maximum number of items, 1 to {MAX_PAGE_SIZE}; null means {DEFAULT_PAGE_SIZE}."),
]
After = Annotated[
    str | None,
    argument(
        description="Return items after this cursor, from a list in the same order; null starts at the first"
        " item."
    ),
]
Offset = Annotated[
    int | None, argument(description="Number of items to skip; cannot be combined with `after`.")
]


@strawberry.type(description="Position of a page in its list.")
class PageInfo:
    has_next_page: bool = field(description="Whether more items follow.")
    has_previous_page: bool = field(
        description="Whether items can precede: true with `after` or a positive `offset`, even if none does."
    )
    start_cursor: str | None = field(description="Cursor of the first item; null for an empty page.")
    end_cursor: str | None = field(
        description="Cursor of the last item, to pass as `after` for the next page; null for an empty page."
    )


@strawberry.type(description="A list item with its cursor.")
class Edge(Generic[NodeType]):
    cursor: str = field(description="Cursor to pass as `after` for the items that follow.")
    node: NodeType = field(description="The item.")


def page_info_of(page: Parent[Page]) -> PageInfo:
    return PageInfo(
        has_next_page=page.has_next,
        has_previous_page=page.has_previous,
        start_cursor=cursor_of(page.rows[0], page.order) if page.rows else None,
        end_cursor=cursor_of(page.rows[-1], page.order) if page.rows else None,
    )


@strawberry.type(description="One page of a list.")
class Connection(Generic[NodeType]):
    nodes: list[NodeType] = field(
        resolver=lambda self: self.rows, metadata=COMPUTES, description="The items."
    )
    edges: list[Edge[NodeType]] = field(
        resolver=lambda self: [Edge(cursor=cursor_of(row, self.order), node=row) for row in self.rows],
        metadata=COMPUTES,
        description="The items with their cursors.",
    )
    page_info: PageInfo = field(
        resolver=page_info_of, metadata=COMPUTES, description="Position of this page in its list."
    )
    total_count: int = field(
        resolver=lambda self: self.total,
        metadata=COMPUTES,
        description="Total number of items on all pages; computed only if selected.",
    )


def cursor_of(row: Row, order: Order | None) -> str:
    """Contains the order and the row's sort values."""
    if order is None:
        text = f"{row.table.__name__}:before:{row.id}"
    else:
        stored = getattr(row, order.column)
        moment = stored if isinstance(stored, str) else moment_as_text(stored)
        text = f"{row.table.__name__}:{order.name}:{row.id}:{moment}"
    return base64.b64encode(text.encode()).decode()


def read_cursor(text: str, table: Table, order: Order | None) -> int | Position:
    """The position in a list of this table and order; raises InvalidValue for other cursors."""
    try:
        decoded = base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        decoded = ""
    match = CURSOR.fullmatch(decoded)
    if match is None or match["kind"] != table.__name__:
        raise InvalidValue("after", "is not a cursor of this list")
    if match["order"] != ("before" if order is None else order.name):
        raise InvalidValue("after", "is a cursor of this list in another order")
    number, moment = read_number(match["number"]), parse_stored_moment(match["moment"])
    if number is None or (moment is None) != (order is None):
        raise InvalidValue("after", "is not a cursor of this list")
    return number if moment is None else (moment, number)


def parse_stored_moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def read_page_request(
    selected: PageRequest,
    table: Table,
    first: int | None,
    after: str | None,
    offset: int | None = None,
    order: Order | None = None,
) -> PageRequest:
    """The requested page; `selected` says whether its rows and its total are selected."""
    first = DEFAULT_PAGE_SIZE if first is None else first
    if not 1 <= first <= MAX_PAGE_SIZE:
        raise InvalidValue("first", f"must lie between 1 and {MAX_PAGE_SIZE}")
    if offset is not None and after is not None:
        raise InvalidValue("offset", "cannot be combined with after")
    if offset is not None and not 0 <= offset <= LARGEST_INT:
        raise InvalidValue("offset", "must not be negative")
    page_request = selected._replace(first=first, offset=offset or 0, order=order)
    if after is None:
        return page_request
    position = read_cursor(after, table, order)
    if isinstance(position, int):
        return page_request._replace(before=position)
    return page_request._replace(after=position)


def page_key(name: str, arguments: Mapping[str, object]) -> str:
    """Identifies the page of a row that has these arguments."""
    given = [f"{key}={value}" for key, value in sorted(arguments.items()) if value is not None]
    return f"{name}({', '.join(given)})"
