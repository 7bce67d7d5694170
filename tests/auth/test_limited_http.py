"""A server whose response has no end is cut off by the number of bytes or by time: an issuer of tokens, and
its proxy."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection

import pytest

from app.auth import limited_http
from app.auth.key_sources import MAX_DOCUMENT, KeysUnreadable, fetch
from app.auth.limited_http import LimitedReader, ResponseTooLong, limited
from tests.patience import PATIENCE

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ENDLESS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim responses with headers": (b"", b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 1000),
    "chunk extensions": (CHUNKED, b"1;" + b"x" * 1000 + b"\r\n \r\n"),
    "trailers": (CHUNKED + b"0\r\n", b"x: y\r\n"),
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def serving(start: bytes, endless: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            connected, _ = listener.accept()
            with closing(connected), suppress(OSError):
                connected.recv(65536)
                connected.sendall(start)
                while endless:
                    connected.sendall(endless * 50)
                connected.recv(1)  # until the client closes

        thread = threading.Thread(target=respond)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("name", [name for name in ENDLESS if name != "body"])
def test_an_endless_response_of_an_issuer_is_rejected(name: str) -> None:
    with serving(*ENDLESS[name]) as url, pytest.raises(KeysUnreadable) as refusal:
        fetch(url)

    assert str(refusal.value) == "CARE_TOKEN_JWKS cannot be fetched: the response is too long"


RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\n" + bytes(50_000)


@pytest.mark.parametrize("limit", [len(RESPONSE), len(RESPONSE) - 1])
def test_a_response_has_as_many_bytes_as_the_limit_at_most(limit: int) -> None:
    """Also if the whole response arrives before the client reads it."""
    with (
        serving(RESPONSE, b"") as url,
        closing(limited(HTTPConnection, limit, url[7:], timeout=PATIENCE)) as connection,
    ):
        connection.request("GET", "/")
        if limit == len(RESPONSE):
            assert connection.getresponse().read() == bytes(50_000)
        else:
            with pytest.raises(ResponseTooLong):
                connection.getresponse().read()


@pytest.mark.parametrize("interim", [[100], [102], [103, 103], [199, 100, 103]], ids=str)
def test_a_response_comes_after_any_number_of_interim_ones(interim: list[int]) -> None:
    before = b"".join(b"HTTP/1.1 %d Wait\r\nx: y\r\n\r\n" % status for status in interim)

    with serving(before + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nkeys", b"") as url:
        assert fetch(url) == b"keys"


def test_a_long_document_of_an_issuer_is_read_in_part() -> None:
    """Such a document is no key set."""
    with serving(*ENDLESS["body"]) as url:
        assert len(fetch(url)) == MAX_DOCUMENT


def test_an_endless_response_of_a_proxy_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its headers are long, because from 3.12 on Python itself rejects more than a hundred."""
    header = b"x: " + b"y" * 60_000 + b"\r\n"
    with serving(b"HTTP/1.1 200 OK\r\n", header) as proxy, pytest.raises(KeysUnreadable) as refusal:
        monkeypatch.setenv("https_proxy", proxy)
        fetch("https://issuer.example.test/keys")

    assert str(refusal.value) == "CARE_TOKEN_JWKS cannot be fetched: the response is too long"


def test_a_response_that_still_arrives_after_its_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next one on this connection has its own time."""
    now, buffer = 100.0, bytearray(2)
    monkeypatch.setattr(limited_http, "monotonic", lambda: now)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"abcd")
        ours.settimeout(5)
        raw = socket.SocketIO(ours, "r")
        reader, read = LimitedReader(raw, ours, max_bytes=100), []
        for _ in range(2):
            with suppress(TimeoutError):
                read.append((reader.readinto(buffer), ours.gettimeout()))
            now += 5
        reader.close()

        assert (read, ours.gettimeout(), raw.closed) == ([(2, 5)], 5, True)
