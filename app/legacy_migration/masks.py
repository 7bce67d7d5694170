"""Masks: what may differ between two answers, named by a path such as `content[*].score` or `header:date`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from app.legacy_migration.errors import MovingRefused

HEADER = "header:"
ANY = None  # what [*] and * stand for
STEP = re.compile(r"\.?(?:\[(\*|[0-9]{1,6})\]|(\*)|([^.\[\]*]+))")
TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+)')

Step = str | int | None


class MaskRefused(MovingRefused):
    """A mask cannot be read; the message is one sentence for the operator."""


@dataclass
class Masks:
    """The masks of a run, and which of them have matched something."""

    bodies: dict[str, tuple[Step, ...]] = field(default_factory=dict)  # by how they were written
    headers: dict[str, str] = field(default_factory=dict)
    matched: set[str] = field(default_factory=set)

    @property
    def unmatched(self) -> list[str]:
        return [text for text in (*self.bodies, *self.headers) if text not in self.matched]

    def hides_header(self, name: str) -> bool:
        for text, masked in self.headers.items():
            if masked == name:
                self.matched.add(text)
                return True
        return False

    def hides(self, path: list[Step]) -> bool:
        for text, steps in self.bodies.items():
            if len(steps) == len(path) and all(map(fits, steps, path)):
                self.matched.add(text)
                return True
        return False

    def cut(self, body: bytes) -> bytes:
        """A JSON body with null in place of each masked value, and otherwise the same bytes."""
        kept: list[bytes] = []
        begun = 0  # from here on nothing is kept yet
        masked: tuple[int, int] | None = None  # how deep the value lies that is being left out, and where
        path: list[Step] = []  # into each open list or object: the index or the name
        lists: list[bool] = []  # whether what is open is a list
        is_name = False  # that comes next
        for token in TOKEN.finditer(body):
            text = token[1]
            if text in b"}]":
                path.pop()
                lists.pop()
                is_name = False
            elif text == b",":
                if lists[-1]:
                    path[-1] += 1  # type: ignore[operator]
                is_name = not lists[-1]
                continue
            elif text == b":":
                continue
            elif is_name:
                path[-1], is_name = orjson.loads(text), False
                continue
            else:
                if masked is None and self.hides(path):
                    masked = (len(path), token.start(1))
                if text in b"{[":
                    lists.append(text == b"[")
                    path.append(0 if text == b"[" else "")
                    is_name = text == b"{"
                    continue
            if masked is not None and masked[0] == len(path):
                kept += [body[begun : masked[1]], b"null"]
                begun, masked = token.end(1), None
        return b"".join(kept) + body[begun:]


def fits(step: Step, at: Step) -> bool:
    return step is ANY or (type(step) is type(at) and step == at)


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
    at = 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None or (at == 0 and text.startswith(".")):
            break
        index, any_name, name = found.groups()
        steps.append(ANY if any_name or index == "*" else int(index) if index else name)
        at = found.end()
    if at < len(text) or text in ("", HEADER):
        raise MaskRefused(f"the mask {text!r} is none; masks are like content[*].score or header:date")
    return tuple(steps)
