"""The command line as a person types it, on a database of either kind."""

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
    """Runs a command in development; variables are given by the names of the settings."""

    def run(*words: str, input: str | None = None, **changed: Any) -> Result:
        given = {"env": "development", "database_url": settings.database_url, "var": settings.var} | changed
        environment = {f"CARE_{name.upper()}": value for name, value in given.items()}
        return CliRunner().invoke(main, list(words), input, env=environment)

    return run


def assert_sentence(result: Result, sentence: str) -> None:
    assert (result.stdout, result.stderr) == ("", f"care-gateway: {sentence}\n")
    assert result.exit_code == 2
