"""`import` of a recording, also of a later one, and `legacy resolve`, which decides conflicts."""

from pathlib import Path
from typing import Any

import click

from app.care.context import utc_now
from app.cli.common import audited, settings_or_warn, write_database
from app.cli.import_data import map_option, print_counts
from app.db.interchange.change import TAKEN
from app.db.interchange.load import ImportRejected
from app.db.interchange.merge import Choice, Update
from app.db.interchange.recorded import COLUMNS, Key
from app.db.sql import Steps
from app.settings import Settings
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.importer import deciding, importing_recording, updating_from_recording
from moving_over.recorded_calls import calls_file
from moving_over.recorded_rows import RemainingWork

WAY_OUT = (
    "ids that both services use for different rows; for a submission, `legacy resolve take-old` assigns "
    "another id; enter other rows again in the old service, record, and run `legacy resolve keep-here`:"
)


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
    steps = audited("import", steps, lambda done: done[0].about() if is_update else [])
    try:
        result, remaining = write_database(settings, steps)
    except ImportRejected as error:
        raise error.in_file(str(calls_file(path))) from None
    finally:
        shared.print_gaps(recording.gaps)
    if is_update:
        print_update(result, removes_gone)
    else:
        print_counts(result)
    shared.print_remaining_work(remaining)
    if is_update and result.conflicts:
        click.echo("decide with `care-gateway legacy resolve take-old|keep-here RECORDING KIND:ID`", err=True)
        raise SystemExit(1)


def print_update(update: Update, is_removed: bool) -> None:
    unseen = (f"{kind} {number}" for kind, number in update.unseen)
    shared.print_list("not seen, like the lists of their person, and kept:", unseen)
    for kind, number in update.gone:
        click.echo(f"{'removed' if is_removed else 'gone'}\t{kind}\t{number}")
    conflicts = sorted(update.conflicts.items())
    for (kind, number), reason in conflicts:
        click.echo(f"conflict\t{kind}\t{number}\t{reason}")
    taken = (f"{kind} {number}" for (kind, number), reason in conflicts if TAKEN in reason)
    shared.print_list(WAY_OUT, taken)
    parts = [
        *(f"{counted(number, kind)} added" for kind, number in update.added.items()),
        *(f"{counted(number, kind)} changed" for kind, number in update.changed.items()),
        *([f"{len(update.gone):,} {'removed' if is_removed else 'gone'}"] if update.gone else []),
        *([f"{update.erased:,} of erased clients skipped"] if update.erased else []),
        counted(len(update.conflicts), "conflict"),
    ]
    click.echo(", ".join(parts))


def read_key(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[Key]:
    found = []
    for kind, _, number in (text.partition(":") for text in texts):
        if kind not in COLUMNS or not number.isdecimal():
            raise click.BadParameter("must be like assignment:17")
        found.append((kind, int(number)))
    return found


@click.command()
@click.argument("choice", type=click.Choice([each.value for each in Choice]))
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.argument("keys", nargs=-1, required=True, callback=read_key, metavar="KIND:ID...")
@map_option
def resolve(choice: str, recording: Path, keys: list[Key], values: Path | None) -> None:
    """Decide conflicts: write the recorded row over the one here, or keep the one here.

    What is kept is a conflict again when the old row changes.
    """
    settings = settings_or_warn()
    extracted = shared.read_recording(recording, settings.zone, values, "importing")
    steps = deciding(extracted, utc_now(), dict.fromkeys(keys, Choice(choice)))
    write_database(settings, audited("resolve", steps, Update.about))
    click.echo(f"{counted(len({*keys}), 'conflict')} resolved")
