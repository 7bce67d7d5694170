"""Random selections: columns, to-one and to-many links, pages inside rows, some levels deep."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from app.care.assignments import DUE_SOONEST, has_status, is_in_session, is_of_client
from app.care.sessions import IN_TIME_STATE
from app.care.sessions import ORDERS as ORDERS_OF_SESSIONS
from app.db.reader.entities import ENTITIES, ToOne
from app.db.reader.selection import FIRST, NEWEST, AccessScope, Link, PageRequest, Selection, Where
from app.db.tables import Assignment, Session, Table, TimeState
from tests.db.random_world import ASSIGNMENTS, CAREGIVERS, CLIENTS, SESSIONS, PlainRow
from tests.db.simple_reader import SUBMITTED, WITHOUT_END_DATE, Keep, SimpleReader
from tests.factories import DAY, HOUR, NOW

DEEPEST = 4
MOST_LINKS = 3  # of the rows of a list; below them two
STATUSES = ("PENDING", "COMPLETE")
ROOTS = [table for table, entity in ENTITIES.items() if "id" in entity.columns]

ACCESS_SCOPES = st.one_of(
    st.integers(1, CAREGIVERS + 1).map(lambda number: AccessScope(NOW, caregiver=number)),
    st.integers(1, CLIENTS + 1).map(lambda number: AccessScope(NOW, client=number)),
)
ORDERS = {
    Assignment: st.sampled_from((None, DUE_SOONEST)),
    Session: st.sampled_from((None, *ORDERS_OF_SESSIONS.values())),
}
AFTER = st.one_of(
    st.just(FIRST),
    st.tuples(
        st.sampled_from((NOW - 30 * DAY, NOW - HOUR, NOW, NOW + DAY, WITHOUT_END_DATE, SUBMITTED)),
        st.integers(0, ASSIGNMENTS + 1),
    ),
)
BEFORE = st.one_of(st.just(NEWEST), st.integers(1, ASSIGNMENTS + 1))


@st.composite
def selection_of(draw: st.DrawFn, table: Table, depth: int = DEEPEST) -> Selection:
    entity = ENTITIES[table]
    columns = draw(st.frozensets(st.sampled_from([*entity.columns, "now"]), max_size=4))
    if depth == 0 or not entity.links:
        return Selection(columns)
    names = draw(
        st.lists(st.sampled_from(list(entity.links)), max_size=MOST_LINKS if depth == DEEPEST else 2)
    )
    links = [draw(link_of(table, name, index, depth)) for index, name in enumerate(names)]
    lists = {link.name: link for link in links if link.page is None}  # each is selected once
    return Selection(columns, (*lists.values(), *(link for link in links if link.page is not None)))


@st.composite
def link_of(draw: st.DrawFn, table: Table, name: str, index: int, depth: int) -> Link:
    link = ENTITIES[table].links[name]
    selection = draw(selection_of(link.target, depth - 1))
    can_page = not isinstance(link, ToOne) and "id" in ENTITIES[link.target].columns
    page = None
    if can_page and draw(st.booleans()):
        page = draw(nested_page_requests(link.target))._replace(key=f"{name}({index})")
    return Link(name, selection, page)


@st.composite
def page_starts(draw: st.DrawFn, table: Table) -> dict[str, Any]:
    """An order, and the position after which the page begins."""
    order = draw(ORDERS.get(table, st.none()))
    return {"before": draw(BEFORE)} if order is None else {"order": order, "after": draw(AFTER)}


@st.composite
def nested_page_requests(draw: st.DrawFn, table: Table) -> PageRequest:
    status = draw(st.sampled_from((None, *STATUSES))) if table is Assignment else None
    return PageRequest(
        first=draw(st.integers(1, 4)),
        **draw(page_starts(table)),
        where=(Where(has_status),) if status else (),
        values={"status": status} if status else {},
        with_rows=draw(st.booleans()),
        with_total=draw(st.booleans()),
    )


@dataclass(frozen=True)
class Filter:
    """The conditions of a list, and the same in Python."""

    where: tuple[Where, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    state: TimeState | None = None
    equal: dict[str, Any] = field(default_factory=dict)

    def keeps(self, table: Table, reader: SimpleReader) -> Keep:
        def keep(row: PlainRow) -> bool:
            if any(row[name] != value for name, value in self.equal.items()):
                return False
            if self.state is None:
                return True
            session = row if table is Session else reader.one(Session, row["session_id"])
            return session is not None and state_of(session) is self.state

        return keep


def state_of(session: PlainRow) -> TimeState:
    if session["is_closed"]:
        return TimeState.COMPLETED
    return TimeState.RUNNING if session["start_date"] <= NOW else TimeState.FUTURE


@st.composite
def filters(draw: st.DrawFn, table: Table) -> Filter:
    state = draw(st.sampled_from((None, *TimeState)))
    if table is Session:
        return Filter((Where(IN_TIME_STATE[state]),), state=state) if state else Filter()
    if table is not Assignment:
        return Filter()
    where = [Where(IN_TIME_STATE[state], via="session")] if state else []
    values: dict[str, Any] = {}
    equal: dict[str, Any] = {}
    if draw(st.booleans()):
        where.append(Where(has_status))
        values["status"] = equal["status"] = draw(st.sampled_from(STATUSES))
    if draw(st.integers(0, 3)) == 0:
        where.append(Where(is_in_session, narrows=True))
        values["in_session"] = equal["session_id"] = draw(st.integers(1, SESSIONS))
    if draw(st.integers(0, 3)) == 0:
        where.append(Where(is_of_client, narrows=True))
        values["of_client"] = equal["client_id"] = draw(st.integers(1, CLIENTS))
    return Filter(tuple(where), values, state, equal)


@dataclass(frozen=True)
class ReadRequest:
    table: Table
    access: AccessScope
    selection: Selection
    page: PageRequest
    filter: Filter
    ids: list[int]


@st.composite
def read_requests(draw: st.DrawFn) -> ReadRequest:
    table = draw(st.sampled_from([Session, Assignment, *ROOTS]))  # the roots of lists twice
    filter = draw(filters(table))
    page = PageRequest(
        first=draw(st.integers(1, 12)),
        **draw(page_starts(table)),
        offset=draw(st.sampled_from((0, 0, 3, 200))),
        where=filter.where,
        values=filter.values,
        with_rows=draw(st.integers(0, 4)) > 0,
        with_total=draw(st.booleans()),
    )
    ids = draw(st.lists(st.integers(0, ASSIGNMENTS + 2), max_size=12))
    return ReadRequest(table, draw(ACCESS_SCOPES), draw(selection_of(table)), page, filter, ids)
