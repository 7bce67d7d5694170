"""The parameters of a read: access scope, part of a list, columns and linked rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, FromClause

NEWEST = 2**63 - 1  # the keyset of the first page, so that all pages have one statement
NO_VALUES: dict[str, Any] = {}

After = tuple[datetime, int]  # the moment and the id of the last row of the previous page
FIRST: After = (datetime(1, 1, 1, tzinfo=UTC), 0)  # before all rows

Path = tuple[int, ...]  # indexes of links, from a selection down to the selection of linked rows
Shown = tuple[int, int, str, int]  # caregiver, client, save type and id of an answer set that was read
ViewerRole = Literal["caregiver", "client", "anonymous"]
# A client who reads by one statement: PostgreSQL finds the caregivers in it; on Citus there is only one.
ReaderRole = Literal[ViewerRole, "client in a document"]


@dataclass  # not frozen, because each read creates one
class AccessScope:
    """The viewer whose rows are visible, the moment of the request, and its time zone."""

    now: datetime
    caregiver: int | None = None
    client: int | None = None
    time_zone: str = "UTC"
    shown: dict[int, Shown] = field(default_factory=dict, compare=False, repr=False)  # by answer set, so far

    @property
    def role(self) -> ViewerRole:
        if self.caregiver is not None:
            return "caregiver"
        return "client" if self.client is not None else "anonymous"


class Where(NamedTuple):
    """A condition on the rows of a list, on the table behind the to-one link `via`, or on both."""

    condition: Callable[..., ColumnElement[bool]]  # of the (aliased) table or tables
    via: str | None = None
    narrows: bool = False  # has a better index than the relationship key
    beside: bool = False  # the condition receives the row and the linked row


def equals(name: str, value: ColumnElement[Any]) -> Callable[[FromClause], ColumnElement[bool]]:
    """The condition that a column has this value, for `Where`."""
    return lambda row: row.c[name] == value


class Order(NamedTuple):
    """A sort order other than newest first: by a moment, then by id, both ascending."""

    name: str  # in cursors
    column: str  # of the table, or one of reader.entities.COMPUTED


class PageRequest(NamedTuple):
    """A part of a list, newest first if `order` is None. A tuple, because each list changes several."""

    first: int = 20
    before: int = NEWEST  # newest first: only rows with a lower id
    order: Order | None = None
    after: After = FIRST  # in another order: only rows after this one
    offset: int = 0
    key: str = ""  # identifies a page among the pages of its row
    where: tuple[Where, ...] = ()
    values: dict[str, Any] = NO_VALUES  # parameters of the conditions
    with_rows: bool = True
    with_total: bool = False

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for requests with the same statement. It has no values of a request."""
        return self.order, self.where, self.with_rows, self.with_total

    @property
    def is_later_page(self) -> bool:
        return self.offset > 0 or self.before != NEWEST or self.after != FIRST

    @property
    def bounds(self) -> dict[str, Any]:
        """The keyset parameters of the statement."""
        if self.order is None:
            return {"before": self.before}
        moment, number = self.after
        return {"after": moment, "after_id": number}


@dataclass(frozen=True)
class Selection:
    """The columns of a row to read, and its linked rows."""

    columns: frozenset[str]
    links: tuple["Link", ...] = ()
    plans: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # see plan_cache.py

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for selections with the same plan. It has no values of a request."""
        links = [(link.name, link.selection.shape, link.page and link.page.shape) for link in self.links]
        return self.columns, *links

    def with_ids(self) -> "Selection":
        return Selection(self.columns | {"id"}, self.links)

    def link_at(self, path: Path) -> "Link":
        """Plans are shared by equal selections, but values belong to a selection."""
        link = self.links[path[0]]
        for index in path[1:]:
            link = link.selection.links[index]
        return link


@dataclass(frozen=True)
class Link:
    """Linked rows are a member with the name of the link; the pages of a row are in `pages`."""

    name: str
    selection: Selection
    page: PageRequest | None = None
