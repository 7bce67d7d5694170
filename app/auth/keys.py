"""The keys that verify tokens: PEM, a key set that rotates, or a secret in development."""

import json
import time
import urllib.request
from asyncio import Lock, to_thread
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from app.settings import Settings, SettingsError

USABLE = "an RSA key of at least 2048 bits or an EC key on P-256"
SHORTEST_SECRET = 32
KEY_SET_SECONDS = 300  # how long a key set is used before it is read again
KEY_SET_PAUSE = 10  # at least this long between two readings, whatever strangers send as `kid`


@dataclass(frozen=True)
class Key:
    """A key and the one algorithm it is used with: a token never chooses how it is verified."""

    kid: str | None
    algorithm: str
    material: Any


class KeySet:
    """The keys that verify tokens. A JWKS is read again when it is old or an unknown `kid` appears."""

    def __init__(self, read: Callable[[], list[Key]], is_renewable: bool) -> None:
        self.read = read
        self.is_renewable = is_renewable
        self.ticks = time.monotonic
        self.keys = read()
        self.read_at = self.ticks()
        self.lock = Lock()

    async def fitting(self, kid: str | None, algorithm: str) -> list[Key]:
        age = self.ticks() - self.read_at
        if self.is_renewable and age > KEY_SET_SECONDS:
            await self.renew(KEY_SET_SECONDS)
        found = self.matching(kid, algorithm)
        if not found and self.is_renewable:
            await self.renew(KEY_SET_PAUSE)
            found = self.matching(kid, algorithm)
        return found

    def matching(self, kid: str | None, algorithm: str) -> list[Key]:
        """The old service's tokens carry no `kid`: then every key of the algorithm is tried."""
        return [
            key
            for key in self.keys
            if key.algorithm == algorithm and (kid is None or key.kid is None or key.kid == kid)
        ]

    async def renew(self, pause: float) -> None:
        async with self.lock:
            if self.ticks() - self.read_at < pause:
                return
            self.read_at = self.ticks()
            try:
                self.keys = await to_thread(self.read)
            except SettingsError:
                return  # an issuer that is away for a while does not take its keys with it


def open_keys(settings: Settings) -> KeySet:
    given = [name for name in ("token_key", "token_jwks", "token_secret") if getattr(settings, name)]
    if not given:
        raise SettingsError(
            "no key to verify tokens with: set CARE_TOKEN_KEY or CARE_TOKEN_JWKS (or CARE_ENV=development)"
        )
    if len(given) > 1:
        names = " and ".join(f"CARE_{name.upper()}" for name in given)
        raise SettingsError(f"{names} are both set; tokens are verified in one way only")
    if settings.token_jwks:
        return KeySet(lambda: read_key_set(settings.token_jwks), is_renewable=True)
    key = secret_key(settings) if settings.token_secret else pem_key(settings.token_key)
    return KeySet(lambda: [key], is_renewable=False)


def secret_key(settings: Settings) -> Key:
    if not settings.in_development:
        raise SettingsError(
            "CARE_TOKEN_SECRET is for development only; set CARE_TOKEN_KEY or CARE_TOKEN_JWKS"
        )
    if len(settings.token_secret.encode()) < SHORTEST_SECRET:
        raise SettingsError(f"CARE_TOKEN_SECRET must have at least {SHORTEST_SECRET} bytes")
    return Key(None, "HS256", settings.token_secret)


def pem_key(text_or_path: str) -> Key:
    try:
        pem = text_or_path if "-----BEGIN" in text_or_path else Path(text_or_path).read_text()
        material = load_pem_public_key(pem.encode())
    except (OSError, ValueError, UnsupportedAlgorithm):
        raise SettingsError("CARE_TOKEN_KEY is neither a public key in PEM nor the path of one") from None
    algorithm = algorithm_of(material)
    if algorithm is None:
        raise SettingsError(f"CARE_TOKEN_KEY must hold {USABLE}")
    return Key(None, algorithm, material)


def algorithm_of(material: Any) -> str | None:
    if isinstance(material, rsa.RSAPublicKey) and material.key_size >= 2048:
        return "RS256"
    if isinstance(material, ec.EllipticCurvePublicKey) and isinstance(material.curve, ec.SECP256R1):
        return "ES256"
    return None


def read_key_set(place: str) -> list[Key]:
    try:
        if place.startswith(("http://", "https://")):
            with urllib.request.urlopen(place, timeout=5) as reply:
                text = reply.read(1_000_000)
        else:
            text = Path(place).read_bytes()
        entries = [entry for entry in json.loads(text)["keys"] if entry.get("use", "sig") == "sig"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SettingsError("CARE_TOKEN_JWKS cannot be read as a JSON Web Key Set") from None
    keys = [key for entry in entries if (key := key_of(entry)) is not None]
    if not keys:
        raise SettingsError(f"CARE_TOKEN_JWKS must hold {USABLE}")
    return keys


def key_of(entry: Mapping[str, Any]) -> Key | None:
    """An issuer may add keys that we cannot use; they are passed over, as RFC 7517 wants it."""
    try:
        key = jwt.PyJWK(dict(entry))
    except (ValueError, TypeError, jwt.PyJWTError):
        return None
    algorithm = algorithm_of(key.key)
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return None
    return Key(key.key_id, algorithm, key.key)
