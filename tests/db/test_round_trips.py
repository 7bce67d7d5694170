"""What an operation sends to PostgreSQL, with the beginning and end of its transaction."""

import pytest

from app.db.drivers.postgres import PostgresDatabase
from tests.callers import Gateway
from tests.factories import a_world
from tests.schema.test_assign_homework import ASSIGN, homework
from tests.schema.test_statement_counts import NESTED

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


@pytest.fixture
def sent(gateway: Gateway) -> list[str]:
    """The verbs of the statements that the only connection of the pool has sent."""
    gateway.import_records(a_world())
    assert gateway.client.portal is not None
    return gateway.client.portal.call(log_verbs, gateway.database)


async def log_verbs(db: PostgresDatabase) -> list[str]:
    verbs: list[str] = []
    async with db.pool.acquire() as connection:
        connection.add_query_logger(lambda one: verbs.append(one.query.split()[0].rstrip(";")))
    return verbs


def test_a_nested_read_is_one_round_trip(gateway: Gateway, sent: list[str]) -> None:
    caller = gateway.as_caregiver(1)
    caller.data(NESTED)  # looks up the account
    sent.clear()

    page = caller.data(NESTED)["assignments"]

    assert page["nodes"][0]["session"] and page["totalCount"] > 1
    assert sent == ["SELECT", "INSERT"]  # the second stores the audit record


def test_assigning_homework_is_four_round_trips(gateway: Gateway, sent: list[str]) -> None:
    caller = gateway.as_caregiver(1)
    caller.data(ASSIGN, input=homework())  # marks the books as assigned
    sent.clear()

    caller.data(
        "mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) { message } }",
        input=homework(),
    )

    assert sent == ["BEGIN", "SELECT", "WITH", "COMMIT"]
