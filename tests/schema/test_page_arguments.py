"""Page arguments: an invalid one is UNREADABLE, with a message that names it."""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.schema.worlds import global_id, in_base64, refusal

pytestmark = pytest.mark.sqlite_only

NO_CURSOR = "after is not a cursor of this list"
SIZE = "first must lie between 1 and 100"
BAD_WINDOWS: dict[str, tuple[dict[str, Any], str]] = {
    "first is zero": ({"first": 0}, SIZE),
    "first is negative": ({"first": -1}, SIZE),
    "first is too many": ({"first": 101}, SIZE),
    "first is the largest integer": ({"first": 2**31 - 1}, SIZE),
    "offset is negative": ({"offset": -1}, "offset must not be negative"),
    "offset and after": (
        {"offset": 0, "after": in_base64("Session:before:3")},
        "offset cannot be combined with after",
    ),
    "a malformed cursor": ({"after": "x"}, NO_CURSOR),
    "an empty cursor": ({"after": ""}, NO_CURSOR),
    "a cursor that is no text": ({"after": "//79"}, NO_CURSOR),
    "a cursor with a newline": ({"after": in_base64("Session:before:3") + "\n"}, NO_CURSOR),
    "a cursor of an assignment": ({"after": in_base64("Assignment:before:3")}, NO_CURSOR),
    "a cursor with a moment": (
        {"after": in_base64("Session:before:3:2026-11-22T09:00:00.000000Z")},
        NO_CURSOR,
    ),
    "a cursor of no kind": ({"after": in_base64("before:3")}, NO_CURSOR),
    "a cursor of the other direction": ({"after": in_base64("Session:after:3")}, NO_CURSOR),
    "an id": ({"after": global_id("Session", 3)}, NO_CURSOR),
    "a plain id": ({"after": "3"}, NO_CURSOR),
    "a cursor without number": ({"after": in_base64("Session:before:")}, NO_CURSOR),
    "a cursor with a negative number": ({"after": in_base64("Session:before:-3")}, NO_CURSOR),
    "a cursor behind the largest id": ({"after": in_base64(f"Session:before:{2**63}")}, NO_CURSOR),
    "a cursor of 20 digits": ({"after": in_base64(f"Session:before:{10**19}")}, NO_CURSOR),
}
QUERY = """query($first: Int! = 20, $after: String, $offset: Int) {
sessions(first: $first, after: $after, offset: $offset) { totalCount } }"""


@pytest.mark.parametrize(("window", "message"), BAD_WINDOWS.values(), ids=BAD_WINDOWS.keys())
def test_an_invalid_page_argument_is_rejected(
    standing: Gateway, window: dict[str, Any], message: str
) -> None:
    assert standing.as_client(1).graphql(QUERY, **window) == {
        "data": None,
        "errors": [refusal("UNREADABLE", message, "sessions", line=2, column=1)],
    }


@pytest.mark.parametrize("root", ["sessions", "assignments", "books"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [("first: 0", SIZE), ("first: 101", SIZE), ('after: "x"', NO_CURSOR)],
    ids=["first is zero", "first is too many", "a malformed cursor"],
)
def test_every_list_rejects_invalid_page_arguments(
    standing: Gateway, root: str, arguments: str, message: str
) -> None:
    assert standing.as_caregiver(1).graphql(f"{{ {root}({arguments}) {{ totalCount }} }}") == {
        "data": None,
        "errors": [refusal("UNREADABLE", message, root, column=3)],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("first: 0", SIZE),
        ("first: 101", SIZE),
        ('after: "x"', NO_CURSOR),
        ('after: "U2Vzc2lvbjpiZWZvcmU6Mw=="', NO_CURSOR),
    ],
    ids=["first is zero", "first is too many", "a malformed cursor", "a cursor of a session"],
)
def test_the_list_in_a_session_rejects_invalid_page_arguments(
    standing: Gateway, arguments: str, message: str
) -> None:
    """The error is that of the lookup: the selection is read before the database."""
    query = f"{{ session(id: 1) {{ title assignments({arguments}) {{ totalCount }} }} }}"

    assert standing.as_caregiver(1).graphql(query) == {
        "data": {"session": None},
        "errors": [refusal("UNREADABLE", message, "session", column=3)],
    }


def test_a_cursor_is_valid_in_both_lists_of_assignments(standing: Gateway) -> None:
    """Both lists are sorted by assignment id."""
    query = """query($after: String) {
        assignments(after: $after) { nodes { legacyId } }
        session(id: 1) { assignments(after: $after) { nodes { legacyId } } } }"""

    response = standing.as_client(1).data(query, after=in_base64("Assignment:before:3"))

    newer = [{"legacyId": "2"}, {"legacyId": "1"}]
    assert response == {"assignments": {"nodes": newer}, "session": {"assignments": {"nodes": newer}}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "first: 2147483648": "Int cannot represent non 32-bit signed integer value.",
        'first: "1"': "Int cannot represent non-integer value.",
        "timeState: LATER": "Value does not exist in 'TimeState' enum.",
        "timeState: running": "Value does not exist in 'TimeState' enum."
        " Did you mean the enum value 'RUNNING'?",
    }.items(),
    ids=["an integer of 33 bits", "text", "an unknown time state", "a time state in lower case"],
)
def test_a_page_argument_of_the_wrong_type_is_invalid(
    standing: Gateway, arguments: str, message: str
) -> None:
    column = 12 + len(arguments.split()[0])

    assert standing.as_client(1).graphql(f"{{ sessions({arguments}) {{ totalCount }} }}") == {
        "data": None,
        "errors": [refusal("GRAPHQL_VALIDATION_FAILED", message, column=column + 1)],
    }


def test_the_sign_in_is_checked_before_the_page_arguments(standing: Gateway) -> None:
    response = standing.as_anonymous().post_graphql("{ sessions(first: 0) { totalCount } }")

    assert response.status_code == 401
    assert [error["extensions"]["code"] for error in response.json()["errors"]] == ["UNAUTHENTICATED"]


def test_null_for_first_means_the_default(standing: Gateway) -> None:
    query = "query($n: Int) { sessions(first: $n) { nodes { id assignments(first: $n) { totalCount } } } }"

    response = standing.as_caregiver(1).data(query, n=None)

    assert response == standing.as_caregiver(1).data(query, n=20)
    assert response["sessions"]["nodes"]
