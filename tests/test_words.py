"""The documentation, the schema's descriptions and the command line's help use plain technical English."""

import re
from collections.abc import Iterator
from functools import cache

import click
import pytest
from click.testing import CliRunner

from app.cli import main
from tests.pages import ROOT

MANNERED = re.compile(
    r"\b(told|tells?|telling|mend(s|ed|ing)?|somebody|whoever|nobody|asks? for|asked for|hears?|heard"
    r"|those that|indeed)\b",
    re.IGNORECASE,
)
ALLOWED: dict[str, str] = {}  # a phrase and the reason why it is plain in its place
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def helps(command: click.Command, *words: str) -> Iterator[tuple[str, str]]:
    yield " ".join(("care-gateway", *words)), CliRunner().invoke(main, [*words, "--help"]).stdout
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from helps(inner, *words, name)


@cache
def texts() -> dict[str, str]:
    pages = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
    return {
        **{str(page.relative_to(ROOT)): CODE.sub("", page.read_text()) for page in pages},
        "schema.graphql": "\n".join(
            re.findall(r'""".*?"""|"[^"\n]+"', (ROOT / "schema.graphql").read_text(), re.DOTALL)
        ),
        **dict(helps(main)),
    }


@pytest.mark.parametrize("name", texts())
def test_a_text_avoids_mannered_words(name: str) -> None:
    text = texts()[name]
    for phrase in ALLOWED:
        text = text.replace(phrase, "")

    assert [match[0] for match in MANNERED.finditer(text)] == []
