"""`ownData`: a client exports their data and gets exactly the output of the command."""

import json
import os

import pytest
from click.testing import CliRunner

from app.care.own_data import DataFormat, exporting
from app.cli import main
from tests.answers import SUBMITTED, TEST, a_world_to_answer_in, save
from tests.callers import Gateway, run_read
from tests.db.random_world import put_random_world, scatter
from tests.factories import Record, an_assignment, starting_with
from tests.lifecycle import load_one_client
from tests.schema.worlds import refusal

FORMATS = ["JSON", "CSV"]


@pytest.fixture
def lived(gateway: Gateway) -> Gateway:
    load_one_client(gateway.settings.database)
    return gateway


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("format", FORMATS)
def test_own_data_equals_the_output_of_the_command(
    lived: Gateway, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("CARE_"):
            monkeypatch.delenv(name)
    query = "query($format: DataFormat!) { ownData(format: $format) }"

    response = lived.as_client(1).data(query, format=format)
    command = CliRunner().invoke(
        main,
        ["export", "--client", "client-1", "--format", format.lower()],
        env={"CARE_DATABASE_URL": lived.settings.database},
    )

    assert (command.exit_code, command.stderr) == (0, "")
    assert response["ownData"].encode() == command.stdout_bytes
    assert "Blue-bicycle" in response["ownData"]
    assert "Neighbours" not in response["ownData"]


@pytest.mark.sqlite_only
def test_the_default_format_is_json(lived: Gateway) -> None:
    response = lived.as_client(1).data(
        "{ ownData json: ownData(format: JSON) csv: ownData(format: CSV) null: ownData(format: null) }"
    )

    assert response["ownData"] == response["json"] == response["null"]
    assert (response["json"][:1], response["csv"][:9]) == ("{", "clientId,")


def two_tests() -> list[Record]:
    return [*a_world_to_answer_in(), an_assignment(20, book=4)]


@starting_with(two_tests)
def test_answers_have_the_positions_of_their_questions(gateway: Gateway) -> None:
    """Also beside an answer that is missing. Question 4 is the first one of its book.

    Imported answers, which have no question, are numbered in their own order.
    """
    client = gateway.as_client(1)
    save(client, TEST, {6: "7.5", 9: "3"})
    save(client, 20, {8: "Tea"})

    exported = json.loads(client.data("{ ownData }")["ownData"])

    [first, imported, second] = (
        each["answerSets"][0]["answers"]
        for each in exported["sessions"][0]["assignments"]
        if each["id"] in (TEST, SUBMITTED, 20)
    )
    assert first == [
        {"position": 3, "questionId": 6, "questionText": "How many hours?", "answer": "7.5"},
        {"position": 6, "questionId": 9, "questionText": "How strongly?", "answer": "3"},
    ]
    assert second == [{"position": 5, "questionId": 8, "questionText": "What helped?", "answer": "Tea"}]
    assert [(each["position"], each["questionId"]) for each in imported] == [(1, None), (2, None)]


def test_the_export_reads_one_snapshot(lived: Gateway) -> None:
    with lived.watched() as statements:
        lived.as_client(1).data("{ ownData }")

    # The client, their caregivers, one statement per level, one that finds no more sessions, and the events.
    assert len(statements) == 2 + 5 + 1 + 1


@pytest.mark.sqlite_only
def test_a_caregiver_is_rejected(lived: Gateway) -> None:
    assert lived.as_caregiver(1).graphql("{ ownData }") == {
        "data": None,
        "errors": [refusal("FORBIDDEN", "only a client may do this", "ownData", column=3)],
    }


@pytest.mark.sqlite_only
def test_a_request_without_sign_in_is_rejected(lived: Gateway) -> None:
    assert lived.as_anonymous().graphql("{ ownData }") == {
        "data": None,
        "errors": [refusal("UNAUTHENTICATED", "sign in with a valid bearer token", "ownData", column=3)],
    }


@pytest.mark.sqlite_only
@pytest.mark.parametrize("format", ["XML", "json"])
def test_an_unknown_format_is_rejected(lived: Gateway, format: str) -> None:
    response = lived.as_client(1).post_graphql(f"{{ ownData(format: {format}) }}")

    (error,) = response.json()["errors"]
    assert "Value does not exist in 'DataFormat' enum" in error["message"]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_document_is_the_same_in_whichever_order_postgresql_stores_the_rows(database_url: str) -> None:
    put_random_world(database_url, is_damaged=False)
    documents: list[list[str]] = [[], []]
    run_read(database_url, exporting(1, DataFormat.JSON, documents[0].append))

    scatter(database_url)

    merging = f"{database_url}?enable_nestloop=off&enable_hashjoin=off"
    run_read(merging, exporting(1, DataFormat.JSON, documents[1].append))
    assert documents[0] == documents[1]
