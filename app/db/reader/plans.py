"""Plans a read: the columns and joins of its statements, and the classes of their rows.

From a plan, levels.py writes and runs one statement for each level, and document.py one for all of them. Both
keep only the texts of the statements, in the cache of plan_cache.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

from sqlalchemy import DateTime

from app.db.answers import Answer, read_json
from app.db.moments import text_of_json
from app.db.reader.entities import ANSWERS, COMPUTED, ENTITIES, Entity, ToMany, ToOne, conversion_of
from app.db.reader.named_tables import NewName, numbering
from app.db.reader.queries import REQUEST_VALUES, Form, Query, Source, parent_column
from app.db.reader.selection import Link, Order, PageRequest, Path, ReaderRole, Selection, Shown, Where
from app.db.sql import Statement
from app.db.tables import Table

# Planners take exponential time for joins, so a longer chain continues in another statement.
JOINS_PER_STATEMENT = 12

Place = tuple[int, Callable[[Any], Any] | None]  # an index, and the conversion of the driver's value


@dataclass(frozen=True)
class Layout:
    """The indexes of the members in a row, for fast access to many rows (engine/codegen.py)."""

    columns: dict[str, Place] = field(default_factory=dict)
    joined: dict[str, tuple[int, "Layout"]] = field(default_factory=dict)
    lists: dict[str, tuple[Place, "Layout"]] = field(default_factory=dict)


COLUMNS_OF_SHOWN = ("caregiver_id", "client_id", "save_type", "id")  # the columns of `Shown`
LAYOUT_OF_ANSWER = Layout({name: (index, None) for index, name in enumerate(Answer._fields)})


class Owner:
    """Exists as long as a plan, whose row classes refer to it."""


class Row(tuple[Any, ...]):
    """A row with its selected columns by name. There is no lazy loading.

    A joined row is a view: a tuple with the row that has its values.
    """

    __slots__ = ()
    table: ClassVar[Table]
    __layout__: ClassVar[Layout]
    __owner__: ClassVar["ref[Owner]"]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Page:
    key: str
    rows: list[Row]
    has_next: bool
    has_previous: bool
    total: int | None
    order: Order | None = None


def as_page(rows: list[Row], has_next: bool, request: PageRequest, total: int | None) -> Page:
    has_previous = request.with_rows and request.is_later_page
    return Page(request.key, rows, has_next, has_previous, total, request.order)


@dataclass(eq=False)
class PlanNode:
    """The class of the rows of one level, and the plans of their linked rows."""

    row_class: type[Row]
    children: list["ChildPlan"]
    shown: list[Callable[[Any], Shown]]  # of a row: the answer sets whose answers are selected
    width: int  # the number of columns, without linked rows
    owner: Owner
    # levels.py writes these statements, and omits a part of a linked page that is not selected.
    statement: Statement | None = None
    single_statement: Statement | None = None  # for one id in place of a list
    count: Statement | None = None  # of the linked rows of each parent


@dataclass(frozen=True)
class ChildPlan:
    """The plan of linked rows that have their own statement."""

    node: PlanNode
    path: Path  # of the link in the selection
    parent_index: int  # in a parent row, of the id by which its linked rows are found
    is_single: bool


# The queries of a plan, until its statements are written; the request of linked pages only.
Queries = dict[PlanNode, tuple[Query, Form, PageRequest | None]]


def plan_rows(
    table: Table,
    selection: Selection,
    role: ReaderRole,
    form: Form,
    where: tuple[Where, ...] = (),
    order: Order | None = None,
    is_one_statement: bool = False,
) -> tuple[PlanNode, Queries]:
    planner = Planner(role, numbering() if is_one_statement else None)
    return planner.plan(table, selection, form, where, order), planner.queries


@dataclass
class Planner:
    """Plans the levels of a selection; equal levels once."""

    role: ReaderRole
    new_name: NewName | None  # of the one statement, which returns JSON; None: each level has its own
    nodes: dict[Any, PlanNode] = field(default_factory=dict)
    queries: Queries = field(default_factory=dict)

    def plan(
        self,
        table: Table,
        selection: Selection,
        form: Form,
        where: tuple[Where, ...],
        order: Order | None,
        link: ToOne | ToMany | None = None,
        page: PageRequest | None = None,
    ) -> PlanNode:
        query = Query(ENTITIES[table], self.role, where, order, link, self.new_name or numbering())
        if link is not None:
            query.index_of(query.source, parent_column(link))  # first, so that rows are grouped by row[0]
        builder = NodeBuilder(self, query)
        row_class = builder.add_rows(query.source, selection, ())
        if not query.columns:  # SQLite needs at least one column
            query.index_of(query.source, "id")
        width = len(query.columns)
        query.conditions()  # adds their joins before the statement is written
        node = PlanNode(row_class, builder.children, builder.shown, width, builder.owner)
        self.queries[node] = query, form, page
        return node

    def plan_linked(self, link: Link, target: ToOne | ToMany) -> PlanNode:
        page = link.page
        where, order = (page.where, page.order) if page else ((), None)
        form: Form = "pages" if page else "children"
        key = (id(target), link.selection.shape, page and page.shape)
        node = self.nodes.get(key)
        if node is None:
            node = self.plan(target.target, link.selection, form, where, order, target, page)
            self.nodes[key] = node
        return node


@dataclass
class NodeBuilder:
    """Adds the selected columns, joined rows and linked rows of one statement to its query."""

    planner: Planner
    query: Query
    children: list[ChildPlan] = field(default_factory=list)
    shown: list[Callable[[Any], Shown]] = field(default_factory=list)
    owner: Owner = field(default_factory=Owner)

    def add_rows(self, source: Source, selection: Selection, path: Path) -> type[Row]:
        """Adds what is selected of one table, and returns the class of its rows."""
        layout = Layout()
        members: dict[str, Any] = {"__slots__": (), "table": source.entity.table, "__layout__": layout}
        members["__owner__"] = ref(self.owner)
        for name in sorted(selection.columns):
            column = self.place_of(source, name)
            members[name] = shared_property(source.is_joined, *column)
            if name == ANSWERS:
                layout.lists[name] = (column[0], read_json), LAYOUT_OF_ANSWER
                self.shown.append(itemgetter(*[self.query.index_of(source, key) for key in COLUMNS_OF_SHOWN]))
            else:
                layout.columns[name] = column
        pages = []
        for index, link in enumerate(selection.links):
            target = source.entity.links[link.name]
            if isinstance(target, ToOne) and len(self.query.joins) < JOINS_PER_STATEMENT:
                members |= self.add_joined(source, link, (*path, index), layout)
                continue
            child = self.add_child(source, link, target, (*path, index))
            place = -len(self.children)  # at the end of a row in reverse order, as more columns may follow
            if link.page is not None:
                pages.append(value_at(source.is_joined, place))
                continue
            members |= {
                link.name: property(value_at(source.is_joined, place)),
                **through_members(source.entity, link),
            }
            if not child.is_single:
                layout.lists[link.name] = (place, None), child.node.row_class.__layout__
        members["pages"] = property(lambda row: [page(row) for page in pages])
        return type(source.entity.table.__name__, (Row,), members)

    def place_of(self, source: Source, name: str) -> Place:
        is_stored = name not in REQUEST_VALUES and name not in COMPUTED
        conversion = conversion_of(source.entity.columns[name]) if is_stored else None
        index = self.query.index_of(source, name)
        if self.planner.new_name and isinstance(self.query.columns[index].type, DateTime):
            conversion = text_of_json
        return index, conversion

    def add_joined(self, source: Source, link: Link, path: Path, layout: Layout) -> dict[str, property]:
        """Joins a to-one link, and returns its members; the joined row is None without a match."""
        joined = self.query.join(source, link.name)
        id_index = self.query.index_of(joined, "id")
        joined_class = self.add_rows(joined, link.selection, path)
        layout.joined[link.name] = (id_index, joined_class.__layout__)
        members = through_members(source.entity, link)
        for name, (through, column) in source.entity.through.items():
            if through == link.name and column in link.selection.columns:
                layout.columns[name] = self.place_of(joined, column)
                members[name] = shared_property(source.is_joined, *layout.columns[name])
            elif through == link.name and column in joined_class.__layout__.joined:
                layout.joined[name] = joined_class.__layout__.joined[column]
        id_of = value_at(source.is_joined, id_index)
        view: Callable[[Any], Row] = joined_class if source.is_joined else lambda row: joined_class((row,))
        members[link.name] = property(lambda row: None if id_of(row) is None else view(row))
        return members

    def add_child(self, source: Source, link: Link, target: ToOne | ToMany, path: Path) -> ChildPlan:
        """Plans linked rows with their own statement."""
        child = ChildPlan(
            node=self.planner.plan_linked(link, target),
            path=path,
            parent_index=self.query.index_of(source, target.key if isinstance(target, ToOne) else "id"),
            is_single=isinstance(target, ToOne) or target.is_single,
        )
        self.children.append(child)
        return child


def note_shown(node: PlanNode, rows: list[Any], shown: dict[int, Shown]) -> None:
    """Notes the answer sets of these rows whose answers are read, for the audit log."""
    for answer_set_of in node.shown:
        shown.update((each[-1], each) for each in map(answer_set_of, rows) if each[-1] is not None)


# --- members of row classes -----------------------------------------------------------------------


def value_at(is_joined: bool, index: int) -> Callable[[Any], Any]:
    return (lambda view: view[0][index]) if is_joined else itemgetter(index)


@lru_cache(maxsize=4096)  # indexes in rows, of which there are some hundred
def shared_property(is_joined: bool, index: int, conversion: Callable[[Any], Any] | None) -> property:
    value = value_at(is_joined, index)
    return property(value if conversion is None else lambda row: conversion(value(row)))


def through_members(entity: Entity, link: Link) -> dict[str, property]:
    """Members of the row that are members of this link's row."""
    return {
        name: property(attrgetter(f"{through}.{member}"))
        for name, (through, member) in entity.through.items()
        if through == link.name
    }
