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


def raised_while_handling(is_hidden: bool) -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as fault:
        if is_hidden:
            raise ValueError(SECRET) from None
        fault.__context__ = group = ExceptionGroup("", [fault, OSError()])
        group.__cause__ = fault  # a circle
        raise ValueError(SECRET)  # noqa: B904


@pytest.mark.parametrize(
    ("is_hidden", "types"),
    [(True, ["ValueError"]), (False, ["OSError", "ExceptionGroup", "KeyError", "ValueError"])],
)
def test_an_exception_during_the_handling_of_another_has_both(is_hidden: bool, types: list[str]) -> None:
    with pytest.raises(ValueError, match=SECRET) as found:
        raised_while_handling(is_hidden)

    lines = frames_of(found.value).splitlines()

    assert [line for line in lines if line and line[0] != " " and "Traceback" not in line] == types


@pytest.mark.usefixtures("redacted")
@pytest.mark.parametrize(
    "fault",
    [ValueError(SECRET), SystemExit(SECRET), BaseExceptionGroup(SECRET, [KeyboardInterrupt(SECRET)])],
    ids=lambda fault: type(fault).__name__,
)
def test_an_exception_of_any_kind_is_logged_without_its_message(
    fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("care").error("a request failed", exc_info=fault)

    assert SECRET not in caplog.text
    assert caplog.text.splitlines()[-1] == type(fault).__name__


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


@pytest.mark.parametrize("is_production", [True, False])
def test_lines_of_the_server_that_a_client_causes_or_fills_are_not_logged(
    is_production: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It would log a line or a traceback for every such message, and the query string of a websocket."""
    known = logging.getLogRecordFactory()
    redact_logs(is_production)
    server, strawberry = logging.getLogger("uvicorn.error"), logging.getLogger("strawberry.ws")
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, server.name):
        server.error("Invalid UTF-8 sequence received from client.")
        server.warning("Invalid HTTP request received.")
        server.info('%s - "WebSocket %s" [accepted]', "127.0.0.1", f"/graphql?token={SECRET}")
        server.debug("< TEXT '%s'", SECRET)
        strawberry.warning("Rejected: `allowed_origins` has no %s", SECRET)
        for logger in (server, strawberry):
            logger.info("something else")
    logging.setLogRecordFactory(known)

    assert caplog.messages == ["something else"] * 2
