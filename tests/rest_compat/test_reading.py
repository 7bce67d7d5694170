"""What the reading paths make of a request: time states, ids, and everything they ignore."""

import pytest

from tests.callers import Caller, Gateway
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, refusal_of

TIME_STATE = "time-state must be one of RUNNING, FUTURE, COMPLETED"
NO_TIME_STATE = {
    "missing": "",
    "empty": "?time-state=",
    "lower case": "?time-state=running",
    "mixed case": "?time-state=Running",
    "unknown": "?time-state=PENDING",
    "with spaces": "?time-state=RUNNING%20",
    "with a line break": "?time-state=RUNNING%0A",
    "several in one": "?time-state=RUNNING,FUTURE",
    "the same twice": "?time-state=RUNNING&time-state=RUNNING",
    "two of them": "?time-state=RUNNING&time-state=FUTURE",
    "one empty": "?time-state=RUNNING&time-state=",
    "another name": "?timeState=RUNNING",
    "name in upper case": "?TIME-STATE=RUNNING",
    "in a header's place": "?state=RUNNING",
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("query", NO_TIME_STATE.values(), ids=NO_TIME_STATE)
def test_a_list_needs_exactly_one_of_the_three_time_states(standing: Gateway, query: str) -> None:
    sessions = standing.as_client(1).get(SESSIONS + query)
    assignments = standing.as_caregiver(1).get(ASSIGNMENTS + query)

    assert refusal_of(sessions) == (400, TIME_STATE)
    assert refusal_of(assignments) == (400, TIME_STATE)


NO_ID = {
    "letters": "one",
    "a sign": "-1",
    "another sign": "+1",
    "spaces": "%201",
    "a fraction": "1.0",
    "an underscore": "1_0",
    "hexadecimal": "0x1",
    "one too large": "9223372036854775808",
    "largest of 19 digits": "9999999999999999999",
    "20 digits": "00000000000000000001",
    "arabic digits": "%D9%A1",
    "fullwidth digits": "%EF%BC%91",
    "superscript digits": "%C2%B2",
    "no text at all": "%FF",
    "a global id": "QXNzaWdubWVudDox",
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("number", NO_ID.values(), ids=NO_ID)
def test_a_path_id_is_a_number_that_a_row_can_have(standing: Gateway, number: str) -> None:
    response = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/{number}")

    assert refusal_of(response) == (400, "id must be an integer id")


@pytest.mark.parametrize("number", ["0", "999999", "9223372036854775807", "0000000000000000006"])
def test_a_readable_id_that_names_nothing_is_not_found(standing: Gateway, number: str) -> None:
    response = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/{number}")

    assert refusal_of(response) == (404, "assignment not found")


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
def test_headers_that_mean_nothing_change_nothing(standing: Gateway, headers: dict[str, str]) -> None:
    for caller, path in every_question(standing):
        plain = caller.get(path)

        asked = caller.get(path, headers=headers)

        assert (asked.status_code, asked.content) == (200, plain.content)
        assert asked.headers["content-type"] == "application/json"


@pytest.mark.sqlite_only
@pytest.mark.parametrize("query", ["offset=20", "time_state=FUTURE", "access_token=x", "=", "%FF=%00", "&&"])
def test_other_query_parameters_are_ignored(standing: Gateway, query: str) -> None:
    for caller, path in every_question(standing):
        plain = caller.get(path)

        asked = caller.get(f"{path}{'&' if '?' in path else '?'}{query}")

        assert (asked.status_code, asked.content) == (200, plain.content)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("scheme", ["bearer", "Bearer", "BEARER", "bEaReR", "bearer  "])
def test_the_word_bearer_is_read_in_any_case(standing: Gateway, scheme: str) -> None:
    for caller, path in every_question(standing):
        plain = caller.get(path)

        asked = Caller(caller.client, None).get(path, headers={"authorization": f"{scheme} {caller.token}"})

        assert (asked.status_code, asked.content) == (200, plain.content)


def every_question(gateway: Gateway) -> list[tuple[Caller, str]]:
    """A request to each of the reading paths that is answered with something."""
    return [
        (gateway.as_client(1), f"{SESSIONS}?time-state=RUNNING"),
        (gateway.as_caregiver(1), f"{ASSIGNMENTS}?time-state=RUNNING"),
        (gateway.as_caregiver(1), f"{ASSIGNMENTS}/1"),
    ]


@pytest.mark.sqlite_only
def test_a_request_id_that_is_harmless_is_repeated(standing: Gateway) -> None:
    for caller, path in every_question(standing):
        answered = caller.get(path, headers={"x-request-id": "desk-7.a"})

        assert answered.headers["x-request-id"] == "desk-7.a"
