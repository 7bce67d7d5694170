"""Validates the members of one JSON object."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from app.db.moments import is_storable

LARGEST_ID = 2**63 - 2  # one less than the maximum, because there must be a next id


class Problem(Exception):
    def __init__(self, member: str, reason: str) -> None:
        self.member = member
        self.reason = reason


class Consequence(Problem):
    """The line refers to a rejected line, and may be correct itself."""


class Record:
    """One JSON object, read member by member; the remaining members are unknown."""

    def __init__(self, given: object, path: str = "") -> None:
        if not isinstance(given, dict):
            raise Problem(path or "the line", "must be a JSON object")
        self.given = given
        self.path = path
        self.left = set(given)

    def take(self, member: str, kind: str, check: Callable[[Any], bool], default: Any = ...) -> Any:
        self.left.discard(member)
        value = self.given.get(member)
        if value is None:
            if default is ...:
                raise Problem(self.path + member, "is missing")
            return default
        if not check(value):
            raise Problem(self.path + member, f"must be {kind}")
        return value

    def id(self, member: str) -> int:
        return self.take(member, "an integer id", is_id)  # type: ignore[no-any-return]

    def optional_id(self, member: str) -> int | None:
        return self.take(member, "an integer id", is_id, None)  # type: ignore[no-any-return]

    def number(self, member: str, least: int) -> int:
        """An integer; `least` is the default."""
        kind = f"an integer of at least {least}"
        return self.take(member, kind, lambda v: type(v) is int and least <= v < 2**31, least)  # type: ignore[no-any-return]

    def text(self, member: str) -> str:
        return self.take(member, "text", is_text)  # type: ignore[no-any-return]

    def optional_text(self, member: str) -> str | None:
        return self.take(member, "text that is not empty", lambda v: is_text(v) and v != "", None)  # type: ignore[no-any-return]

    def flag(self, member: str) -> bool:
        return self.take(member, "true or false", lambda v: type(v) is bool, False)  # type: ignore[no-any-return]

    def one_of(self, member: str, kinds: type[StrEnum], default: StrEnum) -> str:
        value = self.take(member, f"one of {', '.join(kinds)}", lambda v: v in list(kinds), default)
        return str(value)

    def moment(self, member: str) -> datetime:
        return read_moment(self.path + member, self.take(member, "text", is_text))

    def optional_moment(self, member: str) -> datetime | None:
        value = self.take(member, "text", is_text, None)
        return None if value is None else read_moment(self.path + member, value)

    def texts(self, member: str) -> list[str]:
        return self.take(  # type: ignore[no-any-return]
            member, "a list of texts", lambda v: isinstance(v, list) and all(map(is_text, v)), []
        )

    def records(self, member: str, default: Any = ...) -> list["Record"]:
        found = self.take(member, "a list of objects", lambda v: isinstance(v, list), default)
        return [Record(item, f"{self.path}{member}[{index}].") for index, item in enumerate(found)]

    def finish(self) -> None:
        if self.left:
            raise Problem(self.path + min(self.left), "is not known here")


def is_id(value: object) -> bool:
    return type(value) is int and 0 < value <= LARGEST_ID


def is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value  # PostgreSQL stores no NUL


def read_moment(member: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None and is_storable(moment):
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Problem(member, "must be a moment like 2026-11-21T09:00:00Z, of the years 1900 to 2999")
