"""Runs commands as typed by an operator, on SQLite and PostgreSQL."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import main
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
