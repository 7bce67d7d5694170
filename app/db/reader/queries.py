"""Writes the SELECT statements of reads: columns, joins, conditions and order (plans.py decides what they
select)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, FromClause, Select, String, and_, bindparam, func, or_, select, true
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.sql.visitors import replacement_traverse
from sqlalchemy.types import TypeEngine

from app.db.moments import Moment
from app.db.reader.access import SCOPE_PARAMETERS, has_caregiver_of, relationship_key
from app.db.reader.entities import COMPUTED, ENTITIES, Entity, ToMany, ToOne
from app.db.reader.named_tables import NamedTable, NewName, named_table, numbering
from app.db.reader.selection import Order, ReaderRole, Where
from app.db.sql import DatabaseKind, PerDatabase, among, count_parameter, each, id_parameter, moment_parameter
from app.db.tables import Table

# Values of the request that can be selected like columns, for computed fields.
REQUEST_VALUES: dict[str, TypeEngine[Any]] = {"now": Moment, "time_zone": String()}

Form = Literal["page", "ids", "children", "pages"]
IdCondition = Callable[[ColumnElement[Any], str], ColumnElement[bool]]  # of a column and a parameter


@dataclass(frozen=True)
class Source:
    """A table of a query: the table of its rows, or a table joined to it."""

    entity: Entity
    table: NamedTable
    is_joined: bool = False


@dataclass
class Query:
    """The columns and joins of a SELECT, collected before it is written."""

    entity: Entity
    role: ReaderRole
    where: tuple[Where, ...] = ()
    order: Order | None = None
    link: ToOne | ToMany | None = None  # leads from the parents to these rows
    new_name: NewName = field(default_factory=numbering)
    columns: list[ColumnElement[Any]] = field(default_factory=list)
    indexes: dict[tuple[FromClause, str], int] = field(default_factory=dict)
    joins: dict[tuple[FromClause, str], tuple[Source, ColumnElement[bool]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = named_table(self.entity.table, self.new_name)
        self.source = Source(self.entity, self.table)

    def index_of(self, source: Source, name: str) -> int:
        """The index of the column in the rows; each column is selected once."""
        key = (source.table, name)
        if key not in self.indexes:
            self.indexes[key] = len(self.columns)
            if name in REQUEST_VALUES:
                value: ColumnElement[Any] = bindparam(name, type_=REQUEST_VALUES[name])
            else:
                value = column_of(source.table, name)
            self.columns.append(value.label(f"c{len(self.columns)}"))
        return self.indexes[key]

    def join(self, source: Source, name: str) -> Source:
        """The table behind a to-one link; each table is joined once."""
        key = (source.table, name)
        if key not in self.joins:
            link = source.entity.links[name]
            assert isinstance(link, ToOne)
            table = named_table(link.target, self.new_name)
            joined = Source(ENTITIES[link.target], table, is_joined=True)
            matches = table.c.id == source.table.c[link.key]
            if self.role == "client" and joined.entity.is_care:  # of several caregivers
                same = has_caregiver_of(table, source.table)
                matches = PerDatabase(sqlite=matches, postgresql=and_(matches, same))
            self.joins[key] = (joined, matches)
        return self.joins[key][0]

    def conditions(self) -> list[ColumnElement[bool]]:
        return [where.condition(*self.tables_of(where)) for where in self.where]

    def tables_of(self, where: Where) -> list[FromClause]:
        if where.via is None:
            return [self.table]
        linked = self.join(self.source, where.via).table
        return [self.table, linked] if where.beside else [linked]

    @property
    def uses_key_index(self) -> bool:
        """Is there no condition with a better index than the one of the relationship key?"""
        return not any(where.narrows for where in self.where)

    def select(self, start: FromClause | None = None, uses_index: bool = False) -> Select[Any]:
        """The SELECT with its joins and access conditions, from `start` if the rows are not read directly."""
        statement = select(*self.columns).select_from(self.joined_to(self.table if start is None else start))
        return statement.where(is_readable(self.source, self.role, uses_index))

    def joined_to(self, rows: FromClause) -> FromClause:
        for joined, matches in self.joins.values():
            rows = rows.outerjoin(joined.table, and_(matches, is_readable(joined, self.role)))
        return rows


def column_of(table: FromClause, name: str) -> ColumnElement[Any]:
    return COMPUTED[name](table) if name in COMPUTED else table.c[name]


def parent_column(link: ToOne | ToMany) -> str:
    """The column by which linked rows find their parent."""
    return link.key if isinstance(link, ToMany) else "id"


# --- conditions and order -------------------------------------------------------------------------


def is_readable(source: Source, role: ReaderRole, uses_index: bool = False) -> ColumnElement[bool]:
    """The access conditions of a table: the relationship key, and the condition of the entity."""
    if not source.entity.is_care:
        return true()
    condition = source.entity.condition
    key = relationship_key(source.table, role, uses_index)
    return key if condition is None else and_(key, condition(source.table))


def is_after_previous_page(
    order: Order | None, table: FromClause, number: str = ""
) -> list[ColumnElement[bool]]:
    """The moment is compared twice, because SQLite cannot search an index by an expression and a column.

    `number` is a part of the names of the parameters, if the statement has several pages.
    """
    if order is None:
        return [table.c.id < id_parameter(f"before{number}")]
    moment, after = column_of(table, order.column), moment_parameter(f"after{number}")
    return [moment >= after, or_(moment > after, table.c.id > id_parameter(f"after_id{number}"))]


def sort_columns(order: Order | None, table: FromClause) -> list[ColumnElement[Any]]:
    return [table.c.id.desc()] if order is None else [column_of(table, order.column), table.c.id]


def link_conditions(link: ToMany, table: FromClause) -> list[ColumnElement[bool]]:
    return [] if link.condition is None else [link.condition(table)]


def is_of_parent(
    link: ToOne | ToMany | None, table: FromClause, parent: ColumnElement[Any]
) -> ColumnElement[bool]:
    assert link is not None
    matches = table.c[parent_column(link)] == parent
    return and_(matches, *link_conditions(link, table)) if isinstance(link, ToMany) else matches


def order_of_linked(link: ToOne | ToMany | None, table: FromClause) -> list[ColumnElement[Any]]:
    assert isinstance(link, ToMany)
    columns = [table.c[name] for name in link.order]
    return [column.desc() for column in columns] if link.newest_first else list(columns)


def with_number(condition: ColumnElement[bool], number: str) -> ColumnElement[bool]:
    """The condition with a number in the names of its parameters that have values in a request for a page."""

    def replace(element: Any, **_: Any) -> Any:
        if isinstance(element, BindParameter) and element.required and element.key not in SCOPE_PARAMETERS:
            return bindparam(f"{element.key}{number}", type_=element.type)
        return None

    return replacement_traverse(condition, {}, replace) if number else condition


# --- statements by form ---------------------------------------------------------------------------


def select_rows(query: Query, form: Form, kind: DatabaseKind) -> Select[Any]:
    if form in ROWS_OF_IDS:
        return ROWS_OF_IDS[form](query, among)
    if form == "page":
        return page_of_rows(query)
    is_scattered = kind == "citus" and query.entity.is_care
    return pages_of_several(query) if is_scattered else pages_of_parents(query, kind)


def page_of_rows(query: Query) -> Select[Any]:
    return (
        query.select(uses_index=query.uses_key_index)
        .where(*query.conditions(), *is_after_previous_page(query.order, query.table))
        .order_by(*sort_columns(query.order, query.table))
        .limit(count_parameter("limit"))
        .offset(count_parameter("offset"))
    )


def rows_by_id(query: Query, matches: IdCondition) -> Select[Any]:
    row_id = query.table.c.id
    return query.select().where(*query.conditions(), matches(row_id, "ids")).order_by(row_id)


def rows_of_parents(query: Query, matches: IdCondition) -> Select[Any]:
    link = query.link
    assert link is not None
    parent = query.table.c[parent_column(link)]
    statement = query.select().where(matches(parent, "parents"))
    if isinstance(link, ToOne):
        return statement
    order = [parent, *(query.table.c[name] for name in link.order)]
    statement = statement.where(*link_conditions(link, query.table))
    return statement.order_by(*[column.desc() for column in order] if link.newest_first else order)


def pages_of_parents(query: Query, kind: DatabaseKind) -> Select[Any]:
    """The first rows of each parent by one short search per parent, without a window function.

    In another order than newest first, all rows of a parent are read and sorted.
    """
    assert isinstance(query.link, ToMany)
    parents = each("parents", kind)
    table = named_table(query.entity.table, lambda _: "n")
    page = (
        select(table.c.id)
        .select_from(table)
        .where(table.c[query.link.key] == parents.c.value, *conditions_of_page(query, query.link, table))
        .order_by(*sort_columns(query.order, table))
        .limit(count_parameter("limit"))
        .correlate(parents)
    )
    # SQLite has no LATERAL, but searches by a correlated list.
    start = parents.join(query.table, query.table.c.id.in_(page.scalar_subquery()))
    return query.select(start).order_by(*sort_columns(query.order, query.table))


def pages_of_several(query: Query) -> Select[Any]:
    """The same on Citus, which limits rows on several machines only by numbering those of each caregiver."""
    assert isinstance(query.link, ToMany)
    table = named_table(query.entity.table, lambda _: "n")
    of_parent = [table.c.caregiver_id, table.c[query.link.key]]
    number = func.row_number().over(partition_by=of_parent, order_by=sort_columns(query.order, table))
    numbered = (
        select(table.c.id.label("id"), table.c.caregiver_id.label("caregiver_id"), number.label("number"))
        .select_from(table)
        .where(among(table.c[query.link.key], "parents"), *conditions_of_page(query, query.link, table))
        .subquery("numbered")
    )
    found = query.table.c
    matches = and_(found.id == numbered.c.id, found.caregiver_id == numbered.c.caregiver_id)
    rows = query.select(numbered.join(query.table, matches))
    on_page = numbered.c.number <= count_parameter("limit")
    return rows.where(on_page).order_by(*sort_columns(query.order, query.table))


def conditions_of_page(query: Query, link: ToMany, table: NamedTable) -> list[ColumnElement[bool]]:
    """The conditions of linked rows in `table`, an alias of the table of the query."""
    return [
        is_readable(Source(query.entity, table), query.role),
        *link_conditions(link, table),
        *(where.condition(table) for where in query.where),
        *is_after_previous_page(query.order, table),
    ]


# With the condition of a list of ids, or of one id.
ROWS_OF_IDS: dict[Form, Callable[[Query, IdCondition], Select[Any]]] = {
    "ids": rows_by_id,
    "children": rows_of_parents,
}


# --- counting -------------------------------------------------------------------------------------

StoredCounter = Callable[[FromClause], ColumnElement[int]]  # a stored counter of the (aliased) table


class CountedBy(NamedTuple):
    """A total as the sum of a stored counter, so that no long list is counted."""

    table: Table
    counter: StoredCounter | None
    where: tuple[Where, ...]


def select_count(counted: CountedBy, role: ReaderRole) -> Select[Any]:
    """The number of rows, or the sum of a stored counter."""
    query = Query(ENTITIES[counted.table], role, counted.where)
    conditions, counter = query.conditions(), counted.counter
    query.columns = [func.count() if counter is None else func.coalesce(func.sum(counter(query.table)), 0)]
    return query.select(uses_index=query.uses_key_index).where(*conditions)


def select_count_of_linked(query: Query, parent: ColumnElement[Any], number: str) -> Select[Any]:
    """The number of linked rows of one parent, in a sub-query."""
    counted = Query(query.entity, query.role, query.where, link=query.link, new_name=query.new_name)
    conditions = [with_number(condition, number) for condition in counted.conditions()]
    counted.columns = [func.count()]
    return counted.select().where(*conditions, is_of_parent(query.link, counted.table, parent))


def select_count_of_children(link: ToMany, role: ReaderRole, where: tuple[Where, ...]) -> Select[Any]:
    """The number of linked rows of each parent."""
    query = Query(ENTITIES[link.target], role, where)
    parent = query.table.c[link.key]
    query.columns = [parent, func.count()]
    conditions = [*link_conditions(link, query.table), *query.conditions()]
    return query.select().where(*conditions, among(parent, "parents")).group_by(parent)
