"""Verification of tokens, and a cache of verified tokens."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import jwt

from app.auth.keys import Key, KeySet
from app.auth.rejections import Reason, RejectionLog, rejection_for
from app.caches import BoundedCache
from app.care.context import Role
from app.care.errors import CareError
from app.settings import Settings
from app.telemetry.wording import entry_for

MAX_TOKEN = 8192  # characters
TOKEN_CACHE_SECONDS = 55  # 60 with the last 5 of its account (auth/authenticator.py)
USUAL_LENGTH = 2048  # characters; a longer token counts as several, so that tokens cannot fill the memory
# The library ignores characters outside base64url, so the whole text is checked first.
THREE_PARTS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
APPLICATION = re.compile(r"[A-Za-z0-9._:/-]{1,64}")  # without characters of an email address
NAME = re.compile("[^\0\ud800-\udfff]+")  # characters that every database accepts

REASONS: dict[type[Exception], Reason] = {
    jwt.InvalidSignatureError: Reason.SIGNATURE,
    jwt.ExpiredSignatureError: Reason.EXPIRED,
    jwt.ImmatureSignatureError: Reason.NOT_YET_VALID,
    jwt.InvalidIssuerError: Reason.ISSUER,
    jwt.InvalidAudienceError: Reason.AUDIENCE,
    jwt.DecodeError: Reason.CLAIMS,  # `exp` or `nbf` is no number: `header_of` has checked the format
    RecursionError: Reason.MALFORMED,
}
MISSING = {"iss": Reason.ISSUER, "aud": Reason.AUDIENCE}
WITHOUT_KEY = {
    "verify_signature": False,
    **{f"verify_{claim}": True for claim in ("exp", "nbf", "iat", "iss", "sub", "jti")},
}


@dataclass(frozen=True)
class Identity:
    """The user and role of a verified token."""

    user: str
    role: Role
    expiry: float = field(default=0, compare=False)  # of the token
    application: str = field(default="", compare=False)  # to which the token was issued; may be empty


class Verifier:
    """Verifies tokens and reads user and role from them. Caches verified tokens, never rejected ones.

    The cache uses the monotonic clock; only the times in a token are compared with the wall clock.
    """

    def __init__(self, settings: Settings, keys: KeySet) -> None:
        self.settings = settings
        self.keys = keys
        self.ticks = time.monotonic
        self.rejections = RejectionLog(settings.log_requests)
        self.cached: BoundedCache[tuple[Identity, float]] = BoundedCache(settings.token_cache)
        self.cached_keys = keys.keys

    async def identity(self, token: str, now: datetime) -> Identity:
        await self.keys.refresh()
        if self.cached_keys is not self.keys.keys:
            self.cached_keys = self.keys.keys
            self.cached = BoundedCache(self.settings.token_cache)
        known = self.cached.get(token)
        if known is not None:
            if self.ticks() < known[1] and now.timestamp() < known[0].expiry:
                return known[0]
            self.cached.remove(token)
        claims = await self.claims(token)
        identity = Identity(
            self.user_of(claims), self.role_of(claims), expiry_of(claims), application_of(claims)
        )
        if self.settings.token_cache:
            self.cached.put(token, (identity, self.ticks() + TOKEN_CACHE_SECONDS), weight_of(token))
        return identity

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Returns the claims. Fetches keys only for a token that passes every check that needs no key."""
        header = header_of(token)
        kid, algorithm = header.get("kid"), header["alg"]
        keys = self.keys.matching(kid, algorithm)
        if not keys and self.keys.may_add(algorithm):
            self.user_of(self.claims_by(None, token))  # raises for a token that no key can make valid
            await self.keys.fetch_unknown()
            keys = self.keys.matching(kid, algorithm)
        if not keys:
            is_known = any(key.algorithm == algorithm for key in self.keys.keys)
            raise rejection_for(Reason.UNKNOWN_KEY if is_known else Reason.ALGORITHM)
        for key in keys[:-1]:
            try:
                return self.claims_by(key, token)
            except CareError as rejection:
                if rejection.reason is not Reason.SIGNATURE:
                    raise
        return self.claims_by(keys[-1], token)

    def claims_by(self, key: Key | None, token: str) -> Mapping[str, Any]:
        """Returns the claims of a valid token. Without a key, its signature is not verified."""
        settings = self.settings
        options: Any = {"require": ["exp"], "verify_aud": bool(settings.token_audience)}
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.material if key else "",
                algorithms=[key.algorithm] if key else None,
                issuer=settings.token_issuer or None,
                audience=settings.token_audience or None,
                leeway=settings.token_leeway,
                options=options if key else options | WITHOUT_KEY,
            )
            expiry_of(claims)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as fault:
            raise rejection_for(reason_of(fault)) from None
        # A refresh token has the claims of an access token and `ati`. It must not give access.
        if "ati" in claims:
            raise rejection_for(Reason.REFRESH_TOKEN)
        return claims

    def user_of(self, claims: Mapping[str, Any]) -> str:
        user = claims.get(self.settings.claim_user)
        if user is None:
            user = claims.get("sub")
        if not isinstance(user, str) or not NAME.fullmatch(user):
            raise rejection_for(Reason.CLAIMS)
        return user

    def role_of(self, claims: Mapping[str, Any]) -> Role:
        for name in (self.settings.claim_role, "role", "roles"):
            if (value := claims.get(name)) is not None:
                names = value if isinstance(value, list) else [value]
                known = {Role(name) for name in names if isinstance(name, str) and name in list(Role)}
                if len(known) == 1:
                    return known.pop()
                break
        raise rejection_for(Reason.ROLE)


def weight_of(token: str) -> int:
    """In a cache of tokens."""
    return -(-len(token) // USUAL_LENGTH)


def reason_of(fault: Exception) -> Reason:
    if isinstance(fault, jwt.MissingRequiredClaimError):
        return MISSING.get(fault.claim, Reason.CLAIMS)
    return entry_for(fault, REASONS) or Reason.CLAIMS


def header_of(token: str) -> dict[str, Any]:
    """The header; it names an algorithm."""
    if len(token) > MAX_TOKEN or THREE_PARTS.fullmatch(token) is None:
        raise rejection_for(Reason.MALFORMED)
    try:
        header = jwt.get_unverified_header(token)
        has_claims = all(isinstance(part, dict) for part in parse_parts(token))
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise rejection_for(Reason.MALFORMED) from None
    is_detached = header.get("b64") is False  # RFC 7797, section 7: no JSON Web Token is
    if not has_claims or is_detached or not isinstance(header.get("alg"), str):
        raise rejection_for(Reason.MALFORMED)
    return header


def application_of(claims: Mapping[str, Any]) -> str:
    """The application is in `client_id` in tokens of the old service, and in `azp` in OpenID Connect."""
    named = claims.get("client_id", claims.get("azp"))
    return named if isinstance(named, str) and APPLICATION.fullmatch(named) else ""


def unverified_claims(token: str) -> dict[str, Any]:
    """For tools that only need a name: anyone can write these claims. Empty if they cannot be read."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return {}
    return claims


def parse_parts(token: str) -> list[Any]:
    """The header and the claims. Rejects duplicate names: libraries differ in which of them they use (RFC
    7519, section 4)."""
    parts = token.split(".")[:2]
    return [json.loads(jwt.utils.base64url_decode(part), object_pairs_hook=unique_names) for part in parts]


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("duplicate name")
    return names


def expiry_of(claims: Mapping[str, Any]) -> float:
    """Rejects what the library accepts: text, and numbers that a float cannot hold."""
    if not isinstance(claims["exp"], int | float):
        raise TypeError("exp is not a number")
    return float(claims["exp"])
