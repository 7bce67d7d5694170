"""Masks: parts of a response that may differ, named by a path such as `content[*].score` or `header:date`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from moving_over import LegacyMigrationError

HEADER = "header:"
ANY = None  # the step of [*] and *
STEP = re.compile(r"\.?(?:\[(\*|[0-9]{1,6})\]|(\*)|([^.\[\]*]+))")
JSON_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+)')

Step = str | int | None
Path = tuple[Step, ...]


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
        found = next((text for text, steps in masks.items() if is_match(steps, path)), None)
        if found is not None:
            self.matched.add(found)
        return found is not None

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
        step is ANY or (type(step) is type(at) and step == at) for step, at in zip(steps, path, strict=True)
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
