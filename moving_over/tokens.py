"""Reads users' tokens from files or the environment. Messages never contain tokens."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from app.auth.tokens import unverified_claims
from app.care.context import Role
from moving_over import LegacyMigrationError

ENVIRONMENT_PREFIX = "env:"
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # RFC 6750


@dataclass(frozen=True)
class UserToken:
    role: Role
    user: str = field(repr=False)
    token: str = field(repr=False)
    place: str  # file and line


def read_tokens(role: Role, sources: tuple[str, ...], claim: str) -> list[UserToken]:
    """One token per line of each source, after the user name if the token does not contain it."""
    found: dict[str, UserToken] = {}
    for source in sources:
        for number, line in enumerate(read_source(source).splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                token = read_token(role, line.split(), f"{source}, line {number}", claim)
                if token.user in found:
                    raise LegacyMigrationError(f"{token.place}: this user already has a token")
                found[token.user] = token
    return list(found.values())


def read_source(source: str) -> str:
    if source.startswith(ENVIRONMENT_PREFIX):
        name = source.removeprefix(ENVIRONMENT_PREFIX)
        if name not in os.environ:
            raise LegacyMigrationError(f"the environment variable {name} is not set")
        return os.environ[name]
    try:
        return Path(source).read_text("utf-8-sig")  # some editors begin with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise LegacyMigrationError(f"{source} cannot be read: {reason}") from None


def read_token(role: Role, words: list[str], place: str, claim: str) -> UserToken:
    *names, token = words
    if len(names) > 1 or TOKEN.fullmatch(token) is None:
        raise LegacyMigrationError(f"{place}: must be a token, or a user name and a token")
    user = names[0] if names else user_of(token, claim)
    if user is None:
        raise LegacyMigrationError(
            f"{place}: the token does not contain a user name; put it before the token"
        )
    return UserToken(role, user, token, place)


def user_of(token: str, claim: str) -> str | None:
    """The user name in the token. The service verifies the token itself."""
    claims = unverified_claims(token)
    user = claims.get(claim, claims.get("sub"))
    return user if isinstance(user, str) and user.strip() else None
