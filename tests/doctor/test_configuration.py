"""Promise: the doctor finds problems of the settings, the keys, the trusted documents and the webhook."""

import errno
import json
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from app.dev.tokens import make_key_file
from tests import keys
from tests.auth.issuer import jwk, key_set, serving_issuer
from tests.auth.signing import ec_key
from tests.certificates import certificate
from tests.doctor.conftest import Diagnose, run
from tests.events.receiver import SECRET, receiving

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
ROLE = "query Role { viewer { role } }"


def test_a_service_without_problems_passes_every_check(healthy: dict[str, str]) -> None:
    result = run(healthy)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[-1] == "0 failed, 0 warnings"
    assert [line.partition(": ")[0] for line in lines[:-1]] == [
        f"OK      {about}"
        for about in (
            "settings",
            "keys",
            "webhook",
            "limits",
            "migrations",
            "database",
            "files",
            "disk",
            "dispatcher",
            "audit trail",
            "clock",
        )
    ]


def test_a_relative_path_leads_to_the_same_findings(
    healthy: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the settings differ."""
    path = Path(healthy["database_url"].removeprefix("sqlite:///"))
    path.chmod(0o644)
    path.parent.chmod(0o702)
    monkeypatch.chdir(path.parent)
    disk = type("Disk", (), {"f_bavail": 200, "f_frsize": 1024 * 1024})
    monkeypatch.setattr("os.statvfs", lambda _: disk)

    relative = run(healthy, database_url=f"sqlite:///{path.name}").stdout.splitlines()

    assert relative[1].startswith("WARNING settings: CARE_DATABASE_URL is relative")
    assert [relative[0], *relative[3:-1]] == run(healthy).stdout.splitlines()[:-1]
    assert relative[-1] == "2 failed, 1 warning"


def test_advice_follows_each_finding(healthy: dict[str, str]) -> None:
    result = run(healthy, token_key="")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:3] == [
        "FAILED  keys: no key to verify tokens with: set CARE_TOKEN_KEY or CARE_TOKEN_JWKS"
        " (or CARE_ENV=development)",
        "          -> the service does not start without keys: see docs/operations.md, Keys",
    ]


def test_the_advice_about_a_key_file_fits_its_problem(healthy: dict[str, str]) -> None:
    result = run(healthy, token_key="/nowhere/issuer.pem")

    assert result.stdout.splitlines()[1:3] == [
        "FAILED  keys: CARE_TOKEN_KEY is not the path of a readable PEM file: no such file or directory",
        "          -> the service does not start without keys: set it to the absolute path that the service "
        "sees",
    ]


def test_the_advice_about_an_unset_database_names_the_cause(
    healthy: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that reads `CARE_DATABASE_URL=postgresql://...?a=b&c=d` without quotes sets nothing."""
    monkeypatch.chdir(tmp_path)

    unset, relative = (
        run(healthy, database_url=url, var="var").stdout.splitlines()[2] for url in ("", "sqlite:///some.db")
    )

    assert unset == "          -> set it, in single quotes if it has `&`, `$` or blanks"
    assert relative == "          -> use four slashes: CARE_DATABASE_URL=sqlite:////srv/care/care.db"


def test_invalid_settings_are_the_only_finding(diagnose: Diagnose) -> None:
    assert diagnose("settings", port="many") == [("failed", "CARE_PORT must be a valid integer")]


OPEN = "CARE_INTROSPECTION is on: any valid token can read the schema"
UNLIMITED = "CARE_RATE_LIMIT is 0: one account can use all capacity"
ANY_IDENTIFIER = "CARE_IDENTIFIER_LIMIT is 0: a caregiver may try any number of client identifiers"
UNAUDITED = "CARE_AUDIT=off is for development only: every access to answers is recorded"
RELATIVE = "is relative to the folder in which a command starts; here it is"
UNUSED = "CARE_TRUSTED_MANIFEST is set, and CARE_TRUSTED_DOCUMENTS is off: any document runs"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (
            {"weather": "fine"},
            [("warning", "CARE_WEATHER is not a setting and is ignored"), ("ok", "production")],
        ),
        ({"env": "development"}, [("warning", "CARE_ENV is development")]),
        ({"env": "development", "host": "::1"}, [("warning", "CARE_ENV is development")]),
        ({"env": "development", "host": "localhost"}, [("warning", "CARE_ENV is development")]),
        (
            {"env": "development", "metrics_port": "8000"},
            [
                ("warning", "CARE_ENV is development"),
                ("failed", "CARE_METRICS_PORT is the port of the service"),
            ],
        ),
        (
            {"env": "development", "host": "0.0.0.0", "metrics_port": "8000"},
            [
                ("failed", "CARE_ENV is development, and CARE_HOST accepts connections from other machines"),
                ("failed", "CARE_METRICS_PORT is the port of the service"),
            ],
        ),
        ({"introspection": "on"}, [("ok", "production"), ("warning", OPEN)]),
        ({"rate_limit": "0"}, [("ok", "production"), ("warning", UNLIMITED)]),
        ({"identifier_limit": "0"}, [("ok", "production"), ("warning", ANY_IDENTIFIER)]),
        ({"audit": "off"}, [("ok", "production"), ("failed", UNAUDITED)]),
        ({"metrics_port": "9464"}, [("ok", "production")]),
        ({"metrics_port": "9464", "metrics_host": "::1"}, [("ok", "production")]),
        ({"metrics_port": "9464", "metrics_host": "localhost"}, [("ok", "production")]),
        ({"metrics_host": "0.0.0.0"}, [("ok", "production")]),
        (
            {"port": "9464", "metrics_port": "9464"},
            [("ok", "production"), ("failed", "CARE_METRICS_PORT is the port of the service")],
        ),
        (
            {"port": "9464", "metrics_port": "9464", "metrics_host": "0.0.0.0"},
            [
                ("ok", "production"),
                ("failed", "CARE_METRICS_PORT is the port of the service"),
                ("warning", "metrics are served on 0.0.0.0, port 9464"),
            ],
        ),
        (
            {"metrics_port": "9464", "metrics_host": "0.0.0.0"},
            [("ok", "production"), ("warning", "metrics are served on 0.0.0.0, port 9464")],
        ),
        (
            {"metrics_port": "9464", "metrics_host": "care.example.test"},
            [("ok", "production"), ("warning", "metrics are served on care.example.test, port 9464")],
        ),
    ],
)
def test_risky_settings_are_reported(
    diagnose: Diagnose, changed: dict[str, str], found: list[tuple[str, str]]
) -> None:
    assert diagnose("settings", **changed) == found


def test_all_risky_settings_are_reported_together(
    diagnose: Diagnose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    settings = {"introspection": "on", "rate_limit": "0", "identifier_limit": "0", "audit": "off"}
    public = {"port": "9464", "metrics_port": "9464", "metrics_host": "0.0.0.0"}
    others = {
        "database_url": "sqlite:///some.db",
        "trusted_manifest": "manifest.json",
        "wind": "",
        "rain": "",
    }

    assert diagnose("settings", **settings, **public, **others) == [
        ("warning", "CARE_RAIN is not a setting and is ignored"),
        ("warning", "CARE_WIND is not a setting and is ignored"),
        ("ok", "production"),
        ("failed", UNAUDITED),
        ("warning", f"CARE_DATABASE_URL {RELATIVE} {tmp_path}/some.db"),
        ("warning", OPEN),
        ("warning", UNLIMITED),
        ("warning", ANY_IDENTIFIER),
        ("warning", UNUSED),
        ("failed", "CARE_METRICS_PORT is the port of the service"),
        ("warning", "metrics are served on 0.0.0.0, port 9464"),
        ("warning", "this is the user root"),
    ]


def test_the_url_of_postgresql_is_no_path(diagnose: Diagnose) -> None:
    assert diagnose("settings", database_url="postgresql://care@127.0.0.1:1/care") == [("ok", "production")]


def test_the_limits_of_each_process_are_named(diagnose: Diagnose) -> None:
    divide = "divide them by the number of processes, which is not known here"

    assert diagnose("limits") == [
        (
            "ok",
            "each process allows 300000 points a minute (CARE_RATE_LIMIT) and 30 client identifiers an hour "
            f"(CARE_IDENTIFIER_LIMIT); {divide}",
        )
    ]
    assert diagnose("limits", rate_limit="0", identifier_limit="10") == [
        ("ok", f"each process allows 10 client identifiers an hour (CARE_IDENTIFIER_LIMIT); {divide}")
    ]
    assert diagnose("limits", rate_limit="0", identifier_limit="0") == []


def test_a_relative_database_path_is_reported(
    diagnose: Diagnose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    unset, relative, fixed = (
        diagnose("settings", database_url="", var="var"),
        diagnose("settings", database_url="sqlite:///some.db"),
        diagnose("settings", database_url="", var=str(tmp_path), introspection="on"),
    )

    assert unset[1:] == [
        ("warning", f"CARE_DATABASE_URL is not set, and CARE_VAR {RELATIVE} {tmp_path}/var/care.db")
    ]
    assert relative[1:] == [("warning", f"CARE_DATABASE_URL {RELATIVE} {tmp_path}/some.db")]
    assert fixed[1:] == [
        ("warning", f"CARE_DATABASE_URL is not set: the database is {tmp_path}/care.db"),
        ("warning", OPEN),
    ]


def test_running_as_root_is_reported(diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)

    assert diagnose("settings") == [("ok", "production"), ("warning", "this is the user root")]


def test_the_manifest_is_validated_as_by_the_service(diagnose: Diagnose, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    settings = {"trusted_manifest": str(manifest), "trusted_documents": "enforce"}
    missing = diagnose("trusted documents", **settings)
    manifest.write_text(json.dumps({"1": "query Role { viewer { rule } }"}))
    invalid = diagnose("trusted documents", **settings)
    manifest.write_text(
        json.dumps({"1": ROLE, "2": ROLE.replace("Role", "Other"), "3": "{ viewer { role } }"})
    )
    manifest.chmod(0o666)
    writable = diagnose("trusted documents", **settings)
    manifest.chmod(0o644)

    assert missing == [("failed", "CARE_TRUSTED_MANIFEST cannot be read: No such file or directory")]
    [(verdict, message)] = invalid
    assert (verdict, message[:53]) == ("failed", "CARE_TRUSTED_MANIFEST: the entry 1 does not fit the s")
    message = f"users other than its owner may write {manifest}, and so add trusted documents"
    assert writable == [("ok", "3 documents, enforce"), ("failed", message)]
    assert diagnose("trusted documents", **settings) == [("ok", "3 documents, enforce")]
    assert ("warning", UNUSED) in diagnose("settings", trusted_manifest=str(manifest))
    audited = {"trusted_manifest": str(manifest), "trusted_documents": "audit"}
    assert diagnose("settings", **audited) == [("ok", "production")]
    assert diagnose("trusted documents", **audited) == [("ok", "3 documents, audit")]
    assert diagnose("trusted documents", trusted_manifest=str(manifest)) == [("ok", "3 documents, off")]
    unset = "CARE_TRUSTED_DOCUMENTS=enforce needs CARE_TRUSTED_MANIFEST"
    assert diagnose("trusted documents", trusted_documents="enforce") == [("failed", unset)]


# --- keys ---


def test_unusable_keys_are_reported(diagnose: Diagnose, tmp_path: Path) -> None:
    secret = {"token_key": "", "token_secret": "a secret that is long enough, it is."}
    development_only = "CARE_TOKEN_SECRET is for development only; set CARE_TOKEN_KEY or CARE_TOKEN_JWKS"

    assert diagnose("keys", **secret) == [("failed", development_only)]
    assert diagnose("keys", env="development", **secret) == [("ok", "1 key to verify tokens: HS256")]
    assert diagnose("keys", env="development", token_key="") == [("ok", "development keys, under CARE_VAR")]
    assert not (tmp_path / "development-key.pem").exists()


def test_an_issuer_that_responds_with_an_error_is_reported(diagnose: Diagnose) -> None:
    with serving_issuer(jwk(keys.private_key(), "one")) as issuer:
        good = diagnose("keys", token_key="", token_jwks=issuer.url)
        issuer.status = 500
        wrong = diagnose("keys", token_key="", token_jwks=issuer.url)

    assert good == [("ok", "1 key to verify tokens: RS256")]
    assert wrong == [("failed", "CARE_TOKEN_JWKS cannot be fetched: the response status is 500")]


def test_unchecked_issuers_and_audiences_are_reported(diagnose: Diagnose) -> None:
    taken = "is not set: tokens for other services are accepted, too"

    assert diagnose("keys", token_issuer="", token_audience="")[1:] == [
        ("warning", f"CARE_TOKEN_ISSUER {taken}"),
        ("warning", f"CARE_TOKEN_AUDIENCE {taken}"),
    ]
    assert diagnose("keys", env="development", token_issuer="", token_audience="")[1:] == []


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_key_file_that_others_may_write_is_reported(
    diagnose: Diagnose, healthy: dict[str, str], mode: int
) -> None:
    Path(healthy["token_key"]).chmod(mode)

    message = f"users other than its owner may write {healthy['token_key']}, and so sign in as anyone"
    assert diagnose("keys")[1:] == [("failed", message)]


def test_a_link_to_a_key_file_has_the_mode_of_the_file(
    diagnose: Diagnose, healthy: dict[str, str], tmp_path: Path
) -> None:
    """Each file of a Kubernetes secret is a link."""
    link = tmp_path / "link"
    link.symlink_to(healthy["token_key"])

    found = diagnose("keys", token_key=str(link))

    assert found == [("ok", "1 key to verify tokens: RS256")]


def test_a_key_in_the_settings_or_of_a_server_has_no_file_to_check(diagnose: Diagnose) -> None:
    one = [("ok", "1 key to verify tokens: RS256")]

    assert diagnose("keys", token_key=keys.public_pem()) == one
    with serving_issuer(jwk(keys.private_key(), "one")) as issuer:
        assert diagnose("keys", token_key="", token_jwks=issuer.url) == one
    with serving_issuer(jwk(keys.private_key(), "one"), jwk(ec_key(), "two")) as issuer:
        two = [("ok", "2 keys to verify tokens: RS256, ES256")]
        assert diagnose("keys", token_key="", token_jwks=issuer.url) == two


def test_a_key_set_that_others_may_write_is_reported(diagnose: Diagnose, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(jwk(keys.private_key())))
    path.chmod(0o666)

    message = f"users other than its owner may write {path}, and so sign in as anyone"
    assert diagnose("keys", token_key="", token_jwks=str(path))[1:] == [("failed", message)]


def test_a_development_key_in_production_is_reported(diagnose: Diagnose, tmp_path: Path) -> None:
    make_key_file(tmp_path / "development-key.pem")

    message = f"there is a development key under CARE_VAR, which is {tmp_path}"
    assert diagnose("keys")[1:] == [("warning", message)]


def test_all_problems_with_keys_are_reported_together(
    diagnose: Diagnose, healthy: dict[str, str], tmp_path: Path
) -> None:
    make_key_file(tmp_path / "development-key.pem")
    Path(healthy["token_key"]).chmod(0o666)

    assert [verdict for verdict, _ in diagnose("keys", token_issuer="", token_audience="")] == [
        "ok",
        "warning",
        "warning",
        "failed",
        "warning",
    ]


# --- the webhook ---


def test_the_webhook_is_connected_to_without_a_request(diagnose: Diagnose) -> None:
    with receiving() as receiver:
        found = diagnose("webhook", webhook_url=receiver.url, webhook_secret=SECRET)
        received = list(receiver.received)

    assert found == [("ok", "its host accepts connections; events are signed with 1 secret")]
    assert received == []


def test_the_certificate_of_the_webhook_is_verified(diagnose: Diagnose, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))  # signed by itself

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=serve)
        server.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/care"
        found = diagnose("webhook", webhook_url=url, webhook_secret=SECRET)
        server.join()

    assert found == [
        ("failed", "its host does not accept connections: its certificate is not trusted"),
    ]


def test_each_secret_of_the_webhook_is_counted(diagnose: Diagnose) -> None:
    with receiving() as receiver:
        found = diagnose("webhook", webhook_url=receiver.url, webhook_secret=f"{SECRET}  {SECRET} {SECRET}")

    assert found == [("ok", "its host accepts connections; events are signed with 3 secrets")]


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "no such host"),
        (TimeoutError("timed out"), "no response in time"),
        (ssl.SSLEOFError("EOF occurred"), "SSLEOFError"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "network is unreachable"),
    ],
)
def test_an_unreachable_webhook_is_reported(
    diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch, failure: OSError, problem: str
) -> None:
    def fail(*given: object) -> None:
        assert given == (("example.test", 443), 5)
        raise failure

    monkeypatch.setattr(socket, "create_connection", fail)

    found = diagnose("webhook", webhook_url="https://example.test/care", webhook_secret=SECRET)

    assert found == [("failed", f"its host does not accept connections: {problem}")]


def test_an_incomplete_webhook_configuration_is_reported(diagnose: Diagnose) -> None:
    nowhere = "CARE_WEBHOOK_SECRET is set, and CARE_WEBHOOK_URL is not: no events are sent"
    unsigned = "CARE_WEBHOOK_URL needs a CARE_WEBHOOK_SECRET to sign with"

    assert diagnose("webhook", webhook_secret=SECRET) == [("warning", nowhere)]
    assert diagnose("webhook", webhook_url="https://example.test/care") == [("failed", unsigned)]
