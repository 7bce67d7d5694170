"""One gateway with constant data for all tests that only read."""

from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.callers import WIDE, Gateway, opened
from tests.conftest import fresh_database
from tests.factories import NOW, a_world
from tests.schema.rich_world import given_a_rich_world
from tests.schema.worlds import a_full_world, given_feedback


@pytest.fixture(scope="session")
def standing_database(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with fresh_database(kind, migrated, request, tmp_path_factory.mktemp("standing") / "care.db") as url:
        yield url


@pytest.fixture(scope="session")
def standing(standing_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Read-only: `a_full_world` and one feedback."""
    settings = Settings(
        env=Environment.DEVELOPMENT,
        database_url=standing_database,
        token_key=keys.public_pem(),
        var=str(tmp_path_factory.mktemp("var")),
        dispatcher=False,
        **WIDE,
    )
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        gateway.import_records(a_full_world())
        given_feedback(gateway)
        yield gateway


@pytest.fixture(scope="module")
def shared(
    kind: str,
    migrated: str,
    usual_settings: Settings,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """Like `gateway`, shared by the tests of a file that change nothing."""
    folder = tmp_path_factory.mktemp("shared")
    with fresh_database(kind, migrated, request, folder / "care.db") as url:
        settings = usual_settings.model_copy(update={"database_url": url, "var": str(folder)})
        with opened(create_app(settings, clock=lambda: NOW)) as client:
            yield Gateway(client, settings)


@pytest.fixture(scope="module")
def unchanged(shared: Gateway) -> Gateway:
    shared.import_records(a_world())
    return shared


@pytest.fixture(scope="module")
def rich(shared: Gateway) -> Gateway:
    given_a_rich_world(shared)
    return shared
