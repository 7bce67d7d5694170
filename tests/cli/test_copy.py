"""Promise: `copy` copies every row of SQLite to an empty PostgreSQL database, or changes nothing."""

import re
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlmodel import SQLModel

from app.cli import main
from app.db.admin.migrate import make_sqlite_file
from app.db.drivers.interface import location_of, sqlite_path
from app.db.moments import moment_as_text
from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.cli.conftest import assert_rejected
from tests.conftest import fresh_database
from tests.db import raw
from tests.every_table import DELETED, HARD, LONG, fill_every_table, sqlite_rows
from tests.factories import DAY, NOW
from tests.postgres import create_database, drop_database
from tests.rest_compat import legacy

EVERY_TABLE = sorted(SQLModel.metadata.tables)
CARE = """{
  sessions(first: 50) { nodes { title description startDate client { name } assignments(first: 50) { nodes {
    name status startDate feedbacks { text score } reminders { remindDate state }
    answerSets { saveType submitDate answers { questionText answer } }
    book { name questions { text options minimum maximum } }
  } } } }
}"""
OWN_DATA = "{ ownData(format: JSON) }"
AUDIT_EVENTS = '{ auditEvents(clientId: "1") { nodes { moment actor operation answerSetIds } } }'
NEW_SESSION = """mutation($input: CreateSessionInput!) {
  createSession(input: $input) {
    sessions { id legacyId assignments { nodes { id legacyId } } } userErrors { code }
  }
}"""


@pytest.fixture(scope="module")
def filled(migrated_sqlite: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "care.db"
    shutil.copyfile(sqlite_path(migrated_sqlite), path)
    fill_every_table(f"sqlite:///{path}")
    return path


@pytest.fixture
def source(filled: Path, tmp_path: Path) -> str:
    shutil.copyfile(filled, tmp_path / "source.db")
    return f"sqlite:///{tmp_path}/source.db"


@pytest.fixture
def target(request: pytest.FixtureRequest, migrated_postgresql: str, tmp_path: Path) -> Iterator[str]:
    with fresh_database("postgresql", migrated_postgresql, request, tmp_path) as url:
        yield url


@pytest.fixture(scope="module")
def copied(
    filled: Path,
    request: pytest.FixtureRequest,
    migrated_postgresql: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, str]]:
    """The source and its copy."""
    source = f"sqlite:///{shutil.copy(filled, tmp_path_factory.mktemp('copied') / 'source.db')}"
    with fresh_database("postgresql", migrated_postgresql, request, Path()) as target:
        result = copy(source, target)
        assert (result.exit_code, result.stderr) == (0, "")
        yield source, target


def copy(source: str, target: str) -> Result:
    return run("copy", "--from", source, "--to", target)


def run(*words: str, **changed: str) -> Result:
    environment = {"CARE_ENV": "development"} | {
        f"CARE_{name.upper()}": value for name, value in changed.items()
    }
    return CliRunner().invoke(main, list(words), env=environment)


# --- a copy ---


@pytest.mark.parametrize("table", EVERY_TABLE)
def test_every_row_is_copied(copied: tuple[str, str], table: str) -> None:
    before, after = (sqlite_rows(url, table) for url in copied)

    if table == "audit_record":
        [own] = [row for row in after if row not in before]
        assert own[2:8] == ("OPERATOR", None, "COMMAND", "copy", "DONE", "[]")
        after.remove(own)
    assert after == before != []


def test_the_copy_verifies_with_the_seals_of_the_source(copied: tuple[str, str]) -> None:
    [(seal, hash)] = raw.run(copied[0], "SELECT id, hash FROM audit_seal ORDER BY id DESC LIMIT 1")

    for url in copied:
        counters = run("verify", database_url=url)
        audit = run("audit", "verify", "--noted", f"{seal}:{hash}", database_url=url)

        assert (counters.exit_code, counters.stdout) == (0, "0 differences\n")
        assert (audit.exit_code, "0 faults" in audit.stdout) == (0, True), audit.stdout


def test_both_databases_serve_the_same_responses(copied: tuple[str, str], usual_settings: Settings) -> None:
    of_source, of_target = (list(responses(url, usual_settings)) for url in copied)

    for before, after in zip(of_source, of_target, strict=True):
        assert after == before
    assert "errors" not in str(of_source)
    assert LONG in of_source[1]["data"]["ownData"]
    nodes = of_source[0]["data"]["sessions"]["nodes"]
    assignments = [assignment for node in nodes for assignment in node["assignments"]["nodes"]]
    assert HARD in [question["text"] for one in assignments for question in one["book"]["questions"]]
    [session] = of_source[-1]["data"]["createSession"]["sessions"]
    assert session["legacyId"] == str(DELETED + 1)  # the id of a deleted session is not used again
    assert session["assignments"]["nodes"][0]["legacyId"] == str(DELETED + 1)


def responses(url: str, settings: Settings) -> Iterator[Any]:
    settings = settings.model_copy(update={"database_url": url})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        caregiver = gateway.as_caregiver(1)
        yield caregiver.graphql(CARE)
        yield gateway.as_client(3).graphql(OWN_DATA)
        yield gateway.as_client(1).graphql(OWN_DATA)
        yield gateway.as_client(2).get(legacy.SESSIONS).status_code  # erased
        yield caregiver.graphql(AUDIT_EVENTS)
        yield gateway.as_client(1).get(f"{legacy.SESSIONS}?time-state=RUNNING").json()
        yield caregiver.get(f"{legacy.ASSIGNMENTS}?time-state=RUNNING").json()
        start, end = (moment_as_text(moment) for moment in (NOW - DAY, NOW + DAY))
        homework = {"bookIds": ["1"], "startDate": start, "endDate": end}
        session = {"clientId": "1", "title": "New", "startDate": start, "homework": homework}
        yield caregiver.graphql(NEW_SESSION, input=session)


def test_the_counts_are_printed(source: str, target: str) -> None:
    result = copy(source, target)

    lines = result.stdout.splitlines()
    counts = {name: raw.run(source, f"SELECT count(*) FROM {name}")[0][0] for name in EVERY_TABLE}
    assert sorted(lines[:-1]) == sorted(
        f"{name}: {count} row{'' if count == 1 else 's'}" for name, count in counts.items()
    )
    assert lines[-1] == (
        f"{sum(counts.values())} rows copied from {location_of(source)} to {location_of(target)}, "
        "counted and compared"
    )


def test_a_database_without_tables_is_migrated(source: str, postgres: str) -> None:
    name = f"empty_{uuid.uuid4().hex}"
    target = create_database(postgres, name)
    try:
        result = copy(source, target)

        assert (result.exit_code, result.stderr) == (0, "")
        assert sqlite_rows(target, "session") == sqlite_rows(source, "session")
    finally:
        drop_database(postgres, name)


def test_the_guards_of_the_audit_log_are_active_after_the_copy(copied: tuple[str, str]) -> None:
    import asyncpg

    with pytest.raises(asyncpg.RaiseError, match="a checkpoint names a seal"):
        raw.run(
            copied[1],
            "INSERT INTO audit_checkpoint VALUES (77, 77, 'x', 1, 1, now(), now())",
        )


# --- refusals ---


def is_empty(target: str) -> bool:
    return all(sqlite_rows(target, table) == [] for table in EVERY_TABLE)


def test_a_second_copy_is_rejected(source: str, target: str) -> None:
    copy(source, target)
    before = {table: sqlite_rows(target, table) for table in EVERY_TABLE}

    result = copy(source, target)

    assert result.exit_code == 2
    assert result.stderr.startswith(
        "care-gateway: nothing was copied: the target must be empty, and it has rows in "
    )
    assert {table: sqlite_rows(target, table) for table in EVERY_TABLE} == before


def test_a_single_row_in_the_target_rejects_the_copy(source: str, target: str) -> None:
    raw.run(target, "INSERT INTO legacy_day VALUES ('2026-11-20', now())")

    result = copy(source, target)

    rows = "nothing was copied: the target must be empty, and it has rows in legacy_day"
    assert_rejected(result, rows)
    assert sqlite_rows(target, "session") == []


def test_tables_of_another_application_reject_the_copy(source: str, postgres: str) -> None:
    name = f"foreign_{uuid.uuid4().hex}"
    target = create_database(postgres, name)
    try:
        raw.run(target, "CREATE TABLE invoice (id int)")

        result = copy(source, target)

        assert_rejected(result, f"{location_of(target)}: the database has tables of another application")
        assert raw.run(target, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(1,)]
    finally:
        drop_database(postgres, name)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0001", "the tables are of version 0001, and this version needs "),
        ("9999", "the database has the newer schema version 9999; this program supports up to "),
    ],
)
def test_tables_of_another_version_reject_the_copy(
    source: str, target: str, side: str, version: str, message: str
) -> None:
    url = {"source": source, "target": target}[side]
    raw.run(url, f"UPDATE alembic_version SET version_num = '{version}'")

    result = copy(source, target)

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"care-gateway: {location_of(url)}: {message}")
    assert is_empty(target)


def test_a_source_without_tables_is_rejected(target: str, tmp_path: Path) -> None:
    make_sqlite_file(tmp_path / "new.db")

    result = copy(f"sqlite:///{tmp_path}/new.db", target)

    advice = "the database has no tables; run `care-gateway migrate`"
    assert_rejected(result, f"{tmp_path}/new.db: {advice}")


def test_a_missing_source_is_rejected_and_not_created(target: str, tmp_path: Path) -> None:
    result = copy(f"sqlite:///{tmp_path}/none.db", target)

    assert_rejected(result, f"there is no database at {tmp_path}/none.db; run `care-gateway migrate` first")
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_is_no_database_is_rejected(target: str, tmp_path: Path) -> None:
    (tmp_path / "letter.db").write_text("Dear operator, " * 100)

    result = copy(f"sqlite:///{tmp_path}/letter.db", target)

    message = f"the database at {tmp_path}/letter.db cannot be opened: file is not a database"
    assert_rejected(result, message)


def test_a_source_in_use_is_rejected(source: str, target: str) -> None:
    with closing(sqlite3.connect(sqlite_path(source))) as connection:
        connection.execute("SELECT count(*) FROM client").fetchone()

        result = copy(source, target)

    advice = "stop `serve`, `worker` and other commands first"
    assert_rejected(result, f"the database at {sqlite_path(source)} is in use; {advice}")


def test_a_target_that_does_not_respond_is_rejected(source: str) -> None:
    result = copy(source, "postgresql://care:secret@127.0.0.1:1/care")

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(
        "care-gateway: 127.0.0.1:1/care: the PostgreSQL database cannot be opened: "
    )
    assert "secret" not in result.stderr


def test_a_difference_is_found_and_nothing_is_kept(source: str, target: str) -> None:
    """For example, a trigger of the target that changes a text."""
    raw.run(
        target,
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.title = upper(NEW.title); RETURN NEW; END $$",
        "CREATE TRIGGER shout BEFORE INSERT ON session FOR EACH ROW EXECUTE FUNCTION shout()",
    )

    result = copy(source, target)

    [(count,)] = raw.run(source, "SELECT count(*) FROM session")
    rows = f"{count} rows with the hash [0-9a-f]{{64}}"
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(
        f"care-gateway: nothing was copied: session has {rows}, and the copy has {rows}\n", result.stderr
    )
    assert is_empty(target)


def test_a_text_that_postgresql_cannot_store_is_rejected(source: str, target: str) -> None:
    raw.run(source, "UPDATE session SET title = 'before' || char(0) || 'after' WHERE id = 1")

    result = copy(source, target)

    assert_rejected(result, 'database error: invalid byte sequence for encoding "UTF8": 0x00')
    assert is_empty(target)


def test_a_number_that_postgresql_cannot_store_is_rejected(source: str, target: str) -> None:
    raw.run(source, f"UPDATE assignment SET score = {2**40} WHERE id = 1")

    result = copy(source, target)

    assert_rejected(result, "nothing was copied: PostgreSQL cannot store a value: value out of int32 range")
    assert is_empty(target)
