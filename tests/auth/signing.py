"""Tokens of every kind, good and forged; and what both contracts say to whoever brings one."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from httpx2 import Response

from tests import keys
from tests.callers import Gateway
from tests.keys import Private

SESSIONS = "/gateway/profile/client/session"
ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
ME = "{ viewer { role caregiver { legacyId } client { legacyId } } }"

BAD = "the bearer token is not valid"
HEADER = "the Authorization header must read: bearer <token>"
ONE_ROLE = "the token must name exactly one of the roles CAREGIVER and CLIENT"
NO_ACCOUNT = "there is no enabled account for this token"


def signed(claims: dict[str, Any], key: Private | None = None, kid: str | None = None, **header: Any) -> str:
    """A real signature over any claims; the algorithm is the key's own."""
    key = key or keys.private_key()
    algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    named = {} if kid is None else {"kid": kid}
    return jwt.encode(claims, key, algorithm=algorithm, headers=named | header)


def signed_bytes(header: bytes, payload: bytes) -> str:
    """The issuer's signature over bytes that no library would write."""
    head = f"{as_base64(header)}.{as_base64(payload)}"
    signature = jwt.get_algorithm_by_name("RS256").sign(head.encode(), keys.private_key())
    return f"{head}.{as_base64(signature)}"


def hmac_signed(secret: bytes, claims: dict[str, Any], **header: Any) -> str:
    """By hand, because the library refuses to take a public key for a secret."""
    header = json.dumps({"alg": "HS256", "typ": "JWT"} | header).encode()
    head = f"{as_base64(header)}.{as_base64(in_json(claims))}"
    return f"{head}.{as_base64(hmac.digest(secret, head.encode(), hashlib.sha256))}"


def unsigned(claims: dict[str, Any], algorithm: str = "none") -> str:
    header = json.dumps({"alg": algorithm, "typ": "JWT"}).encode()
    return f"{as_base64(header)}.{as_base64(in_json(claims))}."


def in_json(claims: dict[str, Any]) -> bytes:
    return json.dumps(claims | {"exp": claims["exp"].timestamp()}).encode()


def as_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def ec_key(curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve or ec.SECP256R1())


def caregiver(**changed: Any) -> dict[str, Any]:
    """The claims of caregiver 1. A claim changed to None is left out."""
    said = keys.claims("CAREGIVER", "caregiver-1") | changed
    return {name: value for name, value in said.items() if value is not None}


# --- what they hear ---


def me(gateway: Gateway, token: str) -> Any:
    """Who the service takes the bearer for, on either contract's word."""
    answer = gateway.with_token(token).post_graphql(ME)
    return answer.json()["data"]["viewer"] if answer.status_code == 200 else None


CAREGIVER_1 = {"role": "CAREGIVER", "caregiver": {"legacyId": "1"}, "client": None}
CLIENT_1 = {"role": "CLIENT", "caregiver": None, "client": {"legacyId": "1"}}


def both(gateway: Gateway, authorization: str) -> tuple[Response, Response]:
    """The answers of GraphQL and of a legacy path."""
    headers = {"authorization": authorization, "x-request-id": "r"}
    nobody = gateway.as_nobody()
    return (
        nobody.request("POST", "/graphql", json={"query": ME}, headers=headers),
        nobody.get(f"{ASSIGNMENTS}?time-state=RUNNING", headers=headers),
    )


def assert_refused(gateway: Gateway, authorization: str, status: int, message: str) -> None:
    """Both contracts refuse, each in its own words, and repeat nothing of what they were given."""
    code, phrase = {401: ("UNAUTHENTICATED", "Unauthorized"), 403: ("FORBIDDEN", "Forbidden")}[status]

    by_graphql, by_legacy = both(gateway, authorization)

    said = by_legacy.json()
    assert said.pop("timestamp")
    assert by_graphql.status_code == by_legacy.status_code == status
    assert by_graphql.json() == {
        "errors": [{"message": message, "extensions": {"code": code, "requestId": "r"}}]
    }
    assert said == {"status": status, "error": phrase, "message": message, "path": ASSIGNMENTS}
    for answer in (by_graphql, by_legacy):
        assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
        assert_not_repeated(authorization, answer)


def assert_not_repeated(authorization: str, answer: Response) -> None:
    heard = answer.text + str(answer.headers)
    for part in authorization.replace(".", " ").split():
        assert len(part) < 8 or part not in heard
