"""`ownData`: a client exports their data and gets exactly the output of the command."""

import os

import pytest
from click.testing import CliRunner

from app.cli import main
from tests.callers import Gateway
from tests.lifecycle import load_one_client
from tests.schema.worlds import refusal

FORMATS = ["JSON", "CSV"]


@pytest.fixture
def lived(gateway: Gateway) -> Gateway:
    load_one_client(gateway.settings.database)
    return gateway


@pytest.mark.parametrize("format", FORMATS)
def test_a_client_gets_what_the_command_writes(
    lived: Gateway, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("CARE_"):
            monkeypatch.delenv(name)
    query = "query($format: DataFormat!) { ownData(format: $format) }"

    answer = lived.as_client(1).data(query, format=format)
    said = CliRunner().invoke(
        main,
        ["export", "--client", "client-1", "--format", format.lower()],
        env={"CARE_DATABASE_URL": lived.settings.database},
    )

    assert (said.exit_code, said.stderr) == (0, "")
    assert answer["ownData"].encode() == said.stdout_bytes
    assert "Blue-bicycle" in answer["ownData"]
    assert "Neighbours" not in answer["ownData"]


def test_it_is_json_unless_something_else_is_asked_for(lived: Gateway) -> None:
    answer = lived.as_client(1).data(
        "{ ownData json: ownData(format: JSON) csv: ownData(format: CSV) null: ownData(format: null) }"
    )

    assert answer["ownData"] == answer["json"] == answer["null"]
    assert (answer["json"][:1], answer["csv"][:9]) == ("{", "clientId,")


def test_it_is_one_snapshot_of_a_few_statements(lived: Gateway) -> None:
    with lived.watched() as seen:
        lived.as_client(1).data("{ ownData }")

    # The client, their caregivers, one for each level, one that finds no further sessions, and the events.
    assert len(seen) == 2 + 6 + 1 + 1


def test_a_caregiver_is_refused(lived: Gateway) -> None:
    assert lived.as_caregiver(1).graphql("{ ownData }") == {
        "data": None,
        "errors": [refusal("FORBIDDEN", "only a client may do this", "ownData", column=3)],
    }


def test_who_is_not_signed_in_is_refused(lived: Gateway) -> None:
    assert lived.as_nobody().graphql("{ ownData }") == {
        "data": None,
        "errors": [refusal("UNAUTHENTICATED", "sign in with a valid bearer token", "ownData", column=3)],
    }


@pytest.mark.parametrize("format", ["XML", "json"])
def test_another_format_is_refused(lived: Gateway, format: str) -> None:
    response = lived.as_client(1).post_graphql(f"{{ ownData(format: {format}) }}")

    (error,) = response.json()["errors"]
    assert "Value does not exist in 'DataFormat' enum" in error["message"]
