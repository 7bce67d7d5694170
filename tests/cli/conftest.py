"""Runs commands as typed by an operator, on SQLite and PostgreSQL."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.db.drivers.interface import sqlite_path
from app.settings import Settings
from tests.conftest import fresh_database
from tests.every_table import fill_every_table

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


@pytest.fixture(scope="session")
def filled(migrated_sqlite: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database with rows in every table. Tests use copies of the file."""
    path = tmp_path_factory.mktemp("filled") / "care.db"
    shutil.copyfile(sqlite_path(migrated_sqlite), path)
    fill_every_table(f"sqlite:///{path}")
    return path


@pytest.fixture
def source(filled: Path, tmp_path: Path) -> str:
    shutil.copyfile(filled, tmp_path / "source.db")
    return f"sqlite:///{tmp_path}/source.db"


@pytest.fixture
def target(request: pytest.FixtureRequest, migrated_postgresql: str, tmp_path: Path) -> Iterator[str]:
    """An empty PostgreSQL database, whatever the database of the other fixtures is."""
    with fresh_database("postgresql", migrated_postgresql, request, tmp_path) as url:
        yield url
