"""A log line is one JSON object or one line of text, with the request id and without input."""

import io
import json
import logging
import logging.config
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import main
from app.main import create_app
from app.settings import Environment, LogFormat, Settings
from app.telemetry.logs import (
    LOG_FIELDS,
    MAX_LINES,
    MAX_MESSAGE,
    MAX_TRACEBACK,
    MINUTE,
    OMITTED,
    JsonFormatter,
    LineLimit,
    TextFormatter,
    config_of,
)
from tests.callers import Gateway, opened
from tests.db import raw
from tests.factories import NOW, a_world
from tests.schema.listening import scope_of

ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
SECRET = "confidential text"
ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
RENAME = "mutation ($input: UpdateSessionInput!) { updateSession(input: $input) { session { id } } }"


@contextmanager
def log(
    formatter: logging.Formatter, name: str = "care", limit: LineLimit | None = None
) -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler, logger = logging.StreamHandler(text), logging.getLogger(name)
    handler.setFormatter(formatter)
    if limit:
        handler.addFilter(limit)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield text
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def in_production(settings: Settings, **changed: Any) -> Iterator[Gateway]:
    known = logging.getLogRecordFactory()
    own = settings.model_copy(update={"env": Environment.PRODUCTION, **changed})
    try:
        with opened(create_app(own, clock=lambda: NOW)) as client:
            gateway = Gateway(client, own)
            gateway.import_records(a_world())
            yield gateway
    finally:
        logging.setLogRecordFactory(known)


@ON_SQLITE
def test_an_exception_is_logged_as_one_object_without_input(settings: Settings) -> None:
    with in_production(settings) as gateway, log(JsonFormatter()) as text:
        raw.run(
            settings.database,
            f"""
            CREATE TRIGGER talkative BEFORE UPDATE ON session
            BEGIN SELECT RAISE(ABORT, '{SECRET}'); END""",
        )
        response = gateway.as_caregiver(1).request(
            "POST",
            f"/graphql?token={SECRET}",
            json={"query": RENAME, "variables": {"input": {"sessionId": 1, "title": SECRET}}},
            headers={"x-request-id": "of-mara-7"},
        )

    [line] = text.getvalue().splitlines()
    entry = json.loads(line)
    assert response.headers["x-request-id"] == "of-mara-7"
    assert entry.keys() == {"time", "level", "logger", "message", "requestId", "fault"}
    assert (entry["level"], entry["logger"], entry["requestId"]) == ("error", "care.graphql", "of-mara-7")
    assert entry["message"] == "fault in request of-mara-7 at ['updateSession']"
    assert entry["fault"].endswith("sqlite3.IntegrityError (SQLITE_CONSTRAINT_TRIGGER)")
    assert SECRET not in line


@ON_SQLITE
def test_requests_are_logged_by_route_if_enabled(settings: Settings) -> None:
    with in_production(settings, log_requests=True) as gateway, log(JsonFormatter()) as text:
        caregiver = gateway.as_caregiver(1)
        caregiver.get(f"{ASSIGNMENTS}/1?of={SECRET}", headers={"x-request-id": "one"})
        caregiver.request("BREW", f"/{SECRET}")
        caregiver.get("/readyz")
        caregiver.post_graphql("{ viewer { role } }")

    lines = [json.loads(line) for line in text.getvalue().splitlines()]
    entry = [[line[name] for name in ("logger", "method", "route", "status")] for line in lines]
    assert entry == [
        ["care.requests", "GET", f"{ASSIGNMENTS}/{{id}}", 200],
        ["care.requests", "other", "other", 404],
        ["care.requests", "POST", "/graphql", 200],
    ]
    assert [line.get("requestId", "") for line in lines][:2] == ["one", ""]
    assert len(lines[2]["requestId"]) == 32
    assert all(0 < line["seconds"] < 60 for line in lines)
    assert SECRET not in text.getvalue()


@ON_SQLITE
def test_requests_are_not_logged_by_default(settings: Settings) -> None:
    with in_production(settings) as gateway, log(JsonFormatter()) as text:
        gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1")

    assert text.getvalue() == ""


@ON_SQLITE
def test_a_line_of_text_names_the_request_once(settings: Settings) -> None:
    with in_production(settings, log_requests=True) as gateway, log(TextFormatter(has_colours=False)) as text:
        raw.run(settings.database, "ALTER TABLE assignment RENAME TO homework")
        gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1", headers={"x-request-id": "one"})

    first, *frames, last = text.getvalue().splitlines()
    assert first == "ERROR:    fault in request one"
    assert frames[0] == "Traceback (most recent call last):"
    assert last.startswith(f"INFO:     GET {ASSIGNMENTS}/{{id}} 500 in ")
    assert last.endswith(" ms (request one)")


@ON_SQLITE
def test_each_request_of_a_task_is_logged_under_its_own_id(settings: Settings) -> None:
    with in_production(settings, log_requests=True) as gateway, log(JsonFormatter()) as text:
        application: Any = gateway.client.app
        caller = gateway.as_caregiver(1)

        async def ask() -> None:
            for headers in ({"x-request-id": "one"}, {}, {"x-request-id": "three"}):
                await application(scope_of(caller, "GET", f"{ASSIGNMENTS}/1", **headers), None, send)

        async def send(message: Any) -> None: ...

        assert gateway.client.portal is not None
        gateway.client.portal.call(ask)

    first, second, third = [json.loads(line)["requestId"] for line in text.getvalue().splitlines()]
    assert (first, len(second), third) == ("one", 32, "three")


@ON_SQLITE
def test_of_many_equal_errors_only_the_number_is_logged(settings: Settings) -> None:
    limit = LineLimit()
    with in_production(settings) as gateway, log(JsonFormatter(), limit=limit) as text:
        raw.run(settings.database, "ALTER TABLE assignment RENAME TO homework")
        for _ in range(MAX_LINES + 5):
            assert gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1").status_code == 500
        logging.getLogger("care.legacy").warning("of another place")
        passed = limit.ticks() + MINUTE
        limit.ticks = lambda: passed
        gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1")

    lines = [json.loads(line) for line in text.getvalue().splitlines()]
    errors = [line["message"].startswith("fault in request") for line in lines]
    assert errors == [True] * MAX_LINES + [False, True]
    assert [line.get("omitted") for line in lines] == [None] * (MAX_LINES + 1) + [5]


@pytest.mark.parametrize("part, value", [("lineno", 2), ("pathname", "a folder/a file")])
def test_two_lines_of_one_function_and_two_files_of_one_name_have_a_limit_each(part: str, value: Any) -> None:
    limit = LineLimit()
    one, other = record("one"), record("other")
    setattr(other, part, value)

    assert [limit.filter(one) for _ in range(MAX_LINES + 1)] == [True] * MAX_LINES + [False]
    assert limit.filter(other)


@pytest.mark.parametrize("name", ["care.auth", "care.cors", "care.documents", "care.requests"])
def test_loggers_with_limits_of_their_own_have_no_other(name: str) -> None:
    limit, one = LineLimit(), record("one")
    one.name = name

    assert all(limit.filter(one) for _ in range(2 * MAX_LINES))


def test_an_error_that_stays_is_logged_every_minute() -> None:
    """Each minute begins with the number of lines that the one before has omitted."""
    limit, minutes = LineLimit(), []
    for minute in (0, 1, 3, 4, 5):
        limit.ticks = lambda: minute * MINUTE + 59.9  # noqa: B023
        lines = [record("one") for _ in range({3: MAX_LINES, 4: MAX_LINES - 1}.get(minute, MAX_LINES + 2))]
        passed = [limit.filter(line) for line in lines]
        minutes.append((passed.count(True), getattr(lines[0], OMITTED, 0), hasattr(lines[1], OMITTED)))

    assert minutes == [(10, 0, False), (10, 2, False), (10, 2, False), (9, 0, False), (10, 0, False)]


@ON_SQLITE
def test_every_response_is_logged_if_that_is_enabled(settings: Settings) -> None:
    with (
        in_production(settings, log_requests=True) as gateway,
        log(JsonFormatter(), limit=LineLimit()) as text,
    ):
        for _ in range(MAX_LINES + 5):
            gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1")

    assert len(text.getvalue().splitlines()) == MAX_LINES + 5


def test_a_line_of_text_names_the_number_of_omitted_lines() -> None:
    one = record("an error")
    setattr(one, OMITTED, 7)

    text = TextFormatter(has_colours=False).format(one)

    assert text == "WARNING:  an error (7 such lines were omitted)"


@pytest.mark.parametrize(
    ("level", "has_colours", "label"),
    [
        (logging.WARNING, True, "\033[33mWARNING:  \033[0m"),
        (logging.ERROR, True, "\033[31mERROR:    \033[0m"),
        (logging.CRITICAL, True, "\033[31mCRITICAL: \033[0m"),
        (logging.INFO, True, "INFO:     "),
        (logging.ERROR, False, "ERROR:    "),
    ],
)
def test_a_terminal_shows_warnings_in_colour(level: int, has_colours: bool, label: str) -> None:
    one = logging.LogRecord("care", level, "a file", 1, "a line", (), None)

    assert TextFormatter(has_colours).format(one) == f"{label}a line"


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("care", logging.WARNING, "a file", 1, message, arguments, None)


def test_a_message_of_several_lines_is_one_json_line() -> None:
    line = JsonFormatter().format(record('one\ntwo "three" %s', "\u2028four"))

    assert "\n" not in line
    assert json.loads(line)["message"] == 'one\ntwo "three" \u2028four'


def test_unpaired_surrogates_are_replaced() -> None:
    one = record("half \ud83d")
    setattr(one, LOG_FIELDS, {"status": 404, "route": "/\ud83d"})

    entry = json.loads(JsonFormatter().format(one))

    assert (entry["message"], entry["status"], entry["route"]) == ("half ?", "404", "/?")


def test_a_message_of_the_maximum_length_is_complete() -> None:
    """In characters, not in bytes."""
    assert json.loads(JsonFormatter().format(record("ü" * MAX_MESSAGE)))["message"] == "ü" * MAX_MESSAGE


def test_long_messages_and_tracebacks_are_truncated() -> None:
    one = record("x" * 2 * MAX_MESSAGE)
    one.exc_text = "beginning " + "y" * MAX_TRACEBACK + " end"

    entry = json.loads(JsonFormatter().format(one))

    assert entry["message"] == "x" * MAX_MESSAGE + " ..."
    assert entry["fault"].startswith("... yyy")
    assert entry["fault"].endswith("y end")
    assert len(entry["fault"]) == MAX_TRACEBACK + len("... ")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LogFormat.AUTO, JsonFormatter),  # tests have no terminal
        (LogFormat.JSON, JsonFormatter),
        (LogFormat.TEXT, TextFormatter),
    ],
)
def test_the_setting_selects_the_log_format(text: LogFormat, kind: type) -> None:
    configuration = logging.config.DictConfigurator(config_of(Settings(log_format=text)))

    assert type(configuration.configure_formatter(configuration.config["formatters"]["default"])) is kind
    handler = configuration.config["handlers"]["default"]
    assert handler["filters"] == ["limit"]
    assert type(configuration.configure_filter(configuration.config["filters"]["limit"])) is LineLimit


@pytest.mark.parametrize(("text", "kind"), [(LogFormat.AUTO, TextFormatter), (LogFormat.JSON, JsonFormatter)])
def test_a_terminal_gets_text_by_default(
    monkeypatch: pytest.MonkeyPatch, text: LogFormat, kind: type
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    configuration = logging.config.DictConfigurator(config_of(Settings(log_format=text)))
    formatter = configuration.configure_formatter(configuration.config["formatters"]["default"])

    assert type(formatter) is kind
    assert getattr(formatter, "has_colours", True)


@pytest.mark.parametrize("level", ["debug", "warning"])
def test_the_setting_selects_the_level_of_the_service_and_of_the_server(level: str) -> None:
    """Libraries log warnings at every level, because their lines of information may contain values."""
    found = config_of(Settings.model_validate({"log_level": level}))

    own = {"level": level.upper()}
    assert found["loggers"] == {"care": own, "uvicorn": own}
    assert (found["root"]["level"], found["disable_existing_loggers"]) == ("WARNING", False)


def test_an_unknown_log_format_is_rejected() -> None:
    refused = CliRunner().invoke(main, ["demo"], env={"CARE_LOG_FORMAT": "xml"})

    assert refused.exit_code == 2
    assert refused.stderr == "care-gateway: CARE_LOG_FORMAT must be 'auto', 'text' or 'json'\n"


def test_the_time_of_a_line_is_in_utc() -> None:
    record = logging.makeLogRecord({"created": NOW.timestamp(), "msg": "a line"})

    assert json.loads(JsonFormatter().format(record))["time"] == "2026-11-21T09:00:00.000+00:00"
