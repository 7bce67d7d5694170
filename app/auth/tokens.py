"""Who a token speaks for: verification, and a memory of what was verified."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import jwt

from app.auth.keys import Key, KeySet
from app.auth.refusals import Reason, RefusalLog, refusal_for
from app.care.context import Role
from app.care.errors import CareError
from app.settings import Settings

LONGEST_TOKEN = 8192
REMEMBERED_SECONDS = 60
# As it is signed and nothing around it: the library passes over characters that are none of base64url.
THREE_PARTS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
APPLICATION = re.compile(r"[A-Za-z0-9._:/-]{1,64}")  # nobody's address, for one
NAME = re.compile("[^\0\ud800-\udfff]+")  # what every database can be asked for

# The library's exceptions; a subclass comes before its base class.
REASONS: tuple[tuple[type[Exception], Reason], ...] = (
    (jwt.InvalidSignatureError, Reason.SIGNATURE),
    (jwt.ExpiredSignatureError, Reason.EXPIRED),
    (jwt.ImmatureSignatureError, Reason.NOT_YET_VALID),
    (jwt.InvalidIssuerError, Reason.ISSUER),
    (jwt.InvalidAudienceError, Reason.AUDIENCE),
    (jwt.DecodeError, Reason.MALFORMED),
    (RecursionError, Reason.MALFORMED),
)
MISSING = {"iss": Reason.ISSUER, "aud": Reason.AUDIENCE}
WITHOUT_KEY = {
    "verify_signature": False,
    **{f"verify_{claim}": True for claim in ("exp", "nbf", "iat", "iss", "sub", "jti")},
}


@dataclass(frozen=True)
class Identity:
    """What a verified token says."""

    user: str
    role: Role
    expiry: float = field(default=0, compare=False)  # of the token that said it
    application: str = field(default="", compare=False)  # to which it was issued; empty where it does not say


class Verifier:
    """Maps a token to its account and role. Caches verified tokens, never failures.

    How long is measured by the monotonic clock; only the token's own times are compared with the wall clock.
    """

    def __init__(self, settings: Settings, keys: KeySet) -> None:
        self.settings = settings
        self.keys = keys
        self.ticks = time.monotonic
        self.refusals = RefusalLog(settings.log_requests)
        self.remembered: dict[str, tuple[Identity, float]] = {}
        self.remembered_keys = keys.keys

    async def identity(self, token: str, now: datetime) -> Identity:
        await self.keys.refresh()
        if self.remembered_keys is not self.keys.keys:
            self.remembered_keys = self.keys.keys
            self.remembered.clear()
        known = self.remembered.get(token)
        if known is not None:
            if self.ticks() < known[1] and now.timestamp() < known[0].expiry:
                return known[0]
            del self.remembered[token]
        claims = await self.claims(token)
        identity = Identity(
            self.user_of(claims), self.role_of(claims), expiry_of(claims), application_of(claims)
        )
        self.remember(token, identity, self.ticks() + REMEMBERED_SECONDS)
        return identity

    def remember(self, token: str, identity: Identity, until: float) -> None:
        most = self.settings.token_cache
        if most == 0:
            return
        while len(self.remembered) >= most:
            del self.remembered[next(iter(self.remembered))]  # the oldest
        self.remembered[token] = (identity, until)

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Keys are only fetched for a token that is good in all that can be checked without its key."""
        header = header_of(token)
        kid, algorithm = header.get("kid"), header["alg"]
        keys = self.keys.matching(kid, algorithm)
        if not keys and self.keys.may_add(algorithm):
            self.user_of(self.claims_by(None, token))
            await self.keys.look_again()
            keys = self.keys.matching(kid, algorithm)
        if not keys:
            is_known = any(key.algorithm == algorithm for key in self.keys.keys)
            raise refusal_for(Reason.UNKNOWN_KEY if is_known else Reason.ALGORITHM)
        for key in keys[:-1]:
            try:
                return self.claims_by(key, token)
            except CareError as refusal:
                if refusal.reason is not Reason.SIGNATURE:
                    raise
        return self.claims_by(keys[-1], token)

    def claims_by(self, key: Key | None, token: str) -> Mapping[str, Any]:
        """The claims of a token that is good by this key; without a key its signature is not verified."""
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
            raise refusal_for(reason_of(fault)) from None
        # A refresh token carries the claims of an access token and `ati`; it must open nothing.
        if "ati" in claims:
            raise refusal_for(Reason.REFRESH_TOKEN)
        return claims

    def user_of(self, claims: Mapping[str, Any]) -> str:
        named = self.settings.claim_user
        user = claims.get(named if named in claims else "sub")
        if not isinstance(user, str) or not NAME.fullmatch(user):
            raise refusal_for(Reason.CLAIMS)
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
        raise refusal_for(Reason.ROLE)


def reason_of(fault: Exception) -> Reason:
    if isinstance(fault, jwt.MissingRequiredClaimError):
        return MISSING.get(fault.claim, Reason.CLAIMS)
    return next((reason for kind, reason in REASONS if isinstance(fault, kind)), Reason.CLAIMS)


def header_of(token: str) -> dict[str, Any]:
    """The header, with its algorithm."""
    if len(token) > LONGEST_TOKEN or THREE_PARTS.fullmatch(token) is None:
        raise refusal_for(Reason.MALFORMED)
    try:
        header = jwt.get_unverified_header(token)
        refuse_repetitions(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise refusal_for(Reason.MALFORMED) from None
    if not isinstance(header.get("alg"), str):
        raise refusal_for(Reason.MALFORMED)
    return header


def application_of(claims: Mapping[str, Any]) -> str:
    """Sample tokens of the original service carry `client_id`, those of OpenID Connect `azp`."""
    named = claims.get("client_id", claims.get("azp"))
    return named if isinstance(named, str) and APPLICATION.fullmatch(named) else ""


def refuse_repetitions(token: str) -> None:
    """A name said twice: which of the two counts, every library decides for itself (RFC 7519, section 4)."""
    for part in token.split(".")[:2]:
        json.loads(jwt.utils.base64url_decode(part), object_pairs_hook=said_once)


def said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    said = dict(pairs)
    if len(said) != len(pairs):
        raise ValueError("a name is said twice")
    return said


def expiry_of(claims: Mapping[str, Any]) -> float:
    """The library also takes text and numbers beyond what a float holds."""
    if not isinstance(claims["exp"], int | float):
        raise TypeError("exp is not a number")
    return float(claims["exp"])
