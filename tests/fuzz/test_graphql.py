"""No GraphQL document causes an internal error: valid and invalid queries, mutations and subscriptions
with existing ids. Every error has a code and the request id."""

import json
from collections import Counter
from collections.abc import Callable, Container
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from app.http.errors import Failure
from tests import keys
from tests.fuzz.counts import SOAK_GRAPHQL, short, soak
from tests.fuzz.direct_requests import DirectService, RawRequest, RawResponse
from tests.fuzz.documents import BODIES

TOKENS = [
    f"bearer {keys.token(role, user)}".encode()
    for role, user in (("CAREGIVER", "caregiver-1"), ("CLIENT", "client-1"))
]
JSON = b"application/json"
EVENTS = b"text/event-stream"
NEWER = b"application/graphql-response+json"
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
    *[NEWER] * 4,
    NEWER + b", text/event-stream",
    NEWER + b";q=0.5, application/json",
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
    """Each request twice, as a caregiver and as a client: the second one uses the cached document."""
    body = draw(BODIES)
    more = (
        (b"content-type", draw(st.sampled_from(TYPES))),
        (b"accept", draw(st.sampled_from(ACCEPTS))),
        *(draw(HEADERS) if draw(st.integers(0, 5)) == 0 else ()),
    )
    if draw(st.integers(0, 19)) == 19:
        return [
            RawRequest("GET", "/graphql", in_the_address(body), ((b"authorization", token), *more))
            for token in TOKENS
        ]
    method = draw(st.sampled_from(["POST"] * 60 + ["PUT", "HEAD", "OPTIONS"]))
    return [RawRequest(method, "/graphql", "", ((b"authorization", token), *more), body) for token in TOKENS]


def in_the_address(body: bytes) -> str:
    """The same request as a GET."""
    try:
        data = json.loads(body)
    except ValueError:
        data = {}
    members = data.items() if isinstance(data, dict) else ()
    return urlencode(
        {name: each if isinstance(each, str) else json.dumps(each) for name, each in members},
        errors="replace",
    )


def check_response(request: RawRequest, response: RawResponse) -> list[str]:
    """Checks the response and returns its error codes."""
    assert 200 <= response.status < 500, response
    request_id = response.header(b"x-request-id")
    assert request_id
    assert (response.header(b"www-authenticate") == "Bearer") == (response.status == 401)
    kind = response.header(b"content-type") or ""
    if kind.startswith("text/html"):  # the page, for browsers
        assert (request.method, request.all_of(b"accept")) == ("GET", [b"text/html"])
        return []
    assert kind in ("application/json", f"{NEWER.decode()}; charset=utf-8", "text/event-stream")
    data = (
        events_in(response.body.decode())
        if kind == "text/event-stream"
        else [json.loads(response.body or b"{}")]
    )
    if kind.startswith(NEWER.decode()):
        assert response.status in statuses_of(data[0])
    # Of what is listened to, nothing may have happened before the listener hung up.
    assert response.body or request.method == "HEAD" or kind == "text/event-stream"
    return [code_of(error, request_id) for one in data for error in errors_of(one)]


def statuses_of(data: dict[str, Any]) -> Container[int]:
    """By GraphQL over HTTP, with application/graphql-response+json."""
    if "data" not in data:
        return range(400, 600)
    return [294] if "errors" in data else [200]


def events_in(text: str) -> list[Any]:
    parts = (part.split("\n") for part in text.split("\n\n") if part.startswith("event: next"))
    return [json.loads(line.removeprefix("data: ")) for _, line in parts]


def errors_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    assert set(data) <= {"data", "errors", "extensions"}
    errors = data.get("errors", [])
    assert errors or "errors" not in data
    return list(errors)


def code_of(error: dict[str, Any], request_id: str) -> str:
    assert set(error) <= {"message", "locations", "path", "extensions"}
    assert isinstance(error["message"], str)
    assert error["extensions"]["requestId"] == request_id
    code: str = error["extensions"]["code"]
    assert code not in (Failure.INTERNAL.code, Failure.OVERLOADED.code), error
    return code


Counts = Counter[str]


def fuzz(service: DirectService) -> tuple[Callable[[list[RawRequest]], None], Counts]:
    counts: Counts = Counter()

    def check(requests: list[RawRequest]) -> None:
        counts["documents"] += 1
        for request in requests:
            note(str(request))
            response = service.send(request)
            codes = check_response(request, response)
            counts.update([str(response.status), *codes, *([] if codes else ["without errors"])])

    return check, counts


def assert_coverage(counts: Counts, logged_errors: list[str]) -> None:
    """Checks that all kinds of documents were executed, not only rejected."""
    assert logged_errors == []
    assert counts["without errors"] > counts["documents"] / 5
    assert (
        counts["GRAPHQL_VALIDATION_FAILED"]
        and counts["GRAPHQL_PARSE_FAILED"]
        and counts["NOT_FOUND"]
        and counts["400"]
    )


def test_no_generated_document_causes_an_internal_error(
    service: DirectService, logged_errors: list[str]
) -> None:
    check, counts = fuzz(service)

    short(50)(given(requests())(check))()

    assert logged_errors == []
    assert counts["without errors"] and counts["GRAPHQL_VALIDATION_FAILED"]  # few need not reach everything


@pytest.mark.soak
def test_none_of_five_thousand_documents_causes_an_internal_error(
    service: DirectService, logged_errors: list[str]
) -> None:
    check, counts = fuzz(service)

    soak(SOAK_GRAPHQL)(given(requests())(check))()

    assert_coverage(counts, logged_errors)
    print(f"{counts['documents']} documents, each sent twice: {counts.most_common()}")
