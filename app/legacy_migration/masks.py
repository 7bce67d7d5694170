"""Masks: parts of a response that may differ, named by a path such as `content[*].score` or `header:date`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from app.legacy_migration import MigrationError

HEADER = "header:"
ANY = None  # the step of [*] and *
STEP = re.compile(r"\.?(?:\[(\*|[0-9]{1,6})\]|(\*)|([^.\[\]*]+))")
JSON_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+)')

Step = str | int | None


@dataclass
class Masks:
    """The masks of a run by their texts, and the texts of those that have matched."""

    bodies: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case
    matched: set[str] = field(default_factory=set)

    @property
    def unmatched(self) -> list[str]:
        return [text for text in (*self.bodies, *self.headers) if text not in self.matched]

    def match_header(self, name: str) -> bool:
        found = next((text for text, masked in self.headers.items() if masked == name), None)
        return self.note(found)

    def match_path(self, path: list[Step]) -> bool:
        matching = (text for text, steps in self.bodies.items() if is_match(steps, path))
        return self.note(next(matching, None))

    def note(self, text: str | None) -> bool:
        if text is not None:
            self.matched.add(text)
        return text is not None

    def apply(self, body: bytes) -> bytes:
        """Replaces each masked value of a JSON body by null and keeps all other bytes."""
        kept: list[bytes] = []
        position = 0  # of the first byte that is not in `kept`
        masked: tuple[int, int] | None = None  # depth and position of the value that is being replaced
        path: list[Step] = []  # the index or name in each open list or object
        is_list: list[bool] = []  # of each open list or object
        is_name = False  # whether the next token is a member's name
        for token in JSON_TOKEN.finditer(body):
            text = token[1]
            if text in b"}]":
                path.pop()
                is_list.pop()
                is_name = False
            elif text == b",":
                if is_list[-1]:
                    path[-1] += 1  # type: ignore[operator]
                is_name = not is_list[-1]
                continue
            elif text == b":":
                continue
            elif is_name:
                path[-1], is_name = orjson.loads(text), False
                continue
            else:
                if masked is None and self.match_path(path):
                    masked = (len(path), token.start(1))
                if text in b"{[":
                    is_list.append(text == b"[")
                    path.append(0 if text == b"[" else "")
                    is_name = text == b"{"
                    continue
            if masked is not None and masked[0] == len(path):
                kept += [body[position : masked[1]], b"null"]
                position, masked = token.end(1), None
        return b"".join(kept) + body[position:]


def is_match(steps: tuple[Step, ...], path: list[Step]) -> bool:
    return len(steps) == len(path) and all(
        step is ANY or (type(step) is type(at) and step == at) for step, at in zip(steps, path, strict=True)
    )


def read_masks(texts: Iterable[str]) -> Masks:
    masks = Masks()
    for text in texts:
        if text.startswith(HEADER) and text != HEADER:
            masks.headers[text] = text.removeprefix(HEADER).lower()
        else:
            masks.bodies[text] = read_steps(text)
    return masks


def read_steps(text: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    position = 0
    while found := STEP.match(text, position):
        if position == 0 and text.startswith("."):
            break
        index, any_name, name = found.groups()
        steps.append(ANY if any_name or index == "*" else int(index) if index else name)
        position = found.end()
    if position < len(text) or text in ("", HEADER):
        raise MigrationError(f"the mask {text!r} is invalid; masks are like content[*].score or header:date")
    return tuple(steps)
