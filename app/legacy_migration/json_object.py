"""Validates the members of a recorded JSON object one by one."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.db.admin.import_format import LARGEST_ID, read_moment


class Problem(Exception):
    def __init__(self, member: str, reason: str) -> None:
        self.member = member
        self.reason = reason


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

    def optional_moment(self, member: str) -> datetime | None:
        value = self.optional_text(member)
        try:
            return None if value is None else read_moment(value)
        except ValueError as error:
            raise Problem(self.path + member, str(error)) from None

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
