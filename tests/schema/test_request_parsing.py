"""GraphQL requests are parsed from a JSON body or a query string, and a malformed request is rejected."""

import asyncio
from collections import deque
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Scope

from app.http.errors import RequestRejected
from app.schema.transport.request_parsing import GraphQLRequest, read_request

LIMIT = 4096
JSON = (b"content-type", b"application/json")


def read(scope: Scope, *chunks: bytes) -> GraphQLRequest:
    """The client disconnects after the last chunk, unless a chunk is the empty end of the body."""
    messages = deque({"type": "http.request", "body": chunk, "more_body": chunk != b""} for chunk in chunks)

    async def receive() -> Message:
        return messages.popleft() if messages else {"type": "http.disconnect"}

    return asyncio.run(read_request(scope, receive, LIMIT))


def post(*headers: tuple[bytes, bytes]) -> Scope:
    return {"method": "POST", "headers": [*(headers or (JSON,))]}


def rejection_of(scope: Scope, *chunks: bytes) -> tuple[int, str]:
    with pytest.raises(RequestRejected) as rejected:
        read(scope, *chunks)
    return rejected.value.failure.json, str(rejected.value)


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON ; charset=utf-8", "application/json;x=y"]
)
def test_a_body_may_arrive_in_several_messages(content_type: str) -> None:
    body = b'{"query": "{ a }", "variables": {"b": 1}, "operationName": null, "documentId": null, "other": 1}'

    request = read(post((b"content-type", content_type.encode())), body[:9], body[9:], b"")

    assert request == GraphQLRequest("{ a }", {"b": 1}, None, None)


def test_a_get_has_its_members_in_the_query_string() -> None:
    text = "query={ a }&variables=" + quote('{"b": 1}') + "&operationName=A&documentId=x"

    request = read({"method": "GET", "headers": [], "query_string": text.encode()})

    assert request == GraphQLRequest("{ a }", {"b": 1}, "A", None, "x")


TOO_LONG = (413, f"The request may have at most {LIMIT} bytes.")
NO_JSON = (400, "Unable to parse request body as JSON")
NO_OBJECT = (400, "The request must be a JSON object.")
WRONG_TYPE = (415, "The content type must be application/json.")
ENCODED = (415, "the body must not have a content encoding")


@pytest.mark.parametrize(
    ("scope", "chunks", "rejection"),
    [
        (post(), [b"x" * 1024] * 5, TOO_LONG),
        (post(JSON, (b"content-length", b"4097")), [], TOO_LONG),
        (post(JSON, (b"content-length", b"9" * 5000)), [], TOO_LONG),
        (post(), [b"{", b""], NO_JSON),
        (post(), [b""], NO_JSON),
        (post(), [b"null", b""], NO_OBJECT),
        *[(post(), [text, b""], NO_OBJECT) for text in (b"[]", b'"x"', b"1", b"true")],
        *[
            (post((b"content-type", content_type)), [b"{}", b""], WRONG_TYPE)
            for content_type in (
                b"",
                b"text/plain",
                b"application/graphql",
                b"application/x-www-form-urlencoded",
                b"application/jsonp",
                b"text/plain; application/json",
            )
        ],
        (post((b"accept", b"*/*")), [b"{}", b""], WRONG_TYPE),
        *[
            (post(JSON, (b"content-encoding", coding)), [b"{}", b""], ENCODED)
            for coding in (b"gzip", b"identity, gzip", b"identity, identity")
        ],
        (post(JSON, (b"content-encoding", b"gzip")), [b"x" * 1024] * 5, ENCODED),
        ({"method": "PUT", "headers": []}, [], (405, "GraphQL only supports GET and POST requests.")),
        (
            {"method": "GET", "headers": [], "query_string": b"extensions={"},
            [],
            (400, "The parameter `extensions` must be JSON."),
        ),
        (
            {"method": "GET", "headers": [], "query_string": b"variables=%20"},
            [],
            (400, "The parameter `variables` must be JSON."),
        ),
    ],
)
def test_a_malformed_request_is_rejected(scope: Scope, chunks: list[bytes], rejection: Any) -> None:
    assert rejection_of(scope, *chunks) == rejection


def test_a_body_of_unknown_length_may_be_as_long_as_the_limit() -> None:
    longest = b'{"query": "{ a }"}'.ljust(LIMIT)

    assert read(post(), longest[:1000], longest[1000:], b"").query == "{ a }"
    assert rejection_of(post(), longest, b" ", b"") == TOO_LONG


@pytest.mark.parametrize(
    "header",
    [
        (b"content-length", b"%d" % LIMIT),
        (b"content-encoding", b""),
        (b"content-encoding", b"Identity"),
    ],
)
def test_a_body_may_have_exactly_the_limit_and_no_coding(header: tuple[bytes, bytes]) -> None:
    assert read(post(JSON, header), b'{"query": "{ a }"}'.ljust(LIMIT), b"").query == "{ a }"


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ("query", "a string"),
        ("variables", "an object"),
        ("operationName", "a string"),
        ("extensions", "an object"),
        ("documentId", "a string"),
    ],
)
def test_a_member_has_its_type_or_is_null(member: str, expected: str) -> None:
    assert read(post(), b'{"%b": null}' % member.encode(), b"").query == ""
    wrong = rejection_of(post(), b'{"%b": 1}' % member.encode(), b"")
    assert wrong == (400, f"The member `{member}` must be {expected} or null.")


@pytest.mark.parametrize("chunks", [(), (b"{",), (b"[", b"]")])
def test_a_client_that_disconnects_before_the_end_is_not_answered(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(ClientDisconnect):
        read(post(), *chunks)
