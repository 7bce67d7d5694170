"""`assignHomework`, rejected: correctable problems are user errors, and nothing is written.

Contract: the table "Refusals" and the limits of the input; all books are assigned or none.
"""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import DAY, NOW, a_book, a_session, a_world
from tests.schema.test_assign_homework import homework
from tests.schema.worlds import global_id, refusal

ASSIGN = """mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {
    message assignments { id } userErrors { code field message } } }"""
END = "2026-11-28T20:00:00Z"
TOO_MANY = [f"2026-11-21T10:{n:02}:00Z" for n in range(51)]

REFUSED: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no books": ({"bookIds": []}, "INCOMPLETE", "bookIds", "required and missing: bookIds"),
    "51 books": (
        {"bookIds": [str(n) for n in range(100, 151)]},
        "UNREADABLE",
        "bookIds",
        "bookIds may hold at most 50 books",
    ),
    "a book 51 times": (
        {"bookIds": ["1"] * 51},
        "UNREADABLE",
        "bookIds",
        "bookIds may hold at most 50 books",
    ),
    "an unknown book": ({"bookIds": ["99"]}, "NOT_FOUND", "bookIds.0", "book not found"),
    "an unknown book among known": (
        {"bookIds": ["1", "99", "2"]},
        "NOT_FOUND",
        "bookIds.1",
        "book not found",
    ),
    "an unknown book behind one that is given twice": (
        {"bookIds": ["1", "1", "99"]},
        "NOT_FOUND",
        "bookIds.2",
        "book not found",
    ),
    "the id of a session": (
        {"bookIds": [global_id("Session", 1)]},
        "NOT_FOUND",
        "bookIds.0",
        "book not found",
    ),
    "a book id behind the largest": ({"bookIds": [str(2**63)]}, "NOT_FOUND", "bookIds.0", "book not found"),
    "a book id of 20 digits": ({"bookIds": ["1", str(10**19)]}, "NOT_FOUND", "bookIds.1", "book not found"),
    "an empty book id after 49 others": (
        {"bookIds": [*["1"] * 49, ""]},
        "INCOMPLETE",
        "bookIds.49",
        "required and missing: bookIds.49",
    ),
    "an empty book id": ({"bookIds": [""]}, "INCOMPLETE", "bookIds.0", "required and missing: bookIds.0"),
    "a blank book id behind another": (
        {"bookIds": ["1", " "]},
        "INCOMPLETE",
        "bookIds.1",
        "required and missing: bookIds.1",
    ),
    "a blank session id": ({"sessionId": "\t"}, "INCOMPLETE", "sessionId", "required and missing: sessionId"),
    "a blank book id before an end that is before the start": (
        {"bookIds": ["99", ""], "endDate": "2026-11-20T07:59:59.999999Z"},
        "INCOMPLETE",
        "bookIds.1",
        "required and missing: bookIds.1",
    ),
    "end before start": (
        {"endDate": "2026-11-20T07:59:59.999999Z"},
        "UNREADABLE",
        "endDate",
        "endDate is before startDate",
    ),
    "end before start in another zone": (
        {"endDate": "2026-11-20T08:30:00+01:00"},
        "UNREADABLE",
        "endDate",
        "endDate is before startDate",
    ),
    "a start before 1900": (
        {"startDate": "1899-12-31T23:59:59Z"},
        "UNREADABLE",
        "startDate",
        "startDate must lie between the years 1900 and 2999",
    ),
    "an end after 2999": (
        {"endDate": "3000-01-01T00:00:00Z"},
        "UNREADABLE",
        "endDate",
        "endDate must lie between the years 1900 and 2999",
    ),
    "51 reminders": (
        {"remindDates": TOO_MANY},
        "UNREADABLE",
        "remindDates",
        "remindDates may hold at most 50 moments",
    ),
    "a reminder before the start": (
        {"remindDates": [END, "2026-11-20T07:59:59Z"]},
        "UNREADABLE",
        "remindDates.1",
        "remindDates must lie between startDate and endDate",
    ),
    "a reminder after the end": (
        {"remindDates": ["2026-11-28T20:00:00.000001Z"]},
        "UNREADABLE",
        "remindDates.0",
        "remindDates must lie between startDate and endDate",
    ),
    "a closed session": ({"sessionId": "3"}, "NOT_RUNNING", "sessionId", "the session is not running"),
    "a future session": ({"sessionId": "2"}, "NOT_RUNNING", "sessionId", "the session is not running"),
    "a session of the next second": (
        {"sessionId": "6"},
        "NOT_RUNNING",
        "sessionId",
        "the session is not running",
    ),
    "another's session": ({"sessionId": "5"}, "NOT_FOUND", "sessionId", "session not found"),
    "an unknown session": ({"sessionId": "99"}, "NOT_FOUND", "sessionId", "session not found"),
    "the id of a book": ({"sessionId": global_id("Book", 1)}, "NOT_FOUND", "sessionId", "session not found"),
    "a session id behind the largest": (
        {"sessionId": str(2**63)},
        "NOT_FOUND",
        "sessionId",
        "session not found",
    ),
    "an unreadable session id": ({"sessionId": "!"}, "NOT_FOUND", "sessionId", "session not found"),
    "another's session and an unknown book": (
        {"sessionId": "5", "bookIds": ["99"]},
        "NOT_FOUND",
        "sessionId",
        "session not found",
    ),
    "a closed session and an unknown book": (
        {"sessionId": "3", "bookIds": ["99"]},
        "NOT_FOUND",
        "bookIds.0",
        "book not found",
    ),
}


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    next_second = NOW + DAY / 86400
    gateway.import_records(
        [*a_world(), *(a_book(n) for n in range(100, 151)), a_session(6, startDate=next_second)]
    )
    return gateway


def test_correctable_errors_are_user_errors_and_nothing_is_written(world: Gateway) -> None:
    before = stored(world)
    answers = {}

    for what, (changed, *_) in REFUSED.items():
        answers[what] = world.as_caregiver(1).graphql(ASSIGN, input=homework(**changed))
        assert stored(world) == before, what

    assert answers == {
        what: {
            "data": {
                "assignHomework": {
                    "message": None,
                    "assignments": [],
                    "userErrors": [{"code": code, "field": member.split("."), "message": message}],
                }
            }
        }
        for what, (_, code, member, message) in REFUSED.items()
    }


@pytest.mark.sqlite_only
def test_each_missing_member_has_an_error(world: Gateway) -> None:
    blank = homework(bookIds=["", "1", " "], sessionId="")

    payload = world.as_caregiver(1).data(ASSIGN, input=blank)["assignHomework"]

    message = "required and missing: bookIds.0, bookIds.2, sessionId"
    assert payload["userErrors"] == [
        {"code": "INCOMPLETE", "field": field, "message": message}
        for field in (["bookIds", "0"], ["bookIds", "2"], ["sessionId"])
    ]


@pytest.mark.sqlite_only
def test_a_viewer_without_permission_gets_a_top_level_error(world: Gateway) -> None:
    """Invalid input is not reported to a client."""
    before = stored(world)

    for changed in ({}, {"bookIds": []}, {"sessionId": "99"}, {"sessionId": "3"}):
        as_client = world.as_client(1).post_graphql(ASSIGN, input=homework(**changed))
        as_anonymous = world.as_anonymous().post_graphql(ASSIGN, input=homework(**changed))

        assert (as_client.status_code, as_client.headers.get("www-authenticate")) == (200, None)
        assert (as_anonymous.status_code, as_anonymous.headers.get("www-authenticate")) == (401, "Bearer")
        assert world.as_client(1).graphql(ASSIGN, input=homework(**changed)) == {
            "data": None,
            "errors": [refusal("FORBIDDEN", "only a caregiver may do this", "assignHomework", column=42)],
        }
        assert world.as_anonymous().graphql(ASSIGN, input=homework(**changed)) == {
            "data": None,
            "errors": [
                refusal("UNAUTHENTICATED", "sign in with a valid bearer token", "assignHomework", column=42)
            ],
        }
    assert stored(world) == before


@pytest.mark.sqlite_only
@pytest.mark.parametrize("member", ["sessionId", "bookIds", "startDate", "endDate"])
def test_a_missing_input_field_is_invalid(standing: Gateway, member: str) -> None:
    missing = {name: value for name, value in homework().items() if name != member}
    null = {**homework(), member: None}

    for given in (missing, null):
        (error,) = standing.as_caregiver(1).graphql(ASSIGN, input=given)["errors"]
        assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
        assert member in error["message"]


@pytest.mark.sqlite_only
def test_an_unknown_input_field_is_invalid(standing: Gateway) -> None:
    (error,) = standing.as_caregiver(1).graphql(ASSIGN, input=homework(remindDate=[]))["errors"]

    assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
    assert "remindDate" in error["message"]


@pytest.mark.sqlite_only
def test_the_role_is_checked_before_the_input(standing: Gateway) -> None:
    query = """mutation { assignHomework(input: {
        sessionId: 1, bookIds: [1], startDate: "2026-11-22T08:00:00Z", endDate: "2026-11-29T08:00:00Z" }) {
        assignments { session { assignments(first: 0) { totalCount } } } } }"""

    response = standing.as_client(1).graphql(query)

    assert [error["extensions"]["code"] for error in response["errors"]] == ["FORBIDDEN"]
