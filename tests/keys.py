"""Keys and tokens, generated for each run, so that no private key is in the repository."""

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def private_key(name: str = "issuer") -> rsa.RSAPrivateKey:
    """One RSA key per name and run."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(key: Private | None = None) -> str:
    public = (key or private_key()).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def claims(role: str, user: str, **changed: Any) -> dict[str, Any]:
    """The claims of the old service's tokens. A claim changed to None is removed."""
    found = {
        "exp": datetime.now(UTC) + timedelta(hours=1),
        "user_name": user,
        "authorities": [role],
        "jti": f"{role}-{user}",
        "client_id": "tests",
        "scope": ["read", "write"],
        **changed,
    }
    return {name: value for name, value in found.items() if value is not None}


def token(role: str, user: str, **changed: Any) -> str:
    if changed:
        return signed(claims(role, user, **changed))
    return usual_token(role, user, int(time.time()) // 600)


@cache
def usual_token(role: str, user: str, ten_minutes: int) -> str:
    """Cached, because signing is slow."""
    return signed(claims(role, user))


def signed(payload: dict[str, Any]) -> str:
    return jwt.encode(payload, private_key(), algorithm="RS256")
