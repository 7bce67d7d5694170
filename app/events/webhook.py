"""The webhook: its address, the requests to it, and their signature (Standard Webhooks)."""

import base64
import binascii
import hashlib
import hmac
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

import orjson

from app.db.moments import moment_as_text
from app.db.tables import EventKind
from app.settings import Settings, SettingsError

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
BAD_URL = "CARE_WEBHOOK_URL must be https://HOST/PATH, or http:// to this machine itself"
BAD_SECRET = (
    "CARE_WEBHOOK_SECRET must be whsec_ and 24 to 64 bytes in base64;"
    " while secrets change, several with spaces between"
)


@dataclass(frozen=True)
class Webhook:
    """The address may contain a secret, so it is never shown."""

    host: str
    port: int
    authority: str  # the Host header
    target: str
    tls: ssl.SSLContext | None
    secrets: tuple[bytes, ...]

    def __repr__(self) -> str:
        return "<the webhook>"


@dataclass(frozen=True)
class Happened:
    """An event for the webhook: ids only, never a name, a text or an answer."""

    event: int
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
    is_safe = url.scheme == "https" or (url.scheme == "http" and is_this_machine(url.hostname))
    if not (is_plain and is_safe and url.hostname) or "@" in url.netloc or url.fragment:
        raise SettingsError(BAD_URL)
    return url, port or {"https": 443, "http": 80}[url.scheme]


def is_this_machine(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def read_secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(BAD_SECRET) from None
    if not text.startswith(SECRET_PREFIX) or len(secret) not in SECRET_BYTES:
        raise SettingsError(BAD_SECRET)
    return secret


# --- requests -------------------------------------------------------------------------------------


def body_of(happened: Happened) -> bytes:
    """Returns the same bytes in every attempt."""
    body: dict[str, Any] = {
        "type": TYPES[happened.kind],
        "timestamp": moment_as_text(happened.moment),
        "data": happened.data,
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
