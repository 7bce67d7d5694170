"""Promise: the parts form one ASGI application that reports liveness and readiness and answers 404 to unknown
paths. Importing `app.main` needs no configuration."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import app.main
from app.auth.authenticator import Authenticator
from app.db.admin.migrate import newest_version
from app.db.drivers.sqlite import READS_PER_THREAD
from app.db.sql import Statement, Steps
from app.http import health
from app.http.paths import ASSIGNMENTS
from app.http.router import Router
from app.main import create_app
from app.server.admission import AdmissionControl
from app.settings import Environment, Settings, SettingsError
from app.telemetry import counters
from tests import keys
from tests.callers import Gateway, opened, run_write
from tests.factories import NOW, a_caregiver
from tests.fault_injection import Hanging
from tests.postgres import drop_database
from tests.schema.listening import listening, scope_of

UNAVAILABLE = "the database cannot take this now; nothing was changed"


def get(gateway: Gateway, path: str) -> tuple[int, object, str | None]:
    response = gateway.as_anonymous().get(path)
    return response.status_code, response.json(), response.headers.get("cache-control")


@pytest.mark.sqlite_only
def test_liveness_and_readiness_need_no_token(gateway: Gateway) -> None:
    assert get(gateway, "/livez") == (200, {"status": "live"}, "no-store")
    assert get(gateway, "/readyz") == (200, {"status": "ready"}, "no-store")


def set_version(to: str) -> Steps[None]:
    yield Statement(lambda kind: text(f"UPDATE alembic_version SET version_num = '{to}'")), {}


def test_a_service_with_tables_of_another_version_is_not_ready(gateway: Gateway) -> None:
    run_write(gateway.settings.database, set_version("0001"))

    assert get(gateway, "/readyz") == (503, {"status": "the database is not migrated"}, "no-store")
    assert get(gateway, "/livez")[0] == 200

    run_write(gateway.settings.database, set_version("9999"))

    newer = {"status": "the database has the tables of a newer version"}
    assert get(gateway, "/readyz") == (503, newer, "no-store")

    run_write(gateway.settings.database, set_version(str(newest_version())))

    assert get(gateway, "/readyz")[0] == 200


def test_a_service_without_its_database_is_live_but_not_ready(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_away(gateway.settings.database)

    assert get(gateway, "/readyz") == (503, {"status": "the database does not respond"}, "no-store")
    assert get(gateway, "/livez")[0] == 200

    monkeypatch.setattr(gateway.client.app_state["admission"], "is_draining", True)
    assert get(gateway, "/readyz") == (503, {"status": "shutting down"}, "no-store")


@pytest.mark.sqlite_only
def test_a_check_of_readiness_leaves_no_read_behind(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its read would hold or wait for a connection of the database as long as that does not respond."""
    monkeypatch.setattr(health, "READ_SECONDS", 0.01)
    state, hanging = gateway.client.app_state, Hanging()
    monkeypatch.setitem(state, "authenticator", replace(state["authenticator"], db=hanging))

    assert get(gateway, "/readyz") == (503, {"status": "the database does not respond"}, "no-store")
    assert get(gateway, "/livez")[0] == 200
    assert hanging.reads == 0


def test_both_contracts_respond_503_without_the_database(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    take_away(gateway.settings.database)
    caregiver = gateway.as_caregiver(1)

    by_graphql = caregiver.request(
        "POST", "/graphql", json={"query": "{ viewer { role } }"}, headers={"x-request-id": "r"}
    )
    by_legacy = caregiver.get("/gateway/profile/caregiver/session/assignment?time-state=RUNNING")

    body = by_legacy.json()
    assert body.pop("timestamp")
    assert by_graphql.status_code == by_legacy.status_code == 503
    assert body == {
        "status": 503,
        "error": "Service Unavailable",
        "message": UNAVAILABLE,
        "path": "/gateway/profile/caregiver/session/assignment",
    }
    assert by_graphql.json() == {
        "errors": [{"message": UNAVAILABLE, "extensions": {"code": "OVERLOADED", "requestId": "r"}}]
    }
    logged = [(one.name, one.levelname) for one in caplog.records if UNAVAILABLE in one.getMessage()]
    assert logged == [("care.graphql", "ERROR"), ("care.legacy", "ERROR")]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/graphql", "app.schema.transport.endpoint.negotiate"),
        (ASSIGNMENTS, "app.rest_compat.routes.has_encoded_slash"),
        ("/readyz", "app.http.health.stored_version"),
    ],
)
def test_an_unexpected_error_outside_of_a_contract_is_a_500_and_is_left_to_the_log_of_the_server(
    gateway: Gateway, path: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, None)
    sent: list[tuple[str, int | None]] = []
    before = sum(counters.requests[path, "GET", 500].counts)

    async def send(message: Any) -> None:
        sent.append((message["type"], message.get("status")))

    scope = scope_of(gateway.as_caregiver(1), "GET", path)
    assert gateway.client.portal is not None
    with pytest.raises(TypeError):
        gateway.client.portal.call(gateway.client.app, scope, None, send)

    assert sent == [("http.response.start", 500), ("http.response.body", None)]
    assert sum(counters.requests[path, "GET", 500].counts) == before + 1


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("method", "path"), [("POST", "/graphql"), ("PUT", ASSIGNMENTS)])
def test_a_request_that_is_cancelled_is_counted_as_a_500(gateway: Gateway, method: str, path: str) -> None:
    """As a request that does not end in time at shutdown."""
    gateway.import_records([a_caregiver(1)])
    before = sum(counters.requests[path, method, 500].counts)
    scope = scope_of(gateway.as_caregiver(1), method, path)

    async def receive() -> Any:
        raise asyncio.CancelledError

    async def cancel() -> None:
        with pytest.raises(asyncio.CancelledError):
            await gateway.client.app(scope, receive, receive)  # type: ignore[arg-type]

    assert gateway.client.portal is not None
    gateway.client.portal.call(cancel)

    assert sum(counters.requests[path, method, 500].counts) == before + 1


def take_away(url: str) -> None:
    """No request was sent yet, so no connection has it open."""
    if url.startswith("sqlite:///"):
        Path(url.removeprefix("sqlite:///")).unlink()
        return
    server, name = url.rsplit("/", 1)
    drop_database(f"{server}/postgres", name)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "path", ["/index.html", "/health", "/livez/", "/graphql/", "/assets/none.js", "/gatewa", "/redoc"]
)
def test_an_unknown_path_is_not_found(gateway: Gateway, path: str) -> None:
    response = gateway.as_caregiver(1).client.get(path, follow_redirects=False)

    assert response.status_code == 404
    assert "location" not in response.headers


@pytest.mark.sqlite_only
def test_an_unknown_legacy_path_has_a_legacy_error_body(gateway: Gateway) -> None:
    body = gateway.as_anonymous().get("/gateway/profile/client/session/").json()

    assert body.pop("timestamp")
    path = "/gateway/profile/client/session/"
    assert body == {"status": 404, "error": "Not Found", "message": "no such path", "path": path}


@pytest.mark.sqlite_only
def test_production_serves_both_contracts_only_with_a_token(settings: Settings) -> None:
    own = settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        gateway = Gateway(client, own)
        anonymous = gateway.as_anonymous()

        page = anonymous.get("/graphql", headers={"accept": "text/html"})
        schema = anonymous.post_graphql("{ __schema { queryType { name } } }")
        asset = anonymous.get("/assets/page.js")
        legacy = anonymous.get("/gateway/profile/client/session?time-state=RUNNING")
        ready = anonymous.get("/readyz")

    assert [response.status_code for response in (page, schema, asset, legacy, ready)] == [
        401,
        401,
        404,
        401,
        200,
    ]
    assert "<html" not in page.text


def test_the_application_is_created_on_first_access(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARE_TOKEN_KEY", keys.public_pem())
    monkeypatch.setenv("CARE_DATABASE_URL", settings.database_url)

    application = app.main.app

    assert isinstance(application, Router)
    with opened(application) as client:
        assert client.get("/readyz").json() == {"status": "ready"}


@pytest.mark.sqlite_only
def test_each_setting_reaches_the_part_that_it_limits(settings: Settings) -> None:
    changed = settings.model_copy(
        update={
            "read_threads": 3,
            "loop_read_ms": 7,
            "rate_limit": 77_000,
            "identifier_limit": 5,
            "token_cache": 9,
            "most_requests": 11,
            "graphql_body_limit": 70_000,
            "legacy_body_limit": 80_000,
            "time_zone": "Asia/Kolkata",
        }
    )
    with opened(create_app(changed, clock=lambda: NOW)) as client:
        authenticator: Authenticator = client.app_state["authenticator"]
        admission: AdmissionControl = client.app_state["admission"]
        db: Any = authenticator.db
        limiter, recorder = authenticator.identifier_limiter, authenticator.recorder
        assert limiter is not None
        assert recorder is not None

        assert (db.loop_seconds, db.max_idle, db.max_opened) == (0.007, 3 + 1, 3 * READS_PER_THREAD)
        assert (authenticator.budgets.points, limiter.most) == (77_000, 5)
        assert (authenticator.accepted.max_weight, authenticator.verifier.cached.max_weight) == (9, 9)
        assert (authenticator.time_zone, authenticator.clock()) == ("Asia/Kolkata", NOW)
        assert (admission.most_requests, admission.budgets) == (11, authenticator.budgets)
        assert (admission.graphql_body_limit, admission.legacy_body_limit) == (70_000, 80_000)
        assert recorder.gather_seconds == 0  # SQLite has one writer, which gathers records itself
    unlimited = changed.model_copy(update={"identifier_limit": 0, "audit": False})
    with opened(create_app(unlimited, clock=lambda: NOW)) as client:
        authenticator = client.app_state["authenticator"]
        assert (authenticator.identifier_limiter, authenticator.recorder) == (None, None)
    with pytest.raises(SettingsError, match="CARE_AUDIT=off is for development only"):
        create_app(unlimited.model_copy(update={"env": Environment.PRODUCTION}))


@pytest.mark.sqlite_only
def test_bodies_and_messages_have_the_limit_of_their_contract(settings: Settings) -> None:
    limits = {"graphql_body_limit": 1500, "legacy_body_limit": 1300}
    changed = settings.model_copy(update=limits)
    with opened(create_app(changed, clock=lambda: NOW)) as client:
        gateway = Gateway(client, changed)
        gateway.import_records([a_caregiver(1)])
        caregiver = gateway.as_caregiver(1)
        headers = {"content-type": "application/json"}
        statuses = [
            caregiver.request(method, path, content=b"[]".ljust(length), headers=headers).status_code
            for method, path in (("POST", "/graphql"), ("PUT", ASSIGNMENTS))
            for length in (1300, 1301, 1500, 1501)
        ]
        with listening(caregiver) as listener:
            listener.session.send_text('{"type": "ping"}'.ljust(1500))
            pong = listener.receive()
            listener.session.send_text('{"type": "ping"}'.ljust(1501))
            code, _ = listener.receive_close()

    assert statuses == [400, 400, 400, 413, 400, 413, 413, 413]
    assert (pong, code) == ({"type": "pong"}, 4400)


@pytest.mark.sqlite_only
def test_the_tasks_of_requests_run_in_turns(gateway: Gateway) -> None:
    admission: AdmissionControl = gateway.client.app_state["admission"]

    async def factory() -> Any:
        return asyncio.get_running_loop().get_task_factory()

    assert gateway.client.portal is not None
    assert gateway.client.portal.call(factory) == admission.turns.create_task


def test_an_unknown_attribute_of_the_module_raises() -> None:
    with pytest.raises(AttributeError):
        app.main.application  # noqa: B018


def test_an_application_without_keys_is_rejected() -> None:
    with pytest.raises(SettingsError, match="no key to verify tokens with"):
        create_app(Settings(env=Environment.PRODUCTION))


SHOW = """
import gc
from app.__main__ import main
from app.cli import main as commands

@commands.command()
def show():
    print(gc.isenabled(), gc.get_freeze_count() > 10_000)

main()
"""


def test_a_command_collects_its_garbage_but_not_the_program() -> None:
    shown = subprocess.run([sys.executable, "-c", SHOW, "show"], capture_output=True, text=True, check=True)

    assert shown.stdout == "True True\n"
