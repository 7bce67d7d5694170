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


def padded(length: int) -> bytes:
    """A head of this length."""
    return START + b"a: ".ljust(length - len(START) - 4, b"b") + b"\r\n\r\n"


@pytest.mark.parametrize(
    "data, token, request_id, missing",
    [
        (head() + BODY, None, None, 0),
        (head(b"Authorization: Bearer mine", b"X-Request-Id: mine") + BODY, b"Bearer mine", b"mine", 0),
        (head(b"authorization:Bearer mine") + BODY[:-1], b"Bearer mine", None, 1),
        (head(b"connection: keep-alive"), None, None, len(BODY)),
        (head(length=MAX_SIMPLE), None, None, MAX_SIMPLE),
        (START + b"\r\n", None, None, 0),
        (padded(MAX_SIMPLE), None, None, 0),
    ],
)
def test_the_token_and_the_id_of_a_simple_request_come_from_its_head(
    data: bytes, token: bytes | None, request_id: bytes | None, missing: int
) -> None:
    headers = [(b"x-request-id", request_id)] if request_id else []

    assert read_simple_request(data) == SimpleRequest(b"POST", b"/graphql", token, headers, missing)


@pytest.mark.parametrize("method", [b"GET", b"POST", b"PUT"])
@pytest.mark.parametrize("target", [b"/", b"/!", b"/a$~?b=%20"])
def test_the_methods_of_both_contracts_are_simple(method: bytes, target: bytes) -> None:
    data = b"%b %b HTTP/1.1\r\nhost: care\r\n\r\n" % (method, target)

    assert read_simple_request(data) == SimpleRequest(method, target, None, [], 0)


@pytest.mark.parametrize(
    "data",
    [
        head() + BODY + b"G",
        padded(MAX_SIMPLE + 1),
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
        (b"http://care", b"/"),
        (b"http://care?a=/b", b"/?a=/b"),
        (b"http://care#a", b"/#a"),
        (b"*", b"*"),
        (b"a", b"a"),
    ],
)
def test_the_path_of_an_absolute_target_follows_its_origin(target: bytes, path: bytes) -> None:
    assert without_origin(target) == path


@pytest.mark.parametrize(
    "version, headers, status",
    [
        ("1.0", {}, None),
        ("1.1", {}, 400),
        ("1.2", {}, 400),
        ("2.0", {b"host": b"care"}, 505),
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


@pytest.mark.parametrize(
    "host",
    [
        b"Care-1.example.test",
        b"a~!$&'()*+,;=b",
        b"a%2Fb%2f",
        b"care:",
        b"[::ffff:127.0.0.1]",
        b"[2001:DB8::a]:8000",
    ],
)
def test_every_form_of_a_host_is_valid(host: bytes) -> None:
    assert find_head_error("1.1", b"/", [(b"host", host)], {b"host": host}) is None


@pytest.mark.parametrize(
    "host", [b"a%2", b"a%2g", b"[::1", b"::1", b"[care]", b"care:80:80", b"[]", b"a@b", b"a\xe9"]
)
def test_any_other_host_is_not_valid(host: bytes) -> None:
    error = find_head_error("1.1", b"/", [(b"host", host)], {b"host": host})

    assert error == (400, "the Host header is not a valid host")


@pytest.mark.parametrize("name", ["Host", "Transfer-Encoding"])
def test_a_header_that_may_be_given_once_is_rejected_if_it_is_repeated(name: str) -> None:
    by_name = {b"host": b"care", b"transfer-encoding": b"chunked", b"accept": b"*/*"}
    repeated = name.lower().encode()
    headers = [*by_name.items(), (b"accept", b"*/*"), (repeated, by_name[repeated])]

    assert find_head_error("1.1", b"/", headers, by_name) == (400, f"there must be one {name} header")
    assert find_head_error("1.1", b"/", headers[:-1], by_name) is None
