"""Valid and invalid GraphQL documents over the real schema, with ids of existing objects, cause no internal
error, and every error has its code and request id."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from app.http.errors import OVERLOADED
from app.schema.errors import INTERNAL
from tests import keys
from tests.fuzz.counts import SOAK_GRAPHQL, short, soak
from tests.fuzz.documents import BODIES
from tests.fuzz.in_process import InProcessService, RawRequest, RawResponse

TOKENS = [
    f"bearer {keys.token(role, user)}".encode()
    for role, user in (("CAREGIVER", "caregiver-1"), ("CLIENT", "client-1"))
]
JSON = b"application/json"
EVENTS = b"text/event-stream"
TYPES = [
    *[JSON] * 36,
    b"application/json; charset=utf-8",
    b"APPLICATION/JSON",
    b"text/plain",
    b"",
    b"multipart/form-data",
]
ACCEPTS = [
    *[JSON] * 8,
    EVENTS,
    EVENTS,
    b"application/graphql-response+json, text/event-stream",
    b"text/html",
    b"*/*",
    b"",
]
HEADERS = st.lists(
    st.sampled_from(
        [(b"idempotency-key", b"one"), (b"idempotency-key", b"a key"), (b"x-request-id", b"\xff\x00")]
    ),
    max_size=1,
)


@st.composite
def requests(draw: st.DrawFn) -> list[RawRequest]:
    """The same request by a caregiver and by a client. The second time its document is prepared."""
    body = draw(BODIES)
    more = (
        (b"content-type", draw(st.sampled_from(TYPES))),
        (b"accept", draw(st.sampled_from(ACCEPTS))),
        *(draw(HEADERS) if draw(st.integers(0, 5)) == 0 else ()),
    )
    if draw(st.integers(0, 19)) == 19:
        return [
            RawRequest("GET", "/graphql", as_query_string(body), ((b"authorization", token), *more))
            for token in TOKENS
        ]
    method = draw(st.sampled_from(["POST"] * 60 + ["PUT", "HEAD", "OPTIONS"]))
    return [RawRequest(method, "/graphql", "", ((b"authorization", token), *more), body) for token in TOKENS]


def as_query_string(body: bytes) -> str:
    """The members of a posted request as a query string."""
    try:
        value = json.loads(body)
    except ValueError:
        value = {}
    members = value.items() if isinstance(value, dict) else ()
    return urlencode(
        {name: each if isinstance(each, str) else json.dumps(each) for name, each in members},
        errors="replace",
    )


def check_response(request: RawRequest, response: RawResponse) -> list[str]:
    """Checks what holds for every response, and returns the codes of its errors."""
    assert 200 <= response.status < 500, response
    request_id = response.header(b"x-request-id")
    assert request_id
    assert (response.header(b"www-authenticate") == "Bearer") == (response.status == 401)
    kind = response.header(b"content-type") or ""
    if kind.startswith("text/html"):  # the page, for browsers
        assert (request.method, request.all_of(b"accept")) == ("GET", [b"text/html"])
        return []
    assert kind in ("application/json", "application/graphql-response+json", "text/event-stream")
    results = (
        events_in(response.body.decode())
        if kind == "text/event-stream"
        else [json.loads(response.body or b"{}")]
    )
    # A subscription may end without an event.
    assert response.body or request.method == "HEAD" or kind == "text/event-stream"
    return [code_of(error, request_id) for one in results for error in errors_of(one)]


def events_in(text: str) -> list[Any]:
    parts = (part.split("\n") for part in text.split("\n\n") if part.startswith("event: next"))
    return [json.loads(line.removeprefix("data: ")) for _, line in parts]


def errors_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    assert set(result) <= {"data", "errors", "extensions"}
    errors = result.get("errors", [])
    assert errors or "errors" not in result
    return list(errors)


def code_of(error: dict[str, Any], request_id: str) -> str:
    assert set(error) <= {"message", "locations", "path", "extensions"}
    assert isinstance(error["message"], str)
    assert error["extensions"]["requestId"] == request_id
    code: str = error["extensions"]["code"]
    assert code not in (INTERNAL, OVERLOADED), error
    return code


Counts = Counter[str]


def fuzz(service: InProcessService) -> tuple[Callable[[list[RawRequest]], None], Counts]:
    counts: Counts = Counter()

    def check(requests: list[RawRequest]) -> None:
        counts["documents"] += 1
        for request in requests:
            note(str(request))
            response = service.send(request)
            codes = check_response(request, response)
            counts.update([str(response.status), *codes, *([] if codes else ["without errors"])])

    return check, counts


def assert_reached(counts: Counts, logged_errors: list[str]) -> None:
    """Checks that enough documents were valid, and that all kinds of errors occurred."""
    assert logged_errors == []
    assert counts["without errors"] > counts["documents"] / 5
    assert (
        counts["GRAPHQL_VALIDATION_FAILED"]
        and counts["GRAPHQL_PARSE_FAILED"]
        and counts["NOT_FOUND"]
        and counts["400"]
    )


def test_no_document_causes_an_internal_error(service: InProcessService, logged_errors: list[str]) -> None:
    check, counts = fuzz(service)

    short(50)(given(requests())(check))()

    assert logged_errors == []
    assert (
        counts["without errors"] and counts["GRAPHQL_VALIDATION_FAILED"]
    )  # few documents need not reach all


@pytest.mark.soak
def test_thousands_of_documents_cause_no_internal_error(
    service: InProcessService, logged_errors: list[str]
) -> None:
    check, counts = fuzz(service)

    soak(SOAK_GRAPHQL)(given(requests())(check))()

    assert_reached(counts, logged_errors)
    print(f"{counts['documents']} documents, each sent twice: {counts.most_common()}")
