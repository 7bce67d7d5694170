"""Promise: every command has a help text; `schema` prints the schema of the project."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from app.cli import main
from tests.cli.conftest import Command
from tests.commands import every_command

pytestmark = pytest.mark.sqlite_only

ROOT = Path(__file__).parent.parent.parent


COMMANDS = dict(every_command(main))
GROUPS = [words for words, command in COMMANDS.items() if isinstance(command, click.Group)]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "care-gateway")
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_a_help_text(words: tuple[str, ...], option: str) -> None:
    result = CliRunner().invoke(main, [*words, option])

    found = COMMANDS[words]
    assert found.help
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: ")
    assert " ".join(found.help.split()) in " ".join(result.stdout.split())


@pytest.mark.parametrize("words", GROUPS, ids=lambda words: " ".join(words) or "care-gateway")
def test_the_list_of_commands_shows_complete_summaries(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*words, "--help"])

    found = COMMANDS[words]
    assert isinstance(found, click.Group)
    text = " ".join(result.stdout.split("Commands:")[1].split())
    summaries = [(each.help or "").split("\n\n")[0] for each in found.commands.values()]
    assert "..." not in text
    assert [one for one in summaries if " ".join(one.split()).rstrip(".") not in text] == []


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(main, ["--version"])

    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert (result.exit_code, result.output) == (0, f"care-gateway, version {version}\n")


def test_the_schema_equals_the_file_of_the_project(command: Command) -> None:
    result = command("schema")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (ROOT / "schema.graphql").read_text()
