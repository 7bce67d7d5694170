"""Checks the settings, the token keys, the trusted documents and the webhook."""

import os
import socket
import ssl
from collections.abc import Iterator

from app.auth.key_sources import KeysUnreadable, is_loopback
from app.db.drivers.interface import location_of, sqlite_path
from app.dev.tokens import has_key_file, has_own_keys
from app.doctor.findings import CONNECT_SECONDS, OTHERS_WRITE, Finding, Installation, failed, ok, warning
from app.events.webhook import Webhook, open_webhook
from app.main import keys_for, reject_unaudited, schema_of_service
from app.schema.transport.trusted_documents import open_documents
from app.settings import Settings, SettingsError, Trust, unknown_variables
from app.telemetry.wording import counted


def check_settings(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    for name in unknown_variables(os.environ):
        yield warning("settings", f"{name} is not a setting and is ignored", "remove it, or correct its name")
    if not settings.in_development:
        yield ok("settings", "production")
        yield from check_production(settings)
    elif is_loopback(settings.host):
        yield warning("settings", "CARE_ENV is development", "use it only where others cannot connect")
    else:
        message = "CARE_ENV is development, and CARE_HOST accepts connections from other machines"
        yield failed("settings", message, "unset CARE_ENV, or listen on 127.0.0.1")
    if settings.metrics_port == settings.port:
        yield failed(
            "settings", "CARE_METRICS_PORT is the port of the service", "use another port for metrics"
        )
    if settings.metrics_port and not is_loopback(settings.metrics_host):
        message = f"metrics are served on {settings.metrics_host}, port {settings.metrics_port}"
        yield warning("settings", message, "allow only Prometheus to connect to that port")
    if os.geteuid() == 0:
        yield warning("settings", "this is the user root", "run the service as its own user, without a shell")


def check_production(settings: Settings) -> Iterator[Finding]:
    try:
        reject_unaudited(settings)
    except SettingsError as error:
        yield failed("settings", str(error), "unset CARE_AUDIT")
    path = sqlite_path(settings.database_url or settings.var)
    if settings.database.startswith("sqlite:") and not path.is_absolute():
        name = "CARE_DATABASE_URL" if settings.database_url else "CARE_DATABASE_URL is not set, and CARE_VAR"
        here = location_of(settings.database)
        message = f"{name} is relative to the folder in which a command starts; here it is {here}"
        advice = "use four slashes: CARE_DATABASE_URL=sqlite:////srv/care/care.db"
        if not settings.database_url:  # a shell that reads the settings ignores NAME=VALUE before an `&`
            advice = "set it, in single quotes if it has `&`, `$` or blanks"
        yield warning("settings", message, advice)
    elif not settings.database_url:
        message = f"CARE_DATABASE_URL is not set: the database is {location_of(settings.database)}"
        yield warning("settings", message, "set it, so that no command uses another database")
    if settings.introspects:
        message = "CARE_INTROSPECTION is on: any valid token can read the schema"
        yield warning("settings", message, "turn it off unless it is needed")
    if not settings.points_per_minute:
        message = "CARE_RATE_LIMIT is 0: one account can use all capacity"
        yield warning("settings", message, "unset it for 300000 points a minute")
    if not settings.identifiers_per_hour:
        message = "CARE_IDENTIFIER_LIMIT is 0: a caregiver may try any number of client identifiers"
        yield warning("settings", message, "unset it for 30 an hour")
    if settings.trusted_manifest and settings.trusted_documents is Trust.OFF:
        message = "CARE_TRUSTED_MANIFEST is set, and CARE_TRUSTED_DOCUMENTS is off: any document runs"
        yield warning("settings", message, "set it to audit, later to enforce")


def check_limits(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    limits = (
        (settings.points_per_minute, "CARE_RATE_LIMIT", "points a minute"),
        (settings.identifiers_per_hour, "CARE_IDENTIFIER_LIMIT", "client identifiers an hour"),
    )
    each = " and ".join(f"{limit} {unit} ({name})" for limit, name, unit in limits if limit)
    if each:
        message = (
            f"each process allows {each}; divide them by the number of processes, which is not known here"
        )
        yield ok("limits", message)


def check_keys(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    if has_own_keys(settings):  # `keys_for` would create them
        yield ok("keys", "development keys, under CARE_VAR")
        return
    try:
        keys = keys_for(settings).keys
    except SettingsError as error:
        advice = error.advice if isinstance(error, KeysUnreadable) else "see docs/operations.md, Keys"
        yield failed("keys", str(error), f"the service does not start without keys: {advice}")
        return
    yield ok(
        "keys", f"{counted(len(keys), 'key')} to verify tokens: {', '.join(key.algorithm for key in keys)}"
    )
    if settings.in_development:
        return
    for setting in ("token_issuer", "token_audience"):
        if not getattr(settings, setting):
            message = f"CARE_{setting.upper()} is not set: tokens for other services are accepted, too"
            yield warning("keys", message, "set it, unless the issuer signs only for this service")
    for path in (settings.token_key, settings.token_jwks):
        if path and "-----BEGIN" not in path and "://" not in path:
            yield from check_not_writable(path, "keys", "sign in as anyone")
    if has_key_file(settings):
        message = f"there is a development key under CARE_VAR, which is {settings.var}"
        yield warning("keys", message, "remove it: in production it verifies nothing")


def check_not_writable(path: str, about: str, effect: str) -> Iterator[Finding]:
    if os.stat(path).st_mode & OTHERS_WRITE:
        message = f"users other than its owner may write {path}, and so {effect}"
        yield failed(about, message, f"chmod 644 {path}")


def check_trusted_documents(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    if not settings.trusted_manifest and settings.trusted_documents is Trust.OFF:
        return
    try:
        documents = open_documents(settings, schema_of_service(prepares=False))
    except SettingsError as error:
        yield failed("trusted documents", str(error), "see docs/trusted-documents.md for the formats")
        return
    message = f"{counted(len(documents.trusted), 'document')}, {settings.trusted_documents}"
    yield ok("trusted documents", message)
    yield from check_not_writable(settings.trusted_manifest, "trusted documents", "add trusted documents")


def check_webhook(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    try:
        webhook = open_webhook(settings)
    except SettingsError as error:
        yield failed("webhook", str(error), "see docs/webhook.md")
        return
    if webhook is None and settings.webhook_secret:
        message = "CARE_WEBHOOK_SECRET is set, and CARE_WEBHOOK_URL is not: no events are sent"
        yield warning("webhook", message, "set the address, or remove the secret")
    elif webhook is None:
        yield ok("webhook", "none")
    elif problem := connection_problem(webhook):
        advice = "is it running, and may this machine connect to it? Events wait until it is back"
        yield failed("webhook", f"its host does not accept connections: {problem}", advice)
    else:
        secrets = counted(len(webhook.secrets), "secret")
        yield ok("webhook", f"its host accepts connections; events are signed with {secrets}")


def connection_problem(webhook: Webhook) -> str:
    """Connects and verifies the certificate, but sends no request."""
    try:
        with socket.create_connection((webhook.host, webhook.port), CONNECT_SECONDS) as connection:
            if webhook.tls:
                webhook.tls.wrap_socket(connection, server_hostname=webhook.host).close()
    except TimeoutError:
        return "no response in time"
    except socket.gaierror:
        return "no such host"
    except ssl.SSLCertVerificationError:
        return "its certificate is not trusted"
    except OSError as error:
        return (error.strerror or type(error).__name__).lower() if error.errno else type(error).__name__
    return ""
