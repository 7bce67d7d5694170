"""For every selection the planned reads return what the simple reader returns, also for inconsistent rows."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from app.care.assignments import DUE_SOONEST, has_status
from app.care.sessions import ORDERS as ORDERS_OF_SESSIONS
from app.db.reader import document, levels, plan_cache
from app.db.reader.entities import ENTITIES
from app.db.reader.plan_cache import PlanCache
from app.db.reader.plans import JOINS_PER_STATEMENT
from app.db.reader.reads import CountedBy, Row, get_rows, list_rows
from app.db.reader.selection import AccessScope, Link, Order, PageRequest, Selection, Where
from app.db.tables import AnswerSet, Assignment, Book, Client, Feedback, Module, Reminder, Session, Table
from tests.db.conftest import OpenWorld, opened
from tests.db.random_world import ASSIGNMENTS, CAREGIVERS
from tests.db.selections import ReadRequest, read_requests
from tests.db.simple_reader import SimpleReader, as_plain, typed
from tests.factories import NOW

ALL = PageRequest(first=ASSIGNMENTS)
IDS = Selection(frozenset({"id"}))
ORDERS: dict[Table, tuple[Order | None, ...]] = {
    **dict.fromkeys((Client, Book, AnswerSet, Feedback, Reminder), (None,)),
    Session: (None, *ORDERS_OF_SESSIONS.values()),
    Assignment: (None, DUE_SOONEST),
}
VIEWERS = {"caregiver": AccessScope(NOW, caregiver=1), "client": AccessScope(NOW, client=2)}

# They share a world, because they only read it.
some_requests = settings(
    max_examples=80,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],  # selections are trees
)


@some_requests
@given(read=read_requests())
def test_a_page_and_rows_by_id_equal_those_of_the_simple_reader(world: OpenWorld, read: ReadRequest) -> None:
    compare(world, read)


def compare(world: OpenWorld, read: ReadRequest) -> None:
    """One request is read in both ways: drawing it takes four times as long as reading it."""
    reader = SimpleReader(world.plain, read.access)

    page = world.read(list_rows(read.table, read.access, read.page, read.selection))
    rows = world.read(get_rows(read.table, read.access, read.ids, read.selection))

    keep = read.filter.keeps(read.table, reader)
    expected_page = reader.list_rows(read.table, read.page, keep, read.selection)
    expected_rows = reader.get_rows(read.table, read.ids, read.selection)
    assert typed(as_plain(page, read.selection)) == typed(expected_page)
    assert typed(as_plain(rows, read.selection)) == typed(expected_rows)


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("length", [1, JOINS_PER_STATEMENT, JOINS_PER_STATEMENT + 1, 26, 40])
def test_a_chain_of_links_continues_in_another_statement(world: OpenWorld, viewer: str, length: int) -> None:
    access, selection = VIEWERS[viewer], chain(length)

    page = world.read(list_rows(Assignment, access, ALL, selection))

    expected = SimpleReader(world.plain, access).list_rows(Assignment, ALL, lambda _: True, selection)
    assert len(page.rows) > 5
    assert typed(as_plain(page, selection)) == typed(expected)


def test_no_statement_has_more_than_twelve_joins() -> None:
    plan = levels.plan_of_page(
        Assignment, chain(40), "caregiver", PageRequest(), CountedBy(Assignment, None, ()), "sqlite"
    )
    nodes, joins = [plan.root], []

    while nodes:
        node = nodes.pop()
        assert node.statement is not None
        joins.append(node.statement.for_("sqlite").sql.count(" JOIN "))
        nodes += [child.node for child in node.children]

    assert joins == [12, 12, 12, 1]


@pytest.mark.parametrize("viewer", VIEWERS)
def test_several_links_of_a_row_continue_in_another_statement(world: OpenWorld, viewer: str) -> None:
    """Each row of the chain also selects people, and an assignment its book, module and answer sets."""
    access, selection = VIEWERS[viewer], chain(9, beside=True)

    page = world.read(list_rows(Assignment, access, ALL, selection))

    expected = SimpleReader(world.plain, access).list_rows(Assignment, ALL, lambda _: True, selection)
    assert typed(as_plain(page, selection)) == typed(expected)


@pytest.mark.parametrize("viewer", VIEWERS)
def test_members_of_a_book_are_members_of_its_assignment(world: OpenWorld, viewer: str) -> None:
    """The statement of the assignment may join the book or not."""
    rows = world.read(list_rows(Assignment, VIEWERS[viewer], ALL, chain(9, beside=True))).rows

    for _ in range(4):
        assert [(row.name, row.module) for row in rows] == [(row.book.name, row.book.module) for row in rows]
        sessions = [row.session for row in rows if row.session is not None]
        rows = [row.latest_assignment for row in sessions if row.latest_assignment is not None]
        assert rows


@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=4), AccessScope(NOW, client=1)])
@pytest.mark.parametrize("table", [Client, Book, Session, Assignment, AnswerSet, Feedback, Reminder])
def test_linked_rows_are_in_the_order_of_their_link(
    world: OpenWorld, access: AccessScope, table: Table
) -> None:
    ids = Selection(frozenset({"id"}))
    selection = Selection(frozenset(), tuple(Link(name, ids) for name in ENTITIES[table].links))

    page = world.read(list_rows(table, access, ALL, selection))

    expected = SimpleReader(world.plain, access).list_rows(table, ALL, lambda _: True, selection)
    assert typed(as_plain(page, selection)) == typed(expected)


PARTS = {"rows": (True, False), "total": (False, True), "both": (True, True)}
STARTS: list[dict[str, Any]] = [
    {},
    {"before": 30},
    {"order": DUE_SOONEST},
    {"order": DUE_SOONEST, "after": (NOW, 0)},
]
PAGES = tuple(
    PageRequest(
        first=first,
        **start,
        key=f"{first} {status} {start} {part}",
        where=(Where(has_status),) if status else (),
        values={"status": status} if status else {},
        with_rows=with_rows,
        with_total=with_total,
    )
    for first, status in ((1, None), (2, "PENDING"), (3, "COMPLETE"))
    for start in STARTS
    for part, (with_rows, with_total) in PARTS.items()
)


@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=4), AccessScope(NOW, client=1)])
@pytest.mark.parametrize("depth", [1, 2])
def test_pages_of_every_form_within_rows_have_their_rows_and_totals(
    world: OpenWorld, access: AccessScope, depth: int
) -> None:
    """In the second depth they are in the session of each row of a page, so that one session occurs often."""
    selection = Selection(IDS.columns, tuple(Link("assignments", IDS, page) for page in PAGES))
    if depth == 2:
        with_session = Selection(IDS.columns, (Link("session", selection),))
        selection = Selection(IDS.columns, (Link("assignments", with_session, PageRequest(2, key="outer")),))

    page = world.read(list_rows(Session, access, ALL, selection))

    expected = SimpleReader(world.plain, access).list_rows(Session, ALL, lambda _: True, selection)
    assert typed(as_plain(page, selection)) == typed(expected)


@pytest.fixture(scope="module")
def merging(world: OpenWorld) -> Iterator[OpenWorld]:
    """PostgreSQL sorts rows to join them, so that not even those of a page keep their order."""
    yield from opened(f"{world.url}?enable_nestloop=off&enable_hashjoin=off", world.kind)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("access", [AccessScope(NOW, 4), *(AccessScope(NOW, client=n) for n in (1, 2))])
@pytest.mark.parametrize("table", ORDERS)
def test_rows_are_in_their_order_in_whichever_order_postgresql_stores_them(
    merging: OpenWorld, access: AccessScope, table: Table
) -> None:
    """Lists, rows by id, linked rows and their pages; several rows share a moment."""
    reader, selection, ids = SimpleReader(merging.plain, access), with_links(table), list(range(ASSIGNMENTS))

    rows = merging.read(get_rows(table, access, ids, selection))

    assert as_plain(rows, selection) == reader.get_rows(table, ids, selection)
    for request in [PageRequest(first, order=order) for order in ORDERS[table] for first in (3, ASSIGNMENTS)]:
        page = merging.read(list_rows(table, access, request, selection))
        assert as_plain(page, selection) == reader.list_rows(table, request, lambda _: True, selection)


def with_links(table: Table) -> Selection:
    """All linked rows, and the first assignments in each order, with their books."""
    links = [Link(name, IDS) for name in ENTITIES[table].links]
    with_books = Selection(IDS.columns, (Link("book", IDS),))
    for order in ORDERS[Assignment] if "assignments" in ENTITIES[table].links else ():
        links.append(Link("assignments", with_books, PageRequest(5, order=order, key=str(order))))
    return Selection(IDS.columns, tuple(links))


@pytest.mark.parametrize("first", [2, ASSIGNMENTS])
def test_the_answer_sets_on_the_page_are_noted_for_the_audit_log(world: OpenWorld, first: int) -> None:
    """Some feedback has an answer set of another relationship, which is not read."""
    selection = Selection(frozenset({"id"}), (Link("answer_set", Selection(frozenset({"id", "answers"}))),))
    linked = []
    for caregiver in range(1, CAREGIVERS + 1):
        access = AccessScope(NOW, caregiver=caregiver)

        page = world.read(list_rows(Feedback, access, PageRequest(first=first), selection))

        found = [row.answer_set for row in page.rows]
        assert sorted(access.shown) == sorted(each.id for each in found if each)
        assert {each[0] for each in access.shown.values()} <= {caregiver}
        linked += found
    assert any(linked) and None in linked


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_rows_of_any_number_of_values_are_read(world: OpenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of PostgreSQL takes a limited number of values, here from fewer to more than a row has."""
    access, length = VIEWERS["caregiver"], 3
    expected = SimpleReader(world.plain, access).list_rows(
        Assignment, ALL, lambda _: True, chain(length, beside=True)
    )
    for limit in range(6, 36):
        monkeypatch.setattr(document, "MAX_ARGUMENTS", limit)
        monkeypatch.setattr(plan_cache, "PLANS", PlanCache())
        selection = chain(length, beside=True)

        page = world.read(list_rows(Assignment, access, ALL, selection))

        assert typed(as_plain(page, selection)) == typed(expected)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_document_of_postgresql_may_have_the_length_of_the_limit(
    world: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = len("[null, [[1]]]")  # no total, and one row with one column

    def read_within(longest: int) -> list[Row]:
        monkeypatch.setattr(document, "MAX_DOCUMENT", longest)
        monkeypatch.setattr(plan_cache, "PLANS", PlanCache())
        return world.read(get_rows(Module, AccessScope(NOW), [1], Selection(frozenset({"id"}))))

    assert [row.id for row in read_within(length)] == [1]
    with pytest.raises(document.ReadTooLong):
        read_within(length - 1)


def chain(length: int, beside: bool = False, is_session: bool = False) -> Selection:
    """An assignment's session's latest assignment's session, and so on."""
    columns = frozenset({"id", "title"} if is_session else {"id", "status"})
    if length == 0:
        return Selection(columns)
    name = "latest_assignment" if is_session else "session"
    further = Link(name, chain(length - 1, beside, not is_session))
    if not beside:
        return Selection(columns, (further,))
    names = Selection(frozenset({"name"}))
    people = (Link("caregiver", names), Link("client", names))
    if is_session:
        return Selection(columns, (*people, further))
    book = Link("book", Selection(frozenset({"name"}), (Link("module", names),)))
    sets = Link("answer_sets", Selection(frozenset({"id"})))
    return Selection(columns, (*people, book, further, sets))
