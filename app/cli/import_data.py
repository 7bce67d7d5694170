"""`import`: reads JSON Lines, or a recording of the legacy paths."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import click
import orjson

from app.care.context import utc_now
from app.cli.common import audited, settings_or_warn, write_database
from app.db.admin.importing import ImportRefused, importing
from app.legacy_migration.body_diff import printable
from app.legacy_migration.extraction import Gaps, extract
from app.legacy_migration.importer import RecordingIncomplete, importing_recording
from app.legacy_migration.recorded_calls import Call, calls_file, open_calls, read_calls, size_of
from app.legacy_migration.remaining_work import RemainingWork
from app.legacy_migration.updating import Update, updating_from_recording
from app.settings import Settings
from app.telemetry.wording import counted

MAX_SHOWN = 10  # lines below each heading


@click.command("import")
@click.argument("file", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option(
    "--partial", "is_partial", is_flag=True, help="Import an incomplete recording as far as possible."
)
@click.option(
    "--update", is_flag=True, help="Import a later recording of a service that was imported before."
)
@click.option("--remove-gone", is_flag=True, help="With --update: withdraw what the recording no longer has.")
def import_command(file: Path, is_partial: bool, update: bool, remove_gone: bool) -> None:
    """Import data from JSON Lines or from a recording of the legacy paths, in one transaction.

    With --update, what was changed here is kept and listed as a conflict; then the exit code is 1.
    """
    settings = settings_or_warn()
    if remove_gone and (is_partial or not update):
        raise click.UsageError("--remove-gone needs --update, and a complete recording (no --partial)")
    if is_recording(file):
        if update:
            update_from_recording(settings, file, is_partial, remove_gone)
        else:
            import_recording(settings, file, is_partial)
        return
    if is_partial or update:
        raise click.UsageError("--partial and --update apply to recordings only")
    try:
        with click.open_file(str(file), "rb") as lines:
            counts = write_database(settings, audited("import", importing(with_progress(lines))))
    except ImportRefused as error:
        raise error.in_file(str(file)) from None
    print_counts(counts)


def with_progress(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of the file, with a progress bar on a terminal."""
    size = os.fstat(file.fileno()).st_size if file.seekable() else 0
    with click.progressbar(length=size, label="importing", file=sys.stderr) as bar:
        for line in file:
            yield line
            bar.update(len(line))


def print_counts(counts: dict[str, int]) -> None:
    counts_by_kind = (counted(count, kind.replace("_", " ")) for kind, count in counts.items())
    click.echo(", ".join(counts_by_kind) or "nothing to import")


# --- a recording ----------------------------------------------------------------------------------


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
    recording = extract(path, read_with_bar(path, "reading"), settings.zone)
    calls = partial(read_with_bar, path, "importing")
    operation = importing_recording(recording, calls, settings.zone, is_partial)
    with explaining(path):
        imported = write_database(settings, audited("import", operation))
    print_gaps(imported.gaps)
    print_counts(imported.counts)
    print_remaining_work(imported.remaining)


def update_from_recording(settings: Settings, path: Path, is_partial: bool, removes_gone: bool) -> None:
    recording = extract(path, read_with_bar(path, "reading"), settings.zone)
    operation = updating_from_recording(
        recording,
        partial(read_with_bar, path, "importing"),
        settings.zone,
        utc_now(),
        is_partial,
        removes_gone,
    )
    with explaining(path):
        update = write_database(settings, audited("import", operation, Update.about))
    print_gaps(recording.gaps)
    print_update(update, removes_gone)
    print_remaining_work(update.remaining)
    raise SystemExit(1 if update.conflicts else 0)


def print_update(update: Update, is_removed: bool) -> None:
    for kind, number in update.gone:
        click.echo(f"{'removed' if is_removed else 'gone'}\t{kind}\t{number}")
    for (kind, number), reason in sorted(update.conflicts.items()):
        click.echo(f"conflict\t{kind}\t{number}\t{reason}")
    parts = [
        *(f"{counted(number, kind)} added" for kind, number in update.added.items()),
        *(f"{counted(number, kind)} changed" for kind, number in update.changed.items()),
        *([f"{len(update.gone):,} {'removed' if is_removed else 'gone'}"] if update.gone else []),
        *([f"{update.erased:,} of erased clients skipped"] if update.erased else []),
        counted(len(update.conflicts), "conflict"),
    ]
    click.echo(", ".join(parts))


def read_with_bar(path: Path, label: str) -> Iterator[Call]:
    """The calls of the file, with a progress bar on a terminal."""
    with click.progressbar(length=size_of(path), label=label, file=sys.stderr) as bar:
        yield from read_calls(path, bar.update)


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Adds the file to rejections of lines, and prints the gaps of a recording."""
    try:
        yield
    except ImportRefused as error:
        raise error.in_file(str(calls_file(path))) from None
    except RecordingIncomplete as incomplete:
        print_gaps(incomplete.gaps)
        raise


def print_gaps(gaps: Gaps) -> None:
    for gap, found in gaps.items():
        print_list(f"{gap}:", found)


def print_remaining_work(remaining: RemainingWork) -> None:
    print_list(
        "erased clients, whose rows were skipped:",
        [f"client {number}" for number in remaining.erased_clients],
    )
    print_list(
        "books without questions; add them with `care-gateway books import`:",
        [f"book {number}" for number in remaining.books_without_questions],
    )
    print_list(
        "people without an account; add it with `care-gateway account link`:",
        [f"{role.lower()} {number}" for role, number in remaining.people_without_account],
    )
    print_list(
        "user names that match no person; use `care-gateway account link` or `add`:",
        [f"{role.lower()} {user}" for role, user in remaining.users_without_person],
    )


def print_list(title: str, items: Iterable[str]) -> None:
    """Prints the title and the first items to standard error, or nothing if there are no items."""
    items = list(items)
    if items:
        shown = [title, *(f"  {printable(item)}" for item in items[:MAX_SHOWN])]
        if len(items) > MAX_SHOWN:
            shown.append(f"  and {len(items) - MAX_SHOWN:,} more")
        click.echo("\n".join(shown), err=True)
