"""Who a token speaks for: verification, and a memory of what was verified."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import jwt

from app.auth.keys import Key, KeySet
from app.care.context import Role
from app.care.errors import NotAllowed, NotSignedIn
from app.settings import Settings

LONGEST_TOKEN = 8192
REMEMBERED_SECONDS = 60
BAD_TOKEN = "the bearer token is not valid"
# As it is signed and nothing around it: the library passes over characters that are none of base64url.
THREE_PARTS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
APPLICATION = re.compile(r"[A-Za-z0-9._:/-]{1,64}")  # nobody's address, for one
NAME = re.compile("[^\0\ud800-\udfff]+")  # what every database can be asked for


@dataclass(frozen=True)
class Identity:
    """What a verified token says."""

    user: str
    role: Role
    expiry: float = field(default=0, compare=False)  # of the token that said it
    application: str = field(default="", compare=False)  # to which it was issued; empty where it does not say


class Verifier:
    """Tells who a token speaks for. Verified tokens are remembered for a while; failures never are."""

    def __init__(self, settings: Settings, keys: KeySet) -> None:
        self.settings = settings
        self.keys = keys
        self.remembered: dict[str, tuple[Identity, float]] = {}
        self.remembered_keys = keys.keys

    async def identity(self, token: str, now: datetime) -> Identity:
        await self.keys.refresh()
        if self.remembered_keys is not self.keys.keys:
            self.remembered_keys = self.keys.keys
            self.remembered.clear()
        known = self.remembered.get(token)
        if known is not None:
            if now.timestamp() < known[1]:
                return known[0]
            del self.remembered[token]
        claims = await self.claims(token)
        identity = Identity(
            self.user_of(claims), self.role_of(claims), expiry_of(claims), application_of(claims)
        )
        self.remember(token, identity, min(identity.expiry, now.timestamp() + REMEMBERED_SECONDS))
        return identity

    def remember(self, token: str, identity: Identity, until: float) -> None:
        most = self.settings.token_cache
        if most == 0:
            return
        while len(self.remembered) >= most:
            del self.remembered[next(iter(self.remembered))]  # the oldest
        self.remembered[token] = (identity, until)

    async def claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > LONGEST_TOKEN or THREE_PARTS.fullmatch(token) is None:
            raise NotSignedIn(BAD_TOKEN)
        try:
            header = jwt.get_unverified_header(token)
            refuse_repetitions(token)
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


def application_of(claims: Mapping[str, Any]) -> str:
    """The old service's tokens say `client_id`, those of OpenID Connect `azp`."""
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
