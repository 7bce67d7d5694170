"""A service with the token settings that a test needs. Its two caregivers and two clients are shared by a
module, since verifying tokens writes nothing."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.callers import Gateway, load, opened
from tests.conftest import fresh_database
from tests.factories import NOW, people

Opening = Callable[..., Gateway]


@pytest.fixture(scope="module")
def settings_with_accounts(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with fresh_database(kind, migrated, request, tmp_path_factory.mktemp("with_accounts") / "care.db") as url:
        load(url, people())
        yield Settings(
            env=Environment.DEVELOPMENT, database_url=url, token_key=keys.public_pem(), dispatcher=False
        )


@pytest.fixture
def open_with(settings_with_accounts: Settings) -> Iterator[Opening]:
    """Opens the service with these settings changed."""
    with ExitStack() as stack:

        def open_(**changed: Any) -> Gateway:
            own = Settings(**{**settings_with_accounts.model_dump(), **changed})
            return Gateway(stack.enter_context(opened(create_app(own, clock=lambda: NOW))), own)

        yield open_


@pytest.fixture(scope="module")
def with_accounts(settings_with_accounts: Settings) -> Iterator[Gateway]:
    with opened(create_app(settings_with_accounts, clock=lambda: NOW)) as client:
        yield Gateway(client, settings_with_accounts)
