"""The random world, loaded once per test module and kind of database."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.sql import Steps
from tests.conftest import fresh_database
from tests.db.random_world import PlainWorld, plain_world, put_random_world, scatter

Result = TypeVar("Result")


@dataclass(frozen=True)
class OpenWorld:
    """The random world in an open database."""

    url: str
    kind: str
    plain: PlainWorld
    db: Database
    runner: asyncio.Runner

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Hypothesis prints a failing example without the rows of its world."""
        printer.text(f"<the random world on {self.kind}>")

    def read(self, steps: Steps[Result]) -> Result:
        return self.runner.run(self.db.read(steps))


@pytest.fixture(scope="module")
def world(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenWorld]:
    with fresh_database(kind, migrated, request, tmp_path_factory.mktemp("world") / "care.db") as url:
        put_random_world(url, is_damaged=kind != "citus", is_moved=kind != "citus")
        if kind == "postgresql":
            scatter(url)
        yield from opened(url, kind)


def opened(url: str, kind: str) -> Iterator[OpenWorld]:
    with asyncio.Runner() as runner:
        db = runner.run(open_database(url))
        yield OpenWorld(url, kind, plain_world(url), db, runner)
        runner.run(db.close())
