"""Promise: of settings, keys and the webhook the doctor finds what is wrong, and says what to do."""

import json
import socket
from pathlib import Path

import pytest

from app.dev.tokens import make_key_file
from tests import keys
from tests.auth.issuer import issuing, jwk
from tests.doctor.conftest import Ask, run
from tests.events.receiver import SECRET, receiving

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
ROLE = "query Role { viewer { role } }"


def test_a_service_that_is_in_order_is_told_so(in_order: dict[str, str]) -> None:
    said = run(in_order)

    assert said.exit_code == 0
    lines = said.stdout.splitlines()
    assert lines[-1] == "0 failed, 0 warnings"
    assert [line[:22] for line in lines[:3]] == [
        "OK      settings: prod",
        "OK      keys: 1 key to",
        "OK      webhook: none",
    ]
    assert len(lines) == 11


def test_what_is_to_be_done_stands_below_what_is_wrong(in_order: dict[str, str]) -> None:
    said = run(in_order, token_key="")

    assert said.exit_code == 1
    assert said.stdout.splitlines()[1:3] == [
        "FAILED  keys: no key to verify tokens with: set CARE_TOKEN_KEY or CARE_TOKEN_JWKS"
        " (or CARE_ENV=development)",
        "          -> the service does not start without keys: see docs/operations.md, Keys",
    ]


def test_what_is_to_be_done_about_a_key_file_fits_what_is_wrong_with_it(in_order: dict[str, str]) -> None:
    said = run(in_order, token_key="/nowhere/issuer.pem")

    assert said.stdout.splitlines()[1:3] == [
        "FAILED  keys: CARE_TOKEN_KEY cannot be read as the path of a PEM file: no such file or directory",
        "          -> the service does not start without keys: give its path, from the root, as the service "
        "sees it",
    ]


def test_settings_that_cannot_be_read_are_the_one_finding(ask: Ask) -> None:
    assert ask("settings", port="many") == [("failed", "CARE_PORT must be a valid integer")]


IGNORED = "CARE_WEATHER is not a setting and is ignored"
OPEN = "CARE_INTROSPECTION is on: any valid token can read the schema"
UNLIMITED = "CARE_RATE_LIMIT is 0: one account can use all capacity"
ANY_IDENTIFIER = "CARE_IDENTIFIER_LIMIT is 0: a caregiver may try any number of client identifiers"
UNUSED = "CARE_TRUSTED_MANIFEST is set, and CARE_TRUSTED_DOCUMENTS is off: any document runs"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (
            {"weather": "fine"},
            [("warning", "CARE_WEATHER is not a setting and is ignored"), ("ok", "production")],
        ),
        ({"env": "development"}, [("warning", "CARE_ENV is development")]),
        (
            {"env": "development", "host": "0.0.0.0"},
            [("failed", "CARE_ENV is development, and CARE_HOST accepts connections from other machines")],
        ),
        ({"introspection": "on"}, [("ok", "production"), ("warning", OPEN)]),
        ({"rate_limit": "0"}, [("ok", "production"), ("warning", UNLIMITED)]),
        ({"identifier_limit": "0"}, [("ok", "production"), ("warning", ANY_IDENTIFIER)]),
        ({"metrics_port": "9464"}, [("ok", "production")]),
        (
            {"metrics_port": "9464", "metrics_host": "0.0.0.0"},
            [("ok", "production"), ("warning", "metrics are served on 0.0.0.0, port 9464")],
        ),
    ],
)
def test_settings_that_are_risky_are_told(
    ask: Ask, changed: dict[str, str], found: list[tuple[str, str]]
) -> None:
    assert ask("settings", **changed) == found


def test_a_database_whose_path_depends_on_the_folder_is_told(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begins = "is relative to the folder in which a command starts; here it is"

    unset, relative, fixed = (
        ask("settings", database_url="", var="var"),
        ask("settings", database_url="sqlite:///some.db"),
        ask("settings", database_url="", var=str(tmp_path)),
    )

    assert unset[1:] == [
        ("warning", f"CARE_DATABASE_URL is not set, and CARE_VAR {begins} {tmp_path}/var/care.db")
    ]
    assert relative[1:] == [("warning", f"CARE_DATABASE_URL {begins} {tmp_path}/some.db")]
    assert fixed[1:] == []


def test_the_user_root_is_told(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)

    assert ask("settings") == [("ok", "production"), ("warning", "this is the user root")]


def test_a_manifest_is_read_as_the_service_reads_it(ask: Ask, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    given = {"trusted_manifest": str(manifest), "trusted_documents": "enforce"}
    missing = ask("trusted documents", **given)
    manifest.write_text(json.dumps({"1": "query Role { viewer { rule } }"}))
    unfit = ask("trusted documents", **given)
    manifest.write_text(json.dumps({"1": ROLE}))
    manifest.chmod(0o666)
    writable = ask("trusted documents", **given)
    manifest.chmod(0o644)

    assert missing == [("failed", "CARE_TRUSTED_MANIFEST cannot be read: No such file or directory")]
    [(verdict, said)] = unfit
    assert (verdict, said[:53]) == ("failed", "CARE_TRUSTED_MANIFEST: the entry 1 does not fit the s")
    said = f"users other than its owner may write {manifest}, and so add trusted documents"
    assert writable == [("ok", "1 document, enforce"), ("failed", said)]
    assert ask("trusted documents", **given) == [("ok", "1 document, enforce")]
    assert ("warning", UNUSED) in ask("settings", trusted_manifest=str(manifest))


# --- keys ---


def test_keys_that_cannot_be_used_are_told(ask: Ask, tmp_path: Path) -> None:
    secret = {"token_key": "", "token_secret": "a secret that is long enough, it is."}
    for_development = "CARE_TOKEN_SECRET is for development only; set CARE_TOKEN_KEY or CARE_TOKEN_JWKS"

    assert ask("keys", **secret) == [("failed", for_development)]
    assert ask("keys", env="development", **secret) == [("ok", "1 key to verify tokens: HS256")]
    assert ask("keys", env="development", token_key="") == [("ok", "development keys, under CARE_VAR")]
    assert not (tmp_path / "development-key.pem").exists()


def test_an_issuer_that_does_not_answer_is_told(ask: Ask) -> None:
    with issuing(jwk(keys.private_key(), "one")) as issuer:
        good = ask("keys", token_key="", token_jwks=issuer.url)
        issuer.status = 500
        wrong = ask("keys", token_key="", token_jwks=issuer.url)

    assert good == [("ok", "1 key to verify tokens: RS256")]
    assert wrong == [("failed", "CARE_TOKEN_JWKS cannot be fetched: the answer is 500")]


def test_tokens_of_any_issuer_and_for_anybody_are_told(ask: Ask) -> None:
    taken = "is not set: tokens for other services are accepted, too"

    assert ask("keys", token_issuer="", token_audience="")[1:] == [
        ("warning", f"CARE_TOKEN_ISSUER {taken}"),
        ("warning", f"CARE_TOKEN_AUDIENCE {taken}"),
    ]


def test_a_key_file_that_others_may_write_is_told(ask: Ask, in_order: dict[str, str]) -> None:
    Path(in_order["token_key"]).chmod(0o664)

    said = f"users other than its owner may write {in_order['token_key']}, and so sign in as anyone"
    assert ask("keys")[1:] == [("failed", said)]


def test_a_development_key_in_production_is_told(ask: Ask, tmp_path: Path) -> None:
    make_key_file(tmp_path / "development-key.pem")

    said = f"there is a development key under CARE_VAR, which is {tmp_path}"
    assert ask("keys")[1:] == [("warning", said)]


# --- the webhook ---


def test_a_webhook_is_reached_and_nothing_is_posted(ask: Ask) -> None:
    with receiving() as receiver:
        said = ask("webhook", webhook_url=receiver.url, webhook_secret=SECRET)
        asked = list(receiver.received)

    assert said == [("ok", "its host accepts connections; events are signed with 1 secret")]
    assert asked == []


def test_a_webhook_that_cannot_be_reached_is_told(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    address = f"http://127.0.0.1:{port}/care"

    [(verdict, said)] = ask("webhook", webhook_url=address, webhook_secret=SECRET)

    assert verdict == "failed"
    assert said.startswith("its host does not accept connections: ")


def test_a_webhook_that_is_half_set_is_told(ask: Ask) -> None:
    nowhere = "CARE_WEBHOOK_SECRET is set, and CARE_WEBHOOK_URL is not: no events are sent"
    unsigned = "CARE_WEBHOOK_URL needs a CARE_WEBHOOK_SECRET to sign with"

    assert ask("webhook", webhook_secret=SECRET) == [("warning", nowhere)]
    assert ask("webhook", webhook_url="https://example.test/care") == [("failed", unsigned)]
