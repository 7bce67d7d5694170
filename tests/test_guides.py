"""The queries, curl lines and commands of the guides return what the guides show."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main
from app.db.admin.demo import demo_lines
from app.db.interchange.load import importing
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
def test_the_requests_of_a_guide_return_what_it_shows(gateway: Gateway, name: str) -> None:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))

    responses = list(run_page(pages.read(f"docs/guides/{name}.md"), gateway))

    assert responses
    assert [real for _, real in responses] == [shown for shown, _ in responses]


@sqlite
def test_the_commands_of_the_operators_guide_print_what_it_shows(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = pages.blocks(pages.read("docs/guides/operator.md"))
    (books,) = [block.text for block in guide if block.kind == "jsonl"]
    Path("books.jsonl").write_text(books)
    commands = COMMAND.findall("".join(block.text for block in guide if block.kind == "console"))
    printed = []

    for line, _ in commands:
        variables, arguments = line.split("care-gateway ")
        env = {"CARE_DATABASE_URL": database_url, **dict(each.split("=", 1) for each in variables.split())}
        printed.append(CliRunner().invoke(main, shlex.split(arguments), env=env).output)

    assert len(commands) == 8
    assert [without_sizes(each) for each in printed] == [without_sizes(shown) for _, shown in commands]


def without_sizes(text: str) -> str:
    """The size of a database file depends on the version of its tables."""
    return re.sub(r"[0-9,]+ bytes", "some bytes", text)
