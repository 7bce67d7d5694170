"""Ids that the database gives after an import follow behind those of the file, and none is given twice."""

from app.care.homework import Homework, assigning
from app.db.reader.selection import AccessScope
from app.db.session_counters import differences
from tests.callers import Gateway, load, run_read, run_write
from tests.db import raw
from tests.factories import DAY, NOW, a_module, a_session, a_world, an_assignment

BIG = 9_000_000_000


def assigned(url: str, session: int = 1) -> list[int]:
    """The ids of what is assigned next."""
    homework = Homework(session, (1, 2), NOW, NOW + DAY, (NOW,))
    before = {row[0] for row in raw.run(url, "SELECT id FROM assignment")}
    run_write(url, assigning(AccessScope(NOW, caregiver=1), homework))
    return sorted({row[0] for row in raw.run(url, "SELECT id FROM assignment")} - before)


def test_new_ids_follow_behind_those_of_the_file(database_url: str) -> None:
    load(database_url, a_world())
    assert assigned(database_url) == [6, 7]

    load(database_url, [an_assignment(BIG), an_assignment(100)])

    assert assigned(database_url) == [BIG + 1, BIG + 2]
    assert run_read(database_url, differences()) == []


def test_an_import_does_not_give_the_number_of_a_deleted_row_again(database_url: str) -> None:
    load(database_url, a_world())
    assert assigned(database_url) == [6, 7]
    raw.run(database_url, "DELETE FROM reminder", "DELETE FROM assignment WHERE id > 5")

    load(database_url, [a_module(9)])

    assert assigned(database_url) == [8, 9]


def test_the_largest_id_of_a_file_is_listed_like_any_other(gateway: Gateway) -> None:
    gateway.given([*a_world(), a_session(2**63 - 2)])

    answer = gateway.as_caregiver(1).data("{ sessions(first: 1) { nodes { legacyId } } }")

    assert answer == {"sessions": {"nodes": [{"legacyId": str(2**63 - 2)}]}}
