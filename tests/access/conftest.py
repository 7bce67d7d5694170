"""The world, loaded once for reading tests and once for changing tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.access.viewers import PEOPLE_WITH_DATA, post, sign_in
from tests.access.world import plant
from tests.callers import Gateway, opened
from tests.conftest import fresh_database
from tests.factories import NOW

READ = """{ submissions { nodes { answers { answer } } }
    assignments(first: 18) { nodes { draft { answers { answer } } } } }"""

# What these ask, the other questions ask as well, by the same statements: on one database it is enough.
ASKED_ONCE = {"session", "assignment", "book", "nodes", "viewer"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selected = [item for item in items if is_selected(item)]
    if len(selected) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not is_selected(item)])
        items[:] = selected


def is_selected(item: pytest.Item) -> bool:
    if not item.nodeid.startswith("tests/access/") or not hasattr(item, "callspec"):
        return True
    chosen = item.callspec.params
    is_again = chosen.get("root") in ASKED_ONCE or chosen.get("row") == "Query.nodes(ids)"
    return chosen.get("kind") != "postgresql" or not is_again


@contextmanager
def planted(kind: str, migrated: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    with fresh_database(kind, migrated, request, folder / "care.db") as url:
        plant(url)
        settings = Settings(
            env=Environment.DEVELOPMENT, database_url=url, token_key=keys.public_pem(), dispatcher=False
        )
        with opened(create_app(settings, clock=lambda: NOW)) as client:
            gateway = Gateway(client, settings)
            for person in PEOPLE_WITH_DATA:  # on record: everybody has read what is theirs
                post(sign_in(gateway, person), READ)
            yield gateway


@pytest.fixture(scope="package")
def world(
    kind: str, migrated: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Gateway]:
    """For tests that only read."""
    with planted(kind, migrated, tmp_path_factory.mktemp("access"), request) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def changing(
    kind: str, migrated: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Gateway]:
    """For changes, each of its own object."""
    with planted(kind, migrated, tmp_path_factory.mktemp("changing"), request) as gateway:
        yield gateway
