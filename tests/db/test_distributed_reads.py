"""On Citus a client of several caregivers reads by one statement for each level, and other viewers by one in
all. PostgreSQL runs these statements too; each read returns what the simple reader returns."""

from collections.abc import Iterator

import pytest
from hypothesis import given

from app.care.assignments import DUE_SOONEST
from app.db.drivers.postgres import PostgresDatabase
from app.db.reader.reads import list_rows
from app.db.reader.selection import AccessScope, Link, Order, PageRequest, Selection
from app.db.tables import Session
from tests.conftest import fresh_database
from tests.db import raw
from tests.db.conftest import OpenWorld, opened
from tests.db.random_world import CLIENTS, put_random_world
from tests.db.selections import ReadRequest, read_requests
from tests.db.simple_reader import SimpleReader, as_plain, typed
from tests.db.test_reads import ALL, compare, some_requests
from tests.factories import NOW

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


WITHOUT_OTHERS = """
DELETE FROM relationship WHERE client_id = 1
AND caregiver_id > (SELECT min(caregiver_id) FROM relationship WHERE client_id = 1)
"""


@pytest.fixture(scope="module")
def distributed(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenWorld]:
    """A database without rows that a distributed one would reject."""
    with fresh_database(kind, migrated, request, tmp_path_factory.mktemp("world")) as url:
        put_random_world(url, is_damaged=False)
        raw.run(url, WITHOUT_OTHERS)
        for world in opened(url, kind):
            assert isinstance(world.db, PostgresDatabase)
            world.db.kind = "citus"
            yield world


def test_a_client_has_one_caregiver_and_others_have_several(distributed: OpenWorld) -> None:
    of_clients = [row["client_id"] for row in distributed.plain["relationship"]]

    assert {min(of_clients.count(client), 2) for client in of_clients} == {1, 2}


@some_requests
@given(read=read_requests())
def test_a_page_and_rows_by_id_equal_those_of_the_simple_reader(
    distributed: OpenWorld, read: ReadRequest
) -> None:
    compare(distributed, read)


@pytest.mark.parametrize("order", [None, DUE_SOONEST])
def test_pages_within_rows_are_of_one_parent_and_of_all_caregivers(
    distributed: OpenWorld, order: Order | None
) -> None:
    """The assignments of a session have one caregiver, and those of a client several."""
    page = Link(
        "assignments",
        Selection(frozenset({"id"}), (Link("session", Selection(frozenset({"title"}))),)),
        PageRequest(first=2, order=order, with_total=True, key="assignments"),
    )
    client = Link("client", Selection(frozenset({"name"}), (page,)))
    sessions = Selection(frozenset({"id"}), (client, page))
    for number in range(1, CLIENTS + 1):
        access = AccessScope(NOW, client=number)
        found = distributed.read(list_rows(Session, access, ALL, sessions))

        expected = SimpleReader(distributed.plain, access).list_rows(Session, ALL, lambda _: True, sessions)
        assert typed(as_plain(found, sessions)) == typed(expected)
