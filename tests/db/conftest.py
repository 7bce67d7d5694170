"""Worlds that many tests only read: put into a database once per module and kind."""

import asyncio
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.sql import Operation
from tests.db.random_world import PlainWorld, plain_world, put_random_world
from tests.postgres import create_database, drop_database

Result = TypeVar("Result")


@dataclass(frozen=True)
class OpenWorld:
    """The random world, open as long as the module's tests run."""

    url: str
    kind: str
    plain: PlainWorld
    db: Database
    runner: asyncio.Runner

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """A failing example is told without all the rows of its world."""
        printer.text(f"<the random world on {self.kind}>")

    def read(self, operation: Operation[Result]) -> Result:
        return self.runner.run(self.db.read(operation))


@contextmanager
def copy_of(kind: str, migrated: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        shutil.copyfile(migrated.removeprefix("sqlite:///"), folder / "care.db")
        yield f"sqlite:///{folder}/care.db"
        return
    server, name = request.getfixturevalue("postgres"), f"world_{uuid.uuid4().hex}"
    yield create_database(server, name, template=migrated.rsplit("/", 1)[1])
    drop_database(server, name)


@pytest.fixture(scope="module")
def world(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenWorld]:
    with copy_of(kind, migrated, request, tmp_path_factory.mktemp("world")) as url:
        put_random_world(url)
        with asyncio.Runner() as runner:
            db = runner.run(open_database(url))
            yield OpenWorld(url, kind, plain_world(url), db, runner)
            runner.run(db.close())
