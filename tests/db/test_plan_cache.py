"""Plans are cached by the shape of a selection, without its values: equal shapes share one statement."""

from app.care.sessions import IN_TIME_STATE
from app.db.reader.plans import plan_of
from app.db.reader.queries import count_of_rows
from app.db.reader.selection import Link, PageRequest, Selection, Where
from app.db.statements.conditions import HasWord, has_status, is_in_session
from app.db.tables import Assignment, Book, Session, TimeState


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


def test_equal_selections_share_a_plan_and_its_statement() -> None:
    one = plan_of(Session, selection(), "caregiver", "page", (Where(IN_TIME_STATE[TimeState.RUNNING]),))
    other = plan_of(Session, selection(), "caregiver", "page", (Where(IN_TIME_STATE[TimeState.RUNNING]),))

    assert one is other
    assert one.statement.for_("sqlite") is other.statement.for_("sqlite")


def test_page_requests_with_other_values_share_a_plan() -> None:
    one = plan_of(Session, selection(), "client", "page")
    other = plan_of(Session, selection(first=3, before=7, status="COMPLETE"), "client", "page")

    assert one is other


def test_another_shape_has_another_plan() -> None:
    running, future = Where(IN_TIME_STATE[TimeState.RUNNING]), Where(IN_TIME_STATE[TimeState.FUTURE])
    nodes = [
        plan_of(Session, selection(), "caregiver", "page"),
        plan_of(Session, selection(), "client", "page"),
        plan_of(Session, selection(), "caregiver", "ids"),
        plan_of(Session, selection(), "caregiver", "page", (running,)),
        plan_of(Session, selection(), "caregiver", "page", (future,)),
        plan_of(Session, selection(total=True), "caregiver", "page"),
        plan_of(Session, Selection(frozenset({"id"})), "caregiver", "page"),
    ]

    assert len(set(map(id, nodes))) == len(nodes)


def test_totals_and_searches_share_a_statement() -> None:
    assert count_of_rows(Book, "anonymous", (Where(HasWord(0)),)) is count_of_rows(
        Book, "anonymous", (Where(HasWord(0)),)
    )
    assert count_of_rows(Assignment, "client", (Where(is_in_session, narrows=True),)) is count_of_rows(
        Assignment, "client", (Where(is_in_session, narrows=True),)
    )
