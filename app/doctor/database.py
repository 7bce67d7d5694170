"""Checks the database: access to its files, migrations, durability, disk space and privileges."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

from sqlalchemy import text

from app.db.admin.backup import LOG_SUFFIXES
from app.db.admin.migrate import NEWER_ADVICE, is_newer, newest_version, number_of, serves, version_of
from app.db.drivers.interface import location_of, sqlite_path
from app.db.drivers.sqlite import connect_sqlite
from app.db.sql import Statement, selecting
from app.doctor.findings import OTHERS_WRITE, Finding, Installation, failed, ok, warning

MIB = 1024 * 1024
MIN_FREE = 100 * MIB
MAX_CHECKED = 1024 * MIB  # a larger file takes too long to check
MAX_LOG = 500 * MIB
OTHERS_ANY = 0o077
OWNER = "make the service's user its owner: chown USER"

POSTGRES_SETTINGS = Statement(text("SELECT name, setting FROM pg_settings"))
POSTGRES_CONNECTION = Statement(
    text(
        "SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),"
        " inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1'"
    )
)
POSTGRES_ACCOUNT = Statement(
    text(
        "SELECT rolsuper, rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication"
        " FROM pg_roles WHERE rolname = current_user"
    )
)
# Settings that make a commit durable, and settings that keep rows out of the server's log (docs/security.md).
DURABLE = {"fsync": {"on"}, "full_page_writes": {"on"}, "synchronous_commit": {"on", "remote_apply"}}
PRIVATE = {"log_error_verbosity": {"terse"}, "log_min_error_statement": {"panic"}, "log_statement": {"none"}}


# --- also checked by commands before they use the database ----------------------------------------


def check_version(version: str | None) -> Finding:
    """`version` is that of the tables; None if there are no tables."""
    if version is None:
        return failed("migrations", "the database has no tables", "run `care-gateway migrate`")
    if number_of(version) == number_of(newest_version()):
        rest = "" if version >= newest_version() else "; `care-gateway migrate --contract` ends the upgrade"
        return ok("migrations", f"the tables are those of this version, {version}{rest}")
    if serves(version):
        message = f"the tables are of the next version, {version}: this one only serves them"
        return warning("migrations", message, "run commands of the next version: docs/upgrading.md")
    message = f"the tables are of version {version}, and this version needs {newest_version()}"
    advice = NEWER_ADVICE if is_newer(version) else "back up, then run `care-gateway migrate`"
    return failed("migrations", message, advice)


def check_access(path: Path) -> Iterator[Finding]:
    """Permissions that this user lacks; opens no file."""
    path = path.absolute()
    for folder in reversed(path.parents):
        if not os.access(folder, os.X_OK):
            if os.access(folder, os.F_OK):
                advice = "let the service's user enter it, or keep the database elsewhere"
                yield failed("files", f"this user may not enter the folder {folder}", advice)
            return
    if not os.access(path, os.F_OK):
        return
    for file in (path, *(path.with_name(path.name + suffix) for suffix in LOG_SUFFIXES)):
        if lacks(file, os.R_OK):
            yield failed("files", f"this user may not read {file}", f"{OWNER} {file}")
        elif lacks(file, os.W_OK):
            advice = f"{OWNER} {file}, and chmod 600; or the disk is mounted read-only"
            yield failed("files", f"this user may not write {file}", advice)
    if not os.access(path.parent, os.W_OK):
        advice = f"SQLite creates files beside the database: {OWNER} {path.parent}"
        yield failed("files", f"this user may not write the folder {path.parent}", advice)


def lacks(file: Path, mode: int) -> bool:
    """Whether this user lacks access to the file. False for a missing file: a running service creates and
    removes its log at any time."""
    return os.access(file, os.F_OK) and not os.access(file, mode) and os.access(file, os.F_OK)


# --- checks ---------------------------------------------------------------------------------------


def check_migrations(installation: Installation) -> Iterator[Finding]:
    assert installation.db is not None
    yield check_version(installation.runner.run(version_of(installation.db)))


def check_database(installation: Installation) -> Iterator[Finding]:
    url = installation.settings.database
    if url.startswith("sqlite:"):
        path = sqlite_path(url)
        yield check_integrity(path)
        yield from [*check_privacy(path), *check_access(path)] or [
            ok("files", "only their owner may use them")
        ]
        yield from check_disk(path)
    else:
        yield from check_postgres(installation)


def check_integrity(path: Path) -> Finding:
    damage = "ok"
    with closing(connect_sqlite(path)) as connection:
        try:
            if path.stat().st_size < MAX_CHECKED:
                damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            damage = str(error)
    if damage != "ok":
        return failed("database", "the file is damaged", "restore a backup: docs/operations.md, Restore")
    return ok("database", f"SQLite at {path.absolute()} responds and syncs every commit")


def check_privacy(path: Path) -> Iterator[Finding]:
    """The files that SQLite creates beside the database have the same permissions."""
    path = path.absolute()
    if S_IMODE(path.stat().st_mode) & OTHERS_ANY:
        yield failed("files", f"other users may read {path}", f"chmod 600 {path}")
    if S_IMODE(path.parent.stat().st_mode) & OTHERS_WRITE:
        message = f"other users may write the folder {path.parent}"
        yield failed("files", message, f"chmod 700 {path.parent}")


def check_full_disk(path: Path) -> Iterator[Finding]:
    """Also of a database that cannot be opened: SQLite needs space beside it for that."""
    if os.access(path, os.F_OK) and (free := free_space(path)) < MIN_FREE:
        yield failed("disk", f"only {mib(free)} are free", "free some space: docs/operations.md, A full disk")


def check_disk(path: Path) -> Iterator[Finding]:
    free, size, log = free_space(path), path.stat().st_size, Path(f"{path}-wal")
    log_size = log.stat().st_size if log.exists() else 0
    space = f"{mib(free)} are free, and the database has {mib(size)}"
    if is_full := list(check_full_disk(path)):
        yield from is_full
    elif free < 2 * size:
        yield warning("disk", space, "erasing a client needs twice the size of the database")
    elif log_size <= MAX_LOG:
        yield ok("disk", space)
    if log_size > MAX_LOG:
        advice = "a read or a backup does not end: find it and stop it"
        yield warning("disk", f"the write-ahead log has {mib(log_size)}", advice)


def free_space(path: Path) -> int:
    disk = os.statvfs(path.absolute().parent)
    return disk.f_bavail * disk.f_frsize


def mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"


def check_postgres(installation: Installation) -> Iterator[Finding]:
    settings = {str(name): str(value) for name, value in installation.read(selecting(POSTGRES_SETTINGS))}
    volatile = [name for name, allowed in DURABLE.items() if settings[name] not in allowed]
    for name in volatile:
        message = f"{name} is {settings[name]}: a power failure may lose acknowledged changes"
        yield failed("database", message, f"set {name} = on")
    if not volatile:
        address = location_of(installation.settings.database)
        message = f"PostgreSQL {settings['server_version']} at {address} responds and syncs every commit"
        yield ok("database", message)
    [(is_encrypted, is_local)] = installation.read(selecting(POSTGRES_CONNECTION))
    if not (is_encrypted or is_local):
        advice = "if it is on another machine: ?sslmode=verify-full at the end of CARE_DATABASE_URL"
        yield warning("database", "the connection is not encrypted", advice)
    [(is_superuser, is_privileged)] = installation.read(selecting(POSTGRES_ACCOUNT))
    if is_superuser or is_privileged:
        what = "is a superuser" if is_superuser else "may create databases or accounts, or copy all data"
        advice = "use an account that only owns this database: docs/security.md, What the operator does"
        yield warning("database", f"the account of the service {what}", advice)
    for name, allowed in PRIVATE.items():
        if settings.get(name) not in allowed:
            message = f"its log may contain rows: {name} is {settings.get(name)}"
            yield warning("database", message, f"set {name} = {' or '.join(allowed)}")
