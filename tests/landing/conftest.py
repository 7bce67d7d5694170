"""The public pages do not depend on the kind of database, so these tests use SQLite only."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def database_url(migrated_sqlite: str, tmp_path: Path) -> str:
    copy = tmp_path / "care.db"
    shutil.copyfile(migrated_sqlite.removeprefix("sqlite:///"), copy)
    return f"sqlite:///{copy}"
