"""Valid and forged tokens, and the responses of both contracts to them."""

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
    """Signs any claims with the key and its own algorithm."""
    key = key or keys.private_key()
    algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    named = {} if kid is None else {"kid": kid}
    return jwt.encode(claims, key, algorithm=algorithm, headers=named | header)


def signed_bytes(header: bytes, payload: bytes) -> str:
    """Signs bytes that no library would write with the key of the issuer."""
    head = f"{as_base64(header)}.{as_base64(payload)}"
    signature = jwt.get_algorithm_by_name("RS256").sign(head.encode(), keys.private_key())
    return f"{head}.{as_base64(signature)}"


def hmac_signed(secret: bytes, claims: dict[str, Any], **header: Any) -> str:
    """Written by hand, because the library rejects a public key as a secret."""
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
    """The claims of caregiver 1. A claim set to None is left out."""
    claims = keys.claims("CAREGIVER", "caregiver-1") | changed
    return {name: value for name, value in claims.items() if value is not None}


# --- what they hear ---


def me(gateway: Gateway, token: str) -> Any:
    """The viewer according to both contracts."""
    answer = gateway.with_token(token).post_graphql(ME)
    return answer.json()["data"]["viewer"] if answer.status_code == 200 else None


CAREGIVER_1 = {"role": "CAREGIVER", "caregiver": {"legacyId": "1"}, "client": None}
CLIENT_1 = {"role": "CLIENT", "caregiver": None, "client": {"legacyId": "1"}}


def both(gateway: Gateway, authorization: str) -> tuple[Response, Response]:
    """The responses of GraphQL and of a legacy path."""
    headers = {"authorization": authorization, "x-request-id": "r"}
    anonymous = gateway.as_anonymous()
    return (
        anonymous.request("POST", "/graphql", json={"query": ME}, headers=headers),
        anonymous.get(f"{ASSIGNMENTS}?time-state=RUNNING", headers=headers),
    )


def assert_refused(gateway: Gateway, authorization: str, status: int, message: str) -> None:
    """Both contracts reject the token with their own body and repeat nothing of it."""
    code, phrase = {401: ("UNAUTHENTICATED", "Unauthorized"), 403: ("FORBIDDEN", "Forbidden")}[status]

    by_graphql, by_legacy = both(gateway, authorization)

    body = by_legacy.json()
    assert body.pop("timestamp")
    assert by_graphql.status_code == by_legacy.status_code == status
    assert by_graphql.json() == {
        "errors": [{"message": message, "extensions": {"code": code, "requestId": "r"}}]
    }
    assert body == {"status": status, "error": phrase, "message": message, "path": ASSIGNMENTS}
    for answer in (by_graphql, by_legacy):
        assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
        assert_not_repeated(authorization, answer)


def assert_not_repeated(authorization: str, answer: Response) -> None:
    response = answer.text + str(answer.headers)
    for part in authorization.replace(".", " ").split():
        assert len(part) < 8 or part not in response
