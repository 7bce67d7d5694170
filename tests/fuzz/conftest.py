"""The service in this thread, over a database with enough data for thousands of changes."""

import asyncio
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.db.admin.migrate import migrate
from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.callers import load
from tests.factories import NOW
from tests.fuzz.direct_requests import DirectService, direct
from tests.fuzz.world import a_wide_world


@pytest.fixture(scope="session")
def wide_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that every test copies."""
    path = tmp_path_factory.mktemp("wide") / "care.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    load(f"sqlite:///{path}", a_wide_world())
    return path


@contextmanager
def served(world: Path, folder: Path) -> Iterator[DirectService]:
    copy = folder / "care.db"
    shutil.copyfile(world, copy)
    settings = Settings(
        env=Environment.DEVELOPMENT,
        database_url=f"sqlite:///{copy}",
        token_key=keys.public_pem(),
        var=str(folder),
        dispatcher=False,
    )
    with direct(create_app(settings, clock=lambda: NOW)) as service:
        yield service


@pytest.fixture
def service(wide_world: Path, tmp_path: Path) -> Iterator[DirectService]:
    with served(wide_world, tmp_path) as one:
        yield one


class ErrorLog(logging.Handler):
    """Logged errors that an operator would have to investigate."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def logged_errors() -> Iterator[list[str]]:
    """All logged errors."""
    handler = ErrorLog()
    logging.getLogger().addHandler(handler)
    yield handler.lines
    logging.getLogger().removeHandler(handler)
