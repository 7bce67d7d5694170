"""Checks the settings, at the keys that verify tokens, and at the webhook."""

import asyncio
import os
import socket
import ssl
from pathlib import Path

from app.auth.key_sources import NotRead, is_loopback
from app.auth.keys import open_keys
from app.db.drivers.interface import location_of, sqlite_path
from app.dev.tokens import KEY_FILE, has_own_keys, refuse_own_key
from app.doctor.results import CheckContext, Finding, Findings, failed, ok, warning
from app.events.webhook import Webhook, open_webhook
from app.settings import Settings, SettingsError, Trust, unknown_variables
from app.telemetry.wording import counted

REACH_SECONDS = 5
OTHERS_WRITE = 0o022


# --- settings -------------------------------------------------------------------------------------


async def check_settings(context: CheckContext) -> Findings:
    settings = context.settings
    for name in unknown_variables(os.environ):
        yield warning("settings", f"{name} is not a setting and is ignored", "remove it, or correct its name")
    if settings.in_development:
        if is_loopback(settings.host):
            yield warning("settings", "CARE_ENV is development", "never where others can reach it")
        else:
            message = "CARE_ENV is development, and CARE_HOST lets others reach it"
            yield failed("settings", message, "leave CARE_ENV out, or listen on 127.0.0.1")
    else:
        yield ok("settings", "production")
        for finding in [*astray(settings), *relaxed(settings)]:
            yield finding
    if settings.metrics_port and not is_loopback(settings.metrics_host):
        message = f"metrics are served on {settings.metrics_host}, port {settings.metrics_port}"
        yield warning("settings", message, "let the network keep that port to Prometheus")
    if os.geteuid() == 0:
        do = "run the service as a user of its own, without a shell"
        yield warning("settings", "this is the user root", do)


def astray(settings: Settings) -> list[Finding]:
    """A relative path can lead the operator and the service to two different databases."""
    if not settings.database_url:
        is_fixed, name = Path(settings.var).is_absolute(), "CARE_DATABASE_URL is not set, and CARE_VAR"
    else:
        is_sqlite = settings.database_url.startswith("sqlite:")
        is_fixed = not is_sqlite or sqlite_path(settings.database_url).is_absolute()
        name = "CARE_DATABASE_URL"
    if is_fixed:
        return []
    here = location_of(settings.database)
    message = f"{name} is relative to the folder in which a command starts; here it is {here}"
    return [warning("settings", message, "Use four slashes: CARE_DATABASE_URL=sqlite:////srv/care/care.db")]


def relaxed(settings: Settings) -> list[Finding]:
    """Features that were switched on or off and may have been forgotten."""
    found = []
    if settings.introspects:
        message = "CARE_INTROSPECTION is on: strangers to the API learn its schema with any token"
        found.append(warning("settings", message, "switch it off unless it is needed"))
    if not settings.points_per_minute:
        message = "CARE_RATE_LIMIT is 0: one account can take all there is"
        found.append(warning("settings", message, "leave it out for 300000 points a minute"))
    if not settings.identifiers_per_hour:
        message = "CARE_IDENTIFIER_LIMIT is 0: a caregiver may try any number of client identifiers"
        found.append(warning("settings", message, "leave it out for 30 an hour"))
    if settings.trusted_manifest and settings.trusted_documents is Trust.OFF:
        message = "CARE_TRUSTED_MANIFEST is set, and CARE_TRUSTED_DOCUMENTS is off: any document runs"
        found.append(warning("settings", message, "set it to audit, later to enforce"))
    return found


async def check_manifest(context: CheckContext) -> Findings:
    settings = context.settings
    if not settings.trusted_manifest and settings.trusted_documents is Trust.OFF:
        return
    from app.main import schema_of_service  # takes long to load
    from app.schema.transport.trusted_documents import open_documents

    try:
        documents = open_documents(settings, schema_of_service(prepares=False))
    except SettingsError as refusal:
        yield failed("trusted documents", str(refusal), "docs/trusted-documents.md tells the forms")
        return
    message = f"{counted(len(documents.trusted), 'document')}, {settings.trusted_documents}"
    yield ok("trusted documents", message)
    for finding in writable(settings.trusted_manifest, "trusted documents", "name documents to be trusted"):
        yield finding


# --- keys -----------------------------------------------------------------------------------------


async def check_keys(context: CheckContext) -> Findings:
    settings = context.settings
    if has_own_keys(settings):
        yield ok("keys", "those of development, under CARE_VAR")
        return
    try:
        keys = (await asyncio.to_thread(open_keys, settings)).keys
        refuse_own_key(settings, (key.material for key in keys))
    except SettingsError as refusal:
        do = refusal.do if isinstance(refusal, NotRead) else "docs/operations.md, Keys, tells the forms"
        yield failed("keys", str(refusal), f"nothing is served without: {do}")
        return
    yield ok("keys", f"{len(keys)} to verify tokens with: {', '.join(key.algorithm for key in keys)}")
    if settings.in_development:
        return
    for setting in ("token_issuer", "token_audience"):
        if not getattr(settings, setting):
            message = f"CARE_{setting.upper()} is not set: tokens for other services are accepted, too"
            yield warning("keys", message, "set it, unless the issuer signs for this service alone")
    for place in (settings.token_key, settings.token_jwks):
        if place and "-----BEGIN" not in place and "://" not in place:
            for finding in writable(place, "keys", "sign in as anybody"):
                yield finding
    if (Path(settings.var) / KEY_FILE).exists():
        message = f"there is a development key under CARE_VAR, which is {settings.var}"
        yield warning("keys", message, "remove it: in production it opens nothing")


def writable(place: str, about: str, to: str) -> list[Finding]:
    """Whoever may write what is trusted, is trusted."""
    if os.stat(place).st_mode & OTHERS_WRITE:
        return [failed(about, f"others than its owner may write {place}, and so {to}", f"chmod 644 {place}")]
    return []


# --- the webhook ----------------------------------------------------------------------------------


async def check_webhook(context: CheckContext) -> Findings:
    settings = context.settings
    try:
        webhook = open_webhook(settings)
    except SettingsError as refusal:
        yield failed("webhook", str(refusal), "docs/webhook.md")
        return
    if webhook is None:
        if settings.webhook_secret:
            message = "CARE_WEBHOOK_SECRET is set, and CARE_WEBHOOK_URL is not: events go nowhere"
            yield warning("webhook", message, "set the address, or remove the secret")
        else:
            yield ok("webhook", "none")
        return
    problem = await reach(webhook)
    if problem:
        do = "is it running, and may this machine reach it? Events wait until it is back"
        yield failed("webhook", f"its host does not take connections: {problem}", do)
    else:
        yield ok(
            "webhook", f"its host takes connections; signed by {counted(len(webhook.secrets), 'secret')}"
        )


async def reach(webhook: Webhook) -> str:
    """Nothing is posted: to connect, and to see its certificate, is enough."""
    try:
        async with asyncio.timeout(REACH_SECONDS):
            _, writer = await asyncio.open_connection(webhook.host, webhook.port, ssl=webhook.tls)
    except TimeoutError:
        return "no answer in time"
    except socket.gaierror:
        return "no such host"
    except ssl.SSLCertVerificationError:
        return "its certificate is not trusted"
    except OSError as fault:
        return (fault.strerror or type(fault).__name__).lower() if fault.errno else type(fault).__name__
    writer.transport.abort()
    return ""
