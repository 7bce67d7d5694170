"""`backup`: copies the SQLite database while it is in use."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from app.cli.common import main, settings_or_warn
from app.db.admin.backup import copy_sqlite, marker_of
from app.db.drivers.interface import DatabaseError, sqlite_path

POSTGRES_ADVICE = (
    'back up PostgreSQL with its own tools: pg_dump --format=custom --file=FILE "$CARE_DATABASE_URL" '
    "(docs/operations.md), Citus by restore points (docs/citus.md)"
)


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing file.")
def backup(file: Path, force: bool) -> None:
    """Copy the SQLite database to a file, also while the service is running."""
    url = settings_or_warn().database
    if not url.startswith("sqlite:///"):
        raise DatabaseError(POSTGRES_ADVICE)
    database = sqlite_path(url)
    if file.exists() and database.exists() and file.samefile(database):
        raise DatabaseError(f"{file} is the database itself")
    if file.with_name(f"{file.name}-wal").exists():  # SQLite would apply it to the new file
        raise DatabaseError(f"{file}-wal is the write-ahead log of a database; choose another name")
    if file.exists() and not force:
        raise DatabaseError(f"{file} already exists; --force replaces it")
    try:
        with replacing(file) as part:
            copy_with_progress(database, part)
        with suppress(OSError):  # this user may not write the folder; then the metric shows the backup before
            note_backup(database)
    except OSError as error:
        raise DatabaseError(f"the backup at {file} cannot be written: {error.strerror}") from None
    click.echo(f"{file}: {file.stat().st_size:,} bytes, integrity checked")


def note_backup(database: Path) -> None:
    """Sets the time that the metrics export."""
    marker = marker_of(database)
    try:
        marker.touch(mode=0o600)
    except PermissionError:  # another user, such as root, made an earlier backup
        marker.unlink()
        marker.touch(mode=0o600)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary file that replaces the file at the end of the block, also if power is lost then. It never
    replaces a device or pipe."""
    if file.exists() and not file.is_file():
        raise DatabaseError(f"{file} is not a regular file")
    with unfinished(file) as part:
        yield part
        sync(part)
        part.replace(file)
        sync(file.absolute().parent)


@contextmanager
def unfinished(file: Path) -> Iterator[Path]:
    """A private temporary file beside the target. A killed command leaves it behind."""
    part = file.with_name(f"{file.name}.part")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(descriptor), os.stat(part))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:  # another command holds the lock or has just renamed the file
            raise DatabaseError(f"another command is writing to {file}")
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        try:
            yield part
        finally:
            with suppress(FileNotFoundError):  # after the rename it can be the file of another command
                if os.path.samestat(os.fstat(descriptor), os.stat(part)):
                    part.unlink()
    finally:
        os.close(descriptor)


def copy_with_progress(database: Path, copy: Path) -> None:
    is_terminal = sys.stderr.isatty()  # no output in a scheduled job
    with click.progressbar(length=0, label="copying", file=sys.stderr, hidden=not is_terminal) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        copy_sqlite(database, copy, progress)


def sync(path: Path) -> None:
    """fsync of a file or of a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
