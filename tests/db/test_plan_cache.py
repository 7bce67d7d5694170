"""Plans are cached by the shape of a selection, without its values. The cache is bounded by their memory, and
holds no expression of SQLAlchemy."""

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import combinations
from threading import get_ident
from typing import Any
from weakref import ref

import pytest

from app.care.assignments import AssignmentFilter, filtered, has_status, is_in_session
from app.care.books import HasWord
from app.care.sessions import IN_TIME_STATE
from app.db.drivers.interface import Database
from app.db.reader import document, levels, plan_cache
from app.db.reader.access import ReaderScope
from app.db.reader.entities import ENTITIES
from app.db.reader.named_tables import Columns, NamedTable
from app.db.reader.plan_cache import MAX_PLANS_OF_SELECTION, Plan, PlanCache
from app.db.reader.queries import CountedBy, Query
from app.db.reader.selection import Link, PageRequest, ReaderRole, Selection, Where
from app.db.sql import DIALECTS, DatabaseKind, LongWork, Statement, Steps
from app.db.tables import Assignment, AssignmentStatus, Book, Session, Table, TimeState
from tests.db.small_steps import COUNT_MODULES, with_database
from tests.leftovers import in_memory

KINDS: tuple[DatabaseKind, ...] = ("sqlite", "postgresql")
COLUMNS = sorted({"status", "score", "attempt", "start_date", "end_date", "assign_date", "submit_date"})
SUBSETS = [frozenset(each) for size in range(1, 8) for each in combinations(COLUMNS, size)]
ALL = PageRequest()

of_each_kind = pytest.mark.parametrize("of_kind", KINDS)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> PlanCache:
    empty = PlanCache()
    monkeypatch.setattr(plan_cache, "PLANS", empty)
    return empty


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def selection(first: int = 20, before: int = 100, status: str = "PENDING", total: bool = False) -> Selection:
    """A new object each time, as in each request."""
    page = PageRequest(
        key=f"{first} {before}",
        first=first,
        before=before,
        where=(Where(has_status),),
        values={"status": status},
        with_total=total,
    )
    link = Link("assignments", Selection(frozenset({"id", "status"})), page)
    return Selection(frozenset({"id", "title"}), (link,))


def with_pages(*columns: frozenset[str]) -> Selection:
    """A page of linked rows for each set of columns."""
    pages = [Link("assignments", Selection(each), PageRequest(key=str(each))) for each in columns]
    return Selection(frozenset({"id"}), tuple(pages))


def read_on(
    kind: DatabaseKind,
    selected: Selection,
    role: ReaderRole = "caregiver",
    request: PageRequest = ALL,
    table: Table = Session,
    counted: CountedBy | None = None,
) -> Statement:
    """The first statement of a read; what would hold the loop for too long is done at once."""
    reader: Any = document if kind == "postgresql" else levels
    values = {**request.values, "client": 1, "caregiver": 1, "caregivers": [1]}
    scope = ReaderScope(kind, role, values, {})
    counted = counted or CountedBy(table, None, request.where)
    return first_statement(reader.reading_page(table, scope, request, selected, counted))


def read_ids_on(
    kind: DatabaseKind, selected: Selection, table: Table, role: ReaderRole, where: tuple[Where, ...]
) -> Statement:
    reader: Any = document if kind == "postgresql" else levels
    scope = ReaderScope(kind, role, {"client": 1, "caregiver": 1, "caregivers": [1]}, {})
    return first_statement(reader.reading_ids(table, scope, [1, 2], selected, where))


def first_statement(operation: Steps[Any]) -> Statement:
    step: Any = next(operation)
    if isinstance(step, LongWork):
        step = operation.send([step.function()])
    operation.close()
    statement: Statement = step[0]
    return statement


def only_plan(cache: PlanCache) -> Plan:
    [plan] = cache.plans.values()
    return plan


# --- sharing --------------------------------------------------------------------------------------


@of_each_kind
def test_equal_selections_share_a_plan_and_its_statement(of_kind: DatabaseKind) -> None:
    running = PageRequest(where=(Where(IN_TIME_STATE[TimeState.RUNNING]),))

    assert read_on(of_kind, selection(), request=running) is read_on(of_kind, selection(), request=running)


@of_each_kind
def test_page_requests_with_other_values_share_a_plan(of_kind: DatabaseKind) -> None:
    other = selection(first=3, before=7, status="COMPLETE")

    assert read_on(of_kind, selection()) is read_on(of_kind, other)


@of_each_kind
def test_a_selection_that_is_used_again_does_not_search_the_cache(
    of_kind: DatabaseKind, cache: PlanCache
) -> None:
    selected = selection()
    statement = read_on(of_kind, selected)
    plan = only_plan(cache)
    cache.plans.clear()

    assert read_on(of_kind, selected) is statement
    assert cache.plans == {}
    assert plan.statements()


@of_each_kind
def test_pages_of_a_row_that_differ_in_values_only_are_planned_once(
    of_kind: DatabaseKind, cache: PlanCache
) -> None:
    pages = [
        Link("assignments", Selection(frozenset({"status"})), PageRequest(key=str(first), first=first))
        for first in (1, 2)
    ]
    read_on(of_kind, Selection(frozenset({"id"}), tuple(pages)))

    first, second = only_plan(cache).root.children
    assert first.node is second.node


@of_each_kind
def test_another_shape_has_another_plan(of_kind: DatabaseKind, cache: PlanCache) -> None:
    running, future = (
        PageRequest(where=(Where(IN_TIME_STATE[state]),)) for state in (TimeState.RUNNING, TimeState.FUTURE)
    )
    read_on(of_kind, selection())
    read_on(of_kind, selection(), role="client")
    read_on(of_kind, selection(), request=running)
    read_on(of_kind, selection(), request=future)
    read_on(of_kind, selection(total=True))
    read_on(of_kind, Selection(frozenset({"id"})))

    assert len(cache.plans) == 6


@of_each_kind
def test_rows_by_id_of_another_shape_have_another_plan(of_kind: DatabaseKind, cache: PlanCache) -> None:
    running = (Where(IN_TIME_STATE[TimeState.RUNNING]),)
    shapes: list[tuple[Table, ReaderRole, tuple[Where, ...]]] = [
        (Session, "caregiver", ()),
        (Assignment, "caregiver", ()),
        (Session, "client", ()),
        (Session, "caregiver", running),
    ]
    selected = Selection(frozenset({"id"}))  # plans are also kept by the selection
    for _ in range(2):
        statements = {read_ids_on(of_kind, selected, *each) for each in shapes}

    assert (len(statements), len(cache.plans), len(selected.plans)) == (4, 4, 4)


@of_each_kind
def test_the_total_of_each_status_has_its_own_plan(of_kind: DatabaseKind, cache: PlanCache) -> None:
    """The condition on the assignments is the same for each status; the counter of the sessions is not."""
    selected = Selection(frozenset())

    def total_of(status: AssignmentStatus) -> Statement:
        total = PageRequest(with_rows=False, with_total=True)
        request, counted = filtered(total, AssignmentFilter(status=status))
        return read_on(of_kind, selected, "caregiver", request, Assignment, counted)

    for _ in range(2):
        statements = {total_of(status) for status in AssignmentStatus}

    assert (len(statements), len(cache.plans)) == (2, 2)


@pytest.mark.parametrize(
    ("table", "where"),
    [(Book, (Where(HasWord(0)),)), (Assignment, (Where(is_in_session, narrows=True),))],
    ids=["a search", "a list in a session"],
)
@of_each_kind
def test_totals_share_a_statement(
    of_kind: DatabaseKind, table: Table, where: tuple[Where, ...], cache: PlanCache
) -> None:
    total = PageRequest(where=where, with_rows=False, with_total=True)
    one, other = (read_on(of_kind, Selection(frozenset()), "caregiver", total, table) for _ in range(2))

    assert one is other
    assert "count(*)" in one.for_(of_kind).sql


# --- bounds ---------------------------------------------------------------------------------------


@of_each_kind
def test_the_cache_is_bounded_by_the_weight_of_its_plans(of_kind: DatabaseKind, cache: PlanCache) -> None:
    cache.max_weight = 300_000

    for columns in SUBSETS:
        read_on(of_kind, with_pages(columns))

    assert 200_000 < cache.weight <= 300_000
    assert cache.weight == sum(plan.weight for plan in cache.plans.values())
    assert len(cache.plans) < len(SUBSETS)


@of_each_kind
def test_the_weight_of_a_plan_is_at_least_its_memory(of_kind: DatabaseKind, cache: PlanCache) -> None:
    read_on(of_kind, with_pages(SUBSETS[0]))  # warms caches of SQLAlchemy
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for start in range(0, 120, 20):
            read_on(of_kind, with_pages(*SUBSETS[start : start + 20]))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before) < cache.weight < 3 * (after - before)


@of_each_kind
def test_a_plan_keeps_no_expression(of_kind: DatabaseKind, cache: PlanCache) -> None:
    read_on(of_kind, with_pages(*SUBSETS[:20]))
    gc.collect()

    assert in_memory(Query, NamedTable, Columns) == []
    assert {statement.expression for statement in only_plan(cache).statements()} == {None}


@of_each_kind
def test_a_removed_plan_is_freed_at_once(
    of_kind: DatabaseKind, cache: PlanCache, without_collector: None
) -> None:
    selected = with_pages(*SUBSETS[:20])
    read_on(of_kind, selected)
    removed = ref(only_plan(cache))

    cache.max_weight = 1
    read_on(of_kind, selection())

    assert removed() is None
    assert len(cache.plans) == 1


@of_each_kind
def test_the_classes_of_removed_rows_are_collected(
    of_kind: DatabaseKind, cache: PlanCache, without_collector: None
) -> None:
    """And not for each of them, as a collection stops the process for a moment."""
    cache.max_weight = 100_000
    classes, collections = len(levels.Row.__subclasses__()), full_collections()

    for columns in SUBSETS:
        read_on(of_kind, with_pages(columns))

    assert len(levels.Row.__subclasses__()) - classes < len(SUBSETS) / 2
    assert 0 < full_collections() - collections < len(SUBSETS) / 4


def full_collections() -> int:
    return int(gc.get_stats()[-1]["collections"])


@of_each_kind
@pytest.mark.parametrize("is_prepared", [True, False], ids=["the same selection", "equal selections"])
def test_plans_that_are_used_stay_when_many_others_are_used_once(
    of_kind: DatabaseKind, cache: PlanCache, is_prepared: bool
) -> None:
    cache.max_weight = 200_000
    often = selection()
    statement = read_on(of_kind, often)

    for columns in SUBSETS[:60]:
        read_on(of_kind, with_pages(columns))
        assert read_on(of_kind, often if is_prepared else selection()) is statement
    assert cache.weight == sum(plan.weight for plan in cache.plans.values())


@of_each_kind
def test_a_plan_that_is_used_replaces_one_that_was_used_before(
    of_kind: DatabaseKind, cache: PlanCache
) -> None:
    """It may be built twice, as the first search only finds plans that were used."""
    cache.max_weight = 200_000

    for columns in SUBSETS[:60]:
        _, second, third = (read_on(of_kind, with_pages(columns)) for _ in range(3))
        assert second is third


@of_each_kind
def test_a_selection_refers_to_a_bounded_number_of_plans(of_kind: DatabaseKind) -> None:
    selected = Selection(frozenset({"id"}))

    for words in range(2 * MAX_PLANS_OF_SELECTION):
        where = tuple(Where(HasWord(n)) for n in range(words))
        read_on(of_kind, selected, request=PageRequest(where=where), table=Book)

    assert len(selected.plans) <= MAX_PLANS_OF_SELECTION


# --- long work ------------------------------------------------------------------------------------


@of_each_kind
def test_only_a_new_plan_is_built_in_a_thread(of_kind: DatabaseKind) -> None:
    reader: Any = document if of_kind == "postgresql" else levels
    scope = ReaderScope(of_kind, "caregiver", {"caregiver": 1}, {})
    read = reader.reading_ids(Session, scope, [1], selection(), ())
    again = reader.reading_ids(Session, scope, [1], selection(), ())

    step = next(read)
    assert isinstance(step, LongWork)
    statement, _ = read.send([step.function()])

    assert next(again)[0] is statement


@of_each_kind
def test_reads_that_need_the_same_new_plan_at_once_share_it(of_kind: DatabaseKind, cache: PlanCache) -> None:
    reader: Any = document if of_kind == "postgresql" else levels
    scope = ReaderScope(of_kind, "caregiver", {"caregiver": 1}, {})
    reads = [reader.reading_ids(Session, scope, [1], selection(), ()) for _ in range(2)]

    steps = [next(read) for read in reads]
    one, other = (read.send([step.function()])[0] for read, step in zip(reads, steps, strict=True))

    assert one is other
    assert cache.weight == only_plan(cache).weight


def test_long_work_runs_in_a_thread_before_and_inside_a_transaction(database_url: str) -> None:
    def working() -> Steps[list[int]]:
        (before,) = yield LongWork(get_ident)
        ((count,),) = yield COUNT_MODULES, {}
        (inside,) = yield LongWork(get_ident)
        return [before, count, inside]

    async def use(db: Database) -> None:
        before, count, inside = await db.read(working())
        assert count == 0
        assert get_ident() not in (before, inside)

    with_database(database_url, use)


def test_no_column_needs_quotes() -> None:
    """The columns of named tables are written without."""
    names = {name for entity in ENTITIES.values() for name in entity.columns}

    for dialect in DIALECTS.values():
        assert {dialect.identifier_preparer.quote(name) for name in names} == names
