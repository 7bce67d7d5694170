"""DateTime: RFC 3339 with an offset, converted to UTC and written with `Z`. Date: a day, output only."""

import re
from datetime import UTC, date, datetime
from operator import methodcaller

import strawberry

# Converts a text stored by SQLite, which always has a fraction, to output.
write_stored = methodcaller("replace", ".000000Z", "Z")

RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def write_moment(moment: datetime | str) -> str:
    if isinstance(moment, str):
        return str(write_stored(moment))
    return moment.isoformat().replace("+00:00", "Z")


def read_moment(text: object) -> datetime:
    """Accepts a datetime too: the legacy paths parse times before they run their documents."""
    if isinstance(text, datetime) and text.tzinfo is UTC:
        return text
    match = RFC_3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("a DateTime reads like 2026-11-21T09:00:00Z or 2026-11-21T10:00:00+01:00")
    date, time, fraction, offset = match.groups()
    try:
        local = datetime.fromisoformat(f"{date}T{time}{(fraction or '')[:7]}{offset.upper()}")
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("this DateTime does not exist") from None


DATE_TIME = strawberry.scalar(
    name="DateTime",
    description="A point in time in RFC 3339. Input requires an offset; output is in UTC with `Z`.",
    specified_by_url="https://www.rfc-editor.org/rfc/rfc3339",
    serialize=write_moment,
    parse_value=read_moment,
)

DATE = strawberry.scalar(
    name="Date",
    description="A day in the time zone of the service, such as 2026-11-21.",
    specified_by_url="https://www.rfc-editor.org/rfc/rfc3339#section-5.6",
    serialize=date.isoformat,
    parse_value=date.fromisoformat,
)
