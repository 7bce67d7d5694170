"""One gateway with constant data for all tests that only read."""

import shutil
import uuid
from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.callers import WIDE, Gateway, opened
from tests.conftest import fresh_database
from tests.factories import NOW, a_world
from tests.postgres import create_database, drop_database
from tests.schema.rich_world import given_a_rich_world
from tests.schema.worlds import a_full_world, given_feedback


@pytest.fixture(scope="session")
def standing_database(
    kind: str,
    engine: bool,
    migrated: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    if kind == "sqlite":
        copy = tmp_path_factory.mktemp("standing") / "care.db"
        shutil.copyfile(migrated.removeprefix("sqlite:///"), copy)
        yield f"sqlite:///{copy}"
        return
    server, name = request.getfixturevalue("postgres"), f"standing_{uuid.uuid4().hex}"
    yield create_database(server, name, template=migrated.rsplit("/", 1)[1])
    drop_database(server, name)


@pytest.fixture(scope="session")
def standing(
    standing_database: str, engine: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """For reading only: every test finds `a_full_world` and one feedback, exactly."""
    settings = Settings(
        env=Environment.DEVELOPMENT,
        database_url=standing_database,
        token_key=keys.public_pem(),
        var=str(tmp_path_factory.mktemp("var")),
        engine=engine,
        dispatcher=False,
        **WIDE,
    )
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        gateway.given(a_full_world())
        given_feedback(gateway)
        yield gateway


@pytest.fixture(scope="module")
def shared(
    kind: str,
    engine: bool,
    migrated: str,
    usual_settings: Settings,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """As `gateway`, one for those tests of a file that leave nothing behind."""
    folder = tmp_path_factory.mktemp("shared")
    with fresh_database(kind, migrated, request, folder / "care.db") as url:
        settings = usual_settings.model_copy(
            update={"database_url": url, "var": str(folder), "engine": engine}
        )
        with opened(create_app(settings, clock=lambda: NOW)) as client:
            yield Gateway(client, settings)


@pytest.fixture(scope="module")
def unchanged(shared: Gateway) -> Gateway:
    shared.given(a_world())
    return shared


@pytest.fixture(scope="module")
def rich(shared: Gateway) -> Gateway:
    given_a_rich_world(shared)
    return shared
