"""One service per kind of database, shared by the tests that change nothing."""

from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.callers import Gateway, opened
from tests.conftest import fresh_database
from tests.factories import (
    NOW,
    Record,
    a_caregiver,
    a_client,
    a_session,
    a_world,
    an_assignment,
)


def long_lists() -> Iterator[Record]:
    """Caregiver 3 and client 3: sessions 101 to 145, all RUNNING, and assignment 1001 to 1045 in each.
    Caregiver 4 and client 4 have nothing."""
    yield from (a_caregiver(3), a_caregiver(4), a_client(3), a_client(4))
    for number in range(101, 146):
        yield a_session(number, caregiver=3, client=3)
        yield an_assignment(900 + number, session=number)


@pytest.fixture(scope="package")
def standing_url(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with fresh_database(kind, migrated, request, tmp_path_factory.mktemp("standing") / "care.db") as url:
        yield url


@pytest.fixture(scope="package")
def standing(standing_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The service over `a_world` and `long_lists`. Tests that change something use `gateway`."""
    settings = Settings(
        env=Environment.DEVELOPMENT,
        database_url=standing_url,
        token_key=keys.public_pem(),
        var=str(tmp_path_factory.mktemp("standing-var")),
        dispatcher=False,
    )
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        gateway.import_records([*a_world(), *long_lists()])
        yield gateway
