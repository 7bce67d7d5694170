"""Promise: the doctor finds problems of the database, of background work and of the clocks."""

import asyncio
import errno
import os
import re
import socket
import sqlite3
import ssl
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from app.care.context import utc_now
from app.cli import main
from app.db.admin.migrate import NEWER_ADVICE, newest_version
from app.db.audit.records import recording
from app.db.drivers.interface import DatabaseError
from app.db.sql import Statement, selecting
from app.doctor.database import POSTGRES_ACCOUNT, check_access, check_version
from app.doctor.findings import Finding, Installation, Verdict, ok
from app.doctor.run_checks import not_opened, run_each
from app.doctor.runtime import number_of
from app.settings import Settings
from tests import keys
from tests.audit.test_chain import GUARDS, records, seal_all
from tests.auth.issuer import jwk, key_set, serving_issuer
from tests.callers import load, run_read, run_write
from tests.certificates import certificate
from tests.db import raw
from tests.db.test_lost_servers import with_hosts
from tests.db.test_waiting_changes import locking
from tests.doctor.conftest import Diagnose, as_variables
from tests.events.receiver import SECRET, receiving
from tests.factories import a_world
from tests.ports import free_port

ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
THEN = "2026-11-21T09:00:00.000000Z"
LONG_AGO = utc_now() - timedelta(minutes=3)
NUMBER = re.compile(r"[0-9,]+")
NOT_OF_ACCOUNT = re.compile("^(fsync|full_page_writes) ")


def path_of(settings: Settings) -> Path:
    return Path(settings.database.removeprefix("sqlite:///"))


def test_tables_of_this_version_pass(diagnose: Diagnose) -> None:
    assert diagnose("migrations") == [("ok", f"the tables are those of this version, {newest_version()}")]


@ON_SQLITE
def test_a_sqlite_database_that_responds_passes(diagnose: Diagnose, settings: Settings) -> None:
    message = f"SQLite at {path_of(settings)} responds and syncs every commit"
    assert diagnose("database") == [("ok", message)]
    assert diagnose("files") == [("ok", "only their owner may use them")]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_postgresql_without_durability_or_with_rows_in_its_log_is_reported(
    diagnose: Diagnose, settings: Settings
) -> None:
    """The server of the tests is configured for speed."""
    names = "'fsync', 'full_page_writes', 'synchronous_commit'"
    query = f"SELECT name FROM pg_settings WHERE setting = 'off' AND name IN ({names})"
    off = raw.run(settings.database, query)
    found = diagnose("database")

    lost = "a power failure may lose acknowledged changes"
    assert {message for verdict, message in found if verdict == "failed"} == {
        f"{name} is off: {lost}" for [name] in off
    }
    assert ("warning", "its log may contain rows: log_error_verbosity is default") in found
    assert ("warning", "the account of the service is a superuser") in found
    assert bool(off) is not any(verdict == "ok" for verdict, _ in found)


@pytest.fixture
def own_account(settings: Settings) -> Iterator[Callable[..., str]]:
    """Creates an account that may read the database, and returns the URL with it."""
    names: list[str] = []
    parts = urlsplit(settings.database)

    def create(attributes: str, **changed: str) -> str:
        names.append(f"account_{uuid.uuid4().hex}")
        raw.run(
            settings.database,
            f"CREATE ROLE {names[-1]} LOGIN PASSWORD 'word' IN ROLE pg_read_all_data {attributes}",
            *(f"ALTER ROLE {names[-1]} SET {name} = '{value}'" for name, value in changed.items()),
        )
        return parts._replace(netloc=f"{names[-1]}:word@{parts.hostname}:{parts.port}").geturl()

    yield create
    raw.run(settings.database, *(f"DROP ROLE {name}" for name in names))


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_an_account_with_more_rights_or_other_settings_is_reported(
    diagnose: Diagnose, own_account: Callable[..., str]
) -> None:
    private = {"log_error_verbosity": "terse", "log_min_error_statement": "panic", "log_statement": "none"}
    ordinary = own_account("", synchronous_commit="remote_apply", **private)
    detailed = private | {"log_error_verbosity": "verbose", "log_statement": "mod"}
    careless = own_account("CREATEDB", synchronous_commit="local", **detailed)

    own, other = (
        [each for each in diagnose("database", database_url=url) if not NOT_OF_ACCOUNT.search(each[1])]
        for url in (ordinary, careless)
    )

    assert {verdict for verdict, _ in own} <= {"ok"}
    assert [each for each in other if each not in own] == [
        ("failed", "synchronous_commit is local: a power failure may lose acknowledged changes"),
        (
            "warning",
            "the account of the service may create databases or accounts, or copy all data",
        ),
        ("warning", "its log may contain rows: log_error_verbosity is verbose"),
        ("warning", "its log may contain rows: log_statement is mod"),
    ]
    rights = ("", "CREATEDB", "CREATEROLE", "BYPASSRLS", "REPLICATION", "SUPERUSER")
    found = [run_read(own_account(right), selecting(POSTGRES_ACCOUNT)) for right in rights]
    assert found == [[(False, False)], *[[(False, True)]] * 4, [(True, False)]]
    assert diagnose("settings", database_url=ordinary) == [("ok", "production")]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("is_encrypted", [True, False])
@pytest.mark.parametrize("is_local", [True, False])
def test_a_connection_to_another_machine_that_is_not_encrypted_is_reported(
    diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch, is_encrypted: bool, is_local: bool
) -> None:
    connection = Statement(text(f"SELECT {is_encrypted}, {is_local}"))
    monkeypatch.setattr("app.doctor.database.POSTGRES_CONNECTION", connection)

    warnings = [message for verdict, message in diagnose("database") if verdict == "warning"]

    is_reported = "the connection is not encrypted" in warnings
    assert is_reported is not (is_encrypted or is_local)
    assert "the account of the service is a superuser" in warnings


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_unix_socket_needs_no_encryption(diagnose: Diagnose, settings: Settings) -> None:
    [[folder]] = raw.run(settings.database, "SHOW data_directory")
    parts = urlsplit(settings.database)
    if not Path(folder, f".s.PGSQL.{parts.port}").is_socket():
        pytest.skip("TEST_DATABASE_URL names a server without a socket there")
    account = f"{parts.username}:{parts.password}"
    by_socket = f"postgresql://{account}@{parts.path}?host={folder}&port={parts.port}"

    assert diagnose("database", database_url=by_socket) == diagnose("database")


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_each_host_of_the_database_is_reported(diagnose: Diagnose, settings: Settings) -> None:
    """Two names can lead to one server."""
    own, dead = urlsplit(settings.database).port, f"127.0.0.1:{free_port()}"
    both = with_hosts(settings.database, f"127.0.0.1:{own}", f"localhost:{own}")
    down = with_hosts(settings.database, dead, f"127.0.0.1:{own}")
    gone, lone = (with_hosts(settings.database, *hosts) for hosts in ((dead, dead), (dead,)))
    single = with_hosts(settings.database, f"127.0.0.1:{own}")

    found = [
        [(verdict, message.partition(" ")[0]) for verdict, message in diagnose("hosts", database_url=url)]
        for url in (both, down, gone, lone, single)
    ]

    up, lost, other = ("ok", f"127.0.0.1:{own}"), ("warning", dead), ("ok", f"localhost:{own}")
    assert found == [[up, other], [lost, up], [lost] * 2, [], [up]]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("number", "seconds", "begins"), [(1, 5, None), (1, 6, "1 change waits"), (2, 99, "2 changes wait")]
)
def test_changes_that_wait_for_a_standby_are_reported(
    diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch, number: int, seconds: int, begins: str | None
) -> None:
    waiting = Statement(text(f"SELECT {number}, {seconds}::float"))
    monkeypatch.setattr("app.db.drivers.waiting_commits.WAITING_COMMITS", waiting)

    found = [each for each in diagnose("database") if "standby" in each[1]]

    message = f"{begins} for a synchronous standby, the first for {seconds} seconds"
    assert found == ([("failed", message)] if begins else [])


LEFT = "back up, then run `care-gateway migrate`"


@pytest.mark.parametrize(
    ("version", "verdict", "advice"),
    [
        (None, "failed", "run `care-gateway migrate`"),
        ("0010", "failed", LEFT),
        ("next", "warning", "run commands of the next version: docs/upgrading.md"),
        ("9999", "failed", NEWER_ADVICE),
    ],
)
def test_the_advice_about_tables_of_another_version_names_the_way(
    version: str | None, verdict: str, advice: str
) -> None:
    if version == "next":
        version = f"{int(newest_version()[:4]) + 1:04}"

    found = check_version(version)

    assert (found.verdict, found.advice) == (verdict, advice)


def test_tables_of_another_version_are_reported(diagnose: Diagnose, settings: Settings) -> None:
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '0001'")
    older = diagnose("migrations")
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '9999'")
    newer = diagnose("migrations")
    next_one = f"{int(newest_version()[:4]) + 1:04}"
    raw.run(settings.database, f"UPDATE alembic_version SET version_num = '{next_one}'")
    ahead = diagnose("migrations"), diagnose("dispatcher")
    raw.run(settings.database, "DROP TABLE alembic_version")

    only_served = f"the tables are of the next version, {next_one}: this one only serves them"
    assert ahead == ([("warning", only_served)], [("ok", "nothing is overdue")])
    needs = f"and this version needs {newest_version()}"
    assert older == [("failed", f"the tables are of version 0001, {needs}")]
    assert newer == [("failed", f"the tables are of version 9999, {needs}")]
    assert diagnose("migrations") == [("failed", "the database has no tables")]
    assert diagnose("dispatcher") == []


def test_a_missing_database_is_reported_and_the_other_checks_run(diagnose: Diagnose, tmp_path: Path) -> None:
    nowhere = {"database_url": f"sqlite:///{tmp_path}/none.db"}
    away = {"database_url": "postgresql://care@127.0.0.1:1/care"}

    message = f"there is no database at {tmp_path}/none.db; run `care-gateway migrate` first"
    assert diagnose("database", **nowhere) == [("failed", message)]
    [(verdict, message)] = diagnose("database", **away)
    assert (verdict, message[:41]) == ("failed", "the PostgreSQL database cannot be opened:")
    for settings in (nowhere, away):
        assert diagnose("keys", **settings) == [("ok", "1 key to verify tokens: RS256")]
        assert diagnose("clock", **settings) == [("ok", "there is no other clock to compare with")]


@ON_SQLITE
def test_a_damaged_file_is_reported(
    diagnose: Diagnose, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(settings.database, a_world())
    raw.run(settings.database, "PRAGMA wal_checkpoint(TRUNCATE)")
    with path_of(settings).open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (file.seek(0, os.SEEK_END) // 2))
        file.seek(8192)
        file.write(b"\xff" * 65536)

    assert diagnose("database") == [("failed", "the file is damaged")]
    monkeypatch.setattr("app.doctor.database.MAX_CHECKED", path_of(settings).stat().st_size)
    assert [verdict for verdict, _ in diagnose("database")] == ["ok"]  # a large file takes too long


@ON_SQLITE
@pytest.mark.parametrize(("mode", "folder"), [(0o604, 0o702), (0o640, 0o720), (0o602, 0o777)])
def test_files_that_other_users_may_use_are_reported(
    diagnose: Diagnose, settings: Settings, mode: int, folder: int
) -> None:
    path = path_of(settings)
    path.chmod(mode)
    path.parent.chmod(folder)

    assert diagnose("files") == [
        ("failed", f"other users may read {path}"),
        ("failed", f"other users may write the folder {path.parent}"),
    ]


@ON_SQLITE
def test_the_files_that_sqlite_creates_beside_the_database_are_not_checked(
    diagnose: Diagnose, settings: Settings
) -> None:
    path = path_of(settings)
    path.chmod(0o644)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT count(*) FROM session").fetchone()

        assert diagnose("files") == [("failed", f"other users may read {path}")]


def deny(monkeypatch: pytest.MonkeyPatch, denied: Path, modes: int) -> None:
    """Replaces os.access, because the user of the tests may be root."""
    allowed = os.access

    def access(path: Path, mode: int) -> bool:
        return allowed(path, mode) and not (path == denied and mode & modes)

    monkeypatch.setattr(os, "access", access)


@ON_SQLITE
@pytest.mark.parametrize(
    ("which", "modes", "message"),
    [
        ("file", os.W_OK, "this user may not write {}"),
        ("file", os.R_OK, "this user may not read {}"),
        ("folder", os.W_OK, "this user may not write the folder {}"),
        ("folder", os.X_OK, "this user may not enter the folder {}"),
    ],
)
def test_a_missing_permission_is_reported_and_rejected_by_serve(
    diagnose: Diagnose,
    healthy: dict[str, str],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
    modes: int,
    message: str,
) -> None:
    path = path_of(settings) if which == "file" else path_of(settings).parent
    deny(monkeypatch, path, modes)

    assert diagnose("files") == [("failed", message.format(path))]
    without_key = as_variables(healthy | {"token_key": ""})  # permissions are checked before the keys
    refused = CliRunner().invoke(main, ["serve"], env=without_key)
    [finding] = check_access(path_of(settings))
    assert finding.message == message.format(path)
    sentence = f"care-gateway: {finding.message}; {finding.advice}\n"
    assert (refused.exit_code, refused.stderr) == (2, sentence)


@ON_SQLITE
def test_all_problems_with_permissions_are_reported_at_once(
    diagnose: Diagnose, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(settings)
    path.chmod(0o644)
    deny(monkeypatch, path, os.W_OK)
    deny(monkeypatch, path.parent, os.W_OK)

    assert diagnose("files") == [
        ("failed", f"other users may read {path}"),
        ("failed", f"this user may not write {path}"),
        ("failed", f"this user may not write the folder {path.parent}"),
    ]


@ON_SQLITE
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize(("mode", "verb"), [(os.R_OK, "read"), (os.W_OK, "write")])
def test_a_log_that_this_user_may_not_use_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, suffix: str, mode: int, verb: str
) -> None:
    path = path_of(settings)
    log = path.with_name(path.name + suffix)
    deny(monkeypatch, log, mode)
    assert list(check_access(path)) == []  # it is missing
    log.touch()

    assert [one.message for one in check_access(path)] == [f"this user may not {verb} {log}"]
    assert list(check_access(path.parent / "none" / "care.db")) == []


@ON_SQLITE
@pytest.mark.parametrize("mode", [os.R_OK, os.W_OK])
def test_a_log_that_the_service_removes_meanwhile_is_not_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    path, access = path_of(settings), os.access
    log = path.with_name(f"{path.name}-wal")
    log.touch()

    def access_and_remove(file: Path, asked: int) -> bool:
        if file == log and asked == mode:
            log.unlink()
        return access(file, asked)

    monkeypatch.setattr(os, "access", access_and_remove)

    assert list(check_access(path)) == []
    assert not log.exists()


@ON_SQLITE
def test_the_outermost_folder_that_this_user_may_not_enter_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = path_of(settings).parent
    for denied in (folder, folder.parent):
        deny(monkeypatch, denied, os.X_OK)

    assert [one.message for one in check_access(path_of(settings))] == [
        f"this user may not enter the folder {folder.parent}"
    ]


@ON_SQLITE
def test_a_database_that_cannot_be_opened_is_reported_with_its_permissions(
    diagnose: Diagnose, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(settings)
    deny(monkeypatch, path, os.R_OK)
    deny(monkeypatch, path.parent, os.W_OK)

    def reject(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", reject)

    assert diagnose("database") == [("failed", f"the database at {path} cannot be opened: permission denied")]
    assert diagnose("files") == [
        ("failed", f"this user may not read {path}"),
        ("failed", f"this user may not write the folder {path.parent}"),
    ]


@ON_SQLITE
@pytest.mark.parametrize(
    ("free", "found"), [(99, [("failed", "only 99 MiB are free")]), (100, [])], ids=["full", "with room"]
)
def test_a_full_disk_is_reported_if_the_database_cannot_be_opened(
    diagnose: Diagnose,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    found: list[tuple[str, str]],
) -> None:
    """SQLite reports an I/O error if it cannot make its files."""
    path = path_of(settings)
    disk = type("Disk", (), {"f_bavail": free, "f_frsize": 1024 * 1024})
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    path.with_name(f"{path.name}-wal").mkdir()  # so that it cannot be opened, also by root

    [(verdict, message)] = diagnose("database")

    assert (verdict, message.partition(" cannot be opened: ")[0]) == ("failed", f"the database at {path}")
    assert diagnose("disk") == found
    about_disk = (
        "see the finding about the disk"
        if found
        else "check CARE_DATABASE_URL; restore a backup if the file is damaged"
    )
    fault = DatabaseError("it cannot be opened")
    assert [one.advice for one in not_opened(settings.database, fault)][:1] == [about_disk]
    deny(monkeypatch, path, os.R_OK)
    advice = [one.advice for one in not_opened(settings.database, fault)]
    assert (advice[0], len(advice)) == ("see the findings about files", 2)
    [reported] = not_opened("postgres://care@db/care", fault)
    assert reported.advice == "check CARE_DATABASE_URL, and that the server is running"


@ON_SQLITE
@pytest.mark.parametrize(
    ("free", "verdict"), [(99, "failed"), (101, "warning"), (399, "warning"), (400, "ok")]
)
def test_the_free_disk_space_is_reported(
    diagnose: Diagnose, settings: Settings, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str
) -> None:
    def disk(_: object) -> Any:
        return type("Disk", (), {"f_bavail": free, "f_frsize": 1024 * 1024})

    monkeypatch.setattr(os, "statvfs", disk)
    with path_of(settings).open("ab") as file:
        file.truncate(200 * 1024 * 1024)

    space = f"{free:,} MiB are free, and the database has 200 MiB"
    assert diagnose("disk") == [(verdict, "only 99 MiB are free" if free == 99 else space)]


@ON_SQLITE
def test_a_large_write_ahead_log_is_reported(
    diagnose: Diagnose, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.doctor.database.MAX_LOG", 4096)
    with closing(sqlite3.connect(path_of(settings))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM session").fetchone()
        load(settings.database, a_world())
        found = diagnose("disk")

        monkeypatch.setattr("app.doctor.database.MIN_FREE", 2**62)
        full = [(verdict, message.split()[0]) for verdict, message in diagnose("disk")]

    assert found == [("warning", "the write-ahead log has 0 MiB")]
    assert full == [("failed", "only"), ("warning", "the")]


# --- background work ---


@pytest.mark.sqlite_only
def test_a_missing_dispatcher_is_reported(diagnose: Diagnose, settings: Settings) -> None:
    run_write(settings.database, recording(records(3, moment=LONG_AGO)))

    assert diagnose("dispatcher") == [("failed", "no dispatcher seems to run: 3 audit records have no seal")]


@pytest.mark.sqlite_only
def test_a_missing_dispatcher_with_the_webhook_is_reported(diagnose: Diagnose, settings: Settings) -> None:
    load(settings.database, a_world())
    raw.run(
        settings.database,
        f"""
        INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)
        SELECT 1, 1, 'SESSION_CREATED', id, '{LONG_AGO:%Y-%m-%dT%H:%M:%S.%fZ}' FROM session
        WHERE caregiver_id = 1 AND client_id = 1""",
    )
    [(events,)] = raw.run(settings.database, "SELECT count(*) FROM event WHERE hand_over_date IS NULL")
    add_deliveries(settings)

    with receiving() as receiver:
        webhook = {"webhook_url": receiver.url, "webhook_secret": SECRET}
        found, (_, *deliveries) = diagnose("dispatcher", **webhook), diagnose("webhook", **webhook)

    assert events > 2
    assert found == [("failed", f"no dispatcher with this webhook seems to run: {events} events wait")]
    assert deliveries == DELIVERIES_FAIL
    assert diagnose("dispatcher") == [("ok", "nothing is overdue")]


@pytest.mark.sqlite_only
def test_what_has_waited_for_a_minute_is_not_overdue(diagnose: Diagnose, settings: Settings) -> None:
    load(settings.database, a_world())
    minute_ago = utc_now() - timedelta(minutes=1)
    run_write(settings.database, recording(records(1, moment=minute_ago)))
    raw.run(
        settings.database,
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        f" VALUES (1, 1, 'SESSION_CREATED', 1, '{minute_ago:%Y-%m-%dT%H:%M:%S.%fZ}')",
    )

    with receiving() as receiver:
        found = diagnose("dispatcher", webhook_url=receiver.url, webhook_secret=SECRET)

    assert found == [("ok", "nothing is overdue")]


def test_a_count_that_was_limited_is_a_minimum() -> None:
    numbers = [number_of(number, "event waits", "events wait") for number in (1, 9999, 10_000)]

    assert numbers == ["1 event waits", "9,999 events wait", "10000 or more events wait"]


DELIVERIES_FAIL = [
    ("failed", "2 deliveries are dead: all attempts failed"),
    ("warning", "1 delivery failed and will be retried"),
]


def add_deliveries(settings: Settings) -> None:
    """Two are dead, one failed, and one is new."""
    states = ((901, "DEAD", 11), (902, "WAITING", 3), (903, "WAITING", 0), (904, "DEAD", 11))
    for event, state, attempts in states:
        raw.run(
            settings.database,
            "INSERT INTO event (id, caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
            f" VALUES ({event}, 1, 1, 'SESSION_CREATED', 1, '{THEN}', '{THEN}')",
            "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
            f" VALUES ({event}, 1, 1, '{state}', {attempts}, '{THEN}')",
        )


@pytest.mark.sqlite_only
def test_failed_deliveries_are_reported_also_without_a_dispatcher(
    diagnose: Diagnose, settings: Settings
) -> None:
    load(settings.database, a_world())
    run_write(settings.database, recording(records(1, moment=LONG_AGO)))
    add_deliveries(settings)

    assert diagnose("webhook") == [("ok", "none"), *DELIVERIES_FAIL]
    assert diagnose("dispatcher") == [("failed", "no dispatcher seems to run: 1 audit record has no seal")]


def test_the_newest_seal_of_the_audit_log_is_verified(
    diagnose: Diagnose, settings: Settings, kind: str
) -> None:
    empty = diagnose("audit trail")
    for _ in range(3):
        run_write(settings.database, recording(records(2, moment=LONG_AGO)))
        seal_all(settings.database, utc_now())
    intact = diagnose("audit trail")
    raw.run(settings.database, *GUARDS[kind][:2], "UPDATE audit_record SET outcome = 'OTHER' WHERE id = 6")

    assert empty == [("ok", "there are no seals yet")]
    assert intact == [("ok", "seal 3 matches its records")]
    assert diagnose("audit trail") == [("failed", "the records of seal 3 were changed after it was made")]


# --- clocks ---


def test_a_clock_behind_the_newest_record_is_reported(
    diagnose: Diagnose, settings: Settings, kind: str
) -> None:
    for ahead in (0, 3):
        run_write(settings.database, recording(records(1, moment=utc_now() + timedelta(minutes=ahead))))

    with serving_issuer(jwk(keys.private_key(), "one")) as issuer:
        *database, (verdict, message), server = diagnose("clock", token_key="", token_jwks=issuer.url)

    agrees = ("ok", "this machine agrees with the clock of the database")
    assert database == ([agrees] if kind == "postgresql" else [])
    assert verdict == "failed"
    assert re.fullmatch(r"the newest audit record is 1[5-8]. seconds ahead of this machine", message)
    assert server == ("ok", "this machine agrees with the clock of the key server")


@pytest.mark.sqlite_only
def test_a_clock_a_minute_behind_the_newest_record_is_accepted(
    diagnose: Diagnose, settings: Settings
) -> None:
    run_write(settings.database, recording(records(1, moment=utc_now() + timedelta(minutes=1))))

    assert diagnose("clock") == [("ok", "there is no other clock to compare with")]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_clock_is_compared_with_the_clock_of_the_database(diagnose: Diagnose) -> None:
    assert diagnose("clock") == [("ok", "this machine agrees with the clock of the database")]


@ON_SQLITE
@pytest.mark.parametrize(
    ("difference", "leeway", "expected"),
    [
        (0, 10, "this machine agrees with the clock of the key server"),
        (0, 0, "this machine agrees with the clock of the key server"),
        (-30, 60, "this machine agrees with the clock of the key server"),
        (2, 1, "this machine agrees with the clock of the key server"),
        (-60, 10, "this machine is 60 seconds ahead of the clock of the key server"),
        (3660, 10, "this machine is 3,659 seconds behind the clock of the key server"),
        (-86_400, 10, "this machine is 86,400 seconds ahead of the clock of the key server"),
        ("", 10, "there is no other clock to compare with"),
        ("yesterday", 10, "there is no other clock to compare with"),
    ],
)
def test_the_clock_is_compared_with_the_clock_of_the_issuer(
    diagnose: Diagnose, difference: int | str, leeway: int, expected: str
) -> None:
    body = key_set(jwk(keys.private_key(), "one"))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            if isinstance(difference, int):
                moment = utc_now() + timedelta(seconds=difference)
                self.send_header("date", format_datetime(moment, usegmt=True))
            elif difference:
                self.send_header("date", difference)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/keys"
        [(verdict, message)] = diagnose("clock", token_key="", token_jwks=url, token_leeway=str(leeway))
        server.shutdown()

    assert verdict == ("failed" if " seconds " in expected else "ok")
    assert NUMBER.sub("N", message) == NUMBER.sub("N", expected)


@ON_SQLITE
def test_the_clock_is_compared_with_the_clock_of_an_issuer_over_tls(
    diagnose: Diagnose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, tls = certificate(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own)
    monkeypatch.setenv("SSL_CERT_FILE", str(own))

    with serving_issuer(jwk(keys.private_key(), "one"), tls=tls) as issuer:
        found = diagnose("clock", token_key="", token_jwks=issuer.url)

    assert found == [("ok", "this machine agrees with the clock of the key server")]


@ON_SQLITE
@pytest.mark.parametrize("text", [b"", b"220 ready\r\n"], ids=["nothing", "another protocol"])
def test_a_key_server_that_does_not_respond_has_no_clock(diagnose: Diagnose, text: bytes) -> None:
    def respond() -> None:
        for _ in range(2):  # its keys, and its clock
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(text)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=respond)
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/keys"
        found = diagnose("clock", token_key="", token_jwks=url)
        server.join()

    url = f"http://127.0.0.1:{free_port()}/keys"
    alone = [("ok", "there is no other clock to compare with")]
    assert (found, diagnose("clock", token_key="", token_jwks=url)) == (alone, alone)


@ON_SQLITE
def test_a_check_that_raises_is_a_finding_and_the_others_run(diagnose: Diagnose, settings: Settings) -> None:
    raw.run(settings.database, "ALTER TABLE audit_seal RENAME TO seal")

    [(verdict, message)] = diagnose("audit trail")

    assert verdict == "failed"
    assert message.startswith("the check raised OperationalError")
    assert diagnose("keys") == [("ok", "1 key to verify tokens: RS256")]


def check_disk(_: Installation) -> Iterator[Finding]:
    yield ok("disk", "10 GB are free")
    raise PermissionError(13, "Permission denied")


@ON_SQLITE
def test_a_check_that_raises_keeps_its_earlier_findings(settings: Settings) -> None:
    with asyncio.Runner() as runner:
        found = run_each(Installation(settings, runner), check_disk)

    assert found == [
        Finding("disk", Verdict.OK, "10 GB are free"),
        Finding(
            "disk",
            Verdict.FAILED,
            "the check raised PermissionError: [Errno 13] Permission denied",
            "fix the failures above, then run doctor again",
        ),
    ]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_check_does_not_wait_for_a_table_for_long(
    diagnose: Diagnose, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.doctor.run_checks.STATEMENT_SECONDS", 0.2)
    briefly = "SET LOCAL idle_in_transaction_session_timeout = 5000"

    with locking(settings.database, f"{briefly}; LOCK TABLE audit_seal"):
        found = diagnose("audit trail")

    late = "the database does not allow the check: the database cannot take this now; nothing was changed"
    assert found == [("failed", late)]


STOPPED = "connection to the remote node worker-1.internal:5432 failed"
WORKER_STOPS = (
    "CREATE FUNCTION stopped() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
    f" RAISE EXCEPTION USING ERRCODE = '08006', MESSAGE = '{STOPPED}' || chr(10) || 'more'; END $$",
    "ALTER TABLE {0} RENAME TO stored",
    "CREATE VIEW {0} AS SELECT * FROM stored WHERE stopped()",
)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("table", "about"), [("audit_seal", "audit trail"), ("alembic_version", "migrations")]
)
def test_a_check_that_needs_a_worker_which_is_down_says_so(
    diagnose: Diagnose, settings: Settings, table: str, about: str
) -> None:
    raw.run(settings.database, *(statement.format(table) for statement in WORKER_STOPS))

    assert diagnose(about) == [("failed", f"the database does not allow the check: {STOPPED}")]
