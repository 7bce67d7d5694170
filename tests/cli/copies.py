"""Runs `copy` as an operator does, whose settings name the database that is copied."""

from click.testing import CliRunner, Result
from sqlmodel import SQLModel

from app.cli import main

EVERY_TABLE = sorted(SQLModel.metadata.tables)


def copy(source: str, target: str) -> Result:
    return run("copy", "--from", source, "--to", target, database_url=source)


def run(*words: str, **changed: str) -> Result:
    environment = {"CARE_ENV": "development"} | {
        f"CARE_{name.upper()}": value for name, value in changed.items()
    }
    return CliRunner().invoke(main, list(words), env=environment)
