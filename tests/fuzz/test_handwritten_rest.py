"""The legacy paths reject every invalid request as documented, never with a 200."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.conftest import served
from tests.fuzz.direct_requests import DirectService, RawRequest
from tests.fuzz.handwritten_requests import AS_CLIENT, BAD_TOKENS, ENTRANCES, ODD, WRONG
from tests.fuzz.response_rules import check_response
from tests.rest_compat.legacy import SESSIONS

CAREGIVER = frozenset({"CAREGIVER"})
CLIENT = frozenset({"CLIENT"})


@pytest.fixture(scope="module")
def standing(wide_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectService]:
    with served(wide_world, tmp_path_factory.mktemp("by-hand")) as one:
        yield one


def test_invalid_requests_are_rejected_as_documented(
    standing: DirectService, logged_errors: list[str]
) -> None:
    accepted = []

    for request in WRONG:
        response = standing.send(request)
        check_response(request, response, CAREGIVER)
        if response.status == 200:
            accepted.append(request)

    assert accepted == []
    assert logged_errors == []


@pytest.mark.parametrize("valid", ENTRANCES, ids=["a list", "an assignment", "assigning"])
def test_bad_tokens_are_rejected(
    standing: DirectService, logged_errors: list[str], valid: RawRequest
) -> None:
    for token in BAD_TOKENS:
        request = valid.with_headers((b"authorization", token))
        response = standing.send(request)
        check_response(request, response, frozenset())
        assert response.status in (401, 403), token
    assert logged_errors == []


def test_unusual_valid_requests_are_answered(standing: DirectService, logged_errors: list[str]) -> None:
    rejected = []

    for request in ODD:
        response = standing.send(request)
        check_response(request, response, CAREGIVER)
        if response.status != 200:
            rejected.append((request, response.body))

    assert rejected == []
    assert logged_errors == []


def test_an_unsafe_request_id_is_not_returned(standing: DirectService) -> None:
    for value in (b"a\r\nset-cookie: b", b"a\nb", b"\x00", b"x" * 65, "é".encode(), b"", b"a b", b"<script>"):
        request = RawRequest("GET", SESSIONS, "time-state=RUNNING", (AS_CLIENT, (b"x-request-id", value)))
        response = standing.send(request)
        check_response(request, response, CLIENT)
        assert (response.header(b"x-request-id") or "").encode("latin-1") != value
