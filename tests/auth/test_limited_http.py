"""A server whose response has no end is cut off by the number of bytes: an issuer of tokens, and the old
service."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from app.auth.key_sources import MAX_DOCUMENT, KeysUnreadable, fetch
from app.legacy_migration.http_client import Connection, RequestFailed, read_address

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ENDLESS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim responses with headers": (b"", b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 1000),
    "chunk extensions": (CHUNKED, b"1;" + b"x" * 1000 + b"\r\n \r\n"),
    "trailers": (CHUNKED + b"0\r\n", b"x: y\r\n"),
}


@contextmanager
def serving(start: bytes, endless: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            connected, _ = listener.accept()
            with closing(connected), suppress(OSError):
                connected.recv(65536)
                connected.sendall(start)
                while True:
                    connected.sendall(endless * 50)

        thread = threading.Thread(target=respond)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("name", [name for name in ENDLESS if name != "body"])
def test_an_endless_response_of_an_issuer_is_rejected(name: str) -> None:
    with serving(*ENDLESS[name]) as url, pytest.raises(KeysUnreadable) as refusal:
        fetch(url, "CARE_TOKEN_JWKS")

    assert str(refusal.value) == "CARE_TOKEN_JWKS cannot be fetched: the response is too long"


def test_a_long_document_of_an_issuer_is_read_in_part() -> None:
    """Such a document is no key set."""
    with serving(*ENDLESS["body"]) as url:
        assert len(fetch(url, "CARE_TOKEN_JWKS")) == MAX_DOCUMENT


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_response_of_the_old_service_is_rejected(name: str) -> None:
    with serving(*ENDLESS[name]) as url:
        connection = Connection(read_address(url), timeout=30, max_bytes=200_000)
        with pytest.raises(RequestFailed) as refusal:
            connection.send("GET", "/", None, {})

    assert str(refusal.value) == "the response is too long"
