"""Whatever is selected, the planned reads give what the obvious reader gives, damaged rows included."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from app.db.reader.plans import JOINS_PER_STATEMENT, plan_of
from app.db.reader.reads import get_rows, list_rows
from app.db.reader.selection import AccessScope, Link, PageRequest, Selection
from app.db.tables import Assignment
from tests.db.conftest import OpenWorld
from tests.db.obvious_reader import ObviousReader, as_said, exact
from tests.db.random_world import ASSIGNMENTS
from tests.db.selections import Asked, questions
from tests.factories import NOW

ALL = PageRequest(first=ASSIGNMENTS)
VIEWERS = {
    "caregiver": AccessScope(NOW, caregiver=1),
    "client": AccessScope(NOW, client=2),
}

# Fixed, so that a red run is red again. The world is only read, so examples may share it.
some_questions = settings(
    max_examples=80,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],  # selections are trees
)


@some_questions
@given(asked=questions())
def test_a_page_and_rows_by_id_are_what_a_naive_reader_finds(world: OpenWorld, asked: Asked) -> None:
    """Both of each question: to make one up takes four times as long as to read it."""
    reader = ObviousReader(world.plain, asked.access)

    page = world.read(list_rows(asked.table, asked.access, asked.window, asked.wanted))
    rows = world.read(get_rows(asked.table, asked.access, asked.ids, asked.wanted))

    keep = asked.filter.keeps(asked.table, reader)
    naive_page = reader.list_rows(asked.table, asked.window, keep, asked.wanted)
    naive_rows = reader.get_rows(asked.table, asked.ids, asked.wanted)
    assert exact(as_said(page, asked.wanted)) == exact(naive_page)
    assert exact(as_said(rows, asked.wanted)) == exact(naive_rows)


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("length", [1, JOINS_PER_STATEMENT, JOINS_PER_STATEMENT + 1, 26, 40])
def test_a_chain_of_links_may_be_longer_than_a_statement_joins(
    world: OpenWorld, viewer: str, length: int
) -> None:
    access, wanted = VIEWERS[viewer], chain(length)

    page = world.read(list_rows(Assignment, access, ALL, wanted))

    naive = ObviousReader(world.plain, access).list_rows(Assignment, ALL, lambda _: True, wanted)
    assert len(page.rows) > 5
    assert exact(as_said(page, wanted)) == exact(naive)


def test_no_statement_joins_more_than_planners_bear() -> None:
    waiting = [plan_of(Assignment, chain(40), "caregiver", "page")]
    joins = []

    while waiting:
        level = waiting.pop()
        joins.append(level.statement.for_("sqlite").sql.count(" JOIN "))
        waiting += [child.node for child in level.children]

    assert joins == [12, 12, 12, 1]


@pytest.mark.parametrize("viewer", VIEWERS)
def test_links_beside_each_other_may_be_more_than_a_statement_joins(world: OpenWorld, viewer: str) -> None:
    """Every third row of a chain also names people, a book with its module, and answers."""
    access, wanted = VIEWERS[viewer], chain(9, beside=True)

    page = world.read(list_rows(Assignment, access, ALL, wanted))

    naive = ObviousReader(world.plain, access).list_rows(Assignment, ALL, lambda _: True, wanted)
    assert exact(as_said(page, wanted)) == exact(naive)


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
