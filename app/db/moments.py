"""How moments are stored: timestamptz on PostgreSQL, sortable text on SQLite."""

from datetime import UTC, datetime
from functools import lru_cache

from sqlalchemy import DateTime, String

# The type of a column with a UTC moment. SQLite stores the text of `moment_as_text`.
Moment = DateTime(timezone=True).with_variant(String(27), "sqlite")


@lru_cache(maxsize=256)  # each statement of a request has the moment of the request
def moment_as_text(moment: datetime) -> str:
    """SQLite has no timestamps: this text sorts like one, and `datetime.fromisoformat` parses it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@lru_cache(maxsize=8192)
def text_of_json(value: str | None) -> str | None:
    """Converts a moment as PostgreSQL writes it in JSON, with up to six digits of a second and in the time
    zone of the connection, to the text that SQLite stores."""
    if value is None or not value.endswith("+00:00"):
        return value and moment_as_text(datetime.fromisoformat(value))
    text = value[:-6]
    return (text if len(text) > 19 else f"{text}.").ljust(26, "0") + "Z"


def as_moment(stored: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(stored) if isinstance(stored, str) else stored


def known_moment(stored: datetime | str | None) -> datetime:
    """Converts a moment of a column that is never null."""
    moment = as_moment(stored)
    assert moment is not None
    return moment


def is_storable(moment: datetime) -> bool:
    """Excludes years that some databases and time zones do not support."""
    return 1900 <= moment.astimezone(UTC).year < 3000
