"""Fixtures: the databases of an old and a new service, a complete recording, two fake services."""

import shutil
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from moving_over.http_client import tls_context
from tests import keys
from tests.callers import Gateway, load, opened
from tests.certificates import certificate
from tests.cli.conftest import Command, command, no_settings
from tests.conftest import fresh_database
from tests.factories import NOW, a_world
from tests.moving_over.moves import Move
from tests.moving_over.recordings import Line, recording
from tests.moving_over.services import ServicePair, fake_service, forwarding_to
from tests.moving_over.stand_in import OldService

__all__ = ["command", "no_settings"]


@pytest.fixture
def new_settings(
    settings: Settings, kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Settings]:
    """Settings of the new service, whose database is empty."""
    with fresh_database(kind, migrated, request, tmp_path / "new.db") as url:
        yield settings.model_copy(update={"database_url": url})


@contextmanager
def serving(settings: Settings) -> Iterator[Gateway]:
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


@pytest.fixture(scope="module")
def complete(migrated_sqlite: str, tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    """A complete recording of `a_world`. Tests change a copy."""
    folder = tmp_path_factory.mktemp("old")
    shutil.copyfile(migrated_sqlite.removeprefix("sqlite:///"), folder / "care.db")
    settings = Settings(
        env=Environment.DEVELOPMENT,
        database_url=f"sqlite:///{folder}/care.db",
        token_key=keys.public_pem(),
        var=str(folder),
        dispatcher=False,
    )
    load(settings.database, a_world())
    with serving(settings) as old:
        return recording(old, (1, 2), (1, 2), size=2)


@pytest.fixture
def pair(command: Command, tmp_path: Path) -> Iterator[ServicePair]:
    with ExitStack() as stack:
        yield ServicePair(command, tmp_path, stack)


@pytest.fixture
def move(
    settings: Settings,
    new_settings: Settings,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Move]:
    for role in ("CAREGIVER", "CLIENT"):
        people = [keys.token(role, f"{role.lower()}-{number}") for number in (1, 2)]
        monkeypatch.setenv(f"{role}S", "\n".join(people))
    load(settings.database, a_world())
    with serving(settings) as gateway:
        old = OldService(forwarding_to(gateway.client))
        with fake_service(old) as address:
            yield Move(old, address, command, new_settings.database, tmp_path)


@pytest.fixture(params=[False, True], ids=["a certificate that is not trusted", "a trusted certificate"])
def tls(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ssl.SSLContext, bool]]:
    """TLS of a server at 127.0.0.1, and whether its certificate is trusted."""
    own = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    if request.param:
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
    tls_context.cache_clear()
    yield context, request.param
    tls_context.cache_clear()
