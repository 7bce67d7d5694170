"""A request that can be rejected without the parser is recognized, and every other one is left to it."""

import pytest

from app.server.request_heads import (
    MAX_HOST,
    MAX_SIMPLE,
    SimpleRequest,
    find_head_error,
    read_simple_request,
    without_origin,
)

START = b"POST /graphql HTTP/1.1\r\nhost: care\r\n"
BODY = b"\r\nauthorization: Bearer other\r\nx-request-id: other\r\n\r\n"


def head(*lines: bytes, length: int = len(BODY)) -> bytes:
    return START + b"".join(each + b"\r\n" for each in lines) + b"content-length: %d\r\n\r\n" % length


@pytest.mark.parametrize(
    "data, token, request_id, missing",
    [
        (head() + BODY, None, None, 0),
        (head(b"Authorization: Bearer mine", b"X-Request-Id: mine") + BODY, b"Bearer mine", b"mine", 0),
        (head(b"authorization:Bearer mine") + BODY[:-1], b"Bearer mine", None, 1),
        (head(b"connection: keep-alive"), None, None, len(BODY)),
        (head(length=MAX_SIMPLE), None, None, MAX_SIMPLE),
        (START + b"\r\n", None, None, 0),
    ],
)
def test_the_token_and_the_id_of_a_simple_request_come_from_its_head(
    data: bytes, token: bytes | None, request_id: bytes | None, missing: int
) -> None:
    headers = [(b"x-request-id", request_id)] if request_id else []

    assert read_simple_request(data) == SimpleRequest(b"POST", b"/graphql", token, headers, missing)


@pytest.mark.parametrize(
    "data",
    [
        head() + BODY + b"G",
        head(length=MAX_SIMPLE + 1),
        head(length=10_000_000),
        head(b"content-length: 1"),
        head(b"transfer-encoding: chunked"),
        head(b"Expect: 100-continue"),
        head(b"connection: close"),
        head(b"connection: keep-alive, upgrade"),
        head(b"upgrade: h2c"),
        head(b"a: " + b"b" * MAX_SIMPLE),
        head(b" a: b"),
        head().replace(b"1.1", b"1.0"),
        head().replace(b"POST", b"HEAD"),
        head().replace(b"POST", b"post"),
        head().replace(b"/graphql", b"http://care/graphql"),
        head().replace(b"/graphql", b"/graphql#a"),
        head()[:-1],
    ],
)
def test_any_other_request_is_not_simple(data: bytes) -> None:
    assert read_simple_request(data) is None


@pytest.mark.parametrize(
    "target, path",
    [
        (b"/graphql?a=http://b/c", b"/graphql?a=http://b/c"),
        (b"http://care/graphql", b"/graphql"),
        (b"HTTPS://care:8000/graphql?a=http://b/c", b"/graphql?a=http://b/c"),
        (b"http://care?a=/b", b"?a=/b"),
    ],
)
def test_the_path_of_an_absolute_target_follows_its_origin(target: bytes, path: bytes) -> None:
    assert without_origin(target) == path


@pytest.mark.parametrize(
    "version, headers, status",
    [
        ("1.0", {}, None),
        ("1.1", {}, 400),
        ("1.1", {b"host": b"a" * MAX_HOST}, None),
        ("1.1", {b"host": b"a" * (MAX_HOST + 1)}, 400),
        ("1.0", {b"host": b"a b"}, 400),
        ("1.1", {b"host": b"care", b"transfer-encoding": b"Chunked"}, None),
        ("1.1", {b"host": b"care", b"transfer-encoding": b"gzip"}, 501),
        ("1.0", {b"host": b"care", b"transfer-encoding": b"chunked"}, 400),
    ],
)
def test_a_head_that_the_parser_accepts_may_have_an_error(
    version: str, headers: dict[bytes, bytes], status: int | None
) -> None:
    error = find_head_error(version, b"/graphql", [*headers.items()], headers)

    assert (error and error[0]) == status
