"""A book that is replaced during an assignment is assigned in its old or its new state, never partly."""

import asyncio
from typing import Any

import pytest

from app.care.homework import Homework, assigning
from app.db.admin.books import importing_books
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.interchange.load import ImportRejected
from app.db.reader.selection import AccessScope
from tests.callers import load
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import with_database
from tests.factories import DAY, NOW, a_book, a_world, lines

NEW = a_book(4, name="New", questions=[{"text": "First?"}, {"text": "Second?"}])


async def both_at_once(url: str, import_first: bool) -> tuple[Any, Any]:
    db = await open_database(url, readers=4)
    homework = Homework(1, (4,), NOW, NOW + DAY)
    assign = db.write(assigning(AccessScope(NOW, caregiver=1), homework))
    replace = db.write(importing_books(lines([NEW])))
    try:
        if import_first:
            replaced, assigned = await asyncio.gather(replace, assign, return_exceptions=True)
        else:
            assigned, replaced = await asyncio.gather(assign, replace, return_exceptions=True)
    finally:
        await db.close()
    return assigned, replaced


@pytest.mark.parametrize("import_first", [True, False])
def test_a_concurrent_assignment_gets_the_old_or_the_new_book(database_url: str, import_first: bool) -> None:
    load(database_url, [*a_world(), a_book(4, name="Old")])

    assigned, replaced = asyncio.run(both_at_once(database_url, import_first))

    assert isinstance(assigned, list)
    [(name,)] = raw.run(database_url, "SELECT name FROM book WHERE id = 4")
    [(questions,)] = raw.run(database_url, "SELECT count(*) FROM question WHERE book_id = 4")
    if isinstance(replaced, ImportRejected):
        assert (name, questions) == ("Old", 1)
    else:
        assert ([change.id for change in replaced], name, questions) == ([4], "New", 2)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_book_whose_assignment_is_not_committed_yet_is_not_replaced(database_url: str) -> None:
    load(database_url, [*a_world(), a_book(4, name="Old")])
    assign = assigning(AccessScope(NOW, caregiver=1), Homework(1, (4,), NOW, NOW + DAY))

    async def use(db: Database) -> None:
        async with uncommitted(database_url, assign):
            replaced = asyncio.create_task(db.write(importing_books(lines([NEW]))))
            assert await until_blocked(database_url, replaced)
        with pytest.raises(ImportRejected, match="book 4 was assigned and cannot be changed"):
            await replaced

    with_database(database_url, use)

    assert raw.run(database_url, "SELECT name FROM book WHERE id = 4") == [("Old",)]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_questions_that_another_import_adds_to_an_assigned_book_meanwhile_stay(database_url: str) -> None:
    load(database_url, [*a_world(), a_book(4, name="New", questions=[])])
    raw.run(database_url, "UPDATE book SET is_assigned = TRUE WHERE id = 4")
    others = lines([a_book(4, name="New", questions=[{"text": "Other?"}])])

    async def use(db: Database) -> None:
        async with uncommitted(database_url, importing_books(others)):
            replaced = asyncio.create_task(db.write(importing_books(lines([NEW]))))
            assert await until_blocked(database_url, replaced)
        with pytest.raises(ImportRejected, match="book 4 was assigned and cannot be changed"):
            await replaced

    with_database(database_url, use)

    assert raw.run(database_url, "SELECT text FROM question WHERE book_id = 4") == [("Other?",)]
