"""Valid and invalid requests that schemathesis generates from openapi.yaml, with and without valid tokens,
cause no internal error. Every response is documented, and invalid input is never a 200."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
import schemathesis
from hypothesis import given, note
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.generation import GenerationMode

from tests import keys, openapi
from tests.fuzz.checks import check_response
from tests.fuzz.counts import SOAK_REST, short, soak
from tests.fuzz.in_process import InProcessService, RawRequest
from tests.fuzz.world import SESSIONS
from tests.rest_compat.legacy import homework

OPERATIONS = st.deferred(  # loaded on first use
    lambda: st.sampled_from(
        [found.ok() for found in schemathesis.openapi.from_path(openapi.PATH).get_all_operations()]
    )
)
TOKENS = {
    "caregiver": keys.token("CAREGIVER", "caregiver-1"),
    "client": keys.token("CLIENT", "client-1"),
    "both": keys.token("CAREGIVER", "caregiver-1", authorities=["CAREGIVER", "CLIENT"]),
    "stranger": keys.token("CAREGIVER", "caregiver-99"),
    "expired": keys.token("CAREGIVER", "caregiver-1", exp=datetime.now(UTC) - timedelta(days=1)),
    "refresh": keys.token("CAREGIVER", "caregiver-1", ati="access-1"),
}
ROOT = "/gateway/"
DAMAGED = 8
ROLES = {"caregiver": frozenset({"CAREGIVER"}), "client": frozenset({"CLIENT"})}
OTHERS = [*TOKENS, "anonymous", "as it is"]
PIECES = [
    *(
        "",
        "/",
        "%",
        "%00",
        "%2F",
        "%0A",
        "%FF",
        "..",
        "?",
        "&",
        "=",
        ";",
        "0",
        "-",
        "9" * 19,
        "9" * 400,
        "\x00",
        "\r\n",
        "\ud800",
    ),
    *(
        '"',
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        "\\",
        "\\u0000",
        "null",
        "true",
        "1e9",
        "NaN",
        "é",
        "\u0661",
        "time-state=FUTURE&",
        " ",
    ),
]
NAMES = [
    b"content-type",
    b"content-length",
    b"idempotency-key",
    b"x-request-id",
    b"offset",
    b"accept",
    b"transfer-encoding",
    b"cookie",
]
METHODS = ["HEAD", "HEAD", "GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "put", "QUERY"]


def bytes_of(case: Case) -> RawRequest:
    """The request of schemathesis without its own headers."""
    parts = case.as_transport_kwargs(base_url="http://gateway.test")
    headers = [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in parts["headers"].items()
        if not name.startswith("X-Schemathesis")
    ]
    body = parts.get("data", b"")
    if "json" in parts:
        body = json.dumps(parts["json"]).encode()
    assert isinstance(body, bytes)
    query = urlencode(parts["params"] or {}, doseq=True, errors="surrogatepass")
    return RawRequest(parts["method"], urlsplit(parts["url"]).path, query, tuple(headers), body)


Attempt = tuple[RawRequest, str]  # with its caller


@st.composite
def requests(draw: st.DrawFn) -> list[Attempt]:
    """Requests by an allowed caller, often for existing objects; by another caller; and damaged requests."""
    operation = draw(OPERATIONS)
    mode = draw(st.sampled_from(GenerationMode))
    case = draw(operation.as_strategy(generation_mode=mode))
    if draw(st.integers(0, 3)) and "id" in (case.path_parameters or {}):
        case.path_parameters["id"] = draw(st.integers(1, 3 * SESSIONS))
    if isinstance(case.body, dict) and draw(st.integers(0, 3)):
        case.body = {**homework(sessionId=draw(st.integers(1, SESSIONS))), **some_members(draw, case.body)}
    request = bytes_of(case)
    if draw(st.integers(0, 9)) == 9:
        request = replace(request, method=draw(st.sampled_from(METHODS)))
    role = operation.tags[0].lower()
    other, rng = draw(st.sampled_from(OTHERS)), Random(draw(st.integers(0, 2**32)))
    allowed = with_token(request, role)
    return [
        (allowed, role),
        (with_token(request, other), other),
        *((damaged(rng, allowed), role) for _ in range(DAMAGED)),
    ]


def with_token(request: RawRequest, caller: str) -> RawRequest:
    """The request with the caller's token; "as it is" keeps what schemathesis generated."""
    if caller in TOKENS:
        return request.with_headers((b"authorization", f"bearer {TOKENS[caller]}".encode()))
    return request.without(b"authorization") if caller == "anonymous" else request


def damaged(rng: Random, request: RawRequest) -> RawRequest:
    """The request with one change of its path, query, body or headers."""
    where = rng.choice(["path", "query", "body", "body", "header"])
    start, length, piece = rng.randint(0, 300), rng.choice([0, 1, 1, 5]), rng.choice(PIECES)
    if where == "header":
        return replace(
            request, headers=(*request.headers, (rng.choice(NAMES), piece.encode("utf-8", "replace")))
        )
    if where == "body":
        return replace(
            request, body=spliced(request.body, start, length, piece.encode("utf-8", "surrogatepass"))
        )
    written = quote(piece, safe="/%&=;", errors="surrogatepass")
    if where == "query":
        return replace(request, query=spliced(request.query, start, length, written))
    return replace(request, path=ROOT + spliced(request.path.removeprefix(ROOT), start, length, written))


def spliced(text: Any, start: int, length: int, piece: Any) -> Any:
    start = start % (len(text) + 1)
    return text[:start] + piece + text[start + length :]


def some_members(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """At most two of these members."""
    if not body:
        return {}
    names = draw(st.lists(st.sampled_from(sorted(body)), max_size=2, unique=True))
    return {name: body[name] for name in names}


Counts = Counter[tuple[str, str, int]]  # method, path, status


def fuzz(service: InProcessService) -> tuple[Callable[[list[Attempt]], None], Counts]:
    counts: Counts = Counter()

    def check(requests: list[Attempt]) -> None:
        for request, caller in requests:
            note(f"{caller}: {request}")
            response = service.send(request)
            check_response(request, response, ROLES.get(caller, frozenset()))
            template = openapi.template_of(request.path) or "elsewhere"
            counts[request.method, template, response.status] += 1

    return check, counts


def assert_reached(counts: Counts, logged_errors: list[str]) -> None:
    """Checks that every operation succeeded at least once."""
    assert logged_errors == []
    reached = {(method, template) for method, template, status in counts if status == 200}
    assert reached >= {(method, path) for path, method, _ in openapi.operations()}
    assert {status for *_, status in counts} >= {200, 400, 401, 403, 404, 405}


def test_every_request_gets_a_documented_response(
    service: InProcessService, logged_errors: list[str]
) -> None:
    check, counts = fuzz(service)

    short(25)(given(requests())(check))()

    assert logged_errors == []
    assert {status for *_, status in counts} >= {200, 400, 404}  # few requests need not reach everything


@pytest.mark.soak
def test_fifty_thousand_requests_get_documented_responses(
    service: InProcessService, logged_errors: list[str]
) -> None:
    check, counts = fuzz(service)

    soak(SOAK_REST // (2 + DAMAGED))(given(requests())(check))()

    assert_reached(counts, logged_errors)
    print(f"{counts.total()} requests: {sorted(counts.items())}")
