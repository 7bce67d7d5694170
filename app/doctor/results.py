"""The result of a check: its verdict, a message, and advice."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from app.db.drivers.interface import Database
from app.settings import Settings


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, but needs attention
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    about: str
    verdict: Verdict
    message: str
    advice: str = ""


@dataclass(frozen=True)
class CheckContext:
    """`db` is None if the database cannot be opened."""

    settings: Settings
    db: Database | None


Findings = AsyncIterator[Finding]
Check = Callable[[CheckContext], Findings]


def ok(about: str, message: str) -> Finding:
    return Finding(about, Verdict.OK, message)


def warning(about: str, message: str, advice: str) -> Finding:
    return Finding(about, Verdict.WARNING, message, advice)


def failed(about: str, message: str, advice: str) -> Finding:
    return Finding(about, Verdict.FAILED, message, advice)
