"""No request to the legacy paths causes an internal error: schemathesis generates valid and invalid
requests from openapi.yaml. Every response is documented, and an invalid request is never a 200."""

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
from tests.fuzz.counts import SOAK_REST, short, soak
from tests.fuzz.direct_requests import DirectService, RawRequest
from tests.fuzz.response_rules import check_response
from tests.fuzz.world import SESSIONS
from tests.rest_compat.legacy import homework

OPERATIONS = st.deferred(  # read when the first is drawn
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
MAY = {"caregiver": frozenset({"CAREGIVER"}), "client": frozenset({"CLIENT"})}
OTHER_SENDERS = [*TOKENS, "nobody", "as it is"]
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
    """The generated request without the headers of schemathesis."""
    arguments = case.as_transport_kwargs(base_url="http://gateway.test")
    headers = [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in arguments["headers"].items()
        if not name.startswith("X-Schemathesis")
    ]
    body = arguments.get("data", b"")
    if "json" in arguments:
        body = json.dumps(arguments["json"]).encode()
    assert isinstance(body, bytes)
    query = urlencode(arguments["params"] or {}, doseq=True, errors="surrogatepass")
    return RawRequest(arguments["method"], urlsplit(arguments["url"]).path, query, tuple(headers), body)


Request = tuple[RawRequest, str]  # and its sender


@st.composite
def requests(draw: st.DrawFn) -> list[Request]:
    """Requests by an allowed caller, often for existing objects; by another caller; and damaged requests."""
    operation = draw(OPERATIONS)
    mode = draw(st.sampled_from(GenerationMode))
    case = draw(operation.as_strategy(generation_mode=mode))
    if draw(st.integers(0, 3)) and "id" in (case.path_parameters or {}):
        case.path_parameters["id"] = draw(st.integers(1, 3 * SESSIONS))
    if isinstance(case.body, dict) and draw(st.integers(0, 3)):
        case.body = {**homework(sessionId=draw(st.integers(1, SESSIONS))), **one_of_few(draw, case.body)}
    request = bytes_of(case)
    if draw(st.integers(0, 9)) == 9:
        request = replace(request, method=draw(st.sampled_from(METHODS)))
    right = operation.tags[0].lower()
    other, rng = draw(st.sampled_from(OTHER_SENDERS)), Random(draw(st.integers(0, 2**32)))
    valid = with_token(request, right)
    return [
        (valid, right),
        (with_token(request, other), other),
        *((damage(rng, valid), right) for _ in range(DAMAGED)),
    ]


def with_token(request: RawRequest, sender: str) -> RawRequest:
    """With this token; "as it is" keeps the generated one."""
    if sender in TOKENS:
        return request.with_headers((b"authorization", f"bearer {TOKENS[sender]}".encode()))
    return request.without(b"authorization") if sender == "nobody" else request


def damage(rng: Random, request: RawRequest) -> RawRequest:
    """Replaces a part of the path, the query, the body or a header."""
    where = rng.choice(["path", "query", "body", "body", "header"])
    start, length, text = rng.randint(0, 300), rng.choice([0, 1, 1, 5]), rng.choice(PIECES)
    if where == "header":
        return replace(
            request, headers=(*request.headers, (rng.choice(NAMES), text.encode("utf-8", "replace")))
        )
    if where == "body":
        return replace(
            request, body=splice(request.body, start, length, text.encode("utf-8", "surrogatepass"))
        )
    written = quote(text, safe="/%&=;", errors="surrogatepass")
    if where == "query":
        return replace(request, query=splice(request.query, start, length, written))
    return replace(request, path=ROOT + splice(request.path.removeprefix(ROOT), start, length, written))


def splice(value: Any, start: int, length: int, text: Any) -> Any:
    start = start % (len(text) + 1)
    return value[:start] + text + value[start + length :]


def one_of_few(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """At most two of these members; the others keep valid values."""
    if not body:
        return {}
    names = draw(st.lists(st.sampled_from(sorted(body)), max_size=2, unique=True))
    return {name: body[name] for name in names}


Counts = Counter[tuple[str, str, int]]  # method, path, status


def fuzz(service: DirectService) -> tuple[Callable[[list[Request]], None], Counts]:
    counts: Counts = Counter()

    def check(requests: list[Request]) -> None:
        for request, sender in requests:
            note(f"{sender}: {request}")
            response = service.send(request)
            check_response(request, response, MAY.get(sender, frozenset()))
            template = openapi.template_of(request.path) or "elsewhere"
            counts[request.method, template, response.status] += 1

    return check, counts


def assert_coverage(counts: Counts, logged_errors: list[str]) -> None:
    """Checks that every operation was executed, not only rejected."""
    assert logged_errors == []
    reached = {(method, template) for method, template, status in counts if status == 200}
    assert reached >= {(method, path) for path, method, _ in openapi.operations()}
    assert {status for *_, status in counts} >= {200, 400, 401, 403, 404, 405}


def test_generated_requests_are_answered_as_documented(
    service: DirectService, logged_errors: list[str]
) -> None:
    check, counts = fuzz(service)

    short(25)(given(requests())(check))()

    assert logged_errors == []
    assert {status for *_, status in counts} >= {200, 400, 404}  # few requests need not reach everything


@pytest.mark.soak
def test_fifty_thousand_requests_are_answered_as_documented(
    service: DirectService, logged_errors: list[str]
) -> None:
    check, counts = fuzz(service)

    soak(SOAK_REST // (2 + DAMAGED))(given(requests())(check))()

    assert_coverage(counts, logged_errors)
    print(f"{counts.total()} requests: {sorted(counts.items())}")
