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
from tests.fuzz.direct_requests import Asked, Direct
from tests.fuzz.response_rules import judge
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
OTHERS = [*TOKENS, "nobody", "as it is"]
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


def bytes_of(case: Case) -> Asked:
    """The generated request without the headers of schemathesis."""
    said = case.as_transport_kwargs(base_url="http://gateway.test")
    headers = [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in said["headers"].items()
        if not name.startswith("X-Schemathesis")
    ]
    body = said.get("data", b"")
    if "json" in said:
        body = json.dumps(said["json"]).encode()
    assert isinstance(body, bytes)
    query = urlencode(said["params"] or {}, doseq=True, errors="surrogatepass")
    return Asked(said["method"], urlsplit(said["url"]).path, query, tuple(headers), body)


Request = tuple[Asked, str]  # and who asks


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
    asked = bytes_of(case)
    if draw(st.integers(0, 9)) == 9:
        asked = replace(asked, method=draw(st.sampled_from(METHODS)))
    right = operation.tags[0].lower()
    other, rng = draw(st.sampled_from(OTHERS)), Random(draw(st.integers(0, 2**32)))
    meant = carrying(asked, right)
    return [
        (meant, right),
        (carrying(asked, other), other),
        *((damaged(rng, meant), right) for _ in range(DAMAGED)),
    ]


def carrying(asked: Asked, who: str) -> Asked:
    """With this token; "as it is" keeps the generated one."""
    if who in TOKENS:
        return asked.saying((b"authorization", f"bearer {TOKENS[who]}".encode()))
    return asked.without(b"authorization") if who == "nobody" else asked


def damaged(rng: Random, asked: Asked) -> Asked:
    """Replaces a part of the path, the query, the body or a header."""
    where = rng.choice(["path", "query", "body", "body", "header"])
    start, length, piece = rng.randint(0, 300), rng.choice([0, 1, 1, 5]), rng.choice(PIECES)
    if where == "header":
        return replace(asked, headers=(*asked.headers, (rng.choice(NAMES), piece.encode("utf-8", "replace"))))
    if where == "body":
        return replace(asked, body=spliced(asked.body, start, length, piece.encode("utf-8", "surrogatepass")))
    written = quote(piece, safe="/%&=;", errors="surrogatepass")
    if where == "query":
        return replace(asked, query=spliced(asked.query, start, length, written))
    return replace(asked, path=ROOT + spliced(asked.path.removeprefix(ROOT), start, length, written))


def spliced(text: Any, start: int, length: int, piece: Any) -> Any:
    start = start % (len(text) + 1)
    return text[:start] + piece + text[start + length :]


def one_of_few(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """At most two of these members; the others keep valid values."""
    if not body:
        return {}
    names = draw(st.lists(st.sampled_from(sorted(body)), max_size=2, unique=True))
    return {name: body[name] for name in names}


Seen = Counter[tuple[str, str, int]]  # method, path, status


def fuzz(service: Direct) -> tuple[Callable[[list[Request]], None], Seen]:
    seen: Seen = Counter()

    def check(requests: list[Request]) -> None:
        for asked, who in requests:
            note(f"{who}: {asked}")
            answered = service.ask(asked)
            judge(asked, answered, MAY.get(who, frozenset()))
            template = openapi.template_of(asked.path) or "elsewhere"
            seen[asked.method, template, answered.status] += 1

    return check, seen


def assert_reached(seen: Seen, complaints: list[str]) -> None:
    """Checks that every operation was executed, not only rejected."""
    assert complaints == []
    reached = {(method, template) for method, template, status in seen if status == 200}
    assert reached >= {(method, path) for path, method, _ in openapi.operations()}
    assert {status for *_, status in seen} >= {200, 400, 401, 403, 404, 405}


def test_generated_requests_are_answered_as_documented(service: Direct, complaints: list[str]) -> None:
    check, seen = fuzz(service)

    short(25)(given(requests())(check))()

    assert complaints == []
    assert {status for *_, status in seen} >= {200, 400, 404}  # few requests need not reach everything


@pytest.mark.soak
def test_fifty_thousand_requests_are_answered_as_documented(service: Direct, complaints: list[str]) -> None:
    check, seen = fuzz(service)

    soak(SOAK_REST // (2 + DAMAGED))(given(requests())(check))()

    assert_reached(seen, complaints)
    print(f"{seen.total()} requests: {sorted(seen.items())}")
