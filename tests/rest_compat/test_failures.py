"""Every error under /gateway has the same body: unknown paths, wrong methods, missing tokens, internal
errors."""

import asyncio
import logging
import runpy
import sqlite3
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.care.errors import CareError
from app.http import errors
from app.http.errors import BY_CLASS, BY_CODE, Failure
from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import a_world, starting_with
from tests.postgres import execute
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework, rejection_of, stream

METHODS = {SESSIONS: "GET, HEAD", ASSIGNMENTS: "GET, HEAD, PUT", f"{ASSIGNMENTS}/1": "GET, HEAD"}


# --- paths and methods -----------------------------------------------------------------------------

UNKNOWN_PATHS = [
    "/gateway",
    "/gateway/",
    "/gateway//",
    "/gateway/profile",
    "/gateway/profile/client",
    "/gateway/profile/client/sessions",
    "/gateway/profile/client/SESSION",
    "/gateway//profile/client/session",
    "/gateway/profile/caregiver/session",
    "/gateway/profile/caregiver/session/assignment/1/2",
    "/gateway/profile/caregiver/session/assignment/1%2F2",
    f"{SESSIONS}/",
    f"{SESSIONS}//",
    f"{SESSIONS}/1",
    f"{SESSIONS}%0A",
    f"{ASSIGNMENTS}/",
    f"{ASSIGNMENTS}/1/",
    "/gateway/graphql",
    "/gateway/gateway/profile/client/session",
    "/gateway/Zo%C3%AB",
    "/gateway/%FF",
]


@pytest.mark.sqlite_only
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "OPTIONS", "TRACE"])
def test_an_unknown_path_is_not_found_with_any_token(standing: Gateway, method: str) -> None:
    for path in UNKNOWN_PATHS:
        for caller in (standing.as_anonymous(), standing.as_caregiver(1), standing.with_token("no token")):
            response = caller.request(method, f"{path}?time-state=RUNNING")

            assert rejection_of(response) == (404, "no such path"), path


WRONG_METHODS = [
    (path, method)
    for path, right in METHODS.items()
    for method in ("PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW")
    if method not in right.split(", ")
]


@pytest.mark.sqlite_only
def test_a_wrong_method_is_rejected_with_the_allowed_ones(standing: Gateway) -> None:
    for path, method in WRONG_METHODS:
        for caller in (standing.as_anonymous(), standing.as_caregiver(1), standing.with_token("no token")):
            response = caller.request(method, path)

            assert rejection_of(response) == (405, "no such method on this path"), (path, method)
            assert sorted(response.headers["allow"].split(", ")) == METHODS[path].split(", ")


# --- strangers -------------------------------------------------------------------------------------

ENTRANCES = [("GET", SESSIONS), ("GET", ASSIGNMENTS), ("GET", f"{ASSIGNMENTS}/1"), ("PUT", ASSIGNMENTS)]
NOT_SIGNED_IN = {
    "no header": (None, "sign in with a valid bearer token"),
    "no token": ("bearer", "the Authorization header must read: bearer <token>"),
    "empty": ("", "the Authorization header must read: bearer <token>"),
    "another scheme": ("Basic eDp5", "the Authorization header must read: bearer <token>"),
    "two tokens": ("bearer a b", "the Authorization header must read: bearer <token>"),
    "no JWT": ("bearer nonsense", "the bearer token is not valid"),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("authorization", "message"), NOT_SIGNED_IN.values(), ids=NOT_SIGNED_IN)
@pytest.mark.parametrize(("method", "path"), ENTRANCES)
def test_every_path_requires_a_valid_token(
    standing: Gateway, method: str, path: str, authorization: str | None, message: str
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}

    response = standing.as_anonymous().request(method, path, headers=headers)

    assert rejection_of(response) == (401, message)
    assert response.headers["www-authenticate"] == "Bearer"


@starting_with(a_world)
def test_an_account_that_is_unknown_or_disabled_is_forbidden(gateway: Gateway) -> None:
    run(gateway, "UPDATE caregiver SET is_disabled = true WHERE id = 1")
    before = stored(gateway)

    for caregiver in (gateway.as_caregiver(1), gateway.as_caregiver(99)):
        listed = caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING")
        assigned = caregiver.put(ASSIGNMENTS, json=homework())

        assert rejection_of(listed) == (403, "there is no enabled account for this token")
        assert rejection_of(assigned) == (403, "there is no enabled account for this token")
    assert stored(gateway) == before
    assert gateway.as_caregiver(2).get(f"{ASSIGNMENTS}?time-state=RUNNING").status_code == 200


# --- HEAD ------------------------------------------------------------------------------------------


HEADS = [
    f"{ASSIGNMENTS}?time-state=RUNNING",
    f"{ASSIGNMENTS}/1",
    f"{ASSIGNMENTS}/999999",
    f"{ASSIGNMENTS}?time-state=NEVER",
    f"{SESSIONS}?time-state=RUNNING",
    "/gateway/nowhere",
]


@pytest.mark.sqlite_only
@pytest.mark.parametrize("path", HEADS)
def test_head_is_get_without_a_body(standing: Gateway, path: str) -> None:
    caregiver = standing.as_caregiver(1)
    headers = {"x-request-id": "the-same"}

    got = caregiver.get(path, headers=headers)
    head = caregiver.request("HEAD", path, headers=headers)
    sent = stream(caregiver, "HEAD", path, {}, iter(()))

    assert head.status_code == sent.status == got.status_code
    assert head.headers == got.headers
    assert int(head.headers["content-length"]) == len(got.content) > 0
    assert sent.body == b""


# --- faults ----------------------------------------------------------------------------------------


def run(gateway: Gateway, statement: str) -> None:
    """Runs statements on the database directly."""
    url = gateway.settings.database
    if not url.startswith("sqlite:///"):
        asyncio.run(execute(url, statement))
        return
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.ERROR, logger="care"):
        yield caplog


@starting_with(a_world)
@pytest.mark.sqlite_only
@pytest.mark.parametrize("table", ["assignment", "caregiver"])
def test_an_internal_error_reveals_only_the_request_id(
    gateway: Gateway, logged: pytest.LogCaptureFixture, table: str
) -> None:
    """Without the table of assignments a read fails; without that of caregivers authentication fails."""
    caregiver = gateway.as_caregiver(1)
    headers = {"x-request-id": "fault-1"}

    run(gateway, f"ALTER TABLE {table} RENAME TO elsewhere")
    listed = caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING", headers=headers)
    read = caregiver.get(f"{ASSIGNMENTS}/1", headers=headers)
    assigned = caregiver.put(ASSIGNMENTS, json=homework(), headers=headers)

    for response in (listed, read, assigned):
        assert rejection_of(response) == (500, "Internal error")
        assert response.headers["x-request-id"] == "fault-1"
    assert [record.exc_info is not None for record in logged.records] == [True, True, True]
    assert all("fault-1" in record.getMessage() for record in logged.records)


@starting_with(a_world)
def test_a_failure_while_assigning_writes_nothing(gateway: Gateway) -> None:
    """Events are written last, so all other rows were already written when this fails."""
    before = stored(gateway)

    run(gateway, "ALTER TABLE event RENAME TO elsewhere")
    response = gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework())
    run(gateway, "ALTER TABLE elsewhere RENAME TO event")

    assert rejection_of(response) == (500, "Internal error")
    assert stored(gateway) == before


# --- one status per code ---------------------------------------------------------------------------

DECIDED = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "INCOMPLETE": 404,
    "UNREADABLE": 400,
    "NOT_RUNNING": 409,
    "WRONG_STATE": 409,
    "DRAFT_CONFLICT": 409,  # there are no drafts on these paths
    "IDEMPOTENCY_CONFLICT": 422,
    "RATE_LIMITED": 429,
    "TOO_COSTLY": 400,  # a smaller page is possible
    "EXPIRED": 404,  # there are no subscriptions on these paths
    "OVERLOADED": 503,
    "OUTCOME_UNKNOWN": 503,
    "READ_ONLY": 503,
    "INTERNAL": 500,
}


def codes_below(refusal: type[CareError]) -> Iterator[str]:
    if "code" in vars(refusal):
        yield refusal.code
    for narrower in refusal.__subclasses__():
        yield from codes_below(narrower)


RAISED = {*codes_below(CareError), *(each.code for each in BY_CLASS.values()), Failure.INTERNAL.code}


@pytest.mark.parametrize("code", sorted(RAISED))
def test_every_error_has_its_status(code: str) -> None:
    assert BY_CODE[code].legacy == DECIDED[code]


def test_the_tests_cover_every_status() -> None:
    assert DECIDED.keys() == RAISED


def test_a_phrase_does_not_depend_on_the_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later versions have other phrases for some statuses."""
    later = [SimpleNamespace(value=status, phrase="Of later versions") for status in (413, 414, 422)]
    monkeypatch.setattr("http.HTTPStatus", later)

    phrases = runpy.run_path(errors.__file__)["PHRASES"]

    names = {413: "Request Entity Too Large", 414: "URI Too Long", 422: "Unprocessable Entity"}
    assert phrases == {294: "Partial Success"} | names
