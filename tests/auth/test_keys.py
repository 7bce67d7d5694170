"""Tokens are verified with one configured source of keys: a PEM public key, a key set or, in development
only, a shared secret. Every key has one algorithm."""

import errno
import socket
import ssl
import threading
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from app.auth.key_sources import KeysUnreadable
from app.auth.keys import open_keys
from app.settings import Environment, Settings, SettingsError
from tests import keys
from tests.auth.conftest import Opening
from tests.auth.issuer import jwk, key_set, serving_issuer
from tests.auth.signing import BAD, CAREGIVER_1, assert_refused, caregiver, ec_key, hmac_signed, me, signed
from tests.auth.test_limited_http import serving
from tests.certificates import certificate
from tests.keys import Private

pytestmark = pytest.mark.sqlite_only

SECRET = "a development secret of 32 bytes"
CURVE = ec_key()


@pytest.mark.parametrize("way", ["text", "path"])
@pytest.mark.parametrize("key", [keys.private_key(), CURVE], ids=["RS256", "ES256"])
def test_a_public_key_is_configured_as_text_or_as_a_path(
    open_with: Opening, tmp_path: Path, key: Private, way: str
) -> None:
    pem = tmp_path / "issuer.pem"
    pem.write_text(keys.public_pem(key))

    gateway = open_with(token_key=str(pem) if way == "path" else pem.read_text())

    assert me(gateway, signed(caregiver(), key)) == CAREGIVER_1
    assert_refused(gateway, f"bearer {signed(caregiver(), keys.private_key('stranger'))}", 401, BAD)
    assert_refused(gateway, f"bearer {signed(caregiver(), ec_key())}", 401, BAD)
    assert_refused(gateway, f"bearer {hmac_signed(pem.read_bytes(), caregiver())}", 401, BAD)


@pytest.mark.parametrize("algorithm", ["PS256", "RS384", "RS512"])
def test_an_rsa_key_verifies_rs256_only(open_with: Opening, algorithm: str) -> None:
    token = jwt.encode(caregiver(), keys.private_key(), algorithm=algorithm)

    assert_refused(open_with(), f"bearer {token}", 401, BAD)


def test_a_key_set_may_contain_keys_of_both_algorithms(open_with: Opening, tmp_path: Path) -> None:
    first, second, curve = keys.private_key(), keys.private_key("second"), CURVE
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(jwk(first, "a"), jwk(second, "b"), jwk(curve, "c"), jwk(curve)))

    gateway = open_with(token_key="", token_jwks=str(path))

    for key, kid in ((first, "a"), (second, "b"), (curve, "c"), (second, None), (curve, None)):
        assert me(gateway, signed(caregiver(), key, kid)) == CAREGIVER_1
    for key, kid in ((first, "b"), (first, "c"), (second, "other"), (keys.private_key("stranger"), "a")):
        assert_refused(gateway, f"bearer {signed(caregiver(), key, kid)}", 401, BAD)


def unusable() -> list[dict[str, Any]]:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    other = keys.private_key("second")
    return [
        jwk(weak, "weak"),
        jwk(other, "encryption", use="enc"),
        jwk(other, "other algorithm", alg="RS512"),
        jwk(other, "nonsense algorithm", alg="HS256"),
        {"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA", "kid": "broken"},
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
            "kid": "edwards",
        },
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "kid": "secret"},
        {"kty": "oct", "kid": "secret that is left out"},
        jwk(other, "a list of algorithms", alg=["RS256"]),
        jwk(other, "a number as key", n=5),
        {"kty": ["RSA"], "kid": "a list of kinds"},
        {"kty": "quantum", "kid": "future"},
        {"kid": "nothing else"},
    ]


def test_other_entries_of_a_key_set_are_ignored(open_with: Opening, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(*unusable(), jwk(keys.private_key(), "good", alg="RS256")))

    gateway = open_with(token_key="", token_jwks=str(path))

    assert me(gateway, signed(caregiver(), kid="good")) == CAREGIVER_1
    for kid in ("encryption", "other algorithm", "nonsense algorithm", None):
        assert_refused(gateway, f"bearer {signed(caregiver(), keys.private_key('second'), kid)}", 401, BAD)
    stolen = hmac_signed(b"secret-secret-secret-secret-secret", caregiver(), kid="secret")
    assert_refused(gateway, f"bearer {stolen}", 401, BAD)


def test_a_shared_secret_verifies_in_development(open_with: Opening) -> None:
    gateway = open_with(token_key="", token_secret=SECRET)

    assert me(gateway, hmac_signed(SECRET.encode(), caregiver())) == CAREGIVER_1
    assert_refused(gateway, f"bearer {hmac_signed(SECRET.encode() + b'.', caregiver())}", 401, BAD)
    assert_refused(gateway, f"bearer {signed(caregiver())}", 401, BAD)


def pem_of(key: Any) -> str:
    public: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public.decode()


def private_pem(key: Any = None, form: PrivateFormat = PrivateFormat.PKCS8, encryption: Any = None) -> str:
    private = key or keys.private_key()
    pem: bytes = private.private_bytes(Encoding.PEM, form, encryption or NoEncryption())
    return pem.decode()


def of_no_curve() -> str:
    """Like a key on P-256, but with the number of a curve that does not exist."""
    der: bytes = CURVE.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    other = der.replace(bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d030163"))
    return f"-----BEGIN PUBLIC KEY-----\n{b64encode(other).decode()}\n-----END PUBLIC KEY-----\n"


NO_PEM = "CARE_TOKEN_KEY must contain PEM public keys; one is missing, damaged or of another kind"
NO_FILE = "CARE_TOKEN_KEY is not the path of a readable PEM file: "
PRIVATE = "CARE_TOKEN_KEY contains a private key, which only the issuer may have; use its public key"
WEAK = "CARE_TOKEN_KEY must hold an RSA key of at least 2048 bits or an EC key on P-256"
NO_SET = "CARE_TOKEN_JWKS is not a JSON Web Key Set"
NO_KEY = "no key to verify tokens with: set CARE_TOKEN_KEY or CARE_TOKEN_JWKS (or CARE_ENV=development)"


@pytest.mark.parametrize(
    ("pem", "sentence"),
    [
        ("/nowhere/key.pem", f"{NO_FILE}no such file or directory"),
        (".", f"{NO_FILE}is a directory"),
        ("x" * 5000, f"{NO_FILE}file name too long"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", NO_PEM),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", NO_PEM),
        (private_pem(), PRIVATE),
        (keys.public_pem() + private_pem(), PRIVATE),
        (private_pem(form=PrivateFormat.TraditionalOpenSSL), PRIVATE),
        (private_pem(CURVE, PrivateFormat.TraditionalOpenSSL), PRIVATE),
        (private_pem(encryption=BestAvailableEncryption(b"secret")), PRIVATE),
        (keys.public_pem() + "-----BEGIN PUBLIC KEY-----\nAAAA", NO_PEM),
        (keys.public_pem() + pem_of(ec_key(ec.SECP384R1())), WEAK),
        (pem_of(rsa.generate_private_key(public_exponent=65537, key_size=1024)), WEAK),
        (pem_of(ec_key(ec.SECP384R1())), WEAK),
        (of_no_curve(), NO_PEM),
        (pem_of(ec_key(ec.SECP256K1())), WEAK),
        (pem_of(ed25519.Ed25519PrivateKey.generate()), WEAK),
        (pem_of(dsa.generate_private_key(1024)), WEAK),
    ],
    ids=[
        "no file",
        "folder",
        "long",
        "broken",
        "certificate",
        "private",
        "private too",
        "private RSA",
        "private EC",
        "private and encrypted",
        "cut",
        "P-384 too",
        "1024",
        "P-384",
        "no curve",
        "K",
        "Ed",
        "DSA",
    ],
)
def test_an_unusable_key_is_rejected(pem: str, sentence: str) -> None:
    assert error_of(token_key=pem) == sentence


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b" \n", "CARE_TOKEN_JWKS is the path of an empty file"),
        (b"keys", NO_SET),
        (b"\xff\xfe", NO_SET),
        (b"null", NO_SET),
        (b"[]", NO_SET),
        (b"{}", NO_SET),
        (b'{"keys": null}', NO_SET),
        (b'{"keys": ["key"]}', NO_SET),
        (b'{"keys": ' + b"[" * 100_000, NO_SET),
        (b'{"keys": []}', WEAK.replace("KEY ", "JWKS ", 1)),
        (key_set(*unusable()), WEAK.replace("KEY ", "JWKS ", 1)),
    ],
    ids=[
        "empty",
        "a word",
        "no text",
        "null",
        "list",
        "object",
        "null keys",
        "texts",
        "deep",
        "none",
        "unusable",
    ],
)
def test_an_unusable_key_set_is_rejected(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content)

    assert error_of(token_jwks=str(path)) == sentence


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", "CARE_TOKEN_KEY is the path of an empty file"), (b"a letter", NO_PEM)],
    ids=["empty", "junk"],
)
def test_a_key_file_without_a_key_is_rejected(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "issuer.pem"
    path.write_bytes(content)

    assert error_of(token_key=str(path)) == sentence


def raise_closed(*_: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_an_unreadable_key_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user who runs the tests may be allowed to read every file."""
    monkeypatch.setattr("builtins.open", raise_closed)

    assert error_of(token_key="/etc/care/issuer.pem") == f"{NO_FILE}permission denied"


AS_PATH = "CARE_TOKEN_JWKS is not the path of a readable JSON Web Key Set: "
BY_ADDRESS = "CARE_TOKEN_JWKS cannot be fetched: "


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("/nowhere/keys.json", f"{AS_PATH}no such file or directory"),
        (".", f"{AS_PATH}is a directory"),
        ("http://127.0.0.1:1/keys", f"{BY_ADDRESS}connection refused"),
        ("http://[/keys", f"{BY_ADDRESS}the URL is not valid"),
        ("http://127.0.0.1:secret/keys", f"{BY_ADDRESS}the URL is not valid"),
        ("https://", f"{BY_ADDRESS}the URL is not valid"),
        ("https://issuer..example.test/keys", f"{BY_ADDRESS}the URL is not valid"),
    ],
)
def test_a_missing_key_set_is_reported(place: str, sentence: str) -> None:
    assert error_of(token_jwks=place) == sentence


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (500, b"", f"{BY_ADDRESS}the response status is 500"),
        (302, b"", f"{BY_ADDRESS}the response status is 302 and redirects are not followed"),
        (308, b"", f"{BY_ADDRESS}the response status is 308 and redirects are not followed"),
        (300, b"", f"{BY_ADDRESS}the response status is 300 and redirects are not followed"),
        (399, b"", f"{BY_ADDRESS}the response status is 399 and redirects are not followed"),
        (400, b"", f"{BY_ADDRESS}the response status is 400"),
        (203, b"<html>", NO_SET),
        (0, b"", f"{BY_ADDRESS}the response is not HTTP"),
        (200, b"<html>", NO_SET),
    ],
)
def test_a_wrong_response_of_the_issuer_is_reported_precisely(
    status: int, body: bytes, sentence: str
) -> None:
    with serving_issuer() as issuer:
        issuer.status, issuer.body, issuer.location = status, body, "http://127.0.0.1:1/"

        assert error_of(token_jwks=issuer.url) == sentence


def test_a_key_set_of_this_machine_is_fetched_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving_issuer(jwk(keys.private_key())) as issuer:
        opened = open_keys(Settings(env=Environment.DEVELOPMENT, token_jwks=issuer.url))

    assert [key.algorithm for key in opened.keys] == ["RS256"]


def test_a_key_set_over_tls_needs_a_trusted_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    own = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own)
    with serving_issuer(jwk(keys.private_key()), tls=tls) as issuer:
        assert error_of(token_jwks=issuer.url) == f"{BY_ADDRESS}the certificate is not trusted"
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
        opened = open_keys(Settings(token_jwks=issuer.url))

    assert [key.algorithm for key in opened.keys] == ["RS256"]


def test_a_proxy_for_https_is_used_for_a_key_set(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []

    def refuse() -> None:
        with suppress(OSError), proxy.accept()[0] as connected:
            requests.append(connected.recv(65_536))
            connected.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as proxy:
        thread = threading.Thread(target=refuse)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://mara:a%20b@127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        assert error_of(token_jwks="https://127.0.0.1:1/keys").startswith(BY_ADDRESS)
        proxy.shutdown(socket.SHUT_RDWR)  # ends a thread that has received no request
        thread.join()

    [request] = requests
    assert request.startswith(b"CONNECT 127.0.0.1:1 HTTP/1.")
    assert b": Basic bWFyYTphIGI=\r\n" in request


def test_production_requires_a_key_and_rejects_a_secret() -> None:
    only_in_development = "CARE_TOKEN_SECRET is for development only; set CARE_TOKEN_KEY or CARE_TOKEN_JWKS"

    assert error_of(env=Environment.PRODUCTION) == NO_KEY
    assert error_of(env=Environment.PRODUCTION, token_secret=SECRET) == only_in_development


def test_a_short_secret_is_rejected() -> None:
    assert error_of(token_secret="x" * 31) == "CARE_TOKEN_SECRET must have at least 32 bytes"
    assert error_of(token_secret="é" * 15 + "x") == "CARE_TOKEN_SECRET must have at least 32 bytes"
    assert open_keys(Settings(env=Environment.DEVELOPMENT, token_secret="é" * 16)).keys


def test_a_key_set_over_tls_of_a_server_without_tls_is_reported() -> None:
    with serving(b"HTTP/1.1 400 Bad Request\r\n\r\n", b"") as url:
        sentence = error_of(token_jwks=url.replace("http://", "https://"))

    assert sentence == f"{BY_ADDRESS}the TLS connection failed"


@pytest.mark.parametrize("written", ["\n{0}", "# of the issuer\n{0}", "{0}{0}"])
def test_a_public_key_may_stand_behind_other_text_or_be_repeated(written: str) -> None:
    assert open_keys(Settings(env=Environment.DEVELOPMENT, token_key=written.format(keys.public_pem()))).keys


def test_a_public_key_may_have_the_form_of_rsa_alone() -> None:
    public = keys.private_key().public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.PKCS1).decode()

    opened = open_keys(Settings(token_key=f"{pem}{pem_of(CURVE)}"))

    assert pem.startswith("-----BEGIN RSA PUBLIC KEY-----")
    assert [key.algorithm for key in opened.keys] == ["RS256", "ES256"]
    assert opened.keys[0].material == public


ADVICE = {
    "/nowhere/key.pem": "set it to the absolute path that the service sees",
    ".": "set it to the path of a file in that folder",
    "/closed": "allow the user of the service to read the file and to enter the folders above it",
    "/a\0b": "set it to the path of a file",
    "x" * 5000: "set it to the path of a file",
    "/dev/null": "write the issuer's public keys to it",
    "http://127.0.0.1:1/keys": "check the URL, and that this machine can reach it",
}


@pytest.mark.parametrize("place", ADVICE, ids=range(len(ADVICE)))
def test_a_place_without_keys_comes_with_advice(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    if place == "/closed":
        monkeypatch.setattr("builtins.open", raise_closed)

    with pytest.raises(KeysUnreadable) as refusal:
        open_keys(Settings(env=Environment.DEVELOPMENT, token_jwks=place))

    assert refusal.value.advice == ADVICE[place]
    assert place not in str(refusal.value)


def test_two_sources_of_keys_are_rejected() -> None:
    sentence = error_of(token_key=keys.public_pem(), token_jwks="keys.json")

    assert sentence == "CARE_TOKEN_KEY and CARE_TOKEN_JWKS cannot be combined; set only one of them"


def error_of(env: Environment = Environment.DEVELOPMENT, **given: str) -> str:
    with pytest.raises(SettingsError) as refusal:
        open_keys(Settings(env=env, **given))
    return str(refusal.value)
