"""Promise: no token that the issuer did not sign for now, for us and as an access token opens anything.

Each is a 401 with a fixed phrase on both contracts, never a fault, and nothing of it is repeated.
"""

import logging
from pathlib import Path

import pytest

from tests import keys
from tests.auth.bad_tokens import HEAD, REFUSED, now, with_exp
from tests.auth.conftest import Opening
from tests.auth.issuer import issuing, jwk
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
def test_a_bad_token_opens_neither_contract(
    peopled: Gateway, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = REFUSED[name]()

    with caplog.at_level(logging.DEBUG):
        assert_refused(peopled, f"bearer {token}", 401, BAD)

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
    "a role said twice",
    "refresh token",
    "a word",
    "a payload that is no JSON",
    "too long",
)


@pytest.mark.parametrize("name", AT_A_WEBSOCKET)
def test_a_bad_token_opens_no_websocket(
    peopled: Gateway, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the first message nor in the request."""
    token = REFUSED[name]()

    with caplog.at_level(logging.DEBUG):
        with connected(peopled.as_nobody()) as listener:
            listener.say(type="connection_init", payload={"Authorization": f"bearer {token}"})
            assert listener.hear_close() == (4403, "Forbidden")
        with connected(peopled.with_token(token)) as listener:
            listener.say(type="connection_init")
            assert listener.hear_close() == (4403, "Forbidden")

    assert_not_logged(token, caplog)


def assert_not_logged(token: str, caplog: pytest.LogCaptureFixture) -> None:
    for part in token.split("."):
        assert len(part) < 8 or part not in caplog.text


def test_where_a_token_says_that_its_key_lies_is_not_looked_at(peopled: Gateway, tmp_path: Path) -> None:
    stranger = keys.private_key("stranger")
    with issuing(jwk(stranger, "it")) as issuer:
        (tmp_path / "issuer.pem").write_text(keys.public_pem(stranger))
        places = (issuer.url, f"file://{tmp_path}/issuer.pem", str(tmp_path / "issuer.pem"))
        for name in ("jku", "x5u", "iss", "kid"):
            for place in places:
                token = (
                    signed(caregiver(iss=place), stranger)
                    if name == "iss"
                    else signed(caregiver(), stranger, **{name: place})
                )
                assert_refused(peopled, f"bearer {token}", 401, BAD)

        assert issuer.asked == 0


ACCEPTED = {
    "as the old service makes them": lambda: signed(caregiver()),
    "expired within the leeway": lambda: signed(caregiver(exp=now(seconds=-5))),
    "not yet valid, within the leeway": lambda: signed(caregiver(nbf=now(seconds=5))),
    "exp a fraction": lambda: with_exp(b"99999999999.5"),
    "exp of 300 digits": lambda: with_exp(b"9" * 300),
    "as long as may be": lambda: padded(8192),
    "any kid, for the key has none": lambda: signed(caregiver(), kid="2026-11"),
    "iss and aud that nobody asked for": lambda: signed(caregiver(iss="a", aud=["b"])),
}


def padded(length: int) -> str:
    """A token of exactly this length: a character of a claim is 4/3 of one in the token."""
    for size in range(length * 3 // 4 - 800, length):
        if len(token := signed(caregiver(padding="x" * size))) >= length:
            assert len(token) == length
            return token
    raise AssertionError


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_good_token_opens_both_contracts(peopled: Gateway, name: str) -> None:
    token = ACCEPTED[name]()

    assert me(peopled, token) == CAREGIVER_1


@pytest.mark.parametrize(
    "claims",
    [{}, {"iss": "stranger"}, {"iss": ""}, {"iss": "issuer "}, {"iss": ["issuer"]}, {"iss": 1}],
    ids=["missing", "wrong", "empty", "nearly", "a list", "a number"],
)
def test_a_configured_issuer_must_have_issued_the_token(open_with: Opening, claims: dict[str, str]) -> None:
    gateway = open_with(token_issuer="issuer")

    assert_refused(gateway, f"bearer {signed_bytes(HEAD, in_json(caregiver(**claims)))}", 401, BAD)

    assert me(gateway, signed(caregiver(iss="issuer"))) == CAREGIVER_1


@pytest.mark.parametrize(
    "claims",
    [{}, {"aud": "other"}, {"aud": ["other", "third"]}, {"aud": []}, {"aud": 1}, {"aud": ""}],
    ids=["missing", "wrong", "only others", "nobody", "a number", "empty"],
)
def test_a_token_must_be_for_the_configured_audience(open_with: Opening, claims: dict[str, str]) -> None:
    gateway = open_with(token_audience="care")

    assert_refused(gateway, f"bearer {signed(caregiver(**claims))}", 401, BAD)

    assert me(gateway, signed(caregiver(aud="care"))) == CAREGIVER_1
    assert me(gateway, signed(keys.claims("CLIENT", "client-1", aud=["other", "care"]))) == CLIENT_1


def test_the_leeway_is_as_configured(open_with: Opening) -> None:
    strict, generous = open_with(token_leeway=0), open_with(token_leeway=300)
    expired = signed(caregiver(exp=now(seconds=-60)))

    assert_refused(strict, f"bearer {expired}", 401, BAD)
    assert me(generous, expired) == CAREGIVER_1
