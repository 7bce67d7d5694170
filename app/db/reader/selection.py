"""What a reader may ask for: whose rows, which part of a list, which columns and linked rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement

NEWEST = 2**63 - 1  # a keyset that starts before the newest row: first and later pages are one statement

After = tuple[datetime, int]  # the row that a page in another order follows: its moment, and its id
FIRST: After = (datetime(1, 1, 1, tzinfo=UTC), 0)  # before all rows

Shown = tuple[int, int, str, int]  # a caregiver, a client, and of which kind the answer set is that was read
ViewerRole = Literal["caregiver", "client", "nobody"]
ReaderRole = Literal[ViewerRole, "client of one"]  # a client of a single caregiver, as most are


@dataclass  # not frozen, as every read makes one
class AccessScope:
    """Whose rows may be seen, the one moment of the request, and the zone in which its days begin."""

    now: datetime
    caregiver: int | None = None
    client: int | None = None
    time_zone: str = "UTC"
    shown: list[Shown] = field(default_factory=list, compare=False, repr=False)  # what was read so far

    @property
    def role(self) -> ViewerRole:
        if self.caregiver is not None:
            return "caregiver"
        return "client" if self.client is not None else "nobody"


class Where(NamedTuple):
    """A condition on the rows of a list, or on the table that the to-one link `via` leads to, or on both."""

    says: Callable[..., ColumnElement[bool]]  # of the (aliased) table or tables
    via: str | None = None
    narrows: bool = False  # finds rows by an index of its own, better than the relationship key does
    beside: bool = False  # what `via` leads to is handed over beside the row, not in its place


class Order(NamedTuple):
    """An order of a list other than newest first: by a moment, then by id, both ascending."""

    name: str  # in cursors
    column: str  # of the table, or one of db.entities.COMPUTED


@dataclass(unsafe_hash=True)  # not frozen, as every list makes several; nobody changes one
class PageRequest:
    """Which part of a list, newest first if `order` is None. Equal windows need the same SQL."""

    first: int = field(default=20, compare=False)
    before: int = field(default=NEWEST, compare=False)  # newest first: only rows with a lower id
    order: Order | None = None
    after: After = field(default=FIRST, compare=False)  # in another order: only rows behind this one
    offset: int = field(default=0, compare=False)
    key: str = field(default="", compare=False)  # by which a page is found among those of its row
    where: tuple[Where, ...] = ()
    values: dict[str, Any] = field(default_factory=dict, compare=False)  # what the conditions compare with
    with_rows: bool = True
    with_total: bool = False

    @property
    def is_later_page(self) -> bool:
        return self.offset > 0 or self.before != NEWEST or self.after != FIRST

    @property
    def bounds(self) -> dict[str, Any]:
        """What the page's statement compares with."""
        if self.order is None:
            return {"before": self.before}
        moment, number = self.after
        return {"after": moment, "after_id": number}


@dataclass(frozen=True)
class Selection:
    """What is wanted of each row: its columns, and the rows it is linked to."""

    columns: frozenset[str]
    links: tuple["Link", ...] = ()
    plans: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # of this very selection

    @property
    def is_only_ids(self) -> bool:
        return self.columns == {"id"} and not self.links

    def with_ids(self) -> "Selection":
        return Selection(self.columns | {"id"}, self.links)


@dataclass(frozen=True)
class Link:
    """Linked rows appear under the link's name; a page, of which a row may hold several, among `pages`."""

    name: str
    wanted: Selection
    window: PageRequest | None = None
