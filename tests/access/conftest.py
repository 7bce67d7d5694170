"""The test data, loaded once for the tests that read and once per file for the tests that write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.access.viewers import VIEWERS, caller_of, post
from tests.access.world import load_world
from tests.callers import Gateway, opened
from tests.conftest import fresh_database
from tests.factories import NOW

READ = """{ submissions { nodes { answers { answer } } }
    assignments(first: 18) { nodes { draft { answers { answer } } } } }"""

# Other queries run the same statements as these, so one database is enough.
SQLITE_ONLY = {"session", "assignment", "book", "nodes", "viewer"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selected = [item for item in items if is_selected(item)]
    if len(selected) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not is_selected(item)])
        items[:] = selected


def is_selected(item: pytest.Item) -> bool:
    if not item.nodeid.startswith("tests/access/") or not hasattr(item, "callspec"):
        return True
    params = item.callspec.params
    is_repeated = params.get("root") in SQLITE_ONLY or params.get("row") == "Query.nodes(ids)"
    return params.get("kind") != "postgresql" or not is_repeated


@contextmanager
def loaded_world(kind: str, migrated: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    with fresh_database(kind, migrated, request, folder / "care.db") as url:
        load_world(url)
        settings = Settings(
            env=Environment.DEVELOPMENT, database_url=url, token_key=keys.public_pem(), dispatcher=False
        )
        with opened(create_app(settings, clock=lambda: NOW)) as client:
            gateway = Gateway(client, settings)
            for whose in VIEWERS:  # so that the audit log has a record of each
                post(caller_of(gateway, whose), READ)
            yield gateway


@pytest.fixture(scope="package")
def world(
    kind: str, migrated: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Gateway]:
    """For tests that only read."""
    with loaded_world(kind, migrated, tmp_path_factory.mktemp("access"), request) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def writable_world(
    kind: str, migrated: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Gateway]:
    """For tests that write; each mutation has an object of its own."""
    with loaded_world(kind, migrated, tmp_path_factory.mktemp("writable_world"), request) as gateway:
        yield gateway
