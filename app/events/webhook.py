"""The webhook: reads its settings, signs requests to it (Standard Webhooks), and sends them."""

import asyncio
import base64
import hashlib
import hmac
import re
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from threading import Thread
from typing import Any
from urllib.parse import SplitResult, urlsplit

import orjson

from app.auth.key_sources import is_loopback
from app.db.moments import moment_as_text
from app.db.tables import EventKind
from app.settings import Settings, SettingsError
from app.telemetry.wording import entry_for

# Saved drafts are missing, because only the client sees drafts.
TYPES: dict[str, str] = {
    EventKind.SESSION_CREATED: "session.created",
    EventKind.SESSION_UPDATED: "session.updated",
    EventKind.SESSION_CLOSED: "session.closed",
    EventKind.ASSIGNED: "assignment.assigned",
    EventKind.EXTENDED: "assignment.extended",
    EventKind.REMINDERS_SET: "assignment.reminders_set",
    EventKind.WITHDRAWN: "assignment.withdrawn",
    EventKind.SUBMITTED: "assignment.submitted",
    EventKind.REOPENED: "assignment.reopened",
    EventKind.FEEDBACK_GIVEN: "assignment.feedback_given",
    EventKind.REMINDER_DUE: "reminder.due",
    EventKind.CLIENT_ERASED: "client.erased",
}

SECRET_PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
BAD_URL = "CARE_WEBHOOK_URL must be https://HOST/PATH, or an http:// URL of this machine"
BAD_SECRET = (
    "CARE_WEBHOOK_SECRET must be whsec_ and 24 to 64 bytes in base64"
    "; during a rotation, several separated by spaces"
)


@dataclass(frozen=True)
class Webhook:
    """Where and how events are posted. The address may contain a secret, so it is never shown."""

    host: str
    port: int
    authority: str  # the Host header
    target: str  # path and query
    tls: ssl.SSLContext | None
    secrets: tuple[bytes, ...]  # each signs every request

    def __repr__(self) -> str:
        return "<the webhook>"


@dataclass(frozen=True)
class WebhookEvent:
    """An event for the webhook: ids only, never a name, a text or an answer."""

    id: int
    kind: str
    moment: datetime
    data: Mapping[str, int | None] = field(default_factory=dict)


# --- settings -------------------------------------------------------------------------------------


def open_webhook(settings: Settings) -> Webhook | None:
    """Returns None without a webhook. Raises SettingsError for invalid settings."""
    if not settings.webhook_url:
        return None
    url, port = read_url(settings.webhook_url)
    secrets = tuple(read_secret(text) for text in settings.webhook_secret.split())
    if not secrets:
        raise SettingsError("CARE_WEBHOOK_URL needs a CARE_WEBHOOK_SECRET to sign with")
    tls = ssl.create_default_context() if url.scheme == "https" else None
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return Webhook(url.hostname or "", port, url.netloc, target, tls, secrets)


def read_url(text: str) -> tuple[SplitResult, int]:
    try:
        url = urlsplit(text)
        port = url.port
        (url.hostname or "").encode("idna")
    except ValueError:
        raise SettingsError(BAD_URL) from None
    is_plain = text.isascii() and text.isprintable() and " " not in text
    is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))
    if not (is_plain and is_safe and url.hostname) or "@" in url.netloc or url.fragment or port == 0:
        raise SettingsError(BAD_URL)
    return url, port or {"https": 443, "http": 80}[url.scheme]


def read_secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        raise SettingsError(BAD_SECRET) from None
    if not text.startswith(SECRET_PREFIX) or len(secret) not in SECRET_BYTES:
        raise SettingsError(BAD_SECRET)
    return secret


# --- requests -------------------------------------------------------------------------------------


def body_of(event: WebhookEvent) -> bytes:
    """The body of the POST, the same bytes in every attempt."""
    body: dict[str, Any] = {
        "type": TYPES[event.kind],
        "timestamp": moment_as_text(event.moment),
        "data": event.data,
    }
    return orjson.dumps(body)


def headers_of(webhook: Webhook, event: int, body: bytes, now: datetime) -> dict[str, str]:
    """The id is the same in every attempt, so that receivers recognize repetitions. The timestamp is new."""
    name, moment = f"evt_{event}", str(int(now.timestamp()))
    signed = f"{name}.{moment}.".encode() + body
    return {
        "content-type": "application/json",
        "user-agent": "care-gateway",
        "webhook-id": name,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join(signature(secret, signed) for secret in webhook.secrets),
    }


def signature(secret: bytes, signed: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


# --- sending --------------------------------------------------------------------------------------

RESPONSE_SECONDS = 10  # from the lookup of the host to the headers of the response
MAX_HEAD = 65_536  # bytes of the response headers and of all interim responses before them
MAX_INTERIM = 8  # interim responses, such as `100 Continue`
PIECE_SECONDS = 0.01  # between two reads, so that a receiver that sends single bytes takes little time
REASONS: dict[type[Exception], str] = {
    TimeoutError: "no response in time",
    ConnectionRefusedError: "connection refused",
    socket.gaierror: "no such host",
    ssl.SSLCertVerificationError: "certificate not trusted",
    ssl.SSLError: "no TLS",
    ConnectionError: "connection closed",
}
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?:[ \r]|$)")


@dataclass(frozen=True)
class PostResult:
    """The status of the response, or the reason why there is none."""

    status: str
    is_accepted: bool = False


async def post(
    webhook: Webhook, headers: dict[str, str], body: bytes, seconds: float = RESPONSE_SECONDS
) -> PostResult:
    """Sends one POST. It can be cancelled at any time, follows no redirects and reads no body."""
    try:
        async with asyncio.timeout(seconds):
            status = await send_request(webhook, headers, body, seconds)
    except OSError as fault:
        return PostResult(entry_for(fault, REASONS) or "no connection")
    return PostResult(str(status), is_accepted=200 <= status < 300) if status else PostResult("no HTTP")


async def send_request(webhook: Webhook, headers: dict[str, str], body: bytes, seconds: float) -> int:
    """Returns the status, or 0 if the response is not HTTP."""
    reader, writer = await connect(webhook, seconds)
    try:
        writer.write(request_bytes(webhook, headers, body))
        return await read_status(reader)
    finally:
        writer.transport.abort()  # the rest of the response is not needed


async def connect(webhook: Webhook, seconds: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An address that does not respond, such as one of IPv6 without a route, leaves time for the next."""
    name = webhook.host if webhook.tls else None
    fault: OSError = socket.gaierror()
    addresses = [address for *_, address in await look_up(webhook.host, webhook.port)]
    share = seconds / (len(addresses) + 1)
    for number, address in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(share if number < len(addresses) else None):
                # The limit pauses the connection between two reads.
                return await asyncio.open_connection(
                    *address[:2], ssl=webhook.tls, server_hostname=name, limit=1
                )
        except OSError as error:
            fault = error
    raise fault


async def look_up(host: str, port: int) -> list[tuple[Any, ...]]:
    """A lookup cannot be cancelled, and takes half a minute while no name server answers. At its end the
    event loop waits for its own threads, so this one runs in a thread that is not awaited."""
    found: Future[list[tuple[Any, ...]]] = Future()

    def run() -> None:
        found.set_running_or_notify_cancel()
        try:
            found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as fault:
            found.set_exception(fault)

    Thread(target=run, name="webhook lookup", daemon=True).start()
    return await asyncio.wrap_future(found)


async def read_status(reader: asyncio.StreamReader) -> int:
    """Returns the status of the first response that is not interim. The receiver is not trusted: it may send
    interim responses, headers or single bytes without end."""
    unread, left, interim = b"", MAX_HEAD, 0
    while left and interim <= MAX_INTERIM:
        piece = await reader.read(left)
        if not piece:
            raise ConnectionResetError
        left -= len(piece)
        *heads, unread = (unread + piece).split(b"\r\n\r\n")
        for head in heads:
            match = STATUS.match(head)
            if match is None or interim > MAX_INTERIM:
                return 0
            if match[1] >= b"200":
                return int(match[1])
            interim += 1
        await asyncio.sleep(PIECE_SECONDS)
    return 0


def request_bytes(webhook: Webhook, headers: dict[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {webhook.target} HTTP/1.1",
        f"host: {webhook.authority}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"content-length: {len(body)}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
