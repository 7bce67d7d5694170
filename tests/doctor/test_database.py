"""Promise: of the database the doctor finds what is wrong, and of what goes on in it; and says what to do."""

import errno
import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from app.care.context import utc_now
from app.cli import main
from app.db.admin.migrate import newest_version
from app.db.audit.records import recording
from app.settings import Settings
from tests import keys
from tests.audit.test_sealing import GUARDS, records, seal_all
from tests.auth.issuer import jwk, key_set
from tests.callers import load, run_write
from tests.db import raw
from tests.doctor.conftest import Ask, as_variables
from tests.events.receiver import SECRET, receiving
from tests.factories import a_world

ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
THEN = "2026-11-21T09:00:00.000000Z"
LONG_AGO = utc_now() - timedelta(hours=1)


def path_of(settings: Settings) -> Path:
    return Path(settings.database.removeprefix("sqlite:///"))


def test_tables_of_this_version_are_good(ask: Ask) -> None:
    assert ask("migrations") == [("ok", f"the tables are those of this version, {newest_version()}")]


@ON_SQLITE
def test_an_embedded_database_that_answers_is_good(ask: Ask, settings: Settings) -> None:
    said = f"SQLite at {path_of(settings)} responds and syncs every commit"
    assert ask("database") == [("ok", said)]
    assert ask("files") == [("ok", "only their owner may use them")]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_server_that_does_not_keep_its_word_or_quotes_rows_is_told(ask: Ask, settings: Settings) -> None:
    """That of the tests is made to be quick."""
    names = "'fsync', 'full_page_writes', 'synchronous_commit'"
    asked = f"SELECT name FROM pg_settings WHERE setting = 'off' AND name IN ({names})"
    off = raw.run(settings.database, asked)
    told = ask("database")

    lost = "a power failure may lose acknowledged changes"
    assert {said for verdict, said in told if verdict == "failed"} == {
        f"{name} is off: {lost}" for [name] in off
    }
    assert ("warning", "its log may contain rows: log_error_verbosity is default") in told
    assert ("warning", "the account of the service is a superuser") in told
    assert bool(off) is not any(verdict == "ok" for verdict, _ in told)


def test_tables_of_another_version_are_told(ask: Ask, settings: Settings) -> None:
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '0001'")
    older = ask("migrations")
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '9999'")
    newer = ask("migrations")
    raw.run(settings.database, "DROP TABLE alembic_version")

    needs = f"and this version needs {newest_version()}"
    assert older == [("failed", f"the tables are of version 0001, {needs}")]
    assert newer == [("failed", f"the tables are of version 9999, {needs}")]
    assert ask("migrations") == [("failed", "the database has no tables")]
    assert ask("dispatcher") == []


def test_a_database_that_is_not_there_is_told_and_the_rest_is_looked_at(ask: Ask, tmp_path: Path) -> None:
    nowhere = {"database_url": f"sqlite:///{tmp_path}/none.db"}

    said = f"there is no database at {tmp_path}/none.db; run `care-gateway migrate` first"
    assert ask("database", **nowhere) == [("failed", said)]
    assert ask("keys", **nowhere) == [("ok", "1 key to verify tokens: RS256")]
    [(verdict, said)] = ask("database", database_url="postgresql://care@127.0.0.1:1/care")
    assert (verdict, said[:41]) == ("failed", "the PostgreSQL database cannot be opened:")


@ON_SQLITE
def test_a_file_that_is_damaged_is_told(ask: Ask, settings: Settings) -> None:
    load(settings.database, a_world())
    raw.run(settings.database, "PRAGMA wal_checkpoint(TRUNCATE)")
    with path_of(settings).open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (file.seek(0, os.SEEK_END) // 2))
        file.seek(8192)
        file.write(b"\xff" * 65536)

    assert ("failed", "the file is damaged") in ask("database")


@ON_SQLITE
def test_files_that_others_may_read_are_told(ask: Ask, settings: Settings) -> None:
    path = path_of(settings)
    path.chmod(0o644)
    path.parent.chmod(0o777)

    told = ask("files")

    assert ("failed", f"other users may read {path}") in told
    assert ("failed", f"other users may write the folder {path.parent}") in told
    assert {verdict for verdict, _ in told} == {"failed"}


@ON_SQLITE
def test_what_sqlite_makes_beside_its_file_while_it_runs_is_not_looked_at(
    ask: Ask, settings: Settings
) -> None:
    path = path_of(settings)
    path.chmod(0o644)
    with closing(sqlite3.connect(path)) as who_reads:
        who_reads.execute("SELECT count(*) FROM session").fetchone()

        assert ask("files") == [("failed", f"other users may read {path}")]


def barring(monkeypatch: pytest.MonkeyPatch, barred: Path, modes: int) -> None:
    """Whoever runs the tests may be allowed everything."""
    allowed = os.access

    def access(path: Path, mode: int) -> bool:
        return allowed(path, mode) and not (path == barred and mode & modes)

    monkeypatch.setattr(os, "access", access)


@ON_SQLITE
@pytest.mark.parametrize(
    ("which", "modes", "said"),
    [
        ("file", os.W_OK, "this user may not write {}"),
        ("file", os.R_OK, "this user may not read {}"),
        ("folder", os.W_OK, "this user may not write the folder {}"),
        ("folder", os.X_OK, "this user may not enter the folder {}"),
    ],
)
def test_what_the_user_of_the_service_may_not_do_is_told_and_it_does_not_serve(
    ask: Ask,
    in_order: dict[str, str],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
    modes: int,
    said: str,
) -> None:
    path = path_of(settings) if which == "file" else path_of(settings).parent
    barring(monkeypatch, path, modes)

    assert ask("files") == [("failed", said.format(path))]
    without_key = as_variables(in_order | {"token_key": ""})  # it would not serve anyway: this comes first
    refused = CliRunner().invoke(main, ["serve"], env=without_key)
    sentence = f"care-gateway: {said.format(path)}; "
    assert (refused.exit_code, refused.stderr.startswith(sentence), refused.stderr.count("\n")) == (
        2,
        True,
        1,
    )


@ON_SQLITE
def test_a_database_that_cannot_be_opened_leads_to_who_may_open_it(
    ask: Ask, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(settings)
    barring(monkeypatch, path, os.R_OK)

    def closed(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)

    assert ask("database") == [("failed", f"the database at {path} cannot be opened: permission denied")]
    assert ask("files") == [("failed", f"this user may not read {path}")]


@ON_SQLITE
@pytest.mark.parametrize(("free", "verdict"), [(99, "failed"), (101, "warning"), (5000, "ok")])
def test_how_much_room_is_left_is_told(
    ask: Ask, settings: Settings, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str
) -> None:
    def disk(_: object) -> Any:
        return type("Disk", (), {"f_bavail": free, "f_frsize": 1024 * 1024})

    monkeypatch.setattr(os, "statvfs", disk)
    with path_of(settings).open("ab") as file:
        file.truncate(200 * 1024 * 1024)

    [(told, said)] = ask("disk")

    assert told == verdict
    expected = (
        "only 99 MiB are free" if free == 99 else f"{free:,} MiB are free, and the database has 200 MiB"
    )
    assert said == expected


@ON_SQLITE
def test_a_log_that_does_not_shrink_is_told(
    ask: Ask, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.doctor.database.MAX_LOG", 4096)
    with closing(sqlite3.connect(path_of(settings))) as who_reads:
        who_reads.execute("BEGIN")
        who_reads.execute("SELECT count(*) FROM session").fetchone()
        load(settings.database, a_world())
        told = ask("disk")

    assert ("warning", "the write-ahead log has 0 MiB") in told


# --- what goes on ---


def test_that_no_dispatcher_runs_is_told(ask: Ask, settings: Settings) -> None:
    run_write(settings.database, recording(records(3, moment=LONG_AGO)))

    assert ask("dispatcher") == [("failed", "no dispatcher seems to run: 3 audit records have no seal")]


def test_that_no_dispatcher_with_the_webhook_runs_is_told(ask: Ask, settings: Settings) -> None:
    load(settings.database, a_world())
    raw.run(
        settings.database,
        f"""
        INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)
        VALUES (1, 1, 'SESSION_CREATED', 1, '{LONG_AGO:%Y-%m-%dT%H:%M:%S.%fZ}')""",
    )
    [(events,)] = raw.run(settings.database, "SELECT count(*) FROM event WHERE hand_over_date IS NULL")
    waiting = "1 event waits" if events == 1 else f"{events} events wait"

    with receiving() as receiver:
        told = ask("dispatcher", webhook_url=receiver.url, webhook_secret=SECRET)

    assert told == [("failed", f"no dispatcher with this webhook seems to run: {waiting}")]
    assert ask("dispatcher") == [("ok", "nothing is overdue")]


def test_deliveries_that_the_webhook_did_not_take_are_told(ask: Ask, settings: Settings) -> None:
    load(settings.database, a_world())
    for event, state, attempts in ((901, "DEAD", 11), (902, "WAITING", 3), (903, "WAITING", 0)):
        raw.run(
            settings.database,
            "INSERT INTO event (id, caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
            f" VALUES ({event}, 1, 1, 'SESSION_CREATED', 1, '{THEN}', '{THEN}')",
            "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
            f" VALUES ({event}, 1, 1, '{state}', {attempts}, '{THEN}')",
        )

    assert ask("webhook") == [
        ("ok", "none"),
        ("failed", "1 delivery is dead: all attempts failed"),
        ("warning", "1 delivery failed and will be retried"),
    ]


def test_the_end_of_the_audit_trail_is_verified(ask: Ask, settings: Settings, kind: str) -> None:
    empty = ask("audit trail")
    for _ in range(3):
        run_write(settings.database, recording(records(2, moment=LONG_AGO)))
        seal_all(settings.database, utc_now())
    whole = ask("audit trail")
    raw.run(settings.database, *GUARDS[kind][:2], "UPDATE audit_record SET outcome = 'OTHER' WHERE id = 6")

    assert empty == [("ok", "there are no seals yet")]
    assert whole == [("ok", "seal 3 matches its records")]
    assert ask("audit trail") == [("failed", "the records of seal 3 are not those that were sealed")]


# --- clocks ---


def test_a_clock_that_went_back_is_told(ask: Ask, settings: Settings) -> None:
    run_write(settings.database, recording(records(1, moment=utc_now() + timedelta(hours=1))))

    told = ask("clock")

    assert told[-1][0] == "failed"
    assert told[-1][1].startswith("the newest audit record is 3,")


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_clock_is_compared_with_that_of_the_database(ask: Ask) -> None:
    assert ask("clock") == [("ok", "this machine agrees with the clock of the database")]


@ON_SQLITE
@pytest.mark.parametrize(
    ("apart", "told"), [(0, "this machine agrees with"), (-60, "ahead of"), (60, "behind")]
)
def test_the_clock_is_compared_with_that_of_the_issuer(ask: Ask, apart: int, told: str) -> None:
    body = key_set(jwk(keys.private_key(), "one"))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            self.send_header("date", format_datetime(utc_now() + timedelta(seconds=apart), usegmt=True))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/keys"
        [(verdict, said)] = ask("clock", token_key="", token_jwks=url)
        server.shutdown()

    assert verdict == ("failed" if apart else "ok")
    assert told in said
    assert said.endswith("the clock of the key server")


@ON_SQLITE
def test_a_look_that_fails_is_a_finding_and_the_others_go_on(ask: Ask, settings: Settings) -> None:
    raw.run(settings.database, "ALTER TABLE audit_seal RENAME TO seal")

    [(verdict, said)] = ask("audit trail")

    assert verdict == "failed"
    assert said.startswith("the check raised OperationalError")
    assert ask("keys") == [("ok", "1 key to verify tokens: RS256")]
