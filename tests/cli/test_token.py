"""Promise: `token` mints tokens only in development. `token check` prints whether a token is accepted,
or why not, and no part of the token."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import pytest

from app.auth.rejections import Reason
from app.auth.tokens import MAX_TOKEN
from app.cli.token import EXPLANATIONS
from app.db.interchange.load import importing
from app.main import create_app
from app.settings import Settings
from tests import keys, pages
from tests.auth.bad_tokens import now
from tests.auth.issuer import jwk, serving_issuer
from tests.auth.signing import CAREGIVER_1, CLIENT_1, caregiver, ec_key, me, signed
from tests.callers import Gateway, load, opened, run_write
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import NOW, a_caregiver, a_client, lines, people

pytestmark = pytest.mark.sqlite_only

NOT_MINTED = (
    "tokens can be minted only with CARE_ENV=development and without CARE_TOKEN_KEY and CARE_TOKEN_JWKS"
)
SECRET = "a development secret of 32 bytes"
STRANGER = keys.private_key("stranger")


@pytest.fixture
def check(command: Command, database_url: str) -> Callable[..., Any]:
    run_write(database_url, importing(lines([a_caregiver(1), a_client(1)])))

    def run(text: str, **changed: Any) -> Any:
        result = command("token", "check", input=text, **{"token_key": keys.public_pem(), **changed})
        for part in text.replace(".", " ").split():
            assert len(part) < 10 or part not in result.output
        assert "caregiver-1" not in result.output and "client-1" not in result.output
        return result

    return run


@pytest.mark.parametrize(
    "written",
    ["{}", "{}\n", "bearer {}", "BEARER   {}\n", "Authorization: bearer {}\r\n", "authorization:{}"],
)
def test_a_valid_token_is_accepted(check: Callable[..., Any], written: str) -> None:
    result = check(written.replace("{}", signed(caregiver())))

    assert result.output == "accepted: role CAREGIVER, the account is enabled, expires in 60 min\n"
    assert result.exit_code == 0


def test_a_token_of_the_maximum_length_is_read_with_its_header(check: Callable[..., Any]) -> None:
    length = MAX_TOKEN - len(signed(caregiver(note="")))
    token = signed(caregiver(note="x" * (length * 3 // 4 - 1)))

    result = check(f"\n\nAuthorization: bearer {token}\n")

    assert MAX_TOKEN - 4 < len(token) <= MAX_TOKEN
    assert result.output.startswith("accepted: ")


def test_a_token_that_has_expired_within_the_leeway_is_accepted(check: Callable[..., Any]) -> None:
    result = check(signed(keys.claims("CLIENT", "client-1") | {"exp": now(seconds=-100)}), token_leeway="300")

    assert result.output == "accepted: role CLIENT, the account is enabled, expires in 0 min\n"


REJECTED: dict[Reason, Callable[[], str]] = {
    Reason.HEADER: lambda: "bearer two words",
    Reason.MALFORMED: lambda: signed(caregiver())[:-400],
    Reason.ALGORITHM: lambda: signed(caregiver(), ec_key()),
    Reason.SIGNATURE: lambda: signed(caregiver(), STRANGER),
    Reason.EXPIRED: lambda: signed(caregiver(exp=now(hours=-1))),
    Reason.NOT_YET_VALID: lambda: signed(caregiver(nbf=now(hours=1))),
    Reason.CLAIMS: lambda: signed(caregiver(user_name=None)),
    Reason.REFRESH_TOKEN: lambda: signed(caregiver(ati="x")),
    Reason.ROLE: lambda: signed(caregiver(authorities=[])),
    Reason.UNKNOWN_ACCOUNT: lambda: signed(caregiver(user_name="somebody.else@example.test")),
}


@pytest.mark.parametrize("reason", REJECTED)
def test_a_rejected_token_is_explained(check: Callable[..., Any], reason: Reason) -> None:
    result = check(REJECTED[reason]())

    assert result.output == f"refused: {reason}\n{EXPLANATIONS[reason]}\n"
    assert result.exit_code == 1


def test_a_colon_in_a_token_does_not_belong_to_the_header(check: Callable[..., Any]) -> None:
    assert check("Authorization: bearer a:b").output.startswith("refused: malformed\n")


def test_the_issuer_and_audience_of_the_settings_are_checked(check: Callable[..., Any]) -> None:
    token = signed(caregiver(iss="issuer", aud="care"))

    assert check(token, token_issuer="issuer", token_audience="care").exit_code == 0
    assert check(token, token_issuer="other").output.startswith("refused: issuer\n")
    refused = check(token, token_audience="other").output
    assert refused.startswith("refused: audience\n")
    assert refused in pages.read("docs/observability.md")


def test_an_unknown_key_id_is_explained(check: Callable[..., Any]) -> None:
    with serving_issuer(jwk(keys.private_key(), "known")) as issuer:
        settings = {"token_key": "", "token_jwks": issuer.url}

        assert check(signed(caregiver(), kid="known"), **settings).exit_code == 0
        unknown = check(signed(caregiver(), kid="unknown"), **settings)

    assert unknown.output.startswith("refused: unknown key\n")


def test_a_disabled_account_is_explained(check: Callable[..., Any], database_url: str) -> None:
    raw.run(database_url, "UPDATE caregiver SET is_disabled = true")

    assert check(signed(caregiver())).output.startswith("refused: disabled account\n")


ADVICE = {
    "header": "The value has more than one word. Give the token alone, or the header: bearer <token>.",
    "malformed": "The token is not a valid JWT: truncated, too long, or with a duplicate member.",
    "algorithm": "No key supports the algorithm (`alg`). An RSA key verifies RS256, an EC key ES256.",
    "unknown key": "The key set of CARE_TOKEN_JWKS has no key with this id (`kid`).",
    "signature": "No key verifies the signature: another issuer signed the token, or it was changed.",
    "expired": "The token has expired (`exp`). The application needs a new one from the issuer.",
    "not yet valid": "The token is not valid yet (`nbf`, `iat`). Compare this clock with the issuer's.",
    "issuer": "The issuer (`iss`) is not CARE_TOKEN_ISSUER.",
    "audience": "The audience (`aud`) does not contain CARE_TOKEN_AUDIENCE.",
    "claims": "The token has no valid `exp`, or no user name in CARE_CLAIM_USER or `sub`.",
    "refresh token": "This is a refresh token (`ati`). Send the access token.",
    "role": "CARE_CLAIM_ROLE must contain exactly one of CAREGIVER and CLIENT.",
    "unknown account": "No account has this role and user name: care-gateway account add, or link.",
    "disabled account": "The account is disabled. Use care-gateway account enable.",
}


def test_every_reason_is_explained() -> None:
    assert {*Reason} - {Reason.KEYS_AWAITED} == EXPLANATIONS.keys()
    assert {str(reason): text for reason, text in EXPLANATIONS.items()} == ADVICE


def test_a_check_that_cannot_run_exits_with_2(check: Callable[..., Any], command: Command) -> None:
    nothing, header = check(" \n"), check("Authorization: \n")
    no_keys = check(signed(caregiver()), token_key="gone.pem")
    argument = command("token", "check", signed(caregiver()))

    assert (nothing.exit_code, no_keys.exit_code, argument.exit_code) == (2, 2, 2)
    assert (header.exit_code, header.output) == (2, nothing.output)
    assert nothing.output.endswith("there is no token on standard input\n")
    assert argument.output.endswith("give the token on standard input: other users can see command lines\n")
    assert "eyJ" not in argument.output


# --- minting ---


@pytest.mark.parametrize("secret", ["", SECRET], ids=["own key", "shared secret"])
def test_the_service_accepts_minted_tokens(command: Command, settings: Settings, secret: str) -> None:
    load(settings.database, people())
    minted = [
        command("token", "--role", role, "--user", f"{role}-1", token_secret=secret)
        for role in ("caregiver", "client")
    ]

    own = settings.model_copy(update={"token_key": "", "token_secret": secret})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        viewers = [me(Gateway(client, own), one.stdout.strip()) for one in minted]

    assert [one.exit_code for one in minted] == [0, 0]
    assert [one.stderr.startswith("created ") for one in minted] == [not secret, False]
    assert viewers == [CAREGIVER_1, CLIENT_1]


@pytest.mark.parametrize("secret", ["", SECRET], ids=["own key", "shared secret"])
def test_a_minted_token_has_the_claims_that_the_settings_require(
    command: Command, database_url: str, secret: str
) -> None:
    run_write(database_url, importing(lines([a_caregiver(1), a_client(1)])))
    required = {
        "token_issuer": "issuer",
        "token_audience": "care",
        "claim_user": "name",
        "claim_role": "scope",
    }
    settings = required | {"token_secret": secret}

    minted = command("token", "--role", "caregiver", "--user", "caregiver-1", **settings)
    checked = command("token", "check", input=minted.stdout, **settings)

    assert checked.output == "accepted: role CAREGIVER, the account is enabled, expires in 1440 min\n"


def test_the_default_user_is_a_demo_user(command: Command) -> None:
    minted = [command("token", "--role", role) for role in ("caregiver", "client")]

    claims = [jwt.decode(result.stdout.strip(), options={"verify_signature": False}) for result in minted]
    assert [result.stderr.endswith("rejects this token\n") for result in minted] == [True, False]
    assert [(one["authorities"], one["user_name"]) for one in claims] == [
        (["CAREGIVER"], "mara.lind@example.test"),
        (["CLIENT"], "jonas.berg@example.test"),
    ]


@pytest.mark.parametrize(
    ("named", "application"), [((), "development"), (("--application", "mobile-app"), "mobile-app")]
)
def test_a_minted_token_has_the_claims_of_the_old_service(
    command: Command, named: tuple[str, ...], application: str
) -> None:
    before = datetime.now(UTC).timestamp()

    result = command("token", "--role", "client", "--user", "Jonas Bérg", "--hours", "2", *named)

    claims = jwt.decode(result.stdout.strip(), options={"verify_signature": False})
    assert before + 7199 <= claims.pop("exp") <= datetime.now(UTC).timestamp() + 7200
    assert claims.pop("jti")
    assert claims == {
        "user_name": "Jonas Bérg",
        "authorities": ["CLIENT"],
        "client_id": application,
        "scope": ["read", "write"],
    }


@pytest.mark.parametrize(
    ("words", "life", "leeway", "warning"),
    [
        (("--expired",), -3600, "10", ""),
        (("--seconds", "5"), 5, "10", "the service accepts it for 10 s more: CARE_TOKEN_LEEWAY\n"),
        (("--seconds", "5"), 5, "0", ""),
    ],
)
def test_the_end_of_a_token_can_be_rehearsed(
    command: Command, words: tuple[str, ...], life: int, leeway: str, warning: str
) -> None:
    command("token", "--role", "client")  # creates the key
    before = datetime.now(UTC).timestamp()

    result = command("token", "--role", "client", *words, token_leeway=leeway)

    claims = jwt.decode(result.stdout.strip(), options={"verify_signature": False, "verify_exp": False})
    assert before + life - 1 <= claims["exp"] <= datetime.now(UTC).timestamp() + life
    assert result.stderr == warning


@pytest.mark.parametrize(
    "changed",
    [
        {"env": "production"},
        {"env": "production", "token_secret": SECRET},
        {"token_key": "issuer.pem"},
        {"token_jwks": "keys.json"},
    ],
)
def test_tokens_are_minted_only_in_development(
    command: Command, tmp_path: Path, changed: dict[str, str]
) -> None:
    rejected = command("token", "--role", "client", "--user", "x", var=str(tmp_path / "new"), **changed)

    assert_rejected(rejected, NOT_MINTED)
    assert not (tmp_path / "new").exists()
