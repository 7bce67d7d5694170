"""Links of the documentation lead to existing files and headings, every page is linked from a start page, and
every command that a page shows exists."""

import posixpath
import re
from collections.abc import Iterator

import click
import pytest

from app.cli import main
from tests import pages

START_PAGES = ("README.md", "CHANGELOG.md", "docs/README.md")
PAGES = sorted(
    str(path.relative_to(pages.ROOT))
    for path in (
        *pages.ROOT.glob("*.md"),
        *(pages.ROOT / "docs").rglob("*.md"),
        *pages.ROOT.glob("*/README.md"),
    )
    if not path.relative_to(pages.ROOT).parts[0].startswith(".")
)
COMMAND = re.compile(r"care-gateway ((?:[a-z][a-z-]* ?)+)")


def broken_links(name: str, page: str) -> Iterator[str]:
    for link in pages.links(page):
        if re.match(r"https?://", link):
            continue
        file, _, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
        path = pages.ROOT / target
        if (
            target.startswith("..")
            or not path.exists()
            or (anchor and anchor not in pages.anchors(page if target == name else path.read_text()))
        ):
            yield link


@pytest.mark.parametrize("name", PAGES)
def test_no_link_is_broken(name: str) -> None:
    assert list(broken_links(name, pages.read(name))) == []


def test_broken_links_are_found() -> None:
    page = "# Here\n[a](nowhere.md) [b](#here) [c](#there) [d](docs/limits.md#no-such) [e](docs/limits.md)\n"

    assert list(broken_links("README.md", page)) == ["nowhere.md", "#there", "docs/limits.md#no-such"]


def test_headings_have_the_anchors_of_code_hosts() -> None:
    page = "# A `b` & c, [d](e.md)\n## Who may?\n## Who may?\n```sh\n# not me\n```\n"

    assert pages.anchors(page) == {"a-b--c-d", "who-may", "who-may-1"}


def test_every_page_is_linked_from_a_start_page() -> None:
    linked = {
        posixpath.normpath(posixpath.join(posixpath.dirname(name), link.partition("#")[0]))
        for name in START_PAGES
        for link in pages.links(pages.read(name))
    }

    decisions = {name for name in PAGES if name.startswith("docs/decisions/0")}
    assert set(PAGES) - decisions - linked - {"README.md"} == set()


def exists(words: list[str]) -> bool:
    """Whether the words begin with a command; its arguments may follow."""
    command: click.Command | None = main
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    return command is not None


@pytest.mark.parametrize("name", PAGES)
def test_every_command_that_a_page_shows_exists(name: str) -> None:
    shown = [
        words.split()
        for block in pages.blocks(pages.read(name))
        if block.kind in ("sh", "console")
        for words in COMMAND.findall(block.text)
    ]

    assert [words for words in shown if not exists(words)] == []
