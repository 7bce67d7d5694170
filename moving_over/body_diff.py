"""Compares two response bodies: by bytes, JSON formatting, order of members, and values.

Masks name parts that may differ by a path such as `content[*].score` or `header:date`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, zip_longest
from typing import Any

import orjson

from moving_over import LegacyMigrationError

MAX_DIFFERENCES = 1000  # of one body; more take long to find
MISSING = object()  # the value of a member that only the other side has
HEADER = "header:"
ANY = None  # the step of [*] and *
STEP = re.compile(r"\.?(?:\[(\*|[0-9]{1,6})\]|(\*)|([^.\[\]*]+))")
JSON_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+)')

Step = str | int | None
Path = tuple[Step, ...]


class Likeness(StrEnum):
    SAME = "SAME"  # byte for byte, except for masked values
    WRITING = "WRITING"  # same JSON, different whitespace or escapes
    ORDER = "ORDER"  # same values, different order of members
    VALUES = "VALUES"
    BYTES = "BYTES"  # not both are valid JSON


@dataclass(frozen=True)
class Difference:
    path: str
    old: Any
    new: Any


@dataclass
class Masks:
    """The masks of a run by their texts, and the texts of the masks that have matched."""

    bodies: dict[str, Path]
    headers: dict[str, Path]  # of one step, the name in lower case
    matched: set[str] = field(default_factory=set)

    @property
    def unmatched(self) -> list[str]:
        return [text for text in (*self.bodies, *self.headers) if text not in self.matched]

    def match(self, masks: dict[str, Path], path: Path) -> bool:
        found = [text for text, steps in masks.items() if is_match(steps, path)]
        self.matched.update(found)
        return bool(found)

    def apply(self, body: bytes) -> bytes:
        """Replaces each masked value of a JSON body by null and keeps all other bytes."""
        tokens = [each for each in JSON_TOKEN.finditer(body)]  # in `list` other threads would wait
        cuts: list[tuple[int, int]] = []
        self.find_masked(tokens, 0, (), cuts)
        starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(body)]
        return b"null".join(body[start:end] for start, end in zip(starts, ends, strict=True))

    def find_masked(
        self, tokens: list[re.Match[bytes]], index: int, path: Path | None, cuts: list[tuple[int, int]]
    ) -> int:
        """Returns the index of the token after the value. Inside a masked value the path is None."""
        is_masked = path is not None and self.match(self.bodies, path)
        first = tokens[index]
        index += 1
        if first[1] in b"{[":
            position = 0
            while tokens[index][1] not in b"}]":
                index += tokens[index][1] == b","
                step: Step = position
                if first[1] == b"{":
                    step = orjson.loads(tokens[index][1])
                    index += 2
                below = None if is_masked or path is None else (*path, step)
                index = self.find_masked(tokens, index, below, cuts)
                position += 1
            index += 1
        if is_masked:
            cuts.append((first.start(1), tokens[index - 1].end(1)))
        return index


def is_match(steps: Path, path: Path) -> bool:
    return len(steps) == len(path) and all(
        step is ANY or step == at for step, at in zip(steps, path, strict=True)
    )


def read_masks(texts: Iterable[str]) -> Masks:
    masks = Masks({}, {})
    for text in texts:
        if text.startswith(HEADER) and text != HEADER:
            masks.headers[text] = (text.removeprefix(HEADER).lower(),)
        else:
            masks.bodies[text] = read_steps(text)
    return masks


def read_steps(text: str) -> Path:
    steps: list[Step] = []
    position = 0
    while found := STEP.match(text, position):
        if position == 0 and text.startswith("."):
            break
        index, any_name, name = found.groups()
        steps.append(ANY if any_name or index == "*" else int(index) if index else name)
        position = found.end()
    if position < len(text) or text in ("", HEADER):
        raise LegacyMigrationError(
            f"the mask {text!r} is invalid; masks are like content[*].score or header:date"
        )
    return tuple(steps)


def compare_bodies(old: bytes, new: bytes, masks: Masks) -> tuple[Likeness, list[Difference]]:
    is_equal = old == new
    if is_equal and all(text in masks.matched for text in masks.bodies):
        return Likeness.SAME, []
    try:
        old_value, new_value = orjson.loads(old), orjson.loads(new)
        if masks.bodies:
            old, new = masks.apply(old), masks.apply(new)
            old_value, new_value = orjson.loads(old), orjson.loads(new)
        if old == new:
            return Likeness.SAME, []
        found = list(islice(differences(old_value, new_value, ""), MAX_DIFFERENCES))
    except (orjson.JSONDecodeError, RecursionError):  # neither service nests values deeply
        return (Likeness.SAME if is_equal else Likeness.BYTES), []
    if found:
        return Likeness.VALUES, found
    if orjson.dumps(old_value) != orjson.dumps(new_value):
        return Likeness.ORDER, []
    return Likeness.WRITING, []


def differences(old: Any, new: Any, path: str) -> Iterator[Difference]:
    """Compares types as well, because Python treats `1`, `1.0` and `True` as equal."""
    if type(old) is not type(new):
        yield Difference(path or "the body", old, new)
    elif isinstance(old, dict):
        for name in old | new:
            below = f"{path}.{name}" if path else name
            yield from differences(old.get(name, MISSING), new.get(name, MISSING), below)
    elif isinstance(old, list):
        yield from list_differences(old, new, path)
    elif old != new:
        yield Difference(path or "the body", old, new)


def list_differences(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    """Matches items by id, so that a missing item does not make all later items differ."""
    old_items, new_items = items_by_id(old), items_by_id(new)
    if old_items is None or new_items is None or list(old_items) == list(new_items):
        for index, (old_item, new_item) in enumerate(zip_longest(old, new, fillvalue=MISSING)):
            yield from differences(old_item, new_item, f"{path}[{index}]")
        return
    if [id for id in old_items if id in new_items] != [id for id in new_items if id in old_items]:
        yield Difference(f"{path} (order of the items)", list(old_items), list(new_items))
    for id in old_items | new_items:
        yield from differences(old_items.get(id, MISSING), new_items.get(id, MISSING), f"{path}[id={id}]")


def items_by_id(items: list[Any]) -> dict[int, Any] | None:
    """None unless every item is an object with an id of its own."""
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    if any(type(id) is not int for id in ids) or len(set(ids)) < len(ids):
        return None
    return dict(zip(ids, items, strict=True))  # type: ignore[arg-type]


def shown_values(old: Any, new: Any, is_open: bool) -> tuple[str, str]:
    """Both values as JSON, or only their types and lengths if not `is_open`."""
    show = as_json if is_open else kind_of
    old_text, new_text = show(old), show(new)
    return old_text, f"another {new_text}" if old_text == new_text else new_text


def kind_of(value: Any) -> str:
    match value:
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
    return "nothing" if value is MISSING else "object"


def as_json(value: Any) -> str:
    if value is MISSING:
        return "nothing"
    text = printable(orjson.dumps(value).decode())
    return text if len(text) <= 80 else f"{text[:77]}..."


def printable(text: str) -> str:
    """Escapes control characters for the terminal."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
