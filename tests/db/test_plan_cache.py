"""Plans are kept by the shape of a selection: values are no part of it, so equal shapes share their text."""

from app.care.sessions import IN_TIME_STATE
from app.db.reader.plans import count_of_rows, level_for
from app.db.reader.selection import Link, PageRequest, Selection, Where
from app.db.statements.conditions import HasWord, has_status, is_in_session
from app.db.tables import Assignment, Book, Session, TimeState


def wanted(first: int = 20, before: int = 100, status: str = "PENDING", total: bool = False) -> Selection:
    """Made anew every time, as each request does."""
    window = PageRequest(
        key=f"{first} {before}",
        first=first,
        before=before,
        where=(Where(has_status),),
        values={"status": status},
        with_total=total,
    )
    page = Link("assignments", Selection(frozenset({"id", "status"})), window)
    return Selection(frozenset({"id", "title"}), (page,))


def test_equal_selections_share_their_plan_and_its_text() -> None:
    one = level_for(Session, wanted(), "caregiver", "page", (Where(IN_TIME_STATE[TimeState.RUNNING]),))
    other = level_for(Session, wanted(), "caregiver", "page", (Where(IN_TIME_STATE[TimeState.RUNNING]),))

    assert one is other
    assert one.statement.for_("sqlite") is other.statement.for_("sqlite")


def test_windows_with_other_values_share_a_plan() -> None:
    one = level_for(Session, wanted(), "client", "page")
    other = level_for(Session, wanted(first=3, before=7, status="COMPLETE"), "client", "page")

    assert one is other


def test_another_shape_has_another_plan() -> None:
    running, future = Where(IN_TIME_STATE[TimeState.RUNNING]), Where(IN_TIME_STATE[TimeState.FUTURE])
    levels = [
        level_for(Session, wanted(), "caregiver", "page"),
        level_for(Session, wanted(), "client", "page"),
        level_for(Session, wanted(), "caregiver", "ids"),
        level_for(Session, wanted(), "caregiver", "page", (running,)),
        level_for(Session, wanted(), "caregiver", "page", (future,)),
        level_for(Session, wanted(total=True), "caregiver", "page"),
        level_for(Session, Selection(frozenset({"id"})), "caregiver", "page"),
    ]

    assert len(set(map(id, levels))) == len(levels)


def test_totals_and_searches_share_their_text_too() -> None:
    assert count_of_rows(Book, "nobody", (Where(HasWord(0)),)) is count_of_rows(
        Book, "nobody", (Where(HasWord(0)),)
    )
    assert count_of_rows(Assignment, "client", (Where(is_in_session, narrows=True),)) is count_of_rows(
        Assignment, "client", (Where(is_in_session, narrows=True),)
    )
