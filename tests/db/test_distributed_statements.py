"""Every statement for Citus names the caregivers of its rows by parameters, in each of its queries: a filter
reaches no sub-query. PostgreSQL runs these statements too, without distributed tables."""

from collections.abc import Iterator

import pytest

from app.db.drivers.postgres import PostgresDatabase
from app.db.reader.access import CAREGIVERS_OF_CLIENT
from tests.db.conftest import OpenWorld
from tests.db.everyday import everyday_statements, finding_scattered
from tests.db.everything import VIEWERS, Ran, everything_read
from tests.db.everything_written import everything_written
from tests.db.sql_text import care_tables, with_names, without_key

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


@pytest.fixture(scope="module")
def ran(world: OpenWorld) -> Iterator[list[Ran]]:
    assert isinstance(world.db, PostgresDatabase)
    world.db.kind = "citus"
    yield [*everything_read(world), *everything_written(world).statements]
    world.db.kind = "postgresql"


def role_of(one: Ran) -> str:
    return one.name.split(":")[0]


def without_caregivers(one: Ran) -> list[str]:
    """The care tables without the key, or all of them if a sub-query reads the caregivers."""
    written = one.statement.for_("citus")
    if "FROM relationship" in with_names(written):
        return care_tables(written)
    missing = without_key(written, "caregiver")
    return [
        table for table in missing if role_of(one) == "caregiver" or table in without_key(written, "client")
    ]


def test_every_statement_names_the_caregivers(ran: list[Ran]) -> None:
    found = {(one.name, table) for one in ran if role_of(one) in VIEWERS for table in without_caregivers(one)}

    assert found == set()
    assert sum(len(care_tables(one.statement.for_("citus"))) for one in ran) > 1000


def test_a_client_with_several_caregivers_reads_no_documents(ran: list[Ran]) -> None:
    """One statement for all levels can only be run on one machine."""
    several = [one for one in ran if len(listed(one)) > 1]

    assert [one.name for one in several if "json_agg" in one.statement.for_("citus").sql] == []
    assert len(several) > 200


def listed(one: Ran) -> list[int]:
    caregivers = one.values.get("caregivers")
    return caregivers if isinstance(caregivers, list) else []


def test_the_caregivers_are_read_by_a_statement_of_their_own(ran: list[Ran]) -> None:
    assert CAREGIVERS_OF_CLIENT in {one.statement for one in ran}


def test_every_change_that_finds_rows_of_a_caregiver_is_an_everyday_statement(ran: list[Ran]) -> None:
    explained = {one.statement for one in everyday_statements()}

    assert {
        one.name
        for one in ran
        if " rows" not in one.name
        and one.name.partition(": ")[2] in CHANGES
        and care_tables(one.statement.for_("citus"))
        and not one.statement.for_("citus").sql.startswith("INSERT")
        and one.statement not in explained
    } == set()


def test_everyday_statements_are_of_every_kind_of_viewer_and_can_be_planned(
    world: OpenWorld, ran: list[Ran]
) -> None:
    """`make distributed` counts the shards of these plans (tests/cli/test_distribute.py)."""
    names = {one.name for one in everyday_statements()}

    assert {"session rows of a caregiver", "session rows of a client of several", "CLOSE_SESSION"} <= names
    assert world.read(finding_scattered()) == []


CHANGES = {
    *("opening", "opening by id", "updating", "assigning", "extending", "reminding", "withdrawing"),
    *("saving", "submitting", "giving_feedback feedback", "reopening", "closing"),
}
