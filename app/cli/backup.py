"""The command that copies the embedded database while it is in use: `backup`."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app.cli.common import settings_or_warn
from app.db.admin.backup import copy_sqlite
from app.db.drivers.interface import DatabaseError, sqlite_path

ASK_POSTGRES = (
    'PostgreSQL is backed up by its own tools: pg_dump --format=custom --file=FILE "$CARE_DATABASE_URL" '
    "(docs/operations.md)"
)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if there is one.")
def backup(file: Path, force: bool) -> None:
    """Copy the embedded database into a file, also while it is served."""
    url = settings_or_warn().database
    if not url.startswith("sqlite:///"):
        raise DatabaseError(ASK_POSTGRES)
    path = sqlite_path(url)
    refuse_to_replace(file, path, force)
    try:
        with unfinished(file) as part:
            copy_with_progress(path, part)
            sync(part)
            part.replace(file)
            sync(file.absolute().parent)
    except OSError as error:
        raise DatabaseError(f"the backup at {file} cannot be written: {error.strerror}") from None
    click.echo(f"{file}: {file.stat().st_size:,} bytes, whole and checked")


def refuse_to_replace(file: Path, database: Path, force: bool) -> None:
    if file.exists() and database.exists() and file.samefile(database):
        raise DatabaseError(f"{file} is the database itself")
    if file.with_name(f"{file.name}-wal").exists():  # SQLite would read it into the new file
        raise DatabaseError(f"there is the log of a database at {file}-wal; choose another name")
    if file.exists() and not force:
        raise DatabaseError(f"there is a file at {file} already; --force replaces it")


@contextmanager
def unfinished(file: Path) -> Iterator[Path]:
    """An empty file that nobody else may read, beside the one that it becomes; a dead command leaves one."""
    part = file.with_name(f"{file.name}.part")
    held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(held), os.stat(part))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:  # held by another command, or that has just finished with what we opened
            raise DatabaseError(f"another backup is being written to {file}")
        os.fchmod(held, 0o600)
        os.ftruncate(held, 0)
        try:
            yield part
        finally:
            part.unlink(missing_ok=True)
    finally:
        os.close(held)


def copy_with_progress(path: Path, copy: Path) -> None:
    is_watched = sys.stderr.isatty()  # and says nothing where a schedule runs it
    with click.progressbar(length=0, label="copying", file=sys.stderr, hidden=not is_watched) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        copy_sqlite(path, copy, progress)


def sync(path: Path) -> None:
    """Until it is on the disk: a file's content, or a folder's names."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
