"""Compares two response bodies: by bytes, JSON formatting, order of members, and values."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from app.legacy_migration.masks import Masks


class Likeness(StrEnum):
    SAME = "SAME"  # byte for byte, except for masked values
    WRITING = "WRITING"  # same JSON, different whitespace or escapes
    ORDER = "ORDER"  # same values, different order of members
    VALUES = "VALUES"
    BYTES = "BYTES"  # not both are valid JSON


class Nothing:
    """Marks a member that is missing on one side."""


NOTHING = Nothing()


@dataclass(frozen=True)
class Difference:
    path: str
    old: Any
    new: Any


def compare_bodies(old: bytes, new: bytes, masks: Masks) -> tuple[Likeness, list[Difference]]:
    is_equal = old == new
    if is_equal and all(text in masks.matched for text in masks.bodies):
        return Likeness.SAME, []
    try:
        old_value, new_value = orjson.loads(old), orjson.loads(new)
        if masks.bodies:
            old, new = masks.cut(old), masks.cut(new)
            old_value, new_value = orjson.loads(old), orjson.loads(new)
    except orjson.JSONDecodeError:
        return (Likeness.SAME if is_equal else Likeness.BYTES), []
    if old == new:
        return Likeness.SAME, []
    try:
        found = list(differences(old_value, new_value, ""))
    except RecursionError:  # lists in lists in lists: no answer of ours
        return Likeness.BYTES, []
    if found:
        return Likeness.VALUES, found
    if orjson.dumps(old_value) != orjson.dumps(new_value):
        return Likeness.ORDER, []
    return Likeness.WRITING, []


def differences(old: Any, new: Any, path: str) -> Iterator[Difference]:
    """Compares types as well, because Python treats `1`, `1.0` and `True` as equal."""
    if type(old) is not type(new):
        yield Difference(path or "the whole", old, new)
    elif isinstance(old, dict):
        for name in (*old, *(name for name in new if name not in old)):
            below = f"{path}.{name}" if path else name
            yield from either(name in old, name in new, old.get(name), new.get(name), below)
    elif isinstance(old, list):
        yield from in_lists(old, new, path)
    elif old != new:
        yield Difference(path or "the whole", old, new)


def either(in_old: bool, in_new: bool, old: Any, new: Any, path: str) -> Iterator[Difference]:
    if in_old and in_new:
        yield from differences(old, new, path)
    else:
        yield Difference(path, old if in_old else NOTHING, new if in_new else NOTHING)


def in_lists(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    """Matches items by id, so that a missing item does not make all later items differ."""
    old_ids, new_ids = ids_of(old), ids_of(new)
    if old_ids == new_ids or old_ids is None or new_ids is None:
        for index in range(max(len(old), len(new))):
            in_old, in_new = index < len(old), index < len(new)
            one, other = (old[index] if in_old else None), (new[index] if in_new else None)
            yield from either(in_old, in_new, one, other, f"{path}[{index}]")
        return
    old_items, new_items = dict(zip(old_ids, old, strict=True)), dict(zip(new_ids, new, strict=True))
    if [one for one in old_ids if one in new_items] != [one for one in new_ids if one in old_items]:
        yield Difference(f"{path} (order of the items)", old_ids, new_ids)
    for one in (*old_ids, *(one for one in new_ids if one not in old_items)):
        below = f"{path}[id={one}]"
        yield from either(one in old_items, one in new_items, old_items.get(one), new_items.get(one), below)


def ids_of(items: list[Any]) -> list[int] | None:
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    if any(type(one) is not int for one in ids) or len(set(ids)) < len(ids):
        return None
    return ids  # type: ignore[return-value]


def shown_values(old: Any, new: Any, is_open: bool) -> tuple[str, str]:
    """Both sides in a few words; closed, these say what kind of values there are and how long."""
    words = as_json if is_open else kind_of
    one, other = words(old), words(new)
    return one, f"another {other}" if one == other else other


def kind_of(value: Any) -> str:
    match value:
        case Nothing():
            return "nothing"
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "number"
        case str():
            return f"text of {len(value)}"
        case list():
            return f"list of {len(value)}"
    return "object"


def as_json(value: Any) -> str:
    if isinstance(value, Nothing):
        return "nothing"
    text = printable(orjson.dumps(value).decode())
    return text if len(text) <= 80 else f"{text[:77]}..."


def printable(text: str) -> str:
    """Escapes control characters for the terminal."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
