"""Promise: the parts together are one ASGI application that tells whether it lives and whether it is ready;
unknown paths lead nowhere, and `app.main:app` needs no configuration before it is asked for."""

from pathlib import Path

import pytest
from sqlalchemy import text
from starlette.applications import Starlette

import app.main
from app.db.admin.migrate import newest_version
from app.db.sql import Operation, Statement
from app.main import create_app
from app.settings import Environment, Settings, SettingsError
from tests import keys
from tests.callers import Gateway, opened, run_write
from tests.factories import NOW
from tests.postgres import drop_database

UNAVAILABLE = "the database cannot take this now; nothing was changed"


def answer(gateway: Gateway, path: str) -> tuple[int, object, str | None]:
    said = gateway.as_nobody().get(path)
    return said.status_code, said.json(), said.headers.get("cache-control")


def test_a_live_and_ready_service_says_so_to_anybody(gateway: Gateway) -> None:
    assert answer(gateway, "/livez") == (200, {"status": "live"}, "no-store")
    assert answer(gateway, "/readyz") == (200, {"status": "ready"}, "no-store")


def set_version(to: str) -> Operation[None]:
    yield Statement(lambda kind: text(f"UPDATE alembic_version SET version_num = '{to}'")), {}


def test_a_database_of_another_version_is_not_ready(gateway: Gateway) -> None:
    run_write(gateway.settings.database, set_version("0001"))

    assert answer(gateway, "/readyz") == (503, {"status": "the database is not migrated"}, "no-store")
    assert answer(gateway, "/livez")[0] == 200

    run_write(gateway.settings.database, set_version("9999"))

    newer = {"status": "the database has the tables of a newer version"}
    assert answer(gateway, "/readyz") == (503, newer, "no-store")

    run_write(gateway.settings.database, set_version(str(newest_version())))

    assert answer(gateway, "/readyz")[0] == 200


def test_a_database_that_is_gone_is_not_ready(gateway: Gateway) -> None:
    take_away(gateway.settings.database)

    assert answer(gateway, "/readyz") == (503, {"status": "the database does not answer"}, "no-store")
    assert answer(gateway, "/livez")[0] == 200


def test_both_contracts_say_that_a_database_that_is_gone_takes_nothing_now(gateway: Gateway) -> None:
    take_away(gateway.settings.database)
    caregiver = gateway.as_caregiver(1)

    by_graphql = caregiver.request(
        "POST", "/graphql", json={"query": "{ viewer { role } }"}, headers={"x-request-id": "r"}
    )
    by_legacy = caregiver.get("/gateway/profile/caregiver/session/assignment?time-state=RUNNING")

    said = by_legacy.json()
    assert said.pop("timestamp")
    assert by_graphql.status_code == by_legacy.status_code == 503
    assert said == {
        "status": 503,
        "error": "Service Unavailable",
        "message": UNAVAILABLE,
        "path": "/gateway/profile/caregiver/session/assignment",
    }
    assert by_graphql.json() == {
        "errors": [{"message": UNAVAILABLE, "extensions": {"code": "OVERLOADED", "requestId": "r"}}]
    }


def take_away(url: str) -> None:
    """As if it were never there: nothing was asked of it yet, so no connection holds it open."""
    if url.startswith("sqlite:///"):
        Path(url.removeprefix("sqlite:///")).unlink()
        return
    server, name = url.rsplit("/", 1)
    drop_database(f"{server}/postgres", name)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "path", ["/index.html", "/health", "/livez/", "/graphql/", "/graphql/ide/none.js", "/gatewa", "/docs"]
)
def test_an_unknown_path_leads_nowhere(gateway: Gateway, path: str) -> None:
    said = gateway.as_caregiver(1).client.get(path, follow_redirects=False)

    assert said.status_code == 404
    assert "location" not in said.headers


@pytest.mark.sqlite_only
def test_an_unknown_path_of_the_legacy_contract_is_told_in_its_words(gateway: Gateway) -> None:
    said = gateway.as_nobody().get("/gateway/profile/client/session/").json()

    assert said.pop("timestamp")
    path = "/gateway/profile/client/session/"
    assert said == {"status": 404, "error": "Not Found", "message": "no such path", "path": path}


def test_production_serves_both_contracts_and_shows_nothing_without_a_token(settings: Settings) -> None:
    own = settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        gateway = Gateway(client, own)
        nobody = gateway.as_nobody()

        page = nobody.get("/graphql", headers={"accept": "text/html"})
        schema = nobody.post_graphql("{ __schema { queryType { name } } }")
        asset = nobody.get("/graphql/ide/page.js")
        legacy = nobody.get("/gateway/profile/client/session?time-state=RUNNING")
        ready = nobody.get("/readyz")

    assert [one.status_code for one in (page, schema, asset, legacy, ready)] == [401, 401, 404, 401, 200]
    assert "<html" not in page.text


@pytest.mark.sqlite_only
def test_the_application_is_made_when_it_is_asked_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARE_TOKEN_KEY", keys.public_pem())
    monkeypatch.setenv("CARE_DATABASE_URL", settings.database_url)

    made = app.main.app

    assert isinstance(made, Starlette)
    with opened(made) as client:
        assert client.get("/readyz").json() == {"status": "ready"}


def test_the_module_has_nothing_else_to_ask_for() -> None:
    with pytest.raises(AttributeError):
        app.main.application  # noqa: B018


def test_without_a_key_there_is_no_application() -> None:
    with pytest.raises(SettingsError, match="no key to verify tokens with"):
        create_app(Settings(env=Environment.PRODUCTION))
