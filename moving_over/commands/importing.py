"""`import` of a recording, also of a later one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app.care.context import utc_now
from app.cli.common import audited, write_database
from app.cli.import_data import print_counts
from app.db.interchange.load import ImportRejected
from app.settings import Settings
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.importer import ImportResult, RecordingIncomplete, importing_recording
from moving_over.recorded_calls import calls_file
from moving_over.updating import Update, updating_from_recording


def import_recording(
    settings: Settings, path: Path, is_partial: bool, is_update: bool, removes_gone: bool
) -> None:
    recording = shared.read_recording(path, settings.zone, "importing")
    result: ImportResult | Update
    with explaining(path):
        if is_update:
            update = updating_from_recording(recording, utc_now(), is_partial, removes_gone)
            result = write_database(settings, audited("import", update, Update.about))
        else:
            result = write_database(settings, audited("import", importing_recording(recording, is_partial)))
    shared.print_gaps(recording.gaps)
    if isinstance(result, Update):
        print_update(result, removes_gone)
    else:
        print_counts(result.counts)
    shared.print_remaining_work(result.remaining)
    raise SystemExit(1 if isinstance(result, Update) and result.conflicts else 0)


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


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Adds the file to rejections of lines, and prints the gaps of a recording."""
    try:
        yield
    except ImportRejected as error:
        raise error.in_file(str(calls_file(path))) from None
    except RecordingIncomplete as incomplete:
        shared.print_gaps(incomplete.gaps)
        raise
