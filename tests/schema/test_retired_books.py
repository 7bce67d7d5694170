"""A retired book cannot be found or assigned on either contract; its assignments continue unchanged.
Questions describe valid answers, and not their weights."""

import pytest

from app.main import schema_of_service
from tests.callers import Gateway
from tests.database_rows import stored
from tests.db import raw
from tests.factories import DAY, NOW, a_book, a_world
from tests.rest_compat.legacy import ASSIGNMENTS, homework
from tests.schema.worlds import global_id, numbers

ASSIGN = """mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {
    message assignments { id } userErrors { code field message } } }"""
QUESTIONS = [
    {"text": "How rested?", "kind": "SCALE", "options": ["1", "2"], "required": True, "weights": [0, 5]},
    {"text": "How many hours?", "kind": "NUMBER", "minimum": 0, "maximum": 24.5},
]


@pytest.fixture
def shelf(gateway: Gateway) -> Gateway:
    """Book 1, of assignments 1, 4 and 5, was retired yesterday; book 9 will be retired."""
    world = [record | {"retireDate": NOW - DAY} if is_book_1(record) else record for record in a_world()]
    gateway.import_records(
        [*world, a_book(9, retireDate=NOW + DAY), a_book(10, isTest=True, questions=QUESTIONS)]
    )
    return gateway


def is_book_1(record: dict[str, object]) -> bool:
    return (record["kind"], record["id"]) == ("book", 1)


def test_a_retired_book_is_not_in_the_catalogue(shelf: Gateway) -> None:
    query = "query($search: String) { books(search: $search) { totalCount nodes { legacyId } } }"

    everything = shelf.as_caregiver(1).data(query)["books"]
    found = shelf.as_client(1).data(query, search="sleep")["books"]

    assert (numbers(everything), everything["totalCount"]) == ([10, 3, 2], 3)
    assert (numbers(found), found["totalCount"]) == ([], 0)


def test_a_retired_book_is_returned_by_id_and_in_its_assignments(shelf: Gateway) -> None:
    query = """query($id: ID!) { book(id: 1) { name } node(id: $id) { ... on Book { name } }
        assignment(id: 1) { name book { name questions { text } } } }"""

    for caller in (shelf.as_caregiver(1), shelf.as_client(1)):
        assert caller.data(query, id=global_id("Book", 1)) == {
            "book": {"name": "Sleep diary"},
            "node": {"name": "Sleep diary"},
            "assignment": {
                "name": "Sleep diary",
                "book": {"name": "Sleep diary", "questions": [{"text": "How was it?"}]},
            },
        }


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("books", "index"), [(["1"], "0"), (["2", "1"], "1"), (["9"], "0")])
def test_a_retired_book_cannot_be_assigned(shelf: Gateway, books: list[str], index: str) -> None:
    before = stored(shelf)
    input_fields = {
        "sessionId": "1",
        "bookIds": books,
        "startDate": "2026-11-22T08:00:00Z",
        "endDate": "2026-11-28T20:00:00Z",
    }

    assert shelf.as_caregiver(1).data(ASSIGN, input=input_fields) == {
        "assignHomework": {
            "message": None,
            "assignments": [],
            "userErrors": [{"code": "NOT_FOUND", "field": ["bookIds", index], "message": "book not found"}],
        }
    }
    assert stored(shelf) == before


@pytest.mark.sqlite_only
def test_a_retired_book_cannot_be_assigned_on_the_legacy_path(shelf: Gateway) -> None:
    before = stored(shelf)

    refused = shelf.as_caregiver(1).put(ASSIGNMENTS, json=homework(bookIds=[2, 1]))

    assert (refused.status_code, refused.json()["message"]) == (404, "book not found: bookIds[1]")
    assert stored(shelf) == before


@pytest.mark.sqlite_only
def test_a_question_describes_its_valid_answers(shelf: Gateway) -> None:
    query = """{ book(id: 10) { questions {
        id position text kind options required minimum maximum } } }"""
    stored = raw.run(shelf.settings.database, "SELECT id FROM question WHERE book_id = 10 ORDER BY position")

    assert shelf.as_client(1).data(query)["book"]["questions"] == [
        {
            "id": global_id("Question", stored[0][0]),
            "position": 1,
            "text": "How rested?",
            "kind": "SCALE",
            "options": ["1", "2"],
            "required": True,
            "minimum": None,
            "maximum": None,
        },
        {
            "id": global_id("Question", stored[1][0]),
            "position": 2,
            "text": "How many hours?",
            "kind": "NUMBER",
            "options": [],
            "required": False,
            "minimum": 0.0,
            "maximum": 24.5,
        },
    ]


def test_the_weights_of_questions_are_not_in_the_schema() -> None:
    kind = schema_of_service(True)._schema.type_map["Question"]

    assert set(kind.fields) == {  # type: ignore[attr-defined]
        "id", "position", "text", "kind", "options", "required", "minimum", "maximum",
    }  # fmt: skip
