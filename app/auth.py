"""From a bearer token to a viewer: verification, account lookup, and a memory of verified tokens."""

import json
import re
import time
import urllib.request
from asyncio import Lock, to_thread
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from sqlalchemy import String, bindparam, select

from app.care.context import Context, Role, Viewer
from app.care.errors import NotAllowed, NotSignedIn
from app.db.drivers import Database
from app.db.entities import Table, table_of
from app.db.statements import Operation, Statement
from app.db.tables import Caregiver, Client
from app.settings import Settings, SettingsError

LONGEST_TOKEN = 8192
USABLE = "an RSA key of at least 2048 bits or an EC key on P-256"
SHORTEST_SECRET = 32
REMEMBERED_SECONDS = 60
KEY_SET_SECONDS = 300  # how long a key set is used before it is read again
KEY_SET_PAUSE = 10  # at least this long between two readings, whatever strangers send as `kid`

BAD_TOKEN = "the bearer token is not valid"
NAME = re.compile("[^\0\ud800-\udfff]+")  # what every database can be asked for


@dataclass(frozen=True)
class Identity:
    """What a verified token says."""

    user: str
    role: Role


@dataclass(frozen=True)
class Key:
    """A key and the one algorithm it is used with: a token never chooses how it is verified."""

    kid: str | None
    algorithm: str
    material: Any


# --- keys ------------------------------------------------------------------------------------------


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


# --- tokens ----------------------------------------------------------------------------------------


class Verifier:
    """Tells who a token speaks for. Verified tokens are remembered for a while; failures never are."""

    def __init__(self, settings: Settings, keys: KeySet) -> None:
        self.settings = settings
        self.keys = keys
        self.remembered: dict[str, tuple[Identity, float]] = {}
        self.remembered_keys = keys.keys

    async def identity(self, token: str, now: datetime) -> Identity:
        if self.remembered_keys is not self.keys.keys:
            self.remembered_keys = self.keys.keys
            self.remembered.clear()
        known = self.remembered.get(token)
        if known is not None:
            if now.timestamp() < known[1]:
                return known[0]
            del self.remembered[token]
        claims = await self.claims(token)
        identity = Identity(self.user_of(claims), self.role_of(claims))
        self.remember(token, identity, min(expiry_of(claims), now.timestamp() + REMEMBERED_SECONDS))
        return identity

    def remember(self, token: str, identity: Identity, until: float) -> None:
        most = self.settings.token_cache
        if most == 0:
            return
        while len(self.remembered) >= most:
            del self.remembered[next(iter(self.remembered))]  # the oldest
        self.remembered[token] = (identity, until)

    async def claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > LONGEST_TOKEN:
            raise NotSignedIn(BAD_TOKEN)
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise NotSignedIn(BAD_TOKEN) from None
        algorithm = header.get("alg")
        if not isinstance(algorithm, str):
            raise NotSignedIn(BAD_TOKEN)
        for key in await self.keys.fitting(header.get("kid"), algorithm):
            if (claims := self.claims_by(key, token)) is not None:
                return claims
        raise NotSignedIn(BAD_TOKEN)

    def claims_by(self, key: Key, token: str) -> Mapping[str, Any] | None:
        settings = self.settings
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.material,
                algorithms=[key.algorithm],
                issuer=settings.token_issuer or None,
                audience=settings.token_audience or None,
                leeway=settings.token_leeway,
                options={"require": ["exp"], "verify_aud": bool(settings.token_audience)},
            )
            expiry_of(claims)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return None
        # A refresh token carries the claims of an access token and `ati`; it must open nothing.
        return None if "ati" in claims else claims

    def user_of(self, claims: Mapping[str, Any]) -> str:
        named = self.settings.claim_user
        user = claims.get(named if named in claims else "sub")
        if not isinstance(user, str) or not NAME.fullmatch(user):
            raise NotSignedIn(BAD_TOKEN)
        return user

    def role_of(self, claims: Mapping[str, Any]) -> Role:
        for name in (self.settings.claim_role, "role", "roles"):
            if name in claims:
                said = claims[name]
                names = said if isinstance(said, list) else [said]
                known = {Role(name) for name in names if isinstance(name, str) and name in list(Role)}
                if len(known) == 1:
                    return known.pop()
                break
        raise NotAllowed("the token must name exactly one of the roles CAREGIVER and CLIENT")


def expiry_of(claims: Mapping[str, Any]) -> float:
    """The library also takes text and numbers beyond what a float holds."""
    if not isinstance(claims["exp"], int | float):
        raise TypeError("exp is not a number")
    return float(claims["exp"])


# --- accounts --------------------------------------------------------------------------------------


def find_account(table: Table) -> Statement:
    account = table_of(table).c
    return Statement(
        lambda kind: select(account.id, account.is_disabled).where(
            account.user_name == bindparam("user", type_=String)
        )
    )


ACCOUNT = {Role.CAREGIVER: find_account(Caregiver), Role.CLIENT: find_account(Client)}


def viewer_for(identity: Identity) -> Operation[Viewer]:
    found = yield ACCOUNT[identity.role], {"user": identity.user}
    if not found or found[0][1]:
        raise NotAllowed("there is no enabled account for this token")
    return Viewer(identity.role, found[0][0])


# --- the door --------------------------------------------------------------------------------------


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Door:
    """Where requests of both contracts come in."""

    db: Database
    verifier: Verifier
    time_zone: str
    clock: Callable[[], datetime] = utc_now

    async def open(self, authorization: str | None, request_id: str) -> Context:
        """The context of a request. Without a token there is no viewer; a bad token is refused."""
        now = self.clock()
        if authorization is None:
            return Context(None, self.db, now, request_id, self.time_zone)
        match = re.fullmatch(r"bearer +([^ ]+) *", authorization, re.IGNORECASE)
        if match is None:
            raise NotSignedIn("the Authorization header must read: bearer <token>")
        identity = await self.verifier.identity(match[1], now)
        viewer = await self.db.read(viewer_for(identity))
        return Context(viewer, self.db, now, request_id, self.time_zone)
