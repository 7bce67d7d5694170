"""Reads users' tokens from files or the environment. Messages never contain tokens."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from app.care.context import Role
from app.legacy_migration.errors import MovingRefused

FROM_ENVIRONMENT = "env:"
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # RFC 6750


class TokensRefused(MovingRefused):
    """The tokens cannot be used; the message is one sentence for the operator."""


@dataclass(frozen=True)
class Person:
    """A user with a token, and the source of the token."""

    role: Role
    user: str
    token: str
    place: str

    def __repr__(self) -> str:
        return f"<{self.role} of {self.place}>"


def read_people(role: Role, sources: tuple[str, ...], claim: str) -> list[Person]:
    """From each source a token per line, with the person's user name before it where the token says none."""
    people: dict[str, Person] = {}
    for source in sources:
        for number, line in enumerate(read_source(source).splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                person = read_person(role, line.split(), f"{source}, line {number}", claim)
                if person.user in people:
                    raise TokensRefused(f"{person.place}: there is a token of this person already")
                people[person.user] = person
    return list(people.values())


def read_source(source: str) -> str:
    if source.startswith(FROM_ENVIRONMENT):
        name = source.removeprefix(FROM_ENVIRONMENT)
        if name not in os.environ:
            raise TokensRefused(f"there is no environment variable {name}")
        return os.environ[name]
    try:
        return Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TokensRefused(f"{source} cannot be read: {reason}") from None


def read_person(role: Role, words: list[str], place: str, claim: str) -> Person:
    *names, token = words
    if len(names) > 1 or TOKEN.fullmatch(token) is None:
        raise TokensRefused(f"{place}: must be a token, or a user name and a token")
    user = names[0] if names else user_of(token, claim)
    if user is None:
        raise TokensRefused(f"{place}: the token does not say whose it is; put the user name before it")
    return Person(role, user, token, place)


def user_of(token: str, claim: str) -> str | None:
    """What the token calls its person. Whether it is a good one, the service that is asked decides."""
    import jwt  # here, because it takes long to load and other commands do without it

    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        return None
    user = claims.get(claim, claims.get("sub"))
    return user if isinstance(user, str) and user.strip() else None


def choose(people: list[Person], role: str | None, user: str | None) -> Person | None:
    """Whose token goes with a call: of this person, or the first of the role."""
    return next((one for one in people if one.role == role and user in (None, one.user)), None)
