"""Relay connections with keyset cursors, and how their arguments become a window."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Generic, TypeVar

import strawberry

from app.care.errors import Unreadable
from app.db.entities import Table
from app.db.plans import Row
from app.db.reads import Page
from app.db.selection import Window
from app.schema.types.node import COMPUTES, read_number

PAGE = 20
MOST_ROWS = 100
LARGEST_INT = 2**31 - 1

NodeType = TypeVar("NodeType")

# The arguments that all lists share.
First = Annotated[
    int | None, strawberry.argument(description=f"How many items at most, 1 to {MOST_ROWS}; {PAGE} if null.")
]
After = Annotated[
    str | None,
    strawberry.argument(description="A cursor: the page begins behind its item, and at the newest if null."),
]
Offset = Annotated[
    int | None,
    strawberry.argument(description="How many of the newest items to skip; not together with `after`."),
]


@strawberry.type(description="Where a page stands in its list.")
class PageInfo:
    has_next_page: bool = strawberry.field(description="Whether older items follow.")
    has_previous_page: bool = strawberry.field(description="Whether newer items come before.")
    start_cursor: str | None = strawberry.field(description="That of the first item; null on an empty page.")
    end_cursor: str | None = strawberry.field(
        description="That of the last item; as `after` it asks for the next page. Null on an empty page."
    )


@strawberry.type(description="An item of a list, with its cursor.")
class Edge(Generic[NodeType]):
    cursor: str = strawberry.field(description="As `after` it asks for what comes behind this item.")
    node: NodeType = strawberry.field(description="The item itself.")


def nodes_of(page: strawberry.Parent[Page]) -> Any:
    return page.rows


def edges_of(page: strawberry.Parent[Page]) -> Any:
    return [Edge(cursor=cursor_of(row), node=row) for row in page.rows]


def page_info_of(page: strawberry.Parent[Page]) -> PageInfo:
    return PageInfo(
        has_next_page=page.has_next,
        has_previous_page=page.has_previous,
        start_cursor=cursor_of(page.rows[0]) if page.rows else None,
        end_cursor=cursor_of(page.rows[-1]) if page.rows else None,
    )


def total_of(page: strawberry.Parent[Page]) -> int:
    assert page.total is not None, "counted when selected"
    return page.total


@strawberry.type(description="One page of a list, newest first.")
class Connection(Generic[NodeType]):
    nodes: list[NodeType] = strawberry.field(resolver=nodes_of, metadata=COMPUTES, description="The items.")
    edges: list[Edge[NodeType]] = strawberry.field(
        resolver=edges_of, metadata=COMPUTES, description="The items, each with its cursor."
    )
    page_info: PageInfo = strawberry.field(
        resolver=page_info_of, metadata=COMPUTES, description="Where this page stands in its list."
    )
    total_count: int = strawberry.field(
        resolver=total_of,
        metadata=COMPUTES,
        description="How many items all pages have together; counted only when selected.",
    )


def cursor_of(row: Row) -> str:
    return base64.b64encode(f"{row.table.__name__}:before:{row.id}".encode()).decode()


def read_cursor(text: str, table: Table) -> int:
    """The id that a cursor of a list of this kind stands for; a cursor of other rows leads nowhere here."""
    try:
        said = base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        said = ""
    kind, _, number_text = said.partition(":before:")
    number = read_number(number_text)
    if kind != table.__name__ or number is None:
        raise Unreadable("after", "is not a cursor of this list")
    return number


def read_window(
    shape: Window, table: Table, first: int | None, after: str | None, offset: int | None = None
) -> Window:
    """The part of the list that the arguments ask for; `shape` says whether rows and total were selected."""
    first = PAGE if first is None else first
    if not 1 <= first <= MOST_ROWS:
        raise Unreadable("first", f"must lie between 1 and {MOST_ROWS}")
    if offset is not None and after is not None:
        raise Unreadable("offset", "cannot be combined with after")
    if offset is not None and not 0 <= offset <= LARGEST_INT:
        raise Unreadable("offset", "must not be negative")
    window = replace(shape, first=first, offset=offset or 0)
    return window if after is None else replace(window, before=read_cursor(after, table))


def page_key(name: str, arguments: Mapping[str, object]) -> str:
    """By which a row finds, among its pages, the one that these arguments ask for."""
    given = [f"{key}={value}" for key, value in sorted(arguments.items()) if value is not None]
    return f"{name}({', '.join(given)})"
