"""The part of `import` that reads a recording of the legacy paths."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import orjson

from app.cli.common import on_database, on_record
from app.db.admin.importing import ImportRefused
from app.legacy_migration.body_diff import printable
from app.legacy_migration.extraction import Gaps, extract
from app.legacy_migration.importer import ImportResult, RecordingIncomplete, importing_recording
from app.legacy_migration.recorded_calls import Call, calls_file, open_calls, read_calls, size_of
from app.settings import Settings
from app.telemetry.wording import counted

MOST_SHOWN = 10  # of one kind


def is_recording(path: Path) -> bool:
    """Lines of a recording have `path`; lines of an import file have `kind`."""
    if path.is_dir():
        return True
    if not path.is_file():
        return False  # standard input cannot be read twice
    with open_calls(path) as lines:
        first = next((line for line in lines if line.strip()), b"null")
    try:
        line = orjson.loads(first)
    except orjson.JSONDecodeError:
        return False
    return isinstance(line, dict) and "path" in line and "kind" not in line


def import_recording(settings: Settings, path: Path, is_partial: bool) -> None:
    """Reads the recording twice: to find gaps, and to import it."""
    recording = extract(path, with_bar(path, "reading"), settings.zone)
    operation = importing_recording(recording, lambda: with_bar(path, "importing"), settings.zone, is_partial)
    try:
        taken = on_database(settings, lambda db: db.write(on_record("import", operation)))
    except ImportRefused as refusal:
        raise ImportRefused.of_file(str(calls_file(path)), refusal) from None
    except RecordingIncomplete as incomplete:
        print_gaps(incomplete.gaps)
        raise
    print_gaps(taken.gaps)
    print_counts(taken.counts)
    print_remaining_work(taken)


def with_bar(path: Path, label: str) -> Iterator[Call]:
    with click.progressbar(length=size_of(path), label=label, file=sys.stderr) as bar:
        yield from read_calls(path, bar.update)


def print_counts(counts: dict[str, int]) -> None:
    click.echo(
        ", ".join(counted(count, kind.replace("_", " ")) for kind, count in counts.items())
        or "nothing to load"
    )


def print_gaps(gaps: Gaps) -> None:
    for gap, found in gaps.items():
        if found:
            click.echo(f"{gap}:", err=True)
            print_some(list(found))


def print_remaining_work(taken: ImportResult) -> None:
    if taken.books_without_questions:
        click.echo("books without questions; add them with `care-gateway books import`:", err=True)
        print_some([f"book {number}" for number in taken.books_without_questions])
    if taken.people_without_account:
        click.echo("people without an account; add it with `care-gateway account link`:", err=True)
        print_some([f"{role.lower()} {number}" for role, number in taken.people_without_account])
    if taken.users_without_person:
        click.echo("user names that match no person; use `care-gateway account link` or `add`:", err=True)
        print_some([f"{role.lower()} {user}" for role, user in taken.users_without_person])


def print_some(found: list[str]) -> None:
    for what in found[:MOST_SHOWN]:
        click.echo(f"  {printable(what)}", err=True)
    if len(found) > MOST_SHOWN:
        click.echo(f"  and {len(found) - MOST_SHOWN:,} more", err=True)
