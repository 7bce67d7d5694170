"""Two services that say what they are told to, what they were asked, and the command that compares them."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
from click.testing import Result

from tests.cli.conftest import Command
from tests.legacy_migration.recordings import write_lines
from tests.legacy_migration.services import Answering, Asked, Said, listening

PATH = "/gateway/profile/caregiver/session/assignment/1"
TOKENS = {"caregiver": "caregiver-token", "client": "client-token"}
JSON = {"Content-Type": "application/json"}
FIRST = f"line 1: GET {PATH} (caregiver)"
ONE = "0 same, 1 different"
Saying = Said | Answering


class Two:
    def __init__(self, command: Command, folder: Path, stack: ExitStack) -> None:
        self.command = command
        self.folder = folder
        self.stack = stack
        self.asked: dict[str, list[Asked]] = {"old": [], "new": []}
        self.addresses: dict[str, str] = {}
        for role, token in TOKENS.items():
            (folder / f"{role}s").write_text(
                f"# of the old service\n{role}-1 {token}-1\n\n{role}-2 {token}-2\n"
            )

    def say(self, old: Saying, new: Saying) -> None:
        for name, said in (("old", old), ("new", new)):
            self.addresses[name] = self.stack.enter_context(listening(self.noting(name, said)))

    def noting(self, name: str, said: Saying) -> Answering:
        def answer(asked: Asked) -> Said | None:
            self.asked[name].append(asked)
            return said(asked) if callable(said) else said

        return answer

    def compare(self, *options: str, cases: list[dict[str, Any]] | None = None) -> Result:
        file = write_lines(self.folder / "cases.jsonl", [{"path": PATH}] if cases is None else cases)
        addresses = [word for name, address in self.addresses.items() for word in (f"--{name}", address)]
        tokens = [word for role in TOKENS for word in (f"--{role}s", str(self.folder / f"{role}s"))]
        return self.command("legacy", "compare", *addresses, *tokens, *options, str(file))


def told(result: Result) -> tuple[int, list[str]]:
    assert result.stderr == "comparing\n"
    return result.exit_code, result.stdout.splitlines()


def body(value: object) -> Said:
    return Said(body=orjson.dumps(value))
