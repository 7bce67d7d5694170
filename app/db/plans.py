"""How a selection becomes statements and row classes: made once per shape of selection, then only run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sqlalchemy import ColumnElement, FromClause, Select, and_, bindparam, func, select, true
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ClauseElement, UnaryExpression

from app.db.entities import ENTITIES, Entity, Table, ToMany, ToOne, read_moment, reader_of, table_of
from app.db.selection import Link, ViewerRole, Wanted, Where
from app.db.statements import DatabaseKind, Statement, among, count_parameter, each, id_parameter
from app.db.tables import Moment

JOINS_PER_STATEMENT = (
    12  # planners take exponential time over joins: a longer chain goes on in a statement of its own
)


class Row(tuple[Any, ...]):
    """What the database gave, read by name. What was not asked for is not there: nothing loads later."""

    __slots__ = ()
    table: ClassVar[Table]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Level:
    """One statement, what its rows become, and the statements whose rows belong to them."""

    statement: Statement
    row: type[Row]
    children: list["Child"]


@dataclass(frozen=True)
class Child:
    at: int  # where the rows above hold the value that these rows name
    path: tuple[int, ...]  # where the selection holds the link
    level: Level
    is_single: bool
    is_paged: bool
    count: Statement | None


Form = Literal["page", "ids", "children", "pages"]


@dataclass
class Draft:
    """A statement while it is drawn up: its columns, its joins, and where each value stands in its rows."""

    entity: Entity
    role: ViewerRole
    where: tuple[Where, ...] = ()
    link: ToOne | ToMany | None = None
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
        """Where the column stands in the rows; it is selected once, whoever asks."""
        spot = (str(source.description), name)
        if spot not in self.places:
            self.places[spot] = len(self.columns)
            value = bindparam("now", type_=Moment) if name == "now" else source.c[name]
            self.columns.append(value.label(f"c{len(self.columns)}"))
        return self.places[spot]

    def via(self, entity: Entity, source: FromClause, name: str) -> FromClause:
        """The table that a to-one link leads to; joined once, whoever asks."""
        spot = (str(source.description), name)
        if spot not in self.joins:
            link = entity.links[name]
            assert isinstance(link, ToOne)
            target = table_of(link.target).alias(f"j{len(self.joins)}")
            self.joins[spot] = (target, target.c.id == source.c[link.key], ENTITIES[link.target])
        return self.joins[spot][0]

    def conditions(self) -> list[ColumnElement[bool]]:
        return [
            where.says(self.source if where.via is None else self.via(self.entity, self.source, where.via))
            for where in self.where
        ]


@lru_cache(maxsize=1024)
def level_for(
    table: Table,
    wanted: Wanted,
    role: ViewerRole,
    form: Form,
    where: tuple[Where, ...] = (),
    link: ToOne | ToMany | None = None,
) -> Level:
    draft = Draft(ENTITIES[table], role, where, link)
    if link is not None:
        draft.place(draft.source, parent_column(link))  # first, so that rows are grouped by row[0]
    row = lay_out(draft, draft.entity, draft.source, wanted, ())
    if not draft.columns:  # rows may be wanted bare, but SQLite selects none without a column
        draft.place(draft.source, "id")
    draft.conditions()  # joins what they speak of, before the statement is written
    write = FORMS[form]
    return Level(Statement(lambda kind: write(draft, kind)), row, draft.children)


def parent_column(link: ToOne | ToMany) -> str:
    """The column by which the rows of a further statement find the row they belong to."""
    return link.key if isinstance(link, ToMany) else "id"


def lay_out(
    draft: Draft, entity: Entity, source: FromClause, wanted: Wanted, path: tuple[int, ...]
) -> type[Row]:
    """Place what is wanted of one table; the class that reads it from the statement's rows."""
    members: dict[str, Any] = {"__slots__": (), "table": entity.table}
    for name in sorted(wanted.columns):
        read = read_moment if name == "now" else reader_of(entity.columns[name])
        members[name] = column_property(draft.place(source, name), read)
    for index, link in enumerate(wanted.links):
        target = entity.links[link.name]
        if isinstance(target, ToOne) and len(draft.joins) < JOINS_PER_STATEMENT:
            members[link.key] = lay_out_joined(draft, entity, source, link, (*path, index))
        else:
            members[link.key] = lay_out_child(draft, source, link, target, (*path, index))
    return type(entity.table.__name__, (Row,), members)


def lay_out_joined(
    draft: Draft, entity: Entity, source: FromClause, link: Link, path: tuple[int, ...]
) -> property:
    """A joined row is another reading of the same values; where the outer join found nothing it is None."""
    joined = draft.via(entity, source, link.name)
    marker = draft.place(joined, "id")
    row = lay_out(draft, ENTITIES[entity.links[link.name].target], joined, link.wanted, path)
    return property(lambda values: None if values[marker] is None else tuple.__new__(row, values))


def lay_out_child(
    draft: Draft, source: FromClause, link: Link, target: ToOne | ToMany, path: tuple[int, ...]
) -> property:
    """Rows of a statement of their own stand behind the columns, of which there may be more to come."""
    window = link.window
    where = window.where if window else ()
    counted = window is not None and window.with_total and isinstance(target, ToMany)
    draft.children.append(
        Child(
            at=draft.place(source, target.key if isinstance(target, ToOne) else "id"),
            path=path,
            level=level_for(
                target.target, link.wanted, draft.role, "pages" if window else "children", where, target
            ),
            is_single=isinstance(target, ToOne) or target.is_single,
            is_paged=window is not None,
            count=count_of_children(target, draft.role, where) if counted else None,
        )
    )
    position = len(draft.children) - 1
    columns = draft.columns
    return property(lambda values: values[len(columns) + position])


def column_property(index: int, read: Callable[[Any], Any] | None) -> property:
    return property(itemgetter(index) if read is None else lambda values: read(values[index]))


# --- how the statements are written


def belongs(
    source: FromClause, entity: Entity, role: ViewerRole, kind: DatabaseKind, leads: bool = False
) -> ColumnElement[bool]:
    """The relationship key, named on every level of every statement (docs/decisions/0006).

    It leads where rows are found by it alone. Elsewhere SQLite, without statistics, must not choose its
    index: walking all rows of a caregiver to find those of one session would take longer every year.
    """
    if not entity.is_care:
        return true()
    caregiver: ColumnElement[Any] = source.c.caregiver_id
    client: ColumnElement[Any] = source.c.client_id
    if kind == "sqlite":
        if not (leads and role == "caregiver"):
            caregiver = without_index(caregiver)
        if not leads:
            client = without_index(client)
    if role == "caregiver":
        return caregiver == id_parameter("caregiver")
    if role == "client":
        return and_(client == id_parameter("client"), among(caregiver, "caregivers", kind))
    raise PermissionError(f"{entity.table.__name__} is read without a viewer")


def without_index(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """SQLite takes a column behind a plus as it is, but looks for no index on it."""
    return UnaryExpression(column, operator=operators.custom_op("+"), type_=column.type)


def body(
    draft: Draft, kind: DatabaseKind, start: FromClause | None = None, leads: bool = False
) -> Select[Any]:
    source = draft.source if start is None else start
    for target, matches, entity in draft.joins.values():
        source = source.outerjoin(target, and_(matches, belongs(target, entity, draft.role, kind)))
    statement = select(*draft.columns).select_from(source)
    return statement.where(belongs(draft.source, draft.entity, draft.role, kind, leads))


def page_of_rows(draft: Draft, kind: DatabaseKind) -> ClauseElement:
    row_id = draft.source.c.id
    return (
        body(draft, kind, leads=not draft.is_narrowed)
        .where(*draft.conditions(), row_id < id_parameter("before"))
        .order_by(row_id.desc())
        .limit(count_parameter("limit"))
        .offset(count_parameter("offset"))
    )


def rows_by_id(draft: Draft, kind: DatabaseKind) -> ClauseElement:
    row_id = draft.source.c.id
    return body(draft, kind).where(*draft.conditions(), among(row_id, "ids", kind)).order_by(row_id)


def rows_of_parents(draft: Draft, kind: DatabaseKind) -> ClauseElement:
    assert draft.link is not None
    parent = draft.source.c[parent_column(draft.link)]
    statement = body(draft, kind).where(among(parent, "parents", kind))
    if isinstance(draft.link, ToOne):
        return statement
    statement = statement.where(*only_linked(draft.link, draft.source))
    order = [parent, *(draft.source.c[name] for name in draft.link.order)]
    return statement.order_by(*[column.desc() for column in order] if draft.link.newest_first else order)


def only_linked(link: ToMany, source: FromClause) -> list[ColumnElement[bool]]:
    return [] if link.only is None else [link.only(source)]


def pages_of_parents(draft: Draft, kind: DatabaseKind) -> ClauseElement:
    """The newest few of each parent, however many each has: a short search per parent, no window over all."""
    assert isinstance(draft.link, ToMany)
    row_id = draft.source.c.id
    parents = each("parents", kind)
    near = table_of(draft.entity.table).alias("n")
    newest = (
        select(near.c.id)
        .where(
            near.c[draft.link.key] == parents.c.value,
            belongs(near, draft.entity, draft.role, kind),
            *only_linked(draft.link, near),
            *(where.says(near) for where in draft.where),
            near.c.id < id_parameter("before"),
        )
        .order_by(near.c.id.desc())
        .limit(count_parameter("limit"))
        .correlate(parents)
    )
    if kind == "sqlite":  # knows no LATERAL, but searches by a correlated list
        start = parents.join(draft.source, row_id.in_(newest.scalar_subquery()))
    else:
        few = newest.lateral("few")
        start = parents.join(few, true()).join(draft.source, row_id == few.c.id)
    return body(draft, kind, start).order_by(row_id.desc())


FORMS: dict[Form, Callable[[Draft, DatabaseKind], ClauseElement]] = {
    "page": page_of_rows,
    "ids": rows_by_id,
    "children": rows_of_parents,
    "pages": pages_of_parents,
}


# --- counting

Adds = Callable[[FromClause], ColumnElement[int]]


@lru_cache(maxsize=256)
def count_of_rows(
    table: Table, role: ViewerRole, where: tuple[Where, ...], adds: Adds | None = None
) -> Statement:
    """How many rows there are, or the sum of a number that each of them keeps."""

    def build(kind: DatabaseKind) -> ClauseElement:
        draft = Draft(ENTITIES[table], role, where)
        conditions = draft.conditions()
        draft.columns = [func.count() if adds is None else func.coalesce(func.sum(adds(draft.source)), 0)]
        return body(draft, kind, leads=not draft.is_narrowed).where(*conditions)

    return Statement(build)


@lru_cache(maxsize=256)
def count_of_children(link: ToMany, role: ViewerRole, where: tuple[Where, ...]) -> Statement:
    def build(kind: DatabaseKind) -> ClauseElement:
        draft = Draft(ENTITIES[link.target], role, where, link)
        parent = draft.source.c[link.key]
        draft.columns = [parent, func.count()]
        conditions = [*only_linked(link, draft.source), *draft.conditions()]
        rows = body(draft, kind).where(*conditions, among(parent, "parents", kind))
        return rows.group_by(parent)

    return Statement(build)
