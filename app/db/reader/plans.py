"""Compiles a selection into statements and row classes, once for each shape of selection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sqlalchemy import ColumnElement, FromClause, Select, String, and_, bindparam, func, or_, select, true
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeEngine

from app.db.reader.entities import (
    COMPUTED,
    ENTITIES,
    Entity,
    Table,
    ToMany,
    ToOne,
    reader_of,
    table_of,
)
from app.db.reader.relationship import relationship_key
from app.db.reader.selection import Link, Order, ReaderRole, Selection, Shown, Where
from app.db.sql import (
    DatabaseKind,
    IdCondition,
    Statement,
    among,
    count_parameter,
    each,
    id_parameter,
    moment_parameter,
    the_one,
)
from app.db.tables import Answer, Moment

# Planners take exponential time for joins, so a longer chain continues in another statement.
JOINS_PER_STATEMENT = 12

# Values of the request that can be selected like columns, for computed fields.
OF_REQUEST: dict[str, TypeEngine[Any]] = {"now": Moment(), "time_zone": String()}


Place = tuple[int, Callable[[Any], Any] | None]  # an index, and the conversion of the driver's value


@dataclass(frozen=True)
class Layout:
    """The indexes of the members in a row, for fast access to many rows (engine/codegen.py)."""

    columns: dict[str, Place] = field(default_factory=dict)
    joined: dict[str, tuple[int, "Layout"]] = field(default_factory=dict)
    lists: dict[str, tuple[int, "Layout"]] = field(default_factory=dict)


class Row(tuple[Any, ...]):
    """A row with its selected columns by name. There is no lazy loading."""

    __slots__ = ()
    table: ClassVar[Table]
    __layout__: ClassVar[Layout]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class PlanNode:
    """A statement, the class of its rows, and the statements for the linked rows."""

    statement: Statement
    of_one: Statement | None  # the same with one id in place of a list
    row: type[Row]
    children: list["Child"]


@dataclass(frozen=True)
class Child:
    key: Callable[[Any], Any]  # of a row above: the value by which its rows are found
    path: tuple[int, ...]  # the path of the link in the selection
    level: PlanNode
    is_single: bool
    count: Statement | None
    shows: Callable[[Any], Shown] | None  # of a row above, for answers: the answer set that is read


ValueAt = Callable[[int], Callable[[Any], Any]]  # makes a getter for the value at an index
Form = Literal["page", "ids", "children", "pages"]


@dataclass
class Sketch:
    """A statement under construction: its columns, its joins, and the index of each value."""

    entity: Entity
    role: ReaderRole
    where: tuple[Where, ...] = ()
    link: ToOne | ToMany | None = None
    order: Order | None = None
    columns: list[ColumnElement[Any]] = field(default_factory=list)
    places: dict[tuple[str, str], int] = field(default_factory=dict)
    joins: dict[tuple[str, str], tuple[FromClause, ColumnElement[bool], Entity]] = field(default_factory=dict)
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = table_of(self.entity.table).alias("t")

    @property
    def is_narrowed(self) -> bool:
        return any(where.narrows for where in self.where)

    def place(self, source: FromClause, name: str) -> int:
        """The index of the column in the rows; each column is selected once."""
        spot = (str(source.description), name)
        if spot not in self.places:
            self.places[spot] = len(self.columns)
            if name in OF_REQUEST:
                value: ColumnElement[Any] = bindparam(name, type_=OF_REQUEST[name])
            else:
                value = column_of(source, name)
            self.columns.append(value.label(f"c{len(self.columns)}"))
        return self.places[spot]

    def via(self, entity: Entity, source: FromClause, name: str) -> FromClause:
        """The table behind a to-one link; each table is joined once."""
        spot = (str(source.description), name)
        if spot not in self.joins:
            link = entity.links[name]
            assert isinstance(link, ToOne)
            target = table_of(link.target).alias(f"j{len(self.joins)}")
            self.joins[spot] = (target, target.c.id == source.c[link.key], ENTITIES[link.target])
        return self.joins[spot][0]

    def conditions(self) -> list[ColumnElement[bool]]:
        return [where.condition(*self.tables_of(where)) for where in self.where]

    def tables_of(self, where: Where) -> list[FromClause]:
        if where.via is None:
            return [self.source]
        linked = self.via(self.entity, self.source, where.via)
        return [self.source, linked] if where.beside else [linked]


def column_of(source: FromClause, name: str) -> ColumnElement[Any]:
    return COMPUTED[name](source) if name in COMPUTED else source.c[name]


def level_for(
    table: Table,
    wanted: Selection,
    role: ReaderRole,
    form: Form,
    where: tuple[Where, ...] = (),
    order: Order | None = None,
) -> PlanNode:
    """The plan of a whole selection, from the cache of the selection if it is used again."""
    key = (table, role, form, where, order)
    level: PlanNode | None = wanted.plans.get(key)
    if level is None:
        level = wanted.plans[key] = new_level(table, wanted, role, form, where, order)
    return level


@lru_cache(maxsize=1024)
def new_level(
    table: Table,
    wanted: Selection,
    role: ReaderRole,
    form: Form,
    where: tuple[Where, ...],
    order: Order | None = None,
    link: ToOne | ToMany | None = None,
) -> PlanNode:
    sketch = Sketch(ENTITIES[table], role, where, link, order)
    if link is not None:
        sketch.place(sketch.source, parent_column(link))  # first, so that rows are grouped by row[0]
    row = lay_out(sketch, sketch.entity, sketch.source, wanted, ())
    if not sketch.columns:  # SQLite needs at least one column
        sketch.place(sketch.source, "id")
    sketch.conditions()  # adds their joins before the statement is compiled
    write = FORMS[form]
    of_one = Statement(partial(write, sketch, matches=the_one)) if form in ("ids", "children") else None
    return PlanNode(Statement(partial(write, sketch)), of_one, row, sketch.children)


def parent_column(link: ToOne | ToMany) -> str:
    """The column by which the rows of another statement find their parent."""
    return link.key if isinstance(link, ToMany) else "id"


def lay_out(
    sketch: Sketch,
    entity: Entity,
    source: FromClause,
    wanted: Selection,
    path: tuple[int, ...],
    value_at: ValueAt = itemgetter,
) -> type[Row]:
    """Adds the selected columns of one table, and returns the class of its rows."""
    layout = Layout()
    members: dict[str, Any] = {"__slots__": (), "table": entity.table, "__layout__": layout}
    for name in sorted(wanted.columns):
        layout.columns[name] = place = place_of(sketch, entity, source, name)
        members[name] = column_property(place, value_at)
    pages = []
    for index, link in enumerate(wanted.links):
        target = entity.links[link.name]
        if isinstance(target, ToOne) and len(sketch.joins) < JOINS_PER_STATEMENT:
            members |= lay_out_joined(sketch, entity, source, link, (*path, index), value_at, layout)
            continue
        child = lay_out_child(sketch, source, link, target, (*path, index), value_at)
        if link.window is None:
            members |= {link.name: property(child), **members_through(entity, link)}
            if not sketch.children[-1].is_single:
                layout.lists[link.name] = (-len(sketch.children), sketch.children[-1].level.row.__layout__)
        else:
            pages.append(child)
    members["pages"] = property(lambda row: [page(row) for page in pages])
    return type(entity.table.__name__, (Row,), members)


def lay_out_joined(
    sketch: Sketch,
    entity: Entity,
    source: FromClause,
    link: Link,
    path: tuple[int, ...],
    value_at: ValueAt,
    layout: "Layout",
) -> dict[str, property]:
    """A joined row is a view of the row with its values; it is None without a match."""
    joined = sketch.via(entity, source, link.name)
    target = ENTITIES[entity.links[link.name].target]
    marker = sketch.place(joined, "id")
    is_there = value_at(marker)
    kind = lay_out(sketch, target, joined, link.wanted, path, value_at_in_view)
    layout.joined[link.name] = (marker, kind.__layout__)
    whole: Any = (lambda row: (row,)) if value_at is itemgetter else tuple
    members = members_through(entity, link)
    for name, (through, column) in entity.through.items():
        if through == link.name and column in link.wanted.columns:
            layout.columns[name] = place = place_of(sketch, target, joined, column)
            members[name] = column_property(place, value_at)
        elif through == link.name and column in kind.__layout__.joined:
            layout.joined[name] = kind.__layout__.joined[column]
    members[link.name] = property(lambda row: None if is_there(row) is None else kind(whole(row)))
    return members


def value_at_in_view(index: int) -> Callable[[Any], Any]:
    return lambda view: view[0][index]


def members_through(entity: Entity, link: Link) -> dict[str, property]:
    """Members of the row that come from this link."""
    return {
        name: property(attrgetter(f"{through}.{member}"))
        for name, (through, member) in entity.through.items()
        if through == link.name
    }


def lay_out_child(
    sketch: Sketch,
    source: FromClause,
    link: Link,
    target: ToOne | ToMany,
    path: tuple[int, ...],
    value_at: ValueAt,
) -> Callable[[Any], Any]:
    """Rows of another statement are at the end of a row in reverse order, as more columns may follow."""
    window = link.window
    where, order = (window.where, window.order) if window else ((), None)
    form: Form = "pages" if window else "children"
    counted = window is not None and window.with_total and isinstance(target, ToMany)
    at = sketch.place(source, target.key if isinstance(target, ToOne) else "id")
    sketch.children.append(
        Child(
            key=itemgetter(at),
            path=path,
            level=new_level(target.target, link.wanted, sketch.role, form, where, order, target),
            is_single=isinstance(target, ToOne) or target.is_single,
            count=count_of_children(target, sketch.role, where) if counted else None,
            shows=whose_answers(sketch, source, at) if target.target is Answer else None,
        )
    )
    return value_at(-len(sketch.children))


def whose_answers(sketch: Sketch, source: FromClause, at: int) -> Callable[[Any], Shown]:
    caregiver, client = sketch.place(source, "caregiver_id"), sketch.place(source, "client_id")
    return itemgetter(caregiver, client, sketch.place(source, "save_type"), at)


def place_of(sketch: Sketch, entity: Entity, source: FromClause, name: str) -> Place:
    read = None if name in OF_REQUEST or name in COMPUTED else reader_of(entity.columns[name])
    return sketch.place(source, name), read


def column_property(place: Place, value_at: ValueAt) -> property:
    value, read = value_at(place[0]), place[1]
    return property(value if read is None else lambda row: read(value(row)))


# --- how the statements are written ---------------------------------------------------------------


def belongs(
    source: FromClause, entity: Entity, role: ReaderRole, kind: DatabaseKind, leads: bool = False
) -> ColumnElement[bool]:
    """The relationship key, and the condition that a row must meet to be read at all."""
    if not entity.is_care:
        return true()
    only = true() if entity.only is None else entity.only(source)
    return and_(relationship_key(source, role, kind, leads), only)


def body(
    sketch: Sketch, kind: DatabaseKind, start: FromClause | None = None, leads: bool = False
) -> Select[Any]:
    source = sketch.source if start is None else start
    for target, matches, entity in sketch.joins.values():
        source = source.outerjoin(target, and_(matches, belongs(target, entity, sketch.role, kind)))
    statement = select(*sketch.columns).select_from(source)
    return statement.where(belongs(sketch.source, sketch.entity, sketch.role, kind, leads))


def beyond(order: Order | None, source: FromClause) -> list[ColumnElement[bool]]:
    """The rows after the last row of the previous page.

    The moment is compared twice, because SQLite cannot search an index by an expression and a column.
    """
    if order is None:
        return [source.c.id < id_parameter("before")]
    moment, after = column_of(source, order.column), moment_parameter("after")
    return [moment >= after, or_(moment > after, source.c.id > id_parameter("after_id"))]


def sorting(order: Order | None, source: FromClause) -> list[ColumnElement[Any]]:
    return [source.c.id.desc()] if order is None else [column_of(source, order.column), source.c.id]


def page_of_rows(sketch: Sketch, kind: DatabaseKind) -> ClauseElement:
    return (
        body(sketch, kind, leads=not sketch.is_narrowed)
        .where(*sketch.conditions(), *beyond(sketch.order, sketch.source))
        .order_by(*sorting(sketch.order, sketch.source))
        .limit(count_parameter("limit"))
        .offset(count_parameter("offset"))
    )


def rows_by_id(sketch: Sketch, kind: DatabaseKind, matches: IdCondition = among) -> ClauseElement:
    row_id = sketch.source.c.id
    return body(sketch, kind).where(*sketch.conditions(), matches(row_id, "ids", kind)).order_by(row_id)


def rows_of_parents(sketch: Sketch, kind: DatabaseKind, matches: IdCondition = among) -> ClauseElement:
    assert sketch.link is not None
    parent = sketch.source.c[parent_column(sketch.link)]
    statement = body(sketch, kind).where(matches(parent, "parents", kind))
    if isinstance(sketch.link, ToOne):
        return statement
    statement = statement.where(*only_linked(sketch.link, sketch.source))
    order = [parent, *(sketch.source.c[name] for name in sketch.link.order)]
    return statement.order_by(*[column.desc() for column in order] if sketch.link.newest_first else order)


def only_linked(link: ToMany, source: FromClause) -> list[ColumnElement[bool]]:
    return [] if link.only is None else [link.only(source)]


def pages_of_parents(sketch: Sketch, kind: DatabaseKind) -> ClauseElement:
    """The first rows of each parent by one short search per parent, without a window function.

    In another order than newest first, all rows of a parent are read and sorted.
    """
    assert isinstance(sketch.link, ToMany)
    row_id = sketch.source.c.id
    parents = each("parents", kind)
    near = table_of(sketch.entity.table).alias("n")
    few = (
        select(near.c.id)
        .where(
            near.c[sketch.link.key] == parents.c.value,
            belongs(near, sketch.entity, sketch.role, kind),
            *only_linked(sketch.link, near),
            *(where.condition(near) for where in sketch.where),
            *beyond(sketch.order, near),
        )
        .order_by(*sorting(sketch.order, near))
        .limit(count_parameter("limit"))
        .correlate(parents)
    )
    if kind == "sqlite":  # has no LATERAL, but searches by a correlated list
        start = parents.join(sketch.source, row_id.in_(few.scalar_subquery()))
    else:
        each_few = few.lateral("few")
        start = parents.join(each_few, true()).join(sketch.source, row_id == each_few.c.id)
    return body(sketch, kind, start).order_by(*sorting(sketch.order, sketch.source))


FORMS: dict[Form, Callable[..., ClauseElement]] = {
    "page": page_of_rows,
    "ids": rows_by_id,
    "children": rows_of_parents,
    "pages": pages_of_parents,
}


# --- counting -------------------------------------------------------------------------------------

Adds = Callable[[FromClause], ColumnElement[int]]


@lru_cache(maxsize=256)
def count_of_rows(
    table: Table, role: ReaderRole, where: tuple[Where, ...], adds: Adds | None = None
) -> Statement:
    """The number of rows, or the sum of a stored counter."""

    def build(kind: DatabaseKind) -> ClauseElement:
        sketch = Sketch(ENTITIES[table], role, where)
        conditions = sketch.conditions()
        sketch.columns = [func.count() if adds is None else func.coalesce(func.sum(adds(sketch.source)), 0)]
        return body(sketch, kind, leads=not sketch.is_narrowed).where(*conditions)

    return Statement(build)


@lru_cache(maxsize=256)
def count_of_children(link: ToMany, role: ReaderRole, where: tuple[Where, ...]) -> Statement:
    def build(kind: DatabaseKind) -> ClauseElement:
        sketch = Sketch(ENTITIES[link.target], role, where, link)
        parent = sketch.source.c[link.key]
        sketch.columns = [parent, func.count()]
        conditions = [*only_linked(link, sketch.source), *sketch.conditions()]
        rows = body(sketch, kind).where(*conditions, among(parent, "parents", kind))
        return rows.group_by(parent)

    return Statement(build)
