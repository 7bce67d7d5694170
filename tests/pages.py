"""Parses pages of the documentation: fenced blocks, sections, headings and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    kind: str  # the words after the fence: `graphql`, `json variables`
    text: str


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [Block(kind, text) for kind, text in FENCE.findall(page)]


def without_blocks(page: str) -> str:
    return FENCE.sub("", page)


def links(page: str) -> list[str]:
    return LINK.findall(without_blocks(page))


def sections(page: str, level: int = 2) -> Iterator[tuple[str, str]]:
    """Each heading of a level, with the text below it."""
    parts = re.split(rf"^{'#' * level} +(.+)$", page, flags=re.MULTILINE)[1:]
    return zip(parts[::2], parts[1::2], strict=True)


def anchors(page: str) -> set[str]:
    """The anchors of the headings, as code hosts generate them."""
    found: set[str] = set()
    for heading in HEADING.findall(without_blocks(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        numbers = (name if number == 0 else f"{name}-{number}" for number in range(100))
        found.add(next(each for each in numbers if each not in found))
    return found


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of a table."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
