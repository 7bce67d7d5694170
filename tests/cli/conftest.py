"""Runs commands as typed by an operator, on SQLite and PostgreSQL."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import func, select

from app.cli import main
from app.db.reader.entities import table_of
from app.db.sql import Operation, Statement
from app.db.tables import Assignment, Session
from app.settings import Settings

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("CARE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def command(settings: Settings) -> Command:
    """Runs a command in development; keywords are settings."""

    def run(*words: str, input: str | None = None, **changed: Any) -> Result:
        values = {"env": "development", "database_url": settings.database_url, "var": settings.var} | changed
        environment = {f"CARE_{name.upper()}": value for name, value in values.items()}
        return CliRunner().invoke(main, list(words), input, env=environment)

    return run


def assert_rejected(result: Result, message: str) -> None:
    assert (result.stdout, result.stderr) == ("", f"care-gateway: {message}\n")
    assert result.exit_code == 2


COUNT = {
    table: Statement(lambda kind, t=table: select(func.count()).select_from(table_of(t)))
    for table in (Session, Assignment)
}  # type: ignore[misc]


def count_rows() -> Operation[tuple[int, int]]:
    sessions = yield COUNT[Session], {}
    assignments = yield COUNT[Assignment], {}
    return sessions[0][0], assignments[0][0]
