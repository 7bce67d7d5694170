"""Invalid tokens, by the reason why they are invalid.

The issuer signed all of them, unless the signature is the reason.
"""

import base64
import zlib
from datetime import UTC, datetime, timedelta

import jwt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests import keys
from tests.auth.signing import (
    as_base64,
    caregiver,
    ec_key,
    hmac_signed,
    in_json,
    signed,
    signed_bytes,
    unsigned,
)

HEAD = b'{"alg":"RS256","typ":"JWT"}'
PERSON = b'"user_name":"caregiver-1","authorities":["CAREGIVER"]'


def now(**later: float) -> datetime:
    return datetime.now(UTC) + timedelta(**later)


def with_exp(exp: bytes) -> str:
    return signed_bytes(HEAD, b'{"exp":' + exp + b"," + PERSON + b"}")


def with_header(header: bytes) -> str:
    return signed_bytes(header, in_json(caregiver()))


def with_claims(claims: bytes) -> str:
    return signed_bytes(HEAD, b'{"exp":9999999999,' + claims + b"}")


def as_jwe() -> str:
    """Five parts, as encrypted tokens have."""
    header = as_base64(b'{"alg":"RSA-OAEP","enc":"A256GCM","cty":"JWT"}')
    return ".".join((header, *(as_base64(part) for part in (b"key", b"iv", b"text", b"tag"))))


def foreign_certificate() -> str:
    stranger = keys.private_key("stranger")
    der = stranger.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return signed(caregiver(), stranger, x5c=[base64.b64encode(der).decode()])


def tampered() -> str:
    head, _, signature = signed(caregiver()).split(".")
    return f"{head}.{as_base64(in_json(keys.claims('CAREGIVER', 'caregiver-2')))}.{signature}"


def other_encoding() -> str:
    """Encodes the same bytes: the last four bits of the last character are unused."""
    token = signed(caregiver())
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + letters[letters.index(token[-1]) + 1]


FORGED = {
    "alg none": lambda: unsigned(caregiver()),
    "alg None": lambda: unsigned(caregiver(), "None"),
    "alg NONE": lambda: unsigned(caregiver(), "NONE"),
    "alg nOnE": lambda: unsigned(caregiver(), "nOnE"),
    "alg none and a space": lambda: unsigned(caregiver(), "none "),
    "alg empty": lambda: unsigned(caregiver(), ""),
    "alg none with a good signature": lambda: with_header(b'{"alg":"none"}'),
    "alg none after another": lambda: with_header(b'{"alg":"RS256","alg":"none"}'),
    "alg given twice": lambda: with_header(b'{"alg":"RS256","alg":"RS256"}'),
    "alg none before another": lambda: with_header(b'{"alg":"none","alg":"RS256"}'),
    "alg in small letters": lambda: with_header(b'{"alg":"rs256"}'),
    "alg null": lambda: with_header(b'{"alg":null}'),
    "alg RS256 without signature": lambda: unsigned(caregiver(), "RS256"),
    "public key as secret": lambda: hmac_signed(keys.public_pem().encode(), caregiver()),
    "public key as secret, stripped": lambda: hmac_signed(keys.public_pem().strip().encode(), caregiver()),
    "empty secret": lambda: hmac_signed(b"", caregiver()),
    "another RSA key": lambda: signed(caregiver(), keys.private_key("stranger")),
    "an EC key": lambda: signed(caregiver(), ec_key()),
    "other claims under the signature": tampered,
    "another algorithm of the right key": lambda: jwt.encode(
        caregiver(), keys.private_key(), algorithm="RS512"
    ),
    "jku of a stranger": lambda: signed(
        caregiver(), keys.private_key("stranger"), jku="https://stranger.example.test/keys"
    ),
    "jwk of a stranger": lambda: signed(
        caregiver(),
        keys.private_key("stranger"),
        jwk=jwt.get_algorithm_by_name("RS256").to_jwk(
            keys.private_key("stranger").public_key(), as_dict=True
        ),
    ),
    "x5u of a stranger": lambda: signed(
        caregiver(), keys.private_key("stranger"), x5u="https://stranger.example.test/certificate"
    ),
    "x5c of a stranger": foreign_certificate,
    "kid is a path": lambda: signed(caregiver(), keys.private_key("stranger"), "../../../../dev/null"),
    "kid is SQL": lambda: signed(caregiver(), keys.private_key("stranger"), "x' UNION SELECT 'key"),
    "kid is control characters": lambda: signed(
        caregiver(), keys.private_key("stranger"), "\0\r\nX-Kid: 1\x1b[2J"
    ),
    "kid is an address": lambda: signed(
        caregiver(), keys.private_key("stranger"), "https://stranger.example.test/keys"
    ),
    "kid is a path, empty secret": lambda: hmac_signed(b"", caregiver(), kid="/dev/null"),
}

NOT_VALID = {
    "expired": lambda: signed(caregiver(exp=now(hours=-1))),
    "expired beyond the leeway": lambda: signed(caregiver(exp=now(seconds=-12))),
    "not yet valid": lambda: signed(caregiver(nbf=now(minutes=5))),
    "issued in the future": lambda: signed(caregiver(iat=now(minutes=5))),
    "no exp": lambda: signed(caregiver(exp=None)),
    "exp null": lambda: with_exp(b"null"),
    "exp text": lambda: with_exp(b'"tomorrow"'),
    "exp digits in text": lambda: with_exp(b'"99999999999"'),
    "exp true": lambda: with_exp(b"true"),
    "exp object": lambda: with_exp(b"{}"),
    "exp negative": lambda: with_exp(b"-1"),
    "exp NaN": lambda: with_exp(b"NaN"),
    "exp Infinity": lambda: with_exp(b"Infinity"),
    "exp 1e999": lambda: with_exp(b"1e999"),
    "exp of 400 digits": lambda: with_exp(b"9" * 400),
    "exp of 5000 digits": lambda: with_exp(b"9" * 5000),
    "nbf text": lambda: signed(caregiver(nbf="now")),
    "a claim given twice": lambda: with_claims(b'"user_name":"caregiver-2",' + PERSON),
    "a role given twice": lambda: with_claims(b'"authorities":["CLIENT"],' + PERSON),
    "exp given twice": lambda: with_exp(b'1,"exp":9999999999'),
    "a name given twice in the depth": lambda: with_claims(PERSON + b',"more":[{"a":1,"a":2}]'),
    "refresh token": lambda: signed(caregiver(ati="f3c1")),
    "refresh token, ati empty": lambda: signed(caregiver(ati="")),
    "refresh token, ati false": lambda: signed(caregiver(ati=False)),
    "refresh token, ati null": lambda: with_claims(PERSON + b',"ati":null'),
}

GARBAGE = {
    "a word": lambda: "garbage",
    "two dots": lambda: "..",
    "four parts": lambda: signed(caregiver()) + ".more",
    "two parts": lambda: signed(caregiver()).rpartition(".")[0],
    "no base64": lambda: "!!!!.????.****",
    "a header that is no JSON": lambda: with_header(b"alg=RS256"),
    "a header that is a list": lambda: with_header(b'["RS256"]'),
    "a header that is null": lambda: with_header(b"null"),
    "a header without alg": lambda: with_header(b'{"typ":"JWT"}'),
    "alg a number": lambda: with_header(b'{"alg":256}'),
    "alg a list": lambda: with_header(b'{"alg":["RS256"]}'),
    "kid a number": lambda: with_header(b'{"alg":"RS256","kid":1}'),
    "kid a list": lambda: with_header(b'{"alg":"RS256","kid":["a"]}'),
    "unknown crit": lambda: with_header(b'{"alg":"RS256","crit":["x"],"x":1}'),
    "detached payload": lambda: with_header(b'{"alg":"RS256","b64":false,"crit":["b64"]}'),
    "b64 false": lambda: with_header(b'{"alg":"RS256","b64":false}'),
    "crit empty": lambda: with_header(b'{"alg":"RS256","crit":[]}'),
    "crit of what everybody knows": lambda: with_header(b'{"alg":"RS256","crit":["exp"],"exp":1}'),
    "crit no list": lambda: with_header(b'{"alg":"RS256","crit":"exp"}'),
    "a token in a token": lambda: signed_bytes(b'{"alg":"RS256","cty":"JWT"}', signed(caregiver()).encode()),
    "a token in quotes in a token": lambda: signed_bytes(
        b'{"alg":"RS256","cty":"JWT"}', f'"{signed(caregiver())}"'.encode()
    ),
    "an encrypted token": as_jwe,
    "an encrypted token in three parts": lambda: with_header(b'{"alg":"RSA-OAEP","enc":"A256GCM"}'),
    "a compressed token": lambda: signed_bytes(
        b'{"alg":"RS256","zip":"DEF"}', zlib.compress(in_json(caregiver()))
    ),
    "a signature with more behind it": lambda: signed(caregiver()) + "!!!!",
    "a signature in another spelling": other_encoding,
    "a signature with padding": lambda: signed(caregiver()) + "==",
    "a token with a line break": lambda: signed(caregiver()).replace(".", ".\t", 1),
    "a kid of a list of objects": lambda: with_header(b'{"alg":"RS256","kid":[{"a":"b"}]}'),
    "kid null": lambda: with_header(b'{"alg":"RS256","kid":null}'),
    "a header in Latin-1": lambda: with_header(b'{"alg":"RS256","kid":"\xe9"}'),
    "a deep header": lambda: with_header(b'{"alg":' + b"[" * 3000 + b"]" * 3000 + b"}"),
    "a huge number in the header": lambda: with_header(b'{"alg":"RS256","n":' + b"9" * 5000 + b"}"),
    "a deep payload": lambda: signed_bytes(HEAD, b"[" * 2500 + b"]" * 2500),
    "a payload that is no JSON": lambda: signed_bytes(HEAD, b"caregiver-1"),
    "a payload that is a list": lambda: signed_bytes(HEAD, b"[1]"),
    "a payload that is null": lambda: signed_bytes(HEAD, b"null"),
    "an empty payload": lambda: signed_bytes(HEAD, b""),
    "a payload in Latin-1": lambda: signed_bytes(HEAD, b'{"exp":9999999999,"user_name":"\xe9"}'),
    "too long": lambda: signed(caregiver(padding="x" * 8192)),
    "much too long": lambda: "a" * 200_000,
    "base64 of a token": lambda: base64.b64encode(signed(caregiver()).encode()).decode(),
}

REFUSED = {**FORGED, **NOT_VALID, **GARBAGE}
