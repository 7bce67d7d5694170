"""Every setting of the service: CARE_* environment variables, read once."""

import difflib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "CARE_"
PRODUCTION_RATE_LIMIT = 300_000
PRODUCTION_IDENTIFIER_LIMIT = 30


class SettingsError(Exception):
    """A setting is missing, invalid or misspelt; the message is one sentence for the operator."""


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


class Retention(NamedTuple):
    """Days for which each kind of rows is kept; 0: forever."""

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

# --- validators -----------------------------------------------------------------------------------

MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2}:[0-9]{2}))?")
# As browsers send it: lower case, no path, no default port.
ORIGIN = re.compile(
    r"(?!https://.*:443$|http://.*:80$)[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?"
)
PAGE = re.compile(
    r"https?://[A-Za-z0-9](?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+=%-]*)"
)  # without characters that end a Link header


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


def check_sunset(value: datetime | None, info: ValidationInfo) -> datetime | None:
    deprecated = info.data.get("legacy_deprecated")
    if value and deprecated and value < deprecated:  # RFC 9745, section 4
        raise ValueError("must not be before CARE_LEGACY_DEPRECATED")
    return value


def check_notice(value: str, info: ValidationInfo) -> str:
    if value and PAGE.fullmatch(value) is None:
        raise ValueError("must be an address such as https://example.test/leaving")
    if value and not (info.data.get("legacy_deprecated") or info.data.get("legacy_sunset")):
        raise ValueError("needs CARE_LEGACY_DEPRECATED or CARE_LEGACY_SUNSET")
    return value


def check_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise ValueError("is not a known time zone such as Europe/Berlin") from None
    return value


def check_origins(value: str) -> str:
    for origin in split_origins(value):
        if "*" in origin:
            raise ValueError("must name each origin; * is not accepted")
        if ORIGIN.fullmatch(origin) is None:
            raise ValueError(
                "must be origins as browsers send them, such as https://app.example.test: lower case, no "
                "path, no default port, separated by spaces or commas"
            )
    return value


def split_origins(value: str) -> list[str]:
    return value.replace(",", " ").split()


def check_database_url(value: str) -> str:
    if value and not value.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise ValueError("must begin with sqlite:/// or postgresql://")
    if value.startswith("sqlite:") and ("?" in value or ":memory:" in value):
        raise ValueError("must be sqlite:/// and the path of a file, without parameters")
    if re.search(r"[?&]target_session_attrs=(?!(read-write|primary)(&|$))", value):
        raise ValueError(
            "must have target_session_attrs=read-write, or none: the service does not read from standbys"
        )
    return value


def days_at_least(least: int) -> AfterValidator:
    def check(days: int) -> int:
        if days == 0 or least <= days <= 36_500:
            return days
        raise ValueError(f"must be 0 (keep forever) or a number of days from {least} to 36500")

    return AfterValidator(check)


Moment = Annotated[datetime, BeforeValidator(read_moment)]


class Settings(BaseSettings):
    """Defaults are safe: an unconfigured service is a production service. `care-gateway settings` prints the
    text below each field."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        hide_input_in_errors=True,
        env_ignore_empty=True,
        use_attribute_docstrings=True,
    )

    env: Environment = Environment.PRODUCTION
    """production, or development: own keys, the GraphQL page, introspection without a token"""
    database_url: Annotated[str, AfterValidator(check_database_url)] = Field("", repr=False)
    """sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME; empty: care.db under CARE_VAR"""
    var: str = "var"
    """folder of the embedded database and of development keys"""
    host: str = "127.0.0.1"
    """address that `serve` listens on"""
    port: int = Field(8000, ge=1, le=65535)
    """port that `serve` listens on"""
    time_zone: Annotated[str, AfterValidator(check_zone)] = "UTC"
    """time zone of local times on the legacy paths"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning or error"""
    log_format: LogFormat = LogFormat.AUTO
    """text, json: one object a line, or auto: text on a terminal, else json"""
    log_requests: bool = False
    """on or off: log every request"""
    metrics_port: int = Field(0, ge=0, le=65535)
    """port that serves only /metrics; 0: none"""
    metrics_host: str = "127.0.0.1"
    """address of that port"""

    token_key: str = ""
    """public keys that verify tokens (RS256, ES256): PEM text, or a file that is reread when it changes"""
    token_jwks: str = Field("", repr=False)
    """key set that verifies tokens: path or https:// URL of a JWKS document; reread"""
    token_secret: str = Field("", repr=False)
    """shared secret that verifies tokens (HS256); development only"""
    token_issuer: str = ""
    """required `iss` of a token; empty: any"""
    token_audience: str = ""
    """required `aud` of a token; empty: any"""
    token_leeway: int = Field(10, ge=0, le=300)
    """clock difference in seconds that is allowed for the times of a token"""
    token_cache: int = Field(4096, ge=0, le=100_000)
    """verified tokens to cache for up to 60 s, and their accounts for 5 s; 0: none"""
    claim_user: str = "user_name"
    """claim with the user name; `sub` if it is absent"""
    claim_role: str = "authorities"
    """claim with the role; `role` or `roles` if it is absent"""
    cors_origins: Annotated[str, AfterValidator(check_origins)] = ""
    """other origins whose pages may send requests, with spaces or commas between; localhost in development"""
    trusted_documents: Trust = Trust.OFF
    """off; audit: log GraphQL documents that are not in the manifest; enforce: reject them"""
    trusted_manifest: str = ""
    """path of the manifest of trusted documents, a JSON file"""

    engine: bool = True
    """on or off; off: Strawberry executes GraphQL operations, which is slower"""
    dispatcher: bool = True
    """on or off; off: `care-gateway worker` processes reminders and events instead of `serve`"""
    audit: bool = True
    """on, or off in development only: reads of answers and changes are then not recorded"""
    webhook_url: str = Field("", repr=False)
    """address that receives events: https://, or http:// on this machine; empty: none"""
    webhook_secret: str = Field("", repr=False)
    """signing secrets, separated by spaces: whsec_ and base64 (Standard Webhooks)"""
    read_threads: int = Field(4, ge=1, le=64)
    """threads for long reads of the embedded database; connections of the pool on PostgreSQL"""
    loop_read_ms: int = Field(5, ge=0, le=1000)
    """milliseconds after which an embedded read moves from the event loop to a thread; 0: threads only"""

    litestream_socket: str = ""
    """control socket of Litestream, for `care-gateway doctor`; empty: none"""

    retention_events: Annotated[int, days_at_least(7)] = 365
    """days for which events are kept, so that subscriptions can resume from them; 0: forever"""
    retention_deliveries: Annotated[int, days_at_least(1)] = 90
    """days for which a dead delivery is kept; 0: forever"""
    retention_drafts: Annotated[int, days_at_least(1)] = 365
    """days for which drafts are kept after the homework was withdrawn or the session closed; 0: forever"""
    retention_audit: Annotated[int, days_at_least(30)] = 0
    """days for which audit records are kept; 0: forever"""

    legacy_retry_window: int = Field(60, ge=0, le=86_400)
    """seconds within which a legacy PUT that assigns the same homework again is a retry; 0: never"""
    legacy_deprecated: Moment | None = None
    """deprecation date of the legacy paths: 2027-01-31 (midnight UTC) or 2027-01-31T09:00:00Z; unset: none"""
    legacy_sunset: Annotated[Moment | None, AfterValidator(check_sunset)] = None
    """date after which the legacy paths may be removed, in the same format"""
    legacy_notice: Annotated[str, AfterValidator(check_notice)] = ""
    """https:// address of a page about the deprecation; needs one of these two dates"""
    legacy_body_limit: int = Field(65_536, ge=1024, le=16_777_216)
    """maximum bytes of the body of a legacy request"""
    graphql_body_limit: int = Field(262_144, ge=1024, le=16_777_216)
    """maximum bytes of a GraphQL request or of a websocket message"""
    most_requests: int = Field(256, ge=1, le=100_000)
    """maximum concurrent requests of a process of `serve`; others get a 503 at once"""
    drain_seconds: int = Field(2, ge=0, le=300)
    """seconds between SIGTERM and the end of accepting connections; /readyz responds with 503 meanwhile"""

    token_limit: int = Field(2000, ge=1, le=100_000)
    """maximum tokens of a GraphQL document"""
    depth_limit: int = Field(15, ge=1, le=64)
    """maximum depth of the fields of a GraphQL document"""
    cost_limit: int = Field(15_000, ge=1, le=10_000_000)
    """maximum points that a GraphQL operation may cost (docs/limits.md)"""
    response_limit: int = Field(4_194_304, ge=65_536, le=1_073_741_824)
    """maximum bytes of a GraphQL response, of a websocket message or of an event in a stream"""
    rate_limit: int | None = Field(None, ge=0, le=1_000_000_000)
    """maximum points per viewer, minute and process; 0: no limit; unset: 300,000 in production"""
    identifier_limit: int | None = Field(None, ge=0, le=1_000_000)
    """maximum new client identifiers per caregiver, hour and process; 0: no limit; unset: 30 in production"""
    introspection: bool | None = None
    """on or off: introspection of the schema, and names that errors suggest; unset: in development only"""

    recent_requests: int = Field(50, ge=0, le=1000)
    """last requests that development lists at /requests; 0: development does not measure requests"""

    @property
    def in_development(self) -> bool:
        return self.env is Environment.DEVELOPMENT

    @property
    def points_per_minute(self) -> int:
        default = 0 if self.in_development else PRODUCTION_RATE_LIMIT
        return default if self.rate_limit is None else self.rate_limit

    @property
    def identifiers_per_hour(self) -> int:
        default = 0 if self.in_development else PRODUCTION_IDENTIFIER_LIMIT
        return default if self.identifier_limit is None else self.identifier_limit

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
        return tuple(split_origins(self.cors_origins))

    @property
    def retention(self) -> Retention:
        return Retention(*(getattr(self, f"retention_{kind}") for kind in Retention._fields))

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
    """Reads the environment. A variable that resembles a setting is an error: it would have no effect."""
    for name in unknown_variables(os.environ):
        if similar := difflib.get_close_matches(name.upper(), KNOWN, n=1, cutoff=0.88):
            raise SettingsError(f"{name} is not a setting; did you mean {similar[0]}?")
    try:
        return Settings()
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise SettingsError("; ".join(map(sentence_of, faults))) from None


def sentence_of(fault: Mapping[str, Any]) -> str:
    reason = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{variable(str(fault['loc'][0]))} {reason.partition(', unable to')[0]}"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """CARE_* variables that no setting reads. Container platforms set such names on their own."""
    return sorted(name for name in environment if name.upper().startswith(PREFIX) and name not in KNOWN)
