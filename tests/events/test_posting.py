"""Promise: whatever answers at the webhook's address, or does not, is told in a word or two."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from app.events.webhook import PostResult, Webhook, post


@asynccontextmanager
async def answering(
    said: bytes, closes: bool = True, listens: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Webhook]:
    """Says one thing to one caller."""
    is_done = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if listens:
                await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            if not closes:
                await reader.read()  # until the other side closes
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        is_done.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield webhook_at(port)
        if tls is None:
            await is_done.wait()
    finally:
        server.close()
        await server.wait_closed()


def webhook_at(port: int, host: str = "127.0.0.1") -> Webhook:
    return Webhook(host, port, f"{host}:{port}", "/", None, (b"",))


ANSWERS = {
    "taken": (b"HTTP/1.1 200 OK\r\n\r\n", True, PostResult("200", True)),
    "an old server": (b"HTTP/1.0 202 Accepted\r\n\r\n", True, PostResult("202", True)),
    "without a phrase": (b"HTTP/1.1 204\r\n\r\n", True, PostResult("204", True)),
    "a body without an end": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000, False, PostResult("200", True)),
    "something before": (b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 500 No\r\n\r\n", True, PostResult("500")),
    "a redirect": (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n", True, PostResult("302")),
    "no HTTP": (b"220 mail.example.test ESMTP\r\n\r\n", True, PostResult("no HTTP")),
    "no such status": (b"HTTP/1.1 999 What\r\n\r\n", True, PostResult("no HTTP")),
    "a head without an end": (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000, False, PostResult("no HTTP")),
    "nothing": (b"", True, PostResult("connection closed")),
    "half an answer": (b"HTTP/1.1 200 OK\r\n", True, PostResult("connection closed")),
}


@pytest.mark.parametrize(("said", "closes", "answer"), ANSWERS.values(), ids=list(ANSWERS))
def test_what_a_receiver_says_is_told_in_a_word(said: bytes, closes: bool, answer: PostResult) -> None:
    async def asked() -> PostResult:
        async with answering(said, closes) as webhook:
            return await post(webhook, {}, b"{}")

    assert asyncio.run(asked()) == answer


def test_a_receiver_that_says_nothing_is_not_waited_for_forever() -> None:
    async def asked() -> PostResult:
        async with answering(b"", closes=False) as webhook:
            return await post(webhook, {}, b"{}", seconds=0.05)

    assert asyncio.run(asked()) == PostResult("no response in time")


def test_nobody_at_the_port() -> None:
    assert asyncio.run(post(webhook_at(1), {}, b"{}")) == PostResult("connection refused")


def test_no_such_host() -> None:
    assert asyncio.run(post(webhook_at(443, "nowhere.invalid"), {}, b"{}")) == PostResult("no such host")


def test_a_receiver_without_tls() -> None:
    async def asked() -> PostResult:
        async with answering(b"HTTP/1.1 200 OK\r\n\r\n", listens=False) as plain:
            return await post(replace(plain, tls=ssl.create_default_context()), {}, b"{}")

    assert asyncio.run(asked()) == PostResult("no TLS")


@pytest.mark.parametrize(
    ("is_known", "answer"), [(True, PostResult("200", True)), (False, PostResult("certificate not trusted"))]
)
def test_a_receiver_is_believed_only_with_a_trusted_certificate(
    tmp_path: Path, is_known: bool, answer: PostResult
) -> None:
    its = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = certificate(tmp_path)
    its.load_cert_chain(own)
    ours = ssl.create_default_context(cafile=own if is_known else None)

    async def asked() -> PostResult:
        async with answering(b"HTTP/1.1 200 OK\r\n\r\n", tls=its) as safe:
            return await post(replace(safe, tls=ours), {}, b"{}")

    assert asyncio.run(asked()) == answer


def certificate(folder: Path) -> Path:
    """Of 127.0.0.1, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
        .sign(key, SHA256())
    )
    path = folder / "own.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + pem)
    return path
