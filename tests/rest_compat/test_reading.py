"""Requests to the reading paths: time states, ids, and everything that they ignore."""

from urllib.parse import parse_qs

import pytest

from app.care.errors import InvalidValue
from app.rest_compat.routes import read_path_id, read_time_state
from tests.callers import Caller, Gateway
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, rejection_of

TIME_STATE = "time-state must be one of RUNNING, FUTURE, COMPLETED"
REPEATED = "time-state must be given once"
NO_TIME_STATE = {
    "missing": "",
    "empty": "time-state=",
    "lower case": "time-state=running",
    "mixed case": "time-state=Running",
    "unknown": "time-state=PENDING",
    "with spaces": "time-state=RUNNING%20",
    "with a line break": "time-state=RUNNING%0A",
    "several in one": "time-state=RUNNING,FUTURE",
    "another name": "timeState=RUNNING",
    "name in upper case": "TIME-STATE=RUNNING",
}


@pytest.mark.parametrize("query", NO_TIME_STATE.values(), ids=NO_TIME_STATE)
def test_exactly_one_of_the_three_time_states_is_required(query: str) -> None:
    with pytest.raises(InvalidValue, match=TIME_STATE):
        read_time_state(parse_qs(query, keep_blank_values=True))


@pytest.mark.parametrize("second", ["RUNNING", "FUTURE", ""])
def test_a_repeated_time_state_is_rejected(second: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{REPEATED}$"):
        read_time_state(parse_qs(f"time-state=RUNNING&time-state={second}", keep_blank_values=True))


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", TIME_STATE),
        ("time-state=running", TIME_STATE),
        ("time-state=RUNNING&time-state=FUTURE", REPEATED),
        ("time-state=RUNNING&time-state=", REPEATED),
    ],
)
def test_a_list_without_a_time_state_is_rejected(standing: Gateway, query: str, message: str) -> None:
    sessions = standing.as_client(1).get(f"{SESSIONS}?{query}")
    assignments = standing.as_caregiver(1).get(f"{ASSIGNMENTS}?{query}")

    assert rejection_of(sessions) == (400, message)
    assert rejection_of(assignments) == (400, message)


NO_ID = {
    "letters": "one",
    "a sign": "-1",
    "another sign": "+1",
    "spaces": " 1",
    "a fraction": "1.0",
    "an underscore": "1_0",
    "hexadecimal": "0x1",
    "one too large": "9223372036854775808",
    "largest of 19 digits": "9999999999999999999",
    "20 digits": "00000000000000000001",
    "arabic digits": "١",
    "fullwidth digits": "１",
    "superscript digits": "²",
    "a replacement character": "\ufffd",
    "a global id": "QXNzaWdubWVudDox",
}


@pytest.mark.parametrize("text", NO_ID.values(), ids=NO_ID)
def test_a_path_id_is_an_integer_in_the_range_of_ids(text: str) -> None:
    with pytest.raises(InvalidValue, match="id must be an integer id"):
        read_path_id(text)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("path", ["one", "9223372036854775808", "%C2%B2", "%FF", "1%0A"])
def test_a_path_without_an_id_is_rejected(standing: Gateway, path: str) -> None:
    response = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/{path}")

    assert rejection_of(response) == (400, "id must be an integer id")


@pytest.mark.parametrize("number", ["0", "999999", "9223372036854775807", "0000000000000000006"])
def test_an_unknown_id_is_not_found(standing: Gateway, number: str) -> None:
    response = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/{number}")

    assert rejection_of(response) == (404, "assignment not found")


def test_an_id_may_have_leading_zeros(standing: Gateway) -> None:
    plain = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/1")
    padded = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/0000000000000000001")

    assert plain.status_code == 200
    assert padded.content == plain.content


IGNORED_HEADERS = {
    "the documented offset": {"offset": "1"},
    "a large offset": {"offset": "20"},
    "a negative offset": {"offset": "-1"},
    "an empty offset": {"offset": ""},
    "a wordy offset": {"offset": "many"},
    "any type": {"accept": "*/*"},
    "another type": {"accept": "application/xml"},
    "a page": {"accept": "text/html"},
    "no type": {"accept": ""},
    "nonsense": {"accept": "!"},
    "another language": {"accept-language": "de"},
    "a content type without content": {"content-type": "text/plain"},
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("headers", IGNORED_HEADERS.values(), ids=IGNORED_HEADERS)
def test_other_headers_are_ignored(standing: Gateway, headers: dict[str, str]) -> None:
    for caller, path in every_read(standing):
        plain = caller.get(path)

        response = caller.get(path, headers=headers)

        assert (response.status_code, response.content) == (200, plain.content)
        assert response.headers["content-type"] == "application/json"


@pytest.mark.sqlite_only
@pytest.mark.parametrize("query", ["offset=20", "time_state=FUTURE", "access_token=x", "=", "%FF=%00", "&&"])
def test_other_query_parameters_are_ignored(standing: Gateway, query: str) -> None:
    for caller, path in every_read(standing):
        plain = caller.get(path)

        response = caller.get(f"{path}{'&' if '?' in path else '?'}{query}")

        assert (response.status_code, response.content) == (200, plain.content)


def every_read(gateway: Gateway) -> list[tuple[Caller, str]]:
    """A successful request to each of the reading paths."""
    return [
        (gateway.as_client(1), f"{SESSIONS}?time-state=RUNNING"),
        (gateway.as_caregiver(1), f"{ASSIGNMENTS}?time-state=RUNNING"),
        (gateway.as_caregiver(1), f"{ASSIGNMENTS}/1"),
    ]


@pytest.mark.sqlite_only
def test_a_harmless_request_id_is_repeated(standing: Gateway) -> None:
    for caller, path in every_read(standing):
        answered = caller.get(path, headers={"x-request-id": "desk-7.a"})

        assert answered.headers["x-request-id"] == "desk-7.a"
