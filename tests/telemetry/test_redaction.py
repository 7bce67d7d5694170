"""Logs contain no token, no name and no answer, whatever fails and at every level."""

import asyncio
import gc
import logging
from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Environment, Settings
from app.telemetry.redaction import frames_of, redact_logs
from tests.callers import Gateway, opened
from tests.db import raw
from tests.factories import a_world

SECRET = "My neighbour shouts at night"


@pytest.fixture
def in_production(settings: Settings) -> Iterator[Gateway]:
    known = logging.getLogRecordFactory()
    settings = settings.model_copy(update={"env": Environment.PRODUCTION})
    try:
        with opened(create_app(settings)) as client:
            yield Gateway(client, settings)
    finally:
        logging.setLogRecordFactory(known)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_rows_quoted_by_database_errors_are_not_logged(
    in_production: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL quotes the row that violates a constraint."""
    in_production.import_records(a_world())
    raw.run(in_production.settings.database, "ALTER TABLE session ADD CHECK (title = '') NOT VALID")

    answer = in_production.as_caregiver(1).graphql(
        "mutation ($input: UpdateSessionInput!) { updateSession(input: $input) { session { id } } }",
        input={"sessionId": 1, "title": SECRET},
    )

    assert [error["message"] for error in answer["errors"]] == ["Internal error"]
    assert SECRET not in caplog.text
    assert "app/db/drivers/postgres.py" in caplog.text
    assert "asyncpg.exceptions.CheckViolationError (23514)" in caplog.text


@pytest.fixture
def redacted() -> Iterator[None]:
    known = logging.getLogRecordFactory()
    redact_logs(is_production=True)
    yield
    logging.setLogRecordFactory(known)


def broken() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as fault:
        raise ExceptionGroup(SECRET, [ValueError(SECRET)]) from fault


def test_a_logged_exception_has_its_type_frames_and_causes() -> None:
    with pytest.raises(ExceptionGroup) as found:
        broken()

    text = frames_of(found.value)

    assert SECRET not in text
    assert "raise KeyError(SECRET)" in text
    assert [line for line in text.splitlines() if line and line[0] != " " and "Traceback" not in line] == [
        "ValueError",
        "KeyError",
        "ExceptionGroup",
    ]


@pytest.mark.usefixtures("redacted")
def test_an_exception_of_an_unawaited_task_is_logged_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails() -> None:
        raise ValueError(SECRET)

    async def forgets() -> None:
        asyncio.get_running_loop().create_task(fails())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect(0)

    asyncio.run(forgets())

    assert SECRET not in caplog.text
    assert [record.getMessage() for record in caplog.records] == ["Task exception was never retrieved"]


def test_invalid_utf_8_at_a_websocket_is_not_logged(redacted: None, caplog: pytest.LogCaptureFixture) -> None:
    """The server would log a traceback for every such message."""
    server = logging.getLogger("uvicorn.error")

    server.error("Invalid UTF-8 sequence received from client.")
    server.error("something else")

    assert caplog.messages == ["something else"]
