"""Promise: the command line explains itself, prints the schema that is kept in the project, and mints tokens
in development only."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import jwt
import pytest
from click.testing import CliRunner

from app.cli import main
from app.main import create_app
from app.settings import Settings
from tests.auth.signing import CAREGIVER_1, CLIENT_1, me
from tests.callers import Gateway, load, opened
from tests.cli.conftest import Command, assert_sentence
from tests.factories import NOW, people

pytestmark = pytest.mark.sqlite_only

ROOT = Path(__file__).parent.parent.parent
NOT_MINTED = (
    "tokens can be minted only with CARE_ENV=development and without CARE_TOKEN_KEY and CARE_TOKEN_JWKS"
)
SECRET = "a development secret of 32 bytes"


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    yield above
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        else:
            yield (*above, name)


def command_of(words: tuple[str, ...]) -> click.Command:
    found: click.Command = main
    for word in words:
        assert isinstance(found, click.Group)
        found = found.commands[word]
    return found


GROUPS = [words for words in commands(main) if isinstance(command_of(words), click.Group)]


@pytest.mark.parametrize("words", list(commands(main)), ids=lambda words: " ".join(words) or "care-gateway")
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_says_what_it_does(words: tuple[str, ...], option: str) -> None:
    said = CliRunner().invoke(main, [*words, option])

    found = command_of(words)
    assert found.help
    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout.startswith("Usage: ")
    assert " ".join(found.help.split()) in " ".join(said.stdout.split())


@pytest.mark.parametrize("words", GROUPS, ids=lambda words: " ".join(words) or "care-gateway")
def test_the_list_of_commands_cuts_no_summary_off(words: tuple[str, ...]) -> None:
    said = CliRunner().invoke(main, [*words, "--help"])

    found = command_of(words)
    assert isinstance(found, click.Group)
    text = " ".join(said.stdout.split("Commands:")[1].split())
    summaries = [(each.help or "").split("\n\n")[0] for each in found.commands.values()]
    assert "..." not in text
    assert [one for one in summaries if " ".join(one.split()).rstrip(".") not in text] == []


def test_the_version_is_that_of_the_project() -> None:
    said = CliRunner().invoke(main, ["--version"])

    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert (said.exit_code, said.output) == (0, f"care-gateway, version {version}\n")


def test_an_unknown_command_is_refused(command: Command) -> None:
    refused = command("sevre")

    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[-1] == "Error: No such command 'sevre'. Did you mean 'serve'?"


def test_the_schema_is_the_one_that_is_kept(command: Command) -> None:
    said = command("schema")

    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == (ROOT / "schema.graphql").read_text()


@pytest.mark.parametrize("secret", ["", SECRET], ids=["own key", "shared secret"])
def test_minted_tokens_open_the_service(command: Command, settings: Settings, secret: str) -> None:
    load(settings.database, people())
    minted = [
        command("token", "--role", role, "--user", f"{role}-1", token_secret=secret)
        for role in ("caregiver", "client")
    ]

    own = settings.model_copy(update={"token_key": "", "token_secret": secret})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        known = [me(Gateway(client, own), one.stdout.strip()) for one in minted]

    assert [one.exit_code for one in minted] == [0, 0]
    assert [one.stderr.startswith("created ") for one in minted] == [not secret, False]
    assert known == [CAREGIVER_1, CLIENT_1]


def test_whoever_names_nobody_gets_a_token_of_the_demo_world(command: Command) -> None:
    minted = [command("token", "--role", role) for role in ("caregiver", "client")]

    claims = [jwt.decode(said.stdout.strip(), options={"verify_signature": False}) for said in minted]
    assert [said.stderr.endswith("rejects this token\n") for said in minted] == [True, False]
    assert [(one["authorities"], one["user_name"]) for one in claims] == [
        (["CAREGIVER"], "mara.lind@example.test"),
        (["CLIENT"], "jonas.berg@example.test"),
    ]


@pytest.mark.parametrize(
    ("named", "application"), [((), "development"), (("--application", "mobile-app"), "mobile-app")]
)
def test_a_minted_token_carries_the_claims_of_the_old_services_tokens(
    command: Command, named: tuple[str, ...], application: str
) -> None:
    before = datetime.now(UTC).timestamp()

    said = command("token", "--role", "client", "--user", "jonas.berg@example.test", "--hours", "2", *named)

    claims = jwt.decode(said.stdout.strip(), options={"verify_signature": False})
    assert before + 7199 <= claims.pop("exp") <= datetime.now(UTC).timestamp() + 7200
    assert claims.pop("jti")
    assert claims == {
        "user_name": "jonas.berg@example.test",
        "authorities": ["CLIENT"],
        "client_id": application,
        "scope": ["read", "write"],
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"env": "production"},
        {"env": "production", "token_secret": SECRET},
        {"token_key": "issuer.pem"},
        {"token_jwks": "keys.json"},
    ],
)
def test_tokens_are_minted_in_development_only(
    command: Command, tmp_path: Path, changed: dict[str, str]
) -> None:
    refused = command("token", "--role", "client", "--user", "x", var=str(tmp_path / "new"), **changed)

    assert_sentence(refused, NOT_MINTED)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("hours", ["0", "-1", "8761", "many"])
def test_a_token_lives_between_an_hour_and_a_year(command: Command, hours: str) -> None:
    refused = command("token", "--role", "client", "--user", "x", "--hours", hours)

    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[-1].startswith("Error: Invalid value for '--hours': ")
