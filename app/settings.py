"""Every setting of the service: CARE_* environment variables, read once."""

import difflib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "CARE_"
USUAL_RATE = 300_000  # points in a minute
USUAL_IDENTIFIERS = 30  # an hour


class SettingsError(Exception):
    """A setting is missing, unreadable or misspelt; the message is one sentence for the operator."""


class Environment(StrEnum):
    DEVELOPMENT = "development"
    PRODUCTION = "production"


class LogFormat(StrEnum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


class Trust(StrEnum):
    """Whether GraphQL documents that are not in the manifest may run."""

    OFF = "off"
    AUDIT = "audit"
    ENFORCE = "enforce"


# As browsers send it: lower case, no path, no default port.
ORIGIN = re.compile(
    r"(?!https://.*:443$|http://.*:80$)[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?"
)


def separated(value: str) -> list[str]:
    return value.replace(",", " ").split()


PAGE = re.compile(
    r"https?://[A-Za-z0-9](?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+=%-]*)"
)  # without characters that end a Link header
MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2}:[0-9]{2}))?")


def read_moment(value: object) -> object:
    """A day means its midnight in UTC. Numbers and local times, which pydantic accepts, are rejected."""
    if value is None or isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and MOMENT.fullmatch(value):
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be a day such as 2027-01-31, or a moment such as 2027-01-31T09:00:00Z")


Moment = Annotated[datetime, BeforeValidator(read_moment)]


class Retention(NamedTuple):
    """Days for which each kind of rows is kept; 0: for ever."""

    events: int
    deliveries: int
    drafts: int
    audit: int

    def before(self, kind: str, now: datetime) -> datetime | None:
        """Rows older than this are removed, in whole days in UTC."""
        days: int = getattr(self, kind)
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - timedelta(days=days) if days else None


KEEP_ALL = Retention(0, 0, 0, 0)


def days_or_for_ever(least: int) -> BeforeValidator:
    """A plausible number of days, or 0."""

    def read(value: object) -> object:
        text = str(value)
        if text.isascii() and text.isdigit() and (text == "0" or least <= int(text) <= 36_500):
            return int(text)
        raise ValueError(f"must be 0 (kept for ever) or a number of days from {least} to 36500")

    return BeforeValidator(read)


class Settings(BaseSettings):
    """Defaults are safe: an unconfigured service is a production service."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, hide_input_in_errors=True, env_ignore_empty=True
    )

    env: Environment = Field(
        Environment.PRODUCTION,
        description="production, or development: own keys, the GraphQL page, introspection without a token",
    )
    database_url: str = Field(
        "",
        description="sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME; empty: care.db under CARE_VAR",
        repr=False,  # an address may hold a password
    )
    var: str = Field("var", description="folder of the embedded database and of development keys")
    host: str = Field("127.0.0.1", description="address that `serve` listens on")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(8000, description="port that `serve` listens on")
    time_zone: str = Field("UTC", description="time zone of local times on the legacy paths")
    log_level: str = Field("info", description="debug, info, warning or error")
    log_format: LogFormat = Field(
        LogFormat.AUTO, description="text, json: one object a line, or auto: text on a terminal, else json"
    )
    log_requests: bool = Field(False, description="on or off: log every request")
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        0, description="port that serves /metrics and nothing else; 0: none"
    )
    metrics_host: str = Field("127.0.0.1", description="address of that port")
    token_key: str = Field(
        "",
        description="public keys that verify tokens (RS256, ES256): PEM text, or the path of a file that is "
        "read again when it changes",
    )
    token_jwks: str = Field(
        "",
        description="key set that verifies tokens: path or https:// URL of a JWKS document; read again",
        repr=False,
    )
    token_secret: str = Field(
        "", description="shared secret that verifies tokens (HS256); development only", repr=False
    )
    token_issuer: str = Field("", description="required `iss` of a token; empty: any")
    token_audience: str = Field("", description="required `aud` of a token; empty: any")
    token_leeway: Annotated[int, Field(ge=0, le=300)] = Field(
        10, description="clock difference in seconds that is allowed for the times of a token"
    )
    token_cache: Annotated[int, Field(ge=0, le=100_000)] = Field(
        4096,
        description="verified tokens to cache for up to 60 s, and their accounts for 5 s; 0: none",
    )
    claim_user: str = Field("user_name", description="claim with the user name; `sub` if it is absent")
    claim_role: str = Field(
        "authorities",
        description="claim with the role; `role` or `roles` if it is absent",
    )
    cors_origins: str = Field(
        "",
        description="other origins whose pages may send requests, such as https://app.example.test, "
        "separated by spaces or commas; in development also every origin of this machine",
    )
    trusted_documents: Trust = Field(
        Trust.OFF,
        description="off; audit: log GraphQL documents that are not in the manifest; enforce: reject them",
    )
    trusted_manifest: str = Field("", description="path of the manifest of trusted documents, a JSON file")
    engine: bool = Field(
        True, description="on or off; off: Strawberry executes GraphQL operations, which is slower"
    )
    dispatcher: bool = Field(
        True,
        description="on or off; off: `care-gateway worker` processes reminders and events instead of `serve`",
    )
    audit: bool = Field(
        True,
        description="on, or off in development only: reads of answers and changes are then not recorded",
    )
    webhook_url: str = Field(
        "",
        description="address that receives events: https://, or http:// on this machine; empty: none",
        repr=False,
    )
    webhook_secret: str = Field(
        "",
        description="signing secrets, separated by spaces: whsec_ and base64 (Standard Webhooks)",
        repr=False,
    )
    read_threads: Annotated[int, Field(ge=1, le=64)] = Field(
        4,
        description="threads for long reads of the embedded database; connections of the pool on PostgreSQL",
    )
    loop_read_ms: Annotated[int, Field(ge=0, le=1000)] = Field(
        5,
        description="milliseconds after which a read of the embedded database moves from the event loop to a "
        "thread; 0: threads only",
    )

    retention_events: Annotated[int, days_or_for_ever(7)] = Field(
        365,
        description="days for which events are kept, so that subscriptions can resume from them; 0: for ever",
    )
    retention_deliveries: Annotated[int, days_or_for_ever(1)] = Field(
        90, description="days for which a dead delivery is kept; 0: for ever"
    )
    retention_drafts: Annotated[int, days_or_for_ever(1)] = Field(
        365,
        description="days for which a draft is kept after its homework was withdrawn or its session closed; "
        "0: for ever",
    )
    retention_audit: Annotated[int, days_or_for_ever(30)] = Field(
        0, description="days for which audit records are kept; 0: for ever"
    )

    legacy_retry_window: Annotated[int, Field(ge=0, le=86_400)] = Field(
        60,
        description="seconds within which a legacy PUT that assigns the same homework again is a retry; "
        "0: never",
    )
    legacy_deprecated: Moment | None = Field(
        None,
        description="moment of deprecation of the legacy paths: 2027-01-31 (midnight UTC) or "
        "2027-01-31T09:00:00Z; unset: not deprecated",
    )
    legacy_sunset: Moment | None = Field(
        None,
        description="moment after which the legacy paths may be removed, in the same format",
    )
    legacy_notice: str = Field(
        "", description="https:// address of a page about the deprecation; needs one of these two moments"
    )
    legacy_body_limit: Annotated[int, Field(ge=1024, le=16_777_216)] = Field(
        65_536, description="maximum bytes of the body of a legacy request"
    )
    graphql_body_limit: Annotated[int, Field(ge=1024, le=16_777_216)] = Field(
        262_144, description="maximum bytes of a GraphQL request or of a websocket message"
    )
    most_requests: Annotated[int, Field(ge=1, le=100_000)] = Field(
        256,
        description="maximum concurrent requests of a process of `serve`; others get a 503 at once",
    )
    drain_seconds: Annotated[int, Field(ge=0, le=300)] = Field(
        2,
        description="seconds between SIGTERM and the end of accepting connections; "
        "/readyz responds with 503 meanwhile",
    )

    token_limit: Annotated[int, Field(ge=1, le=100_000)] = Field(
        2000, description="maximum tokens of a GraphQL document"
    )
    depth_limit: Annotated[int, Field(ge=1, le=64)] = Field(
        15, description="maximum depth of the fields of a GraphQL document"
    )
    cost_limit: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        15_000, description="maximum points that a GraphQL operation may cost (docs/limits.md)"
    )
    rate_limit: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = Field(
        None,
        description="maximum points of a viewer in a minute, in one process; 0: no limit; unset: "
        "300,000 in production, no limit in development",
    )
    identifier_limit: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None,
        description="maximum client identifiers that a caregiver may try in an hour, in one process: unknown "
        "ones and those of new clients; 0: no limit; unset: 30 in production, else no limit",
    )
    introspection: bool | None = Field(
        None, description="on or off: allow introspection of the schema; unset: in development only"
    )

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            raise ValueError("is not a known time zone such as Europe/Berlin") from None
        return value

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value not in ("debug", "info", "warning", "error"):
            raise ValueError("must be debug, info, warning or error")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _exact_origins(cls, value: str) -> str:
        for origin in separated(value):
            if "*" in origin:
                raise ValueError("must name each origin; * is not accepted")
            if ORIGIN.fullmatch(origin) is None:
                raise ValueError(
                    "must be origins as browsers send them, such as https://app.example.test: lower case, no "
                    "path, no default port, spaces or commas between"
                )
        return value

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        if value and not value.startswith(("sqlite:///", "postgresql://", "postgres://")):
            raise ValueError("must begin with sqlite:/// or postgresql://")
        if value.startswith("sqlite:") and ("?" in value or ":memory:" in value):
            raise ValueError("must be sqlite:/// and the path of a file, and nothing else")
        return value

    @field_validator("legacy_sunset")
    @classmethod
    def _not_before_deprecated(cls, value: datetime | None, info: ValidationInfo) -> datetime | None:
        deprecated = info.data.get("legacy_deprecated")
        if value and deprecated and value < deprecated:  # RFC 9745, section 4
            raise ValueError("must not be before CARE_LEGACY_DEPRECATED")
        return value

    @field_validator("legacy_notice")
    @classmethod
    def _known_page(cls, value: str, info: ValidationInfo) -> str:
        if value and PAGE.fullmatch(value) is None:
            raise ValueError("must be an address such as https://example.test/leaving")
        if value and not (info.data.get("legacy_deprecated") or info.data.get("legacy_sunset")):
            raise ValueError("is of use only with CARE_LEGACY_DEPRECATED or CARE_LEGACY_SUNSET")
        return value

    @property
    def in_development(self) -> bool:
        return self.env is Environment.DEVELOPMENT

    @property
    def points_per_minute(self) -> int:
        if self.rate_limit is None:
            return 0 if self.in_development else USUAL_RATE
        return self.rate_limit

    @property
    def identifiers_per_hour(self) -> int:
        if self.identifier_limit is None:
            return 0 if self.in_development else USUAL_IDENTIFIERS
        return self.identifier_limit

    @property
    def introspects(self) -> bool:
        return self.in_development if self.introspection is None else self.introspection

    @property
    def shows_schema_to_anyone(self) -> bool:
        """In production introspection needs a token, which a browser that follows a link does not have."""
        return self.in_development and self.introspects

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{os.path.abspath(self.var)}/care.db"

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(separated(self.cors_origins))

    @property
    def retention(self) -> Retention:
        return Retention(
            self.retention_events, self.retention_deliveries, self.retention_drafts, self.retention_audit
        )

    @property
    def retry_window(self) -> timedelta | None:
        return timedelta(seconds=self.legacy_retry_window) if self.legacy_retry_window else None

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)


def variable(field: str) -> str:
    return PREFIX + field.upper()


KNOWN = [variable(field) for field in Settings.model_fields]


def read_settings() -> Settings:
    """The settings of this process, or a SettingsError with one sentence for the operator."""
    reject_misspelt(os.environ)
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = variable(str(first["loc"][0])) if first["loc"] else "a setting"
        reason = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"{name} cannot be used: {reason}") from None


def reject_misspelt(environment: Mapping[str, str]) -> None:
    """Rejects a variable that resembles a setting: the operator expects it to have an effect."""
    for name in unknown_variables(environment):
        if near := difflib.get_close_matches(name.upper(), KNOWN, n=1, cutoff=0.88):
            raise SettingsError(f"{name} is not a setting; did you mean {near[0]}?")


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """CARE_* variables that no setting reads; container platforms inject such names on their own."""
    return sorted(name for name in environment if name.upper().startswith(PREFIX) and name not in KNOWN)
