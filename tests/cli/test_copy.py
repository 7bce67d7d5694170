"""Promise: `copy` copies every row of SQLite to an empty PostgreSQL database, or changes nothing."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.db.admin.copying import copying, count_rows, locked_source
from app.db.drivers.interface import location_of, sqlite_path
from app.db.moments import moment_as_text
from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened, run_write
from tests.cli.copies import EVERY_TABLE, copy, run
from tests.conftest import fresh_database
from tests.db import raw
from tests.every_table import DELETED, HARD, LONG, sqlite_rows
from tests.factories import DAY, NOW
from tests.postgres import create_database, drop_database
from tests.rest_compat import legacy

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


def test_the_progress_counts_each_row_twice(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once when it is copied and once when it is read back, here in several fetches."""
    monkeypatch.setattr("app.db.admin.copying.ROWS_PER_FETCH", 2)
    progress: list[int] = []

    with locked_source(sqlite_path(source)) as connection:
        count = count_rows(connection)
        rows = run_write(target, copying(connection, progress.append))

    assert (sum(progress), sum(rows.values())) == (2 * count, count)


def test_the_copy_has_statistics_for_the_planner(copied: tuple[str, str]) -> None:
    [(count,)] = raw.run(copied[0], "SELECT count(*) FROM book")

    assert raw.run(copied[1], "SELECT reltuples FROM pg_class WHERE relname = 'book'") == [(count,)]


def test_ids_that_the_target_has_given_are_not_given_again(source: str, target: str) -> None:
    """Their rows were deleted, but links to them may exist."""
    raw.run(target, "SELECT setval('module_id_seq', 1000000)")

    copy(source, target)

    assert raw.run(target, "SELECT nextval('module_id_seq')") == [(1_000_001,)]
    [(newest,)] = raw.run(source, "SELECT seq FROM sqlite_sequence WHERE name = 'session'")
    assert raw.run(target, "SELECT nextval('session_id_seq')") == [(newest + 1,)]


def test_a_database_without_tables_is_migrated(source: str, postgres: str) -> None:
    name = f"empty_{uuid.uuid4().hex}"
    target = create_database(postgres, name)
    try:
        result = copy(source, target)

        assert (result.exit_code, result.stderr) == (0, "")
        assert sqlite_rows(target, "session") == sqlite_rows(source, "session")
    finally:
        drop_database(postgres, name)


def test_a_service_that_was_started_on_the_target_only_adds_its_counts_of_legacy_calls(
    source: str, target: str, usual_settings: Settings
) -> None:
    for url in (source, target):
        settings = usual_settings.model_copy(update={"database_url": url})
        with opened(create_app(settings, clock=lambda: NOW)) as client:
            codes = [client.get(path).status_code for path in (legacy.SESSIONS, legacy.ASSIGNMENTS)]
            assert codes == [401, 401]
    before = sqlite_rows(source, "legacy_usage")

    result = copy(source, target)

    moment, paths = moment_as_text(NOW), (f"GET {legacy.SESSIONS}", f"GET {legacy.ASSIGNMENTS}")
    counted = [("2026-11-21", path, "", "unknown", 1, moment) for path in paths]
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(counted) <= set(before)
    assert sqlite_rows(target, "legacy_usage") == [
        (*row[:4], 2, moment) if row in counted else row for row in before
    ]
    assert sqlite_rows(target, "legacy_hour") == sqlite_rows(source, "legacy_hour")


def test_minutes_that_only_the_target_counted_are_kept(source: str, target: str) -> None:
    raw.run(target, "INSERT INTO legacy_hour VALUES ('2026-11-19T09', 5), ('2026-11-18T23', 7)")

    result = copy(source, target)

    assert (result.exit_code, result.stderr) == (0, "")
    only_there = [("2026-11-18T23", 7), ("2026-11-19T09", 5)]
    assert sqlite_rows(target, "legacy_hour") == [*only_there, *sqlite_rows(source, "legacy_hour")]


def test_the_guards_of_the_audit_log_are_active_after_the_copy(copied: tuple[str, str]) -> None:
    import asyncpg

    with pytest.raises(asyncpg.RaiseError, match="a checkpoint names a seal"):
        raw.run(
            copied[1],
            "INSERT INTO audit_checkpoint VALUES (77, 77, 'x', 1, 1, now(), now())",
        )
