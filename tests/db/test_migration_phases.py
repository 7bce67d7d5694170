"""A migration first adds, while processes of the version before run, and removes after they have ended."""

import ast
import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.runtime.migration import MigrationContext
from click.testing import CliRunner, Result
from sqlalchemy import Connection, inspect

from app.cli import main
from app.db.admin import migrate as module
from app.db.admin.migrate import FOLDER, Phase, migrate, newest_version, serves, stored_version, versions
from app.db.drivers.interface import DatabaseError, location_of
from app.doctor.database import check_version
from app.doctor.findings import ok
from tests.callers import run_read
from tests.db.next_version import CONTRACT, EXPAND, NEXT, add_migrations
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import running
from tests.db.test_migrations import start_at, with_connection

OWN = newest_version()


@pytest.fixture
def next_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "FOLDER", add_migrations(tmp_path / "migrations"))
    versions.cache_clear()
    yield
    monkeypatch.undo()
    versions.cache_clear()


def run(url: str, *words: str) -> Result:
    return CliRunner().invoke(main, words, env={"CARE_ENV": "development", "CARE_DATABASE_URL": url})


def columns(url: str) -> set[str]:
    def read(connection: Connection) -> set[str]:
        return {column["name"] for column in inspect(connection).get_columns("delivery")}

    found: set[str] = with_connection(url, read) & {"last_answer", "last_outcome"}
    return found


def stored(url: str) -> str | None:
    return run_read(url, stored_version())


@pytest.mark.usefixtures("next_program")
def test_an_expansion_only_adds_and_a_contraction_removes(database_url: str) -> None:
    before = asyncio.run(migrate(database_url, Phase.EXPAND))
    between = stored(database_url), columns(database_url)
    again = asyncio.run(migrate(database_url, Phase.EXPAND))
    expanded = asyncio.run(migrate(database_url, Phase.CONTRACT))

    assert (before, again, expanded) == (OWN, NEXT, NEXT)
    assert between == (NEXT, {"last_answer", "last_outcome"})
    assert (stored(database_url), columns(database_url)) == (f"{NEXT}c", {"last_outcome"})
    assert asyncio.run(migrate(database_url, Phase.EXPAND)) == f"{NEXT}c"
    assert (stored(database_url), columns(database_url)) == (f"{NEXT}c", {"last_outcome"})


@pytest.mark.usefixtures("next_program")
def test_migrate_alone_does_both(database_url: str) -> None:
    assert asyncio.run(migrate(database_url)) == OWN
    assert (stored(database_url), columns(database_url)) == (f"{NEXT}c", {"last_outcome"})


@pytest.mark.usefixtures("next_program")
def test_the_command_names_the_step_that_is_left(database_url: str) -> None:
    printed = [
        run(database_url, "migrate", option).output.splitlines()
        for option in ("--expand", "--contract", "--expand")
    ]

    place = location_of(database_url)
    left = "after the last process of the version before has ended: care-gateway migrate --contract"
    assert printed == [
        [f"{place}: migrated from version {OWN} to version {NEXT}", left],
        [f"{place}: migrated from version {NEXT} to version {NEXT}c"],
        [f"{place}: the schema is already at version {NEXT}c"],
    ]


@pytest.mark.usefixtures("next_program")
def test_doctor_names_the_step_that_is_left() -> None:
    message = f"the tables are those of this version, {NEXT}"
    left = "; `care-gateway migrate --contract` ends the upgrade"

    found = [check_version(version) for version in (NEXT, f"{NEXT}c")]

    assert found == [ok("migrations", f"{message}{left}"), ok("migrations", f"{message}c")]


@pytest.mark.usefixtures("next_program")
@pytest.mark.parametrize("version", [None, OWN], ids=["no tables", "not expanded"])
def test_tables_are_not_contracted_before_they_are_expanded(database_url: str, version: str | None) -> None:
    if version is None:
        start_at(database_url, None)
    message = f"the tables are not those of version {NEXT} yet; run `care-gateway migrate --expand` first"
    with pytest.raises(DatabaseError, match=f"^{re.escape(message)}$"):
        asyncio.run(migrate(database_url, Phase.CONTRACT))

    assert with_connection(database_url, current_revision) == version


def current_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


@pytest.mark.usefixtures("next_program")
def test_a_migration_that_fails_changes_nothing(database_url: str) -> None:
    """Also the migrations before it."""
    contraction = module.FOLDER / "versions" / f"{NEXT}c_last_outcome.py"
    contraction.write_text(f"{CONTRACT}    raise RuntimeError('no space')\n")

    with pytest.raises(RuntimeError, match="no space"):
        asyncio.run(migrate(database_url))

    assert (stored(database_url), columns(database_url)) == (OWN, {"last_answer"})


@pytest.mark.usefixtures("next_program")
def test_an_expansion_skips_no_version(database_url: str) -> None:
    start_at(database_url, "0012")

    message = (
        f"the tables are of version 0012, whose processes do not serve version {NEXT}: first "
        "upgrade to the version between, or stop all processes and run `care-gateway migrate`"
    )
    with pytest.raises(DatabaseError, match=f"^{re.escape(message)}$"):
        asyncio.run(migrate(database_url, Phase.EXPAND))

    assert stored(database_url) == "0012"


@pytest.mark.usefixtures("next_program")
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_an_expansion_gives_up_soon_if_a_table_is_locked(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits, all later requests on the table wait behind it."""
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)

    def expand_beside(connection: Connection) -> str:
        connection.exec_driver_sql("LOCK TABLE delivery IN ACCESS SHARE MODE")
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(run, database_url, "migrate", "--expand").result().stderr

    errors = with_connection(database_url, expand_beside)
    assert errors.startswith("care-gateway: database error: ")
    assert ("lock timeout" in errors, errors.count("\n")) == (True, 1)
    assert stored(database_url) == OWN


@pytest.mark.usefixtures("next_program")
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_contraction_waits_for_a_locked_table(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(migrate(database_url, Phase.EXPAND))
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.001)

    async def contract_beside() -> None:
        async with uncommitted(database_url, running("LOCK TABLE delivery IN ACCESS SHARE MODE")):
            contracted = asyncio.create_task(migrate(database_url, Phase.CONTRACT))
            for _ in range(2):  # the second look is later than LOCK_SECONDS
                assert await until_blocked(database_url, contracted)
        await contracted

    asyncio.run(contract_beside())

    assert columns(database_url) == {"last_outcome"}


@pytest.mark.usefixtures("next_program")
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_an_expansion_waits_for_another_migration(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.001)

    async def expand_beside() -> None:
        async with uncommitted(database_url, running(f"SELECT pg_advisory_xact_lock({module.MIGRATE_LOCK})")):
            expanded = asyncio.create_task(migrate(database_url, Phase.EXPAND))
            for _ in range(2):  # the second look is later than LOCK_SECONDS
                assert await until_blocked(database_url, expanded)
        await expanded

    asyncio.run(expand_beside())

    assert stored(database_url) == NEXT


@pytest.mark.parametrize(
    ("version", "served"),
    [
        (None, False),
        ("0011", False),
        (OWN, True),
        (f"{OWN}c", True),
        (NEXT, True),
        (f"{NEXT}c", False),
        ("9999", False),
    ],
)
def test_a_process_serves_its_own_tables_and_the_next_ones_until_they_are_contracted(
    version: str | None, served: bool
) -> None:
    assert serves(version) is served


# --- every migration from now on ------------------------------------------------------------------

BEFORE = ("0010", "0011", "0012", "0013")  # from before rolling upgrades
REMOVING = re.compile(r"\b(DROP|RENAME|DELETE|NOT NULL)\b", re.IGNORECASE)


def removals(source: str) -> list[str]:
    """What processes of the version before could miss."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        text
        for text in map(ast.unparse, calls)
        if re.match(r"op\.(drop_|rename_|alter_column)", text)
        or (text.startswith("op.execute") and REMOVING.search(text))
    ]


def test_removals_are_found() -> None:
    assert removals(EXPAND) == []
    assert removals(CONTRACT) == ["op.drop_column('delivery', 'last_answer')"]
    renamed = "op.execute('ALTER TABLE kept RENAME TO stored')"
    assert removals(renamed) == [renamed]


def test_an_expansion_removes_nothing_and_a_contraction_follows_its_expansion() -> None:
    for file in sorted((FOLDER / "versions").glob("*.py")):
        version = file.name.partition("_")[0]
        if version in BEFORE:
            continue
        if version.endswith("c"):
            assert version[:-1] in versions(), file.name
        else:
            assert removals(file.read_text()) == [], file.name
