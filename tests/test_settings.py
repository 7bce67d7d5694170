"""Promise: the service is configured only by CARE_* variables, with safe defaults. An invalid value or a
misspelt name is rejected in one sentence that names the variable and not its value."""

import os
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from click.testing import CliRunner

from app.cli import main
from app.settings import (
    Environment,
    LogFormat,
    Retention,
    Settings,
    SettingsError,
    Trust,
    read_settings,
    unknown_variables,
    variable,
)

DEFAULTS = {
    "env": Environment.PRODUCTION,
    "database_url": "",
    "var": "var",
    "host": "127.0.0.1",
    "port": 8000,
    "time_zone": "UTC",
    "log_level": "info",
    "log_format": LogFormat.AUTO,
    "log_requests": False,
    "metrics_port": 0,
    "metrics_host": "127.0.0.1",
    "token_key": "",
    "token_jwks": "",
    "token_secret": "",
    "token_issuer": "",
    "token_audience": "",
    "token_leeway": 10,
    "token_cache": 4096,
    "claim_user": "user_name",
    "claim_role": "authorities",
    "cors_origins": "",
    "trusted_documents": Trust.OFF,
    "trusted_manifest": "",
    "engine": True,
    "dispatcher": True,
    "audit": True,
    "webhook_url": "",
    "webhook_secret": "",
    "read_threads": 4,
    "loop_read_ms": 5,
    "litestream_socket": "",
    "retention_events": 365,
    "retention_deliveries": 90,
    "retention_drafts": 365,
    "retention_audit": 0,
    "legacy_retry_window": 60,
    "legacy_deprecated": None,
    "legacy_sunset": None,
    "legacy_notice": "",
    "legacy_body_limit": 65_536,
    "graphql_body_limit": 262_144,
    "most_requests": 256,
    "drain_seconds": 2,
    "token_limit": 2000,
    "depth_limit": 15,
    "cost_limit": 15_000,
    "response_limit": 4_194_304,
    "rate_limit": None,
    "identifier_limit": None,
    "introspection": None,
    "recent_requests": 50,
}

VALUES = {
    "CARE_ENV": ("development", Environment.DEVELOPMENT),
    "CARE_DATABASE_URL": ("postgresql://care@db/care", "postgresql://care@db/care"),
    "CARE_VAR": ("elsewhere", "elsewhere"),
    "CARE_HOST": ("0.0.0.0", "0.0.0.0"),
    "CARE_PORT": ("8443", 8443),
    "CARE_TIME_ZONE": ("Europe/Berlin", "Europe/Berlin"),
    "CARE_LOG_LEVEL": ("debug", "debug"),
    "CARE_LOG_FORMAT": ("json", LogFormat.JSON),
    "CARE_LOG_REQUESTS": ("on", True),
    "CARE_METRICS_PORT": ("9464", 9464),
    "CARE_METRICS_HOST": ("0.0.0.0", "0.0.0.0"),
    "CARE_TOKEN_KEY": ("issuer.pem", "issuer.pem"),
    "CARE_TOKEN_JWKS": ("keys.json", "keys.json"),
    "CARE_TOKEN_SECRET": ("a secret", "a secret"),
    "CARE_TOKEN_ISSUER": ("issuer", "issuer"),
    "CARE_TOKEN_AUDIENCE": ("care", "care"),
    "CARE_TOKEN_LEEWAY": ("0", 0),
    "CARE_TOKEN_CACHE": ("0", 0),
    "CARE_CLAIM_USER": ("sub", "sub"),
    "CARE_CLAIM_ROLE": ("groups", "groups"),
    "CARE_CORS_ORIGINS": ("https://a.test http://localhost:3000", "https://a.test http://localhost:3000"),
    "CARE_TRUSTED_DOCUMENTS": ("audit", Trust.AUDIT),
    "CARE_TRUSTED_MANIFEST": ("manifest.json", "manifest.json"),
    "CARE_ENGINE": ("off", False),
    "CARE_DISPATCHER": ("off", False),
    "CARE_AUDIT": ("off", False),
    "CARE_WEBHOOK_URL": ("https://example.test/care", "https://example.test/care"),
    "CARE_WEBHOOK_SECRET": ("whsec_secret", "whsec_secret"),
    "CARE_READ_THREADS": ("64", 64),
    "CARE_LOOP_READ_MS": ("0", 0),
    "CARE_LITESTREAM_SOCKET": ("litestream.sock", "litestream.sock"),
    "CARE_RETENTION_EVENTS": ("7", 7),
    "CARE_RETENTION_DELIVERIES": ("1", 1),
    "CARE_RETENTION_DRAFTS": ("0", 0),
    "CARE_RETENTION_AUDIT": ("3650", 3650),
    "CARE_LEGACY_RETRY_WINDOW": ("0", 0),
    "CARE_LEGACY_DEPRECATED": ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
    "CARE_LEGACY_SUNSET": ("2027-07-31T12:00:00+02:00", datetime(2027, 7, 31, 10, tzinfo=UTC)),
    "CARE_LEGACY_NOTICE": ("", ""),  # needs one of these two: test_deprecation.py
    "CARE_LEGACY_BODY_LIMIT": ("1024", 1024),
    "CARE_GRAPHQL_BODY_LIMIT": ("1048576", 1_048_576),
    "CARE_MOST_REQUESTS": ("1", 1),
    "CARE_DRAIN_SECONDS": ("0", 0),
    "CARE_TOKEN_LIMIT": ("500", 500),
    "CARE_DEPTH_LIMIT": ("10", 10),
    "CARE_COST_LIMIT": ("1000", 1000),
    "CARE_RESPONSE_LIMIT": ("65536", 65_536),
    "CARE_RATE_LIMIT": ("0", 0),
    "CARE_IDENTIFIER_LIMIT": ("7", 7),
    "CARE_INTROSPECTION": ("on", True),
    "CARE_RECENT_REQUESTS": ("0", 0),
}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("CARE_"):
            monkeypatch.delenv(name)


def test_an_unconfigured_service_is_a_production_service_with_safe_defaults() -> None:
    assert read_settings().model_dump() == DEFAULTS


@pytest.mark.parametrize("name", VALUES)
def test_every_variable_is_read(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text, value = VALUES[name]
    monkeypatch.setenv(name, text)

    found = read_settings().model_dump()

    assert found == DEFAULTS | {name.removeprefix("CARE_").lower(): value}
    assert {each.tzinfo for each in found.values() if isinstance(each, datetime)} <= {UTC}  # == converts


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VALUES:
        monkeypatch.setenv(name, "")

    assert read_settings().model_dump() == DEFAULTS


@pytest.mark.parametrize("name", ["care_env", "Care_Env", "Care_Prot"])
def test_a_name_in_another_case_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "development")

    with pytest.raises(SettingsError, match=f"^{name} is not a setting; did you mean CARE_"):
        read_settings()


def test_the_tables_above_are_complete() -> None:
    assert list(DEFAULTS) == list(Settings.model_fields)
    assert list(VALUES) == [variable(field) for field in Settings.model_fields]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("database_url", "postgresql://care:hidden@db/care"),
        ("token_jwks", "https://issuer.example.test/keys?code=hidden"),
        ("token_secret", "hidden"),
        ("webhook_url", "https://example.test/hidden"),
        ("webhook_secret", "hidden"),
    ],
)
def test_printed_settings_contain_no_secret(name: str, value: str) -> None:
    settings = Settings.model_validate({name: value})

    assert (value in repr(settings), "hidden" in f"{settings!r} {settings}") == (False, False)


DATE = "must be a day such as 2027-01-31, or a moment such as 2027-01-31T09:00:00Z"
DAYS = "must be 0 (keep forever) or a number of days from {} to 36500"
INTEGER = "must be a valid integer"
ZONE = "is not a known time zone such as Europe/Berlin"
LEVEL = "must be 'debug', 'info', 'warning' or 'error'"
DATABASE = "must begin with sqlite:/// or postgresql://"
FILE = "must be sqlite:/// and the path of a file, without parameters"
PRIMARY = "must have target_session_attrs=read-write, or none: the service does not read from standbys"

ANY_ORIGIN = "must name each origin; * is not accepted"
ORIGINS = (
    "must be origins as browsers send them, such as https://app.example.test: lower case, no path, no "
    "default port, separated by spaces or commas"
)

INVALID = [
    ("CARE_CORS_ORIGINS", "*", ANY_ORIGIN),
    ("CARE_CORS_ORIGINS", "https://*.example.test", ANY_ORIGIN),
    ("CARE_CORS_ORIGINS", "https://a.test;https://b.test", ORIGINS),
    ("CARE_CORS_ORIGINS", "https://a.test https://B.test", ORIGINS),
    ("CARE_CORS_ORIGINS", "https://A.test https://b.test", ORIGINS),
    ("CARE_CORS_ORIGINS", "https://a.test/", ORIGINS),
    ("CARE_CORS_ORIGINS", "https://a.test:443", ORIGINS),
    ("CARE_CORS_ORIGINS", "http://a.test:80", ORIGINS),
    ("CARE_CORS_ORIGINS", "https://me@a.test", ORIGINS),
    ("CARE_CORS_ORIGINS", "a.test", ORIGINS),
    ("CARE_CORS_ORIGINS", "null", ORIGINS),
    ("CARE_CORS_ORIGINS", "http://a.test:080", ORIGINS),
    ("CARE_TRUSTED_DOCUMENTS", "on", "must be 'off', 'audit' or 'enforce'"),
    ("CARE_ENV", "staging", "must be 'development' or 'production'"),
    ("CARE_ENV", "Production", "must be 'development' or 'production'"),
    ("CARE_CORS_ORIGINS", "http://a.test:123456", ORIGINS),
    ("CARE_CORS_ORIGINS", "1http://a.test", ORIGINS),
    ("CARE_PORT", "http-alt", INTEGER),
    ("CARE_PORT", "tcp://10.9.8.7:80", INTEGER),
    ("CARE_PORT", "0", "must be greater than or equal to 1"),
    ("CARE_PORT", "65536", "must be less than or equal to 65535"),
    ("CARE_TIME_ZONE", "Mars/Olympus", ZONE),
    ("CARE_TIME_ZONE", "../../etc/passwd", ZONE),
    ("CARE_TIME_ZONE", "Europe", ZONE),
    ("CARE_LOG_LEVEL", "loud", LEVEL),
    ("CARE_LOG_LEVEL", "INFO", LEVEL),
    ("CARE_DATABASE_URL", "mysql://care:hunter2hunter2@db/care", DATABASE),
    ("CARE_DATABASE_URL", "care.db", DATABASE),
    ("CARE_DATABASE_URL", "sqlite://care.db", DATABASE),
    ("CARE_DATABASE_URL", "sqlite:///:memory:", FILE),
    ("CARE_DATABASE_URL", "sqlite:////srv/care.db?mode=ro", FILE),
    ("CARE_DATABASE_URL", "postgresql://db/care?sslmode=require&target_session_attrs=any", PRIMARY),
    ("CARE_DATABASE_URL", "postgresql://db/care?target_session_attrs=primary-or-any", PRIMARY),
    ("CARE_TOKEN_LEEWAY", "-1", "must be greater than or equal to 0"),
    ("CARE_TOKEN_LEEWAY", "301", "must be less than or equal to 300"),
    ("CARE_TOKEN_CACHE", "many", INTEGER),
    ("CARE_TOKEN_CACHE", "100001", "must be less than or equal to 100000"),
    ("CARE_READ_THREADS", "0", "must be greater than or equal to 1"),
    ("CARE_READ_THREADS", "65", "must be less than or equal to 64"),
    ("CARE_LOOP_READ_MS", "-1", "must be greater than or equal to 0"),
    ("CARE_LOOP_READ_MS", "1001", "must be less than or equal to 1000"),
    ("CARE_LOOP_READ_MS", "2.5", INTEGER),
    ("CARE_LEGACY_RETRY_WINDOW", "-1", "must be greater than or equal to 0"),
    ("CARE_LEGACY_RETRY_WINDOW", "86401", "must be less than or equal to 86400"),
    ("CARE_LEGACY_RETRY_WINDOW", "a minute", INTEGER),
    ("CARE_RETENTION_EVENTS", "6", DAYS.format(7)),
    ("CARE_RETENTION_DELIVERIES", "-1", DAYS.format(1)),
    ("CARE_RETENTION_DRAFTS", "1y", INTEGER),
    ("CARE_RETENTION_AUDIT", "29", DAYS.format(30)),
    ("CARE_RETENTION_AUDIT", "40000", DAYS.format(30)),
    ("CARE_LEGACY_DEPRECATED", "soon", DATE),
    ("CARE_LEGACY_DEPRECATED", "2027-02-30", DATE),
    ("CARE_LEGACY_DEPRECATED", "1800000000", DATE),
    ("CARE_LEGACY_DEPRECATED", "2027-01-31T09:00:00", DATE),
    ("CARE_LEGACY_DEPRECATED", "0001-01-01T00:00:00+01:00", DATE),
    ("CARE_LEGACY_SUNSET", "31.07.2027", DATE),
    ("CARE_LEGACY_NOTICE", "www.example.test", "must be an address such as https://example.test/leaving"),
    *(
        (
            "CARE_LEGACY_NOTICE",
            f"https://a.test/{end}",
            "must be an address such as https://example.test/leaving",
        )
        for end in ("<", ">", ";", ",", '"', " a", "é", "\n")  # which could end the Link header
    ),
    ("CARE_LEGACY_NOTICE", "https://a.test/leaving", "needs CARE_LEGACY_DEPRECATED or CARE_LEGACY_SUNSET"),
    ("CARE_TOKEN_LIMIT", "0", "must be greater than or equal to 1"),
    ("CARE_TOKEN_LIMIT", "100001", "must be less than or equal to 100000"),
    ("CARE_DEPTH_LIMIT", "65", "must be less than or equal to 64"),
    ("CARE_COST_LIMIT", "none", INTEGER),
    ("CARE_RESPONSE_LIMIT", "65535", "must be greater than or equal to 65536"),
    ("CARE_RATE_LIMIT", "-1", "must be greater than or equal to 0"),
    ("CARE_IDENTIFIER_LIMIT", "-1", "must be greater than or equal to 0"),
]


@pytest.mark.parametrize(("name", "text", "reason"), INVALID, ids=[f"{n}={t}" for n, t, _ in INVALID])
def test_an_invalid_value_is_rejected(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, reason: str
) -> None:
    monkeypatch.setenv(name, text)

    with pytest.raises(SettingsError) as error:
        read_settings()

    assert str(error.value) == f"{name} {reason}"


VALID = [
    ("CARE_CORS_ORIGINS", "http://a.test:8080,https://a.test:4430 https://a.test:80,http://a.test:443"),
    ("CARE_CORS_ORIGINS", "http://[::1]:3000 capacitor://localhost chrome-extension://abc"),
    (
        "CARE_CORS_ORIGINS",
        "http://my_app-1.test:65535 com.example.app://localhost web+care2://a http://10.0.0.1",
    ),
    ("CARE_DATABASE_URL", "sqlite:////srv/care+1 #2 %20/care.db"),
    ("CARE_DATABASE_URL", "postgres://care@db/care"),
    ("CARE_DATABASE_URL", "postgresql://db/care?target_session_attrs=primary&sslmode=require"),
    ("CARE_DATABASE_URL", "postgresql://db/care?sslmode=require&target_session_attrs=read-write"),
    ("CARE_RETENTION_DRAFTS", "36500"),
]


@pytest.mark.parametrize(("name", "text"), VALID)
def test_an_unusual_value_is_accepted(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(name, text)

    assert str(getattr(read_settings(), name.removeprefix("CARE_").lower())) == text


def test_a_moment_with_any_offset_is_read_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARE_LEGACY_SUNSET", "2027-07-31T20:30:00-03:30")

    assert read_settings().legacy_sunset == datetime(2027, 8, 1, tzinfo=UTC)


def test_a_notice_page_may_have_any_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARE_LEGACY_SUNSET", "2027-07-31")
    pages = ("http://127.0.0.1:8080/a_b~c.html", "https://1.test/%C3%BC?a=b&c[]=(d)*+!$'@x:#y-z")
    for page in pages:
        monkeypatch.setenv("CARE_LEGACY_NOTICE", page)

        assert read_settings().legacy_notice == page


def test_each_kind_of_rows_is_kept_for_its_own_period(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, kind in enumerate(("EVENTS", "DELIVERIES", "DRAFTS", "AUDIT"), 100):
        monkeypatch.setenv(f"CARE_RETENTION_{kind}", str(number))

    assert read_settings().retention == Retention(events=100, deliveries=101, drafts=102, audit=103)


def test_a_period_of_retention_ends_at_midnight_in_utc_in_every_zone() -> None:
    moment = datetime(2027, 1, 31, 1, 30, 7, 5, tzinfo=timezone(timedelta(hours=2)))

    found = [
        Retention(1, 2, 3, 0).before(kind, moment) for kind in ("events", "deliveries", "drafts", "audit")
    ]

    assert found == [*(datetime(2027, 1, day, tzinfo=UTC) for day in (29, 28, 27)), None]


BOUNDS = {
    "CARE_PORT": (1, 65_535),
    "CARE_METRICS_PORT": (0, 65_535),
    "CARE_TOKEN_LEEWAY": (0, 300),
    "CARE_TOKEN_CACHE": (0, 100_000),
    "CARE_READ_THREADS": (1, 64),
    "CARE_LOOP_READ_MS": (0, 1000),
    "CARE_RETENTION_EVENTS": (7, 36_500),
    "CARE_RETENTION_DELIVERIES": (0, 36_500),
    "CARE_RETENTION_DRAFTS": (0, 36_500),
    "CARE_RETENTION_AUDIT": (30, 36_500),
    "CARE_LEGACY_RETRY_WINDOW": (0, 86_400),
    "CARE_LEGACY_BODY_LIMIT": (1024, 16_777_216),
    "CARE_GRAPHQL_BODY_LIMIT": (1024, 16_777_216),
    "CARE_MOST_REQUESTS": (1, 100_000),
    "CARE_DRAIN_SECONDS": (0, 300),
    "CARE_TOKEN_LIMIT": (1, 100_000),
    "CARE_DEPTH_LIMIT": (1, 64),
    "CARE_COST_LIMIT": (1, 10_000_000),
    "CARE_RESPONSE_LIMIT": (65_536, 1_073_741_824),
    "CARE_RATE_LIMIT": (0, 1_000_000_000),
    "CARE_IDENTIFIER_LIMIT": (0, 1_000_000),
    "CARE_RECENT_REQUESTS": (0, 1000),
}


def is_accepted(name: str, number: int) -> bool:
    try:
        Settings.model_validate({name.removeprefix("CARE_").lower(): number})
    except ValueError:
        return False
    return True


def test_numbers_are_accepted_within_their_bounds() -> None:
    fields = Settings.model_fields.items()
    assert list(BOUNDS) == [
        variable(name) for name, field in fields if int in (field.annotation, *get_args(field.annotation))
    ]

    for name, (least, most) in BOUNDS.items():
        found = [is_accepted(name, number) for number in (least - 1, least, most, most + 1)]
        assert found == [False, True, True, False], name


@pytest.mark.parametrize(
    ("env", "points", "identifiers", "effective"),
    [
        ("production", None, None, (300_000, 30)),
        ("production", 0, 0, (0, 0)),
        ("production", 7, 8, (7, 8)),
        ("development", None, None, (0, 0)),
        ("development", 7, 8, (7, 8)),
    ],
)
def test_only_production_limits_rates_by_default(
    env: str, points: int | None, identifiers: int | None, effective: tuple[int, int]
) -> None:
    settings = Settings(env=Environment(env), rate_limit=points, identifier_limit=identifiers)

    assert (settings.points_per_minute, settings.identifiers_per_hour) == effective


def test_all_invalid_values_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARE_IDENTIFIER_LIMIT", "-1")
    monkeypatch.setenv("CARE_RATE_LIMIT", "-1")

    with pytest.raises(SettingsError) as error:
        read_settings()

    reason = "must be greater than or equal to 0"
    assert str(error.value) == f"CARE_RATE_LIMIT {reason}; CARE_IDENTIFIER_LIMIT {reason}"


MISSPELT = {
    "CARE_DATABSE_URL": "CARE_DATABASE_URL",
    "CARE_DATABASE_URI": "CARE_DATABASE_URL",
    "CARE_DATABASEURL": "CARE_DATABASE_URL",
    "CARE_TIMEZONE": "CARE_TIME_ZONE",
    "CARE_TOKEN_KEYS": "CARE_TOKEN_KEY",
    "CARE_TOKEN_JWK": "CARE_TOKEN_JWKS",
    "CARE_TOKEN_ISSUERS": "CARE_TOKEN_ISSUER",
    "CARE_TOKEN_SECRETS": "CARE_TOKEN_SECRET",
    "CARE_TOKEN_AUDIENCES": "CARE_TOKEN_AUDIENCE",
    "CARE_CLAIM_ROLES": "CARE_CLAIM_ROLE",
    "CARE_LOGLEVEL": "CARE_LOG_LEVEL",
    "CARE_READ_THREAD": "CARE_READ_THREADS",
    "CARE_WEBHOOK_URI": "CARE_WEBHOOK_URL",
    "CARE_WEBHOOK_SECRETS": "CARE_WEBHOOK_SECRET",
    "CARE_DISPATCH": "CARE_DISPATCHER",
    "CARE_ENVI": "CARE_ENV",
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_name_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("CARE_API_PORT_80_TCP_ADDR", "10.0.0.1")  # of a container platform
    monkeypatch.setenv(name, "a secret value")

    with pytest.raises(SettingsError) as error:
        read_settings()

    assert str(error.value) == f"{name} is not a setting; did you mean {MISSPELT[name]}?"


INJECTED = {
    "CARE_SERVICE_PORT": "80",
    "CARE_GATEWAY_PORT": "tcp://10.0.0.1:80",
    "CARE_GATEWAY_PORT_80_TCP_ADDR": "10.0.0.1",
    "CARE_GATEWAY_SERVICE_HOST": "10.0.0.1",
    "CARE_SERVICE_HOST": "10.0.0.1",
}


def test_variables_of_a_container_platform_are_only_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in INJECTED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CAREFUL", "no setting at all")

    assert read_settings().model_dump() == DEFAULTS
    assert unknown_variables(os.environ) == sorted(INJECTED)
    result = CliRunner().invoke(main, ["token", "--role", "client", "--user", "x"])
    warnings = [f"care-gateway: warning: {name} is not a setting and is ignored" for name in sorted(INJECTED)]
    assert result.stderr.splitlines()[:-1] == warnings


DISPLAYED = {"True": "on", "False": "off", "''": "empty", "None": "unset"}


def test_the_settings_command_lists_every_variable_with_its_default_and_description() -> None:
    result = CliRunner().invoke(main, ["settings"])

    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[0::2] == [
        f"{variable(field)} (default: {DISPLAYED.get(repr(default), default)})"
        for field, default in DEFAULTS.items()
    ]
    descriptions = [field.description for field in Settings.model_fields.values()]
    assert all(descriptions)
    assert lines[1::2] == [f"    {description}" for description in descriptions]


def test_the_settings_command_shows_values_but_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    pem = "friendlyName: issuer\n-----BEGIN PRIVATE KEY-----"
    for name, value in {
        "PORT": "many",
        "METRICS_PORT": " ",
        "DATABASE_URL": "hidden",
        "TOKEN_KEY": pem,
        "HOST": "",
    }.items():
        monkeypatch.setenv(f"CARE_{name}", value)

    result = CliRunner().invoke(main, ["settings"])

    assert (result.exit_code, result.stderr, "hidden" in result.stdout, pem in result.stdout) == (
        0,
        "",
        False,
        False,
    )
    assert [line for line in result.stdout.splitlines() if "; set" in line] == [
        "CARE_DATABASE_URL (default: empty; set, not shown)",
        "CARE_PORT (default: 8000; set to many)",
        "CARE_METRICS_PORT (default: 0; set to  )",
        "CARE_TOKEN_KEY (default: empty; set, not shown)",
    ]


def test_the_default_database_is_a_file_under_var(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARE_VAR", "some/folder")

    assert read_settings().database == f"sqlite:///{os.path.abspath('some/folder')}/care.db"
