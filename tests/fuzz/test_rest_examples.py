"""Invalid requests to the legacy paths get documented errors, and unusual valid ones succeed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.checks import check_response
from tests.fuzz.conftest import serve_copy
from tests.fuzz.in_process import InProcessService, RawRequest
from tests.fuzz.legacy_examples import AS_CLIENT, BAD_TOKENS, ENDPOINTS, INVALID, UNUSUAL
from tests.rest_compat.legacy import SESSIONS

CAREGIVER = frozenset({"CAREGIVER"})
CLIENT = frozenset({"CLIENT"})


@pytest.fixture(scope="module")
def shared_service(wide_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessService]:
    with serve_copy(wide_world, tmp_path_factory.mktemp("by-hand")) as one:
        yield one


def test_invalid_requests_get_documented_errors(
    shared_service: InProcessService, logged_errors: list[str]
) -> None:
    accepted = []

    for request in INVALID:
        response = shared_service.send(request)
        check_response(request, response, CAREGIVER)
        if response.status == 200:
            accepted.append(request)

    assert accepted == []
    assert logged_errors == []


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=["a list", "an assignment", "assigning"])
def test_a_bad_token_is_rejected(
    shared_service: InProcessService, logged_errors: list[str], endpoint: RawRequest
) -> None:
    for token in BAD_TOKENS:
        request = endpoint.with_headers((b"authorization", token))
        response = shared_service.send(request)
        check_response(request, response, frozenset())
        assert response.status in (401, 403), token
    assert logged_errors == []


def test_unusual_valid_requests_succeed(shared_service: InProcessService, logged_errors: list[str]) -> None:
    rejected = []

    for request in UNUSUAL:
        response = shared_service.send(request)
        check_response(request, response, CAREGIVER)
        if response.status != 200:
            rejected.append((request, response.body))

    assert rejected == []
    assert logged_errors == []


def test_an_invalid_request_id_is_not_repeated(shared_service: InProcessService) -> None:
    for value in (b"a\r\nset-cookie: b", b"a\nb", b"\x00", b"x" * 65, "é".encode(), b"", b"a b", b"<script>"):
        request = RawRequest("GET", SESSIONS, "time-state=RUNNING", (AS_CLIENT, (b"x-request-id", value)))
        response = shared_service.send(request)
        check_response(request, response, CLIENT)
        assert (response.header(b"x-request-id") or "").encode("latin-1") != value
