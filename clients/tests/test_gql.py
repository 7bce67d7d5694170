"""Python's gql, set up as in docs/clients.md: a query, a mutation, a subscription, an error, the command."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gql import Client, GraphQLRequest
from gql.transport.exceptions import TransportQueryError
from gql.transport.httpx import HTTPXTransport

from clients.setups.over_gql import over_gql

URL, CAREGIVER = os.environ["SERVICE_URL"] + "/graphql", os.environ["CAREGIVER_TOKEN"]

SESSION = "query ($id: ID!) { session(id: $id) { title } }"
ASSIGN = """mutation ($input: AssignHomeworkInput!) {
  assignHomework(input: $input) { assignments { name status } userErrors { code field } }
}"""
CHANGES = "subscription { assignmentChanged { what assignment { name } } }"


def homework() -> GraphQLRequest:
    now = datetime.now(UTC)
    window = {"startDate": now.isoformat(), "endDate": (now + timedelta(days=7)).isoformat()}
    return GraphQLRequest(ASSIGN, variable_values={"input": {"sessionId": "1", "bookIds": ["2"], **window}})


async def execute(request: GraphQLRequest, token: str = CAREGIVER) -> dict[str, Any]:
    async with over_gql(URL, token) as session:
        return await session.execute(request)


def test_a_query_returns_data() -> None:
    data = asyncio.run(execute(GraphQLRequest(SESSION, variable_values={"id": "1"})))

    assert data == {"session": {"title": "Sleeping through the night"}}


def test_a_mutation_returns_the_new_assignment() -> None:
    data = asyncio.run(execute(homework()))

    made = [{"name": "Evening routine", "status": "PENDING"}]
    assert data == {"assignHomework": {"assignments": made, "userErrors": []}}


def test_a_subscription_receives_homework_assigned_on_the_same_connection() -> None:
    async def first_event() -> dict[str, Any]:
        async with (
            over_gql(URL, CAREGIVER) as session,
            aclosing(session.subscribe(GraphQLRequest(CHANGES))) as changes,
        ):
            listening = asyncio.create_task(anext(changes))
            while not listening.done():  # no message confirms that the subscription has started
                await session.execute(homework())
                await asyncio.wait({listening}, timeout=0.1)
            return listening.result()

    change = asyncio.run(first_event())

    assert change == {"assignmentChanged": {"what": "ASSIGNED", "assignment": {"name": "Evening routine"}}}


def test_a_missing_session_is_an_error_with_a_code() -> None:
    with pytest.raises(TransportQueryError) as raised:
        asyncio.run(execute(GraphQLRequest(SESSION, variable_values={"id": "999"})))

    assert raised.value.data == {"session": None}
    assert [error["extensions"]["code"] for error in raised.value.errors or ()] == ["NOT_FOUND"]


@pytest.mark.parametrize("accept", ["*/*", "application/graphql-response+json"])
@pytest.mark.parametrize(
    ("query", "data", "code"),
    [
        (
            '{ kind: __typename session(id: "999") { title } }',
            {"kind": "Query", "session": None},
            "NOT_FOUND",
        ),
        ("{ sessions { name } }", None, "GRAPHQL_VALIDATION_FAILED"),
    ],
)
def test_http_reports_data_and_codes_whatever_the_status(
    query: str, data: dict[str, Any] | None, code: str, accept: str
) -> None:
    headers = {"authorization": f"bearer {CAREGIVER}", "accept": accept}
    with (
        Client(transport=HTTPXTransport(URL, headers=headers)) as session,
        pytest.raises(TransportQueryError) as raised,
    ):
        session.execute(GraphQLRequest(query))

    assert raised.value.data == data
    assert [error["extensions"]["code"] for error in raised.value.errors or ()] == [code]


def test_the_command_gql_cli_runs_a_query() -> None:
    program = Path(sys.executable).with_name("gql-cli")
    command = [program, URL.replace("http", "ws"), "-H", f"authorization:bearer {CAREGIVER}"]
    process = subprocess.run(
        command, input="{ viewer { role } }", capture_output=True, text=True, timeout=30, check=True
    )

    assert json.loads(process.stdout) == {"viewer": {"role": "CAREGIVER"}}
