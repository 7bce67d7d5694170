"""`import` of a recording, also of a later one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from app.care.context import utc_now
from app.cli.common import audited, write_database
from app.cli.import_data import print_counts
from app.db.interchange.load import ImportRejected
from app.db.interchange.merge import Update
from app.db.sql import Steps
from app.settings import Settings
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.importer import RecordingIncomplete, importing_recording
from moving_over.recorded_calls import calls_file
from moving_over.remaining_work import RemainingWork
from moving_over.updating import updating_from_recording


def import_recording(
    settings: Settings,
    path: Path,
    values: Path | None,
    is_partial: bool,
    is_update: bool,
    removes_gone: bool,
    confirmed: int,
) -> None:
    recording = shared.read_recording(path, settings.zone, values, "importing")
    steps: Steps[tuple[Any, RemainingWork]] = importing_recording(recording, is_partial)
    if is_update:
        steps = updating_from_recording(recording, utc_now(), is_partial, removes_gone, confirmed)
    with explaining(path):
        steps = audited("import", steps, lambda done: done[0].about() if is_update else [])
        result, remaining = write_database(settings, steps)
    shared.print_gaps(recording.gaps)
    if is_update:
        print_update(result, removes_gone)
    else:
        print_counts(result)
    shared.print_remaining_work(remaining)
    raise SystemExit(1 if is_update and result.conflicts else 0)


def print_update(update: Update, is_removed: bool) -> None:
    unseen = (f"{kind} {number}" for kind, number in update.unseen)
    shared.print_list("not seen, like the lists of their person, and kept:", unseen)
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
