"""`verify` recomputes the assignment counters of sessions and reports each wrong one."""

import pytest

from app.db.session_counters import Difference, differences
from tests.callers import run_read
from tests.db import raw
from tests.factories import NOW, a_world, starting_with

pytestmark = starting_with(a_world)

TRUE = {
    "assignment_count": 2,
    "completed_assignment_count": 1,
    "latest_assignment_id": 2,
    "last_assignment_score": 70,
}


@pytest.mark.parametrize("name", TRUE)
@pytest.mark.parametrize("planted", [9, 0])
def test_a_wrong_counter_is_reported(database_url: str, name: str, planted: int) -> None:
    raw.run(database_url, f"UPDATE session SET {name} = {planted} WHERE id = 1")

    found = run_read(database_url, differences())

    assert found == [Difference(1, name, planted, TRUE[name])]


def test_a_missing_and_a_superfluous_counter_are_reported(database_url: str) -> None:
    raw.run(
        database_url,
        "UPDATE session SET last_assignment_score = NULL WHERE id = 3",
        "UPDATE session SET latest_assignment_id = 1, last_assignment_score = 5 WHERE id = 2",
    )

    found = run_read(database_url, differences())

    assert found == [
        Difference(2, "latest_assignment_id", 1, None),
        Difference(2, "last_assignment_score", 5, None),
        Difference(3, "last_assignment_score", None, 55),
    ]


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ("status = 'PENDING' WHERE id = 1", {"completed_assignment_count": 0, "last_assignment_score": None}),
        (
            f"withdraw_date = '{NOW.isoformat()}' WHERE id = 1",
            {"assignment_count": 1, "completed_assignment_count": 0, "last_assignment_score": None},
        ),
        (
            f"withdraw_date = '{NOW.isoformat()}' WHERE id = 2",
            {"assignment_count": 1, "latest_assignment_id": 1},
        ),
    ],
    ids=["reopened", "withdrawn", "last one withdrawn"],
)
def test_an_assignment_that_was_changed_by_sql_is_reported_by_its_session(
    database_url: str, change: str, changed: dict[str, int | None]
) -> None:
    raw.run(database_url, f"UPDATE assignment SET {change}")

    found = run_read(database_url, differences())

    assert found == [Difference(1, name, TRUE[name], number) for name, number in changed.items()]


def test_the_last_score_is_that_of_the_newest_homework_in_whichever_order_it_is_stored(
    database_url: str,
) -> None:
    """PostgreSQL stores a changed row behind the others."""
    raw.run(database_url, "UPDATE assignment SET status = 'COMPLETE', score = 90 WHERE id = 2")

    found = run_read(database_url, differences())

    assert found == [
        Difference(1, "completed_assignment_count", 1, 2),
        Difference(1, "last_assignment_score", 70, 90),
    ]
