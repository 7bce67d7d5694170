"""Reads the body of the legacy PUT into the variables of its GraphQL document."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from app.care.errors import Incomplete, InvalidValue, Rejected
from app.care.homework import MAX_BOOKS, MAX_REMINDERS
from app.db.tables import MAX_ID
from app.http.messages import parse_json

REQUIRED = ("bookIds", "startDate", "startTime", "endDate", "endTime", "sessionId")
DATE = re.compile(r"([0-9]{4})([-/])([0-9]{2})\2([0-9]{2})")
TIME = re.compile(r"([0-9]{2}):([0-9]{2})")


class NotAnObject(Rejected):
    """The body is JSON of another type than an object, or no JSON."""

    code = InvalidValue.code


def read_homework(body: bytes, zone: ZoneInfo) -> dict[str, Any]:
    """Reports all missing members first, then the first unreadable one in the documented order."""
    given = read_object(body)
    if missing := list(missing_members(given)):
        raise Incomplete(*missing)
    return {
        "bookIds": [str(book_id) for book_id in read_ids(given["bookIds"])],
        "startDate": read_local_time(given, "startDate", "startTime", zone),
        "endDate": read_local_time(given, "endDate", "endTime", zone),
        "remindDates": read_remind_dates(given.get("remindDates"), zone),
        "sessionId": str(read_id(given["sessionId"], "sessionId")),
    }


def read_object(body: bytes) -> dict[str, Any]:
    """An empty body, a blank body and `null` mean an object without members."""
    body = body.removeprefix(BOM_UTF8)  # some editors and libraries write it
    try:
        given = parse_json(body) if body.strip() else None
    except orjson.JSONDecodeError as fault:
        raise NotAnObject(f"the body is not valid JSON: line {fault.lineno}, column {fault.colno}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise NotAnObject("the body must be a JSON object")
    return given


def missing_members(given: dict[str, Any]) -> Iterator[str]:
    """Skips items past the limit to keep the message short; such a list is rejected anyway."""
    for name in REQUIRED:
        value = given.get(name)
        if is_missing(value) or value == []:
            yield name
        elif name == "bookIds" and isinstance(value, list):
            for index, item in enumerate(value[:MAX_BOOKS]):
                if is_missing(item):
                    yield f"{name}[{index}]"
    reminders = given.get("remindDates")
    for index, item in enumerate(reminders[:MAX_REMINDERS] if isinstance(reminders, list) else ()):
        if is_missing(item):
            yield f"remindDates[{index}]"
        elif isinstance(item, dict):
            for member in ("date", "time"):
                if is_missing(value := item.get(member)) or value == []:
                    yield f"remindDates[{index}].{member}"


def is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def read_ids(value: object) -> list[int]:
    if not isinstance(value, list):
        raise InvalidValue("bookIds", "must be an array of integers")
    if len(value) > MAX_BOOKS:
        raise InvalidValue("bookIds", f"may hold at most {MAX_BOOKS} books")
    return [read_id(item, f"bookIds[{index}]") for index, item in enumerate(value)]


def read_id(value: object, member: str) -> int:
    """A JSON integer; `true`, an int in Python, is rejected."""
    if type(value) is not int or not 0 <= value <= MAX_ID:
        raise InvalidValue(member, "must be an integer id")
    return value


def read_remind_dates(value: object, zone: ZoneInfo) -> list[datetime]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidValue("remindDates", "must be an array of objects")
    if len(value) > MAX_REMINDERS:
        raise InvalidValue("remindDates", f"may hold at most {MAX_REMINDERS} moments")
    moments = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise InvalidValue(f"remindDates[{index}]", "must be an object of date and time")
        moments.append(read_local_time(item, "date", "time", zone, prefix=f"remindDates[{index}]."))
    return moments


def read_local_time(
    given: dict[str, Any], date_member: str, time_member: str, zone: ZoneInfo, prefix: str = ""
) -> datetime:
    """A local time in the service zone. A time skipped by a clock change is rejected; a repeated time
    means its first occurrence."""
    date_text, time_text = given[date_member], given[time_member]
    date = DATE.fullmatch(date_text) if isinstance(date_text, str) else None
    time = TIME.fullmatch(time_text) if isinstance(time_text, str) else None
    if date is None:
        raise InvalidValue(prefix + date_member, "must be a date like 2026/11/21 or 2026-11-21")
    if time is None:
        raise InvalidValue(prefix + time_member, "must be a time like 18:30")
    year, _, month, day = date.groups()
    try:
        local = datetime(int(year), int(month), int(day), tzinfo=zone)
    except ValueError:
        raise InvalidValue(prefix + date_member, "is no date of the calendar") from None
    try:
        local = local.replace(hour=int(time[1]), minute=int(time[2]))
        moment = local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidValue(prefix + time_member, "is no time of the day") from None
    if moment.astimezone(zone) != local:  # equal zones compare local times
        raise InvalidValue(prefix + time_member, "is skipped by a clock change on that day")
    return moment
