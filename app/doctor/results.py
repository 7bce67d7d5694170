"""What a look at something found: whether it is in order, what is the matter, and what to do about it."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from app.db.drivers.interface import Database
from app.settings import Settings


class Verdict(StrEnum):
    GOOD = "good"
    LOOK = "look"  # it works, and somebody should know
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    about: str
    verdict: Verdict
    said: str
    do: str = ""


@dataclass(frozen=True)
class Looked:
    """What is looked at; without a database where it cannot be opened."""

    settings: Settings
    db: Database | None


Findings = AsyncIterator[Finding]
Look = Callable[[Looked], Findings]


def good(about: str, said: str) -> Finding:
    return Finding(about, Verdict.GOOD, said)


def look(about: str, said: str, do: str) -> Finding:
    return Finding(about, Verdict.LOOK, said, do)


def wrong(about: str, said: str, do: str) -> Finding:
    return Finding(about, Verdict.WRONG, said, do)
