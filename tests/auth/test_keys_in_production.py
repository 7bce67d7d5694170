"""Production rejects keys that an attacker could replace or know: plain HTTP, redirects and the development
key."""

from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from app.auth.keys import KEY_SET_SECONDS, source_of
from app.dev.tokens import KEY_FILE, public_key
from app.main import keys_for
from app.settings import Environment, Settings, SettingsError
from tests import keys
from tests.auth.issuer import jwk, key_set, serving_issuer
from tests.auth.test_keys import PRIVATE, error_of

INSECURE = "CARE_TOKEN_JWKS must be a path, an https:// URL, or an http:// URL of this machine"

REDIRECTED = "CARE_TOKEN_JWKS cannot be fetched: the response status is 302 and redirects are not followed"


@pytest.mark.parametrize(
    "place",
    [
        "http://issuer.example.test/keys",
        "http://192.0.2.1/keys",
        "http://127.0.0.1.example.test/keys",
        "http://localhost@192.0.2.1/keys",
        "http://localhost.example.test/keys",
        "http://keys-localhost/keys",
        "http://10.0.0.1/keys",
        "http://[::ffff:10.0.0.1]/keys",
        "http:///keys",
        "http://[/keys",
    ],
)
def test_production_rejects_a_key_set_over_plain_http(place: str) -> None:
    assert error_of(env=Environment.PRODUCTION, token_jwks=place) == INSECURE
    assert source_of(Settings(env=Environment.DEVELOPMENT, token_jwks=place)).seconds == KEY_SET_SECONDS


@pytest.mark.parametrize(
    "place",
    [
        "http://localhost/keys",
        "http://127.0.0.1:9/keys",
        "http://127.1.2.3/keys",
        "http://[::1]/keys",
        "https://issuer/keys",
    ],
)
def test_production_accepts_a_key_set_over_a_safe_connection(place: str) -> None:
    settings = Settings(env=Environment.PRODUCTION, token_jwks=place)

    assert source_of(settings).seconds == KEY_SET_SECONDS


def test_a_redirect_of_the_key_set_is_not_followed() -> None:
    with serving_issuer(jwk(keys.private_key())) as stranger, serving_issuer() as issuer:
        issuer.status, issuer.location = 302, stranger.url

        assert (
            error_of(token_jwks=issuer.url)
            == "CARE_TOKEN_JWKS cannot be fetched: the response status is 302 and redirects are not followed"
        )

        assert (issuer.requests, stranger.requests) == (1, 0)


def test_production_rejects_the_development_key(tmp_path: Path) -> None:
    own = public_key(Settings(env=Environment.DEVELOPMENT, var=str(tmp_path)))
    key_set_of_own = tmp_path / "keys.json"
    key = load_pem_public_key(own.encode())
    assert isinstance(key, rsa.RSAPublicKey)
    key_set_of_own.write_bytes(key_set(jwt.get_algorithm_by_name("RS256").to_jwk(key, as_dict=True)))
    refusal = f"the development key at {tmp_path / KEY_FILE} cannot verify tokens in production"

    for given in ({"token_key": own}, {"token_key": keys.public_pem() + own}):
        assert start_error(tmp_path, **given) == refusal
    assert start_error(tmp_path, token_jwks=str(key_set_of_own)) == refusal
    assert start_error(tmp_path, token_key=str(tmp_path / KEY_FILE)) == PRIVATE
    keys_for(Settings(env=Environment.PRODUCTION, var=str(tmp_path), token_key=keys.public_pem()))


def start_error(var: Path, **given: str) -> str:
    with pytest.raises(SettingsError) as refusal:
        keys_for(Settings(env=Environment.PRODUCTION, var=str(var), **given))
    return str(refusal.value)
