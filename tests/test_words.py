"""The documentation, the schema's descriptions and the command line's help use plain technical English."""

import re
from functools import cache

import pytest
from click.testing import CliRunner

from app.cli import main
from tests.commands import every_command
from tests.pages import ROOT

MANNERED = re.compile(
    r"\b(told|tells?|telling|mend(s|ed|ing)?|somebody|whoever|nobody|asks? for|asked for|hears?|heard"
    r"|those that|indeed)\b",
    re.IGNORECASE,
)
ALLOWED: dict[str, str] = {}  # a phrase and the reason why it is plain in its place
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


@cache
def texts() -> dict[str, str]:
    pages = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
    return {
        **{str(page.relative_to(ROOT)): CODE.sub("", page.read_text()) for page in pages},
        "schema.graphql": "\n".join(
            re.findall(r'""".*?"""|"[^"\n]+"', (ROOT / "schema.graphql").read_text(), re.DOTALL)
        ),
        **{
            " ".join(("care-gateway", *words)): CliRunner().invoke(main, [*words, "--help"]).stdout
            for words, _ in every_command(main)
        },
    }


@pytest.mark.parametrize("name", texts())
def test_a_text_avoids_mannered_words(name: str) -> None:
    text = texts()[name]
    for phrase in ALLOWED:
        text = text.replace(phrase, "")

    assert [match[0] for match in MANNERED.finditer(text)] == []
