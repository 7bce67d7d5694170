"""A stand-in for the old service, and the commands that move its data into an empty database."""

from pathlib import Path

from click.testing import Result

from tests.cli.conftest import Command
from tests.moving_over.stand_in import OldService

TOKENS = ("--caregivers", "env:CAREGIVERS", "--clients", "env:CLIENTS")


class Move:
    def __init__(self, old: OldService, address: str, command: Command, database: str, folder: Path) -> None:
        self.old, self.address, self.command = old, address, command
        self.database, self.folder = database, folder
        self.count = 0

    def run(self, *words: str) -> Result:
        return self.command(*words, database_url=self.database)

    def record_to(self, folder: str, *options: str) -> Result:
        given = ("--to", str(self.folder / folder), *(() if "--caregivers" in options else TOKENS))
        return self.run("legacy", "record", "--old", self.address, *given, *options)

    def record(self, *options: str) -> str:
        self.count += 1
        result = self.record_to(f"recording-{self.count}", *options)
        assert result.exit_code == 0, result.output
        return str(self.folder / f"recording-{self.count}")

    def lines(self, *words: str) -> tuple[int, list[str]]:
        """The exit code and the output."""
        result = self.run(*words)
        assert result.exit_code in (0, 1), result.output
        return result.exit_code, result.stdout.splitlines()
