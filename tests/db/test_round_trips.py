"""What a read or change sends to PostgreSQL, with the beginning and end of its transaction."""

import asyncio
from functools import partial
from typing import Any

import pytest

from app.settings import Settings
from tests.answers import FITTING, LATE, REMARK, TEST, a_world_to_answer_in, to_answer
from tests.callers import Gateway
from tests.schema.test_assign_homework import ASSIGN, homework
from tests.schema.test_statement_counts import NESTED

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"read_threads": 1})  # a single connection


@pytest.fixture
def sent(gateway: Gateway) -> list[str]:
    """The verbs of the statements that the only connection sends, except announcements of events and lookups
    of accounts, which are repeated after seconds."""
    gateway.import_records(a_world_to_answer_in())
    assert gateway.client.portal is not None
    return gateway.client.portal.call(log_verbs, gateway.database)


async def log_verbs(db: Any) -> list[str]:
    verbs: list[str] = []
    async with db.connection() as connection:
        connection.add_query_logger(partial(log_verb, verbs))
    return verbs


def take(gateway: Gateway, sent: list[str]) -> list[str]:
    """asyncpg calls the logger in the next turn of the loop."""
    assert gateway.client.portal is not None
    gateway.client.portal.call(asyncio.sleep, 0)
    taken = sent.copy()
    sent.clear()
    return taken


def log_verb(verbs: list[str], query: Any) -> None:
    if "pg_notify" not in query.query and "FROM account" not in query.query:
        verbs.append(query.query.split()[0].rstrip(";"))


def test_a_nested_read_is_one_round_trip(gateway: Gateway, sent: list[str]) -> None:
    caller = gateway.as_caregiver(1)
    caller.data(NESTED)  # looks up the account
    take(gateway, sent)

    page = caller.data(NESTED)["assignments"]

    assert page["nodes"][0]["session"] and page["totalCount"] > 1
    assert take(gateway, sent) == ["SELECT", "INSERT"]  # the second stores the audit record


def test_assigning_homework_is_one_round_trip(gateway: Gateway, sent: list[str]) -> None:
    caller = gateway.as_caregiver(1)
    caller.data(ASSIGN, input=homework())  # marks the books as assigned
    take(gateway, sent)

    caller.data(
        "mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) { message } }",
        input=homework(),
    )

    assert take(gateway, sent) == ["WITH"]


SAVE = "mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) { userErrors { code } } }"
SUBMIT = "mutation($input: SubmitAnswersInput!) { submitAnswers(input: $input) { userErrors { code } } }"


def test_saving_and_submitting_answers_are_few_round_trips(gateway: Gateway, sent: list[str]) -> None:
    client = gateway.as_client(1)
    client.data("{ viewer { client { name } } }")  # looks up the account
    take(gateway, sent)

    for what, query, given in (
        ("first draft", SAVE, to_answer(TEST, {4: "Better"})),
        ("next draft", SAVE, to_answer(TEST, {4: "Good"}, revision=1)),
        ("submission of a draft", SUBMIT, to_answer(TEST, FITTING, revision=2)),
        ("submission without a draft", SUBMIT, to_answer(LATE, {REMARK: "None"})),
    ):
        [payload] = client.data(query, input=given).values()
        assert payload["userErrors"] == []
        assert take(gateway, sent) == ["SELECT", "WITH"], what  # on the fast path


def test_a_statement_has_one_plan_for_all_values(gateway: Gateway) -> None:
    async def plan_cache_mode(db: Any) -> str:
        async with db.connection() as connection:
            return str(await connection.fetchval("SHOW plan_cache_mode"))

    assert gateway.client.portal is not None
    mode = gateway.client.portal.call(plan_cache_mode, gateway.database)

    assert mode == "force_generic_plan"
