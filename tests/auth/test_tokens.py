"""Only a current access token that the issuer signed for this service is accepted.

Every other token gets a 401 with a fixed message on both contracts, which repeats nothing of the token.
"""

import logging
from pathlib import Path
from typing import Any

import pytest

from app.auth.tokens import application_of, unverified_claims
from tests import keys
from tests.auth.bad_tokens import GARBAGE, HEAD, REFUSED, now, with_exp
from tests.auth.conftest import Opening
from tests.auth.issuer import jwk, serving_issuer
from tests.auth.signing import (
    BAD,
    CAREGIVER_1,
    CLIENT_1,
    assert_refused,
    caregiver,
    in_json,
    me,
    signed,
    signed_bytes,
)
from tests.callers import Gateway
from tests.schema.listening import connected

pytestmark = pytest.mark.sqlite_only


@pytest.mark.parametrize("name", REFUSED)
def test_both_contracts_reject_a_bad_token(
    with_accounts: Gateway, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = REFUSED[name]()

    with caplog.at_level(logging.DEBUG):
        assert_refused(with_accounts, f"bearer {token}", 401, BAD)

    assert_not_logged(token, caplog)


# The websocket asks the same authenticator: one of each way to be refused is enough.
AT_A_WEBSOCKET = (
    "alg none",
    "public key as secret",
    "another RSA key",
    "other claims under the signature",
    "expired",
    "not yet valid",
    "exp true",
    "a role given twice",
    "refresh token",
    "a word",
    "a payload that is no JSON",
    "too long",
)


@pytest.mark.parametrize("name", AT_A_WEBSOCKET)
def test_a_websocket_rejects_a_bad_token(
    with_accounts: Gateway, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the first message and in the header."""
    token = REFUSED[name]()

    with caplog.at_level(logging.DEBUG):
        with connected(with_accounts.as_anonymous()) as listener:
            listener.send(type="connection_init", payload={"Authorization": f"bearer {token}"})
            assert listener.receive_close() == (4403, "the bearer token is not valid")
        with connected(with_accounts.with_token(token)) as listener:
            listener.send(type="connection_init")
            assert listener.receive_close() == (4403, "the bearer token is not valid")

    assert_not_logged(token, caplog)


def assert_not_logged(token: str, caplog: pytest.LogCaptureFixture) -> None:
    for part in token.split("."):
        assert len(part) < 8 or part not in caplog.text


def test_a_key_address_in_a_token_is_ignored(with_accounts: Gateway, tmp_path: Path) -> None:
    stranger = keys.private_key("stranger")
    with serving_issuer(jwk(stranger, "it")) as issuer:
        (tmp_path / "issuer.pem").write_text(keys.public_pem(stranger))
        places = (issuer.url, f"file://{tmp_path}/issuer.pem", str(tmp_path / "issuer.pem"))
        for name in ("jku", "x5u", "iss", "kid"):
            for place in places:
                token = (
                    signed(caregiver(iss=place), stranger)
                    if name == "iss"
                    else signed(caregiver(), stranger, **{name: place})
                )
                assert_refused(with_accounts, f"bearer {token}", 401, BAD)

        assert issuer.requests == 0


ACCEPTED = {
    "as the old service makes them": lambda: signed(caregiver()),
    "expired within the leeway": lambda: signed(caregiver(exp=now(seconds=-5))),
    "not yet valid, within the leeway": lambda: signed(caregiver(nbf=now(seconds=5))),
    "exp a fraction": lambda: with_exp(b"99999999999.5"),
    "exp of 300 digits": lambda: with_exp(b"9" * 300),
    "as long as may be": lambda: padded(8192),
    "any kid, for the key has none": lambda: signed(caregiver(), kid="2026-11"),
    "a sub of another user": lambda: signed(caregiver(sub="caregiver-2")),
    "iss and aud that are not configured": lambda: signed(caregiver(iss="a", aud=["b"])),
}


def padded(length: int) -> str:
    """A token of exactly this length: a character of a claim takes 4/3 characters of the token."""
    for size in range(length * 3 // 4 - 800, length):
        if len(token := signed(caregiver(padding="x" * size))) >= length:
            assert len(token) == length
            return token
    raise AssertionError


@pytest.mark.parametrize("name", ACCEPTED)
def test_both_contracts_accept_a_good_token(with_accounts: Gateway, name: str) -> None:
    token = ACCEPTED[name]()

    assert me(with_accounts, token) == CAREGIVER_1


@pytest.mark.parametrize(
    "claims",
    [
        *({}, {"iss": "stranger"}, {"iss": ""}, {"iss": "issuer "}, {"iss": "issuer/"}, {"iss": "Issuer"}),
        *({"iss": ["issuer"]}, {"iss": 1}),
    ],
    ids=["missing", "wrong", "empty", "a space", "a slash", "a capital", "a list", "a number"],
)
def test_a_token_of_another_issuer_is_rejected(open_with: Opening, claims: dict[str, str]) -> None:
    gateway = open_with(token_issuer="issuer")

    assert_refused(gateway, f"bearer {signed_bytes(HEAD, in_json(caregiver(**claims)))}", 401, BAD)

    assert me(gateway, signed(caregiver(iss="issuer"))) == CAREGIVER_1


@pytest.mark.parametrize(
    "claims",
    [{}, {"aud": "other"}, {"aud": ["other", "third"]}, {"aud": []}, {"aud": 1}, {"aud": ""}],
    ids=["missing", "wrong", "only others", "nobody", "a number", "empty"],
)
def test_a_token_for_another_audience_is_rejected(open_with: Opening, claims: dict[str, str]) -> None:
    gateway = open_with(token_issuer="issuer", token_audience="care")

    assert_refused(gateway, f"bearer {signed(caregiver(iss='issuer', **claims))}", 401, BAD)

    assert me(gateway, signed(caregiver(iss="issuer", aud="care"))) == CAREGIVER_1
    several = keys.claims("CLIENT", "client-1", iss="issuer", aud=["other", "care"])
    assert me(gateway, signed(several)) == CLIENT_1


def test_the_configured_leeway_applies(open_with: Opening) -> None:
    strict, generous = open_with(token_leeway=0), open_with(token_leeway=300)
    expired = signed(caregiver(exp=now(seconds=-60)))

    assert_refused(strict, f"bearer {expired}", 401, BAD)
    assert me(generous, expired) == CAREGIVER_1


APPLICATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "every kind of character": ({"client_id": "https://Care_app-1.test:8/x"}, "https://Care_app-1.test:8/x"),
    "as long as may be": ({"client_id": "a" * 64}, "a" * 64),
    "too long": ({"client_id": "a" * 65}, ""),
    "an email address": ({"client_id": "mara@example.test"}, ""),
    "a line": ({"client_id": "app\n"}, ""),
    "empty": ({"client_id": "", "azp": "web"}, ""),
    "a number": ({"client_id": 7, "azp": "web"}, ""),
    "client_id before azp": ({"client_id": "app", "azp": "web"}, "app"),
    "azp alone": ({"azp": "web"}, "web"),
    "neither": ({}, ""),
}


@pytest.mark.parametrize(("claims", "name"), APPLICATIONS.values(), ids=APPLICATIONS)
def test_a_token_names_its_application(claims: dict[str, Any], name: str) -> None:
    assert application_of(claims) == name


UNREADABLE = ["a word", "no base64", "a deep payload", "a payload that is a list", "a payload in Latin-1"]


def test_a_tool_that_needs_only_a_name_reads_nothing_from_what_is_no_token() -> None:
    tokens = [each() for each in GARBAGE.values()]
    assert all(isinstance(unverified_claims(token), dict) for token in tokens)

    huge = signed_bytes(HEAD, b'{"exp":' + b"9" * 5000 + b"}")
    unreadable = [*(GARBAGE[name]() for name in UNREADABLE), huge, ""]
    assert [unverified_claims(token) for token in unreadable] == [{}] * len(unreadable)
    assert unverified_claims(signed(caregiver(exp=1)))["user_name"] == "caregiver-1"
