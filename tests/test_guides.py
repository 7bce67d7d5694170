"""What the guides show is so: their queries and curl lines, sent to the demo world, are answered so, and
the commands of the operator's guide, run on an empty database, print what it says they print."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main
from app.db.admin.demo import demo_lines
from app.db.admin.importing import importing
from app.settings import Settings
from tests import pages
from tests.callers import Gateway, run_write
from tests.doc_runner import run_page, with_default_limits
from tests.factories import NOW

GUIDES = sorted(path.stem for path in (pages.ROOT / "docs" / "guides").glob("*.md"))
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)

sqlite = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return with_default_limits(settings)


@sqlite
@pytest.mark.parametrize("name", GUIDES)
def test_what_a_guide_asks_is_answered_as_it_shows(gateway: Gateway, name: str) -> None:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))

    answers = list(run_page(pages.read(f"docs/guides/{name}.md"), gateway))

    assert answers
    assert [came for _, came in answers] == [shown for shown, _ in answers]


@sqlite
def test_what_the_operator_types_prints_what_the_guide_shows(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = pages.blocks(pages.read("docs/guides/operator.md"))
    (books,) = [block.text for block in guide if block.kind == "jsonl"]
    Path("books.jsonl").write_text(books)
    typed = COMMAND.findall("".join(block.text for block in guide if block.kind == "console"))
    printed = []

    for line, _ in typed:
        before, words = variables_and_words(line)
        said = CliRunner().invoke(main, words, env={"CARE_DATABASE_URL": database_url, **before})
        printed.append(said.output)

    assert len(typed) == 8
    assert [sizes_aside(each) for each in printed] == [sizes_aside(shown) for _, shown in typed]


def variables_and_words(line: str) -> tuple[dict[str, str], list[str]]:
    before, words = line.split("care-gateway ")
    return dict(each.split("=", 1) for each in before.split()), shlex.split(words)


def sizes_aside(text: str) -> str:
    """How large a database file is depends on the tables of the version."""
    return re.sub(r"[0-9,]+ bytes", "some bytes", text)
