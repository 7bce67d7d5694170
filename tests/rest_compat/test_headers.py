"""Every response on the legacy paths has the security headers and an unchanged body."""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, rejection_of
from tests.schema.test_headers import CONTENT_HEADERS, SECURITY_HEADERS, has_headers
from tests.test_main import UNAVAILABLE, take_away

ANSWERS: dict[str, tuple[str, str, dict[str, Any], int, set[str]]] = {
    "a list": ("GET", f"{ASSIGNMENTS}?time-state=RUNNING", {}, 200, set()),
    "a head": ("HEAD", f"{ASSIGNMENTS}?time-state=RUNNING", {}, 200, set()),
    "no time state": ("GET", ASSIGNMENTS, {}, 400, set()),
    "nobody": ("GET", ASSIGNMENTS, {"headers": {"authorization": ""}}, 401, {"www-authenticate"}),
    "another role": ("GET", f"{SESSIONS}?time-state=RUNNING", {}, 403, set()),
    "an unknown path": ("GET", "/gateway/nowhere", {}, 404, set()),
    "another method": ("DELETE", ASSIGNMENTS, {}, 405, {"allow"}),
    "a question whether one may ask": (
        "OPTIONS",
        ASSIGNMENTS,
        {"headers": {"origin": "https://app.test", "access-control-request-method": "PUT"}},
        403,
        {"vary"},
    ),
    "too long": ("PUT", ASSIGNMENTS, {"content": b" " * 65_537}, 413, set()),
    "text": ("PUT", ASSIGNMENTS, {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, set()),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", ANSWERS)
def test_every_legacy_response_has_the_headers_once(standing: Gateway, name: str) -> None:
    method, path, request, status, others = ANSWERS[name]

    response = standing.as_caregiver(1).request(method, path, **request)

    assert response.status_code == status
    has_headers(response, SECURITY_HEADERS, CONTENT_HEADERS | others | {"x-request-id"})


def test_a_503_has_a_retry_after_header(gateway: Gateway) -> None:
    take_away(gateway.settings.database)

    response = gateway.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=RUNNING")

    assert rejection_of(response) == (503, UNAVAILABLE)
    has_headers(response, {**SECURITY_HEADERS, "retry-after": "1"}, CONTENT_HEADERS | {"x-request-id"})
