"""`import`: reads JSON Lines, or a recording of the legacy paths."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import SEEK_END
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO

import click
import orjson

from app.care.context import utc_now
from app.cli.common import WholeNumber, audited, main, settings_or_warn, write_database
from app.cli.legacy import moving_over
from app.db.interchange.load import ImportRejected, importing
from app.telemetry.wording import OperatorError, counted

BYTES_IN_MEMORY = 32 << 20  # of what comes from a pipe; the rest is stored in a file that has no name

map_option = click.option(
    "--map",
    "values",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help='Values of the recording to replace: {"status": {"EXPIRED": "PENDING"}}.',
)


@main.command("import")
@click.argument("file", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option(
    "--partial", "is_partial", is_flag=True, help="Import an incomplete recording as far as possible."
)
@click.option(
    "--update", is_flag=True, help="Import a later recording of a service that was imported before."
)
@click.option("--remove-gone", is_flag=True, help="With --update: withdraw what the recording no longer has.")
@click.option(
    "--yes-remove",
    type=WholeNumber(0),
    default=0,
    metavar="N",
    help="With --remove-gone: the number of rows, above 20 or 2 % of a caregiver's.",
)
@map_option
def import_command(
    file: Path, is_partial: bool, update: bool, remove_gone: bool, yes_remove: int, values: Path | None
) -> None:
    """Import data from JSON Lines or from a recording of the legacy paths, in one transaction.

    With --update, what was changed here is kept and listed as a conflict; then the exit code is 1.
    """
    settings = settings_or_warn()
    if remove_gone and not update:
        raise click.UsageError("--remove-gone needs --update")
    if yes_remove and not remove_gone:
        raise click.UsageError("--yes-remove needs --remove-gone")
    if is_recording(file):
        moving_over().import_recording(settings, file, values, is_partial, update, remove_gone, yes_remove)
        return
    if is_partial or update or values:
        raise click.UsageError("--partial, --update and --map apply to recordings only")
    try:
        with click.open_file(str(file), "rb") as given, complete(given) as lines:
            steps = importing(with_progress(lines), utc_now())
            counts = write_database(settings, audited("import", steps))
    except ImportRejected as error:
        raise error.in_file(str(file)) from None
    print_counts(counts)


@contextmanager
def complete(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Reads a pipe to its end first: while an import waits for its next line, all other changes wait too."""
    if file.seekable():
        yield file
        return
    with SpooledTemporaryFile(BYTES_IN_MEMORY) as stored:
        copyfileobj(file, stored)
        stored.seek(0)
        yield stored


def with_progress(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of the file, with a progress bar on a terminal."""
    start = file.tell()  # of standard input, which a script may have begun to read
    size = file.seek(0, SEEK_END) - start
    file.seek(start)
    with click.progressbar(length=size, label="importing", file=sys.stderr) as bar:
        for line in file:
            yield line
            bar.update(len(line))


def print_counts(counts: dict[str, int]) -> None:
    counts_by_kind = (counted(count, kind.replace("_", " ")) for kind, count in counts.items())
    click.echo(", ".join(counts_by_kind) or "nothing to import")


def is_recording(path: Path) -> bool:
    """Lines of a recording have `path`; lines of an import file have `kind`."""
    if path.is_dir():
        return True
    if not path.is_file():
        return False  # standard input cannot be read twice
    try:
        with path.open("rb") as lines:
            line = orjson.loads(next((line for line in lines if line.strip()), b"null"))
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError:
        return False
    return isinstance(line, dict) and "path" in line and "kind" not in line
