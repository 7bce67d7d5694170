"""Checks the database: whether it answers, has the tables of this version, keeps its word and has room."""

import os
import sqlite3
from pathlib import Path

from sqlalchemy import text

from app.db.admin.migrate import NEWER_ADVICE, is_newer, newest_version, stored_version
from app.db.drivers.interface import Database, location_of, sqlite_path
from app.db.drivers.sqlite import connect_sqlite
from app.db.sql import Operation, Statement
from app.doctor.access import barred, open_to_others
from app.doctor.results import CheckContext, Finding, Findings, failed, ok, warning

LEAST_FREE = 100 * 1024 * 1024
MOST_LOOKED_THROUGH = 1024 * 1024 * 1024  # it would take too long
LONG_LOG = 500 * 1024 * 1024

POSTGRES_SETTINGS = Statement(lambda kind: text("SELECT name, setting FROM pg_settings"))
POSTGRES_WAY = Statement(
    lambda kind: text(
        "SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),"
        " inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1'"
    )
)
POSTGRES_ACCOUNT = Statement(
    lambda kind: text(
        "SELECT rolsuper, rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication"
        " FROM pg_roles WHERE rolname = current_user"
    )
)
# What makes a commit durable, and what keeps rows out of its log (docs/security.md).
DURABLE = {"fsync": {"on"}, "full_page_writes": {"on"}, "synchronous_commit": {"on", "remote_apply"}}
DISCREET = {"log_error_verbosity": {"terse"}, "log_min_error_statement": {"panic"}, "log_statement": {"none"}}


async def check_tables(context: CheckContext) -> Findings:
    if context.db is None:
        return
    try:
        version = await context.db.read(stored_version())
    except Exception:  # there is no such table, say
        version = None
    if version == newest_version():
        yield ok("migrations", f"the tables are those of this version, {version}")
    elif version is None:
        yield failed("migrations", "there are no tables", "care-gateway migrate")
    else:
        message = f"the tables are of version {version}, the service wants {newest_version()}"
        advice = NEWER_ADVICE if is_newer(version) else "back up, then care-gateway migrate"
        yield failed("migrations", message, advice)


async def check_database(context: CheckContext) -> Findings:
    if context.db is None:
        return
    if context.settings.database.startswith("sqlite:"):
        for finding in of_sqlite(sqlite_path(context.settings.database)):
            yield finding
    else:
        for finding in await of_postgres(context.db, location_of(context.settings.database)):
            yield finding


# --- SQLite ---------------------------------------------------------------------------------------


def of_sqlite(path: Path) -> list[Finding]:
    about_files = [*open_to_others(path), *barred(path)]
    return [
        *of_its_promise(path),
        *(about_files or [ok("files", "they belong to their owner alone")]),
        *of_its_disk(path),
    ]


def of_its_promise(path: Path) -> list[Finding]:
    connection = connect_sqlite(path)
    try:
        is_looked_through = path.stat().st_size < MOST_LOOKED_THROUGH
        faults = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if is_looked_through else "ok"
    except sqlite3.DatabaseError as fault:
        faults = str(fault)
    finally:
        connection.close()
    if faults != "ok":
        return [failed("database", "the file is damaged", "restore a backup: docs/operations.md, Restore")]
    return [ok("database", f"SQLite at {path.absolute()} answers, and syncs every commit")]


def of_its_disk(path: Path) -> list[Finding]:
    disk = os.statvfs(path.absolute().parent)
    free, size = disk.f_bavail * disk.f_frsize, path.stat().st_size
    log = Path(f"{path}-wal")
    found = []
    if free < LEAST_FREE:
        found.append(failed("disk", f"{mib(free)} are left", "make room: docs/operations.md, A full disk"))
    elif free < 2 * size:
        do = "to erase a client takes room for twice the file"
        found.append(warning("disk", f"{mib(free)} are left beside a database of {mib(size)}", do))
    if log.exists() and log.stat().st_size > LONG_LOG:
        do = "a read or a backup does not end: find it and end it"
        found.append(warning("disk", f"the write-ahead log has {mib(log.stat().st_size)}", do))
    return found or [ok("disk", f"{mib(free)} are left beside a database of {mib(size)}")]


def mib(size: int) -> str:
    return f"{size / 1024 / 1024:,.0f} MiB"


# --- PostgreSQL -----------------------------------------------------------------------------------


def asking(statement: Statement) -> Operation[list[tuple[object, ...]]]:
    return [tuple(row) for row in (yield statement, {})]


async def of_postgres(db: Database, place: str) -> list[Finding]:
    settings = {str(name): str(value) for name, value in await db.read(asking(POSTGRES_SETTINGS))}
    [(is_encrypted, is_near)] = await db.read(asking(POSTGRES_WAY))
    found = []
    for name, allowed in DURABLE.items():
        if settings[name] not in allowed:
            message = f"{name} is {settings[name]}: what was acknowledged may be lost when the power goes"
            found.append(failed("database", message, f"set {name} = on"))
    if not found:
        message = f"PostgreSQL {settings['server_version']} at {place} answers, and syncs every commit"
        found.append(ok("database", message))
    if not (is_encrypted or is_near):
        do = "if it is on another machine: ?sslmode=verify-full at the end of CARE_DATABASE_URL"
        found.append(warning("database", "the connection is not encrypted", do))
    for [is_superuser, may_much] in await db.read(asking(POSTGRES_ACCOUNT)):
        if is_superuser or may_much:
            what = (
                "is a superuser" if is_superuser else "may make databases or accounts, or copy all there is"
            )
            do = "an account that owns this database and no more: docs/security.md, What the operator does"
            found.append(warning("database", f"the account of the service {what}", do))
    for name, allowed in DISCREET.items():
        if settings.get(name) not in allowed:
            message = f"its log may quote rows: {name} is {settings.get(name)}"
            found.append(warning("database", message, f"set {name} = {' or '.join(allowed)}"))
    return found
