"""What a check inspects, and the findings that it returns."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from app.db.drivers.interface import Database, Result
from app.db.sql import Steps
from app.settings import Settings

CONNECT_SECONDS = 5
OTHERS_WRITE = 0o022  # mode bits


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


def ok(about: str, message: str) -> Finding:
    return Finding(about, Verdict.OK, message)


def warning(about: str, message: str, advice: str) -> Finding:
    return Finding(about, Verdict.WARNING, message, advice)


def failed(about: str, message: str, advice: str) -> Finding:
    return Finding(about, Verdict.FAILED, message, advice)


@dataclass
class Installation:
    settings: Settings
    runner: asyncio.Runner
    db: Database | None = None  # None if it cannot be opened
    is_migrated: bool = False

    def read(self, operation: Steps[Result]) -> Result:
        assert self.db is not None
        return self.runner.run(self.db.read(operation))
