"""Promise: audit records are append-only, and the hash chain shows every other change."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from app.care.audit import seal
from app.db.audit.chain import MAX_SEALED, finding_newest, finding_writers, sealing
from app.db.audit.records import Record, recording
from app.db.audit.removing import Checkpoint, adding_checkpoint
from app.db.audit.verifying import Verdict, verifying, verifying_next
from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseUnavailable
from app.db.sql import Steps
from app.db.tables import AuditActor, Contract
from tests.callers import run_read, run_write
from tests.conftest import fresh_database
from tests.db import raw
from tests.db.overlapping import uncommitted
from tests.factories import HOUR, NOW
from tests.patience import PATIENCE

GUARDS = {
    "sqlite": (
        "DROP TRIGGER audit_record_update",
        "DROP TRIGGER audit_record_delete",
        "DROP TRIGGER audit_seal_delete",
        "DROP TRIGGER audit_entry_delete",
    ),
    "postgresql": (
        "DROP TRIGGER audit_record_change ON audit_record",
        "DROP TRIGGER audit_seal_change ON audit_seal",
        "DROP TRIGGER audit_entry_change ON audit_entry",
        "DROP TRIGGER audit_record_removal ON audit_record",
        "DROP TRIGGER audit_seal_removal ON audit_seal",
        "DROP TRIGGER audit_entry_removal ON audit_entry",
        "DROP TRIGGER IF EXISTS audit_record_update ON audit_record",  # of a distributed database
    ),
}
GUARDS["citus"] = GUARDS["postgresql"]
# The last hash of `sealed`. If it changes, chains of earlier versions can no longer be verified.
HEAD = "8515a025482b0c4c7d0b4d11bef5c2bc456ce8917136d42d5918e144f9c7ca04"
CHANGED = "the records of seal 2 were changed after it was made"


def records(count: int, about: str = '[[1,1,{"answerSets":[1]}]]', moment: datetime = NOW) -> list[Record]:
    return [
        Record(
            moment, AuditActor.CAREGIVER, 1, Contract.GRAPHQL, "assignment", "DONE", about, f"request-{one}"
        )
        for one in range(count)
    ]


def seal_all(database_url: str, now: datetime = NOW) -> None:
    async def run() -> None:
        db = await open_database(database_url)
        try:
            await seal(db, now)
        finally:
            await db.close()

    asyncio.run(run())


def verified(database_url: str, noted: dict[int, str] | None = None) -> Verdict:
    return run_read(database_url, verifying(noted or {}))


@pytest.fixture
def sealed(database_url: str) -> str:
    """Three seals over 2, 3 and 4 records."""
    for count in (2, 3, 4):
        run_write(database_url, recording(records(count)))
        seal_all(database_url)
    return database_url


# --- the guard --------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["audit_record", "audit_seal", "audit_entry"])
@pytest.mark.parametrize("change", ["UPDATE {0} SET {1} = {1}", "DELETE FROM {0}"])
def test_the_database_rejects_updates_and_deletes(sealed: str, table: str, change: str) -> None:
    column = "record_id" if table == "audit_entry" else "id"
    before = raw.run(sealed, f"SELECT * FROM {table}")

    with pytest.raises(Exception, match="the audit trail is only added to"):
        raw.run(sealed, change.format(table, column))

    assert raw.run(sealed, f"SELECT * FROM {table}") == before


# --- the chain --------------------------------------------------------------------------------------


def test_records_are_sealed_in_their_order(sealed: str) -> None:
    seals = raw.run(sealed, "SELECT id, last_record_id, record_count FROM audit_seal ORDER BY id")

    assert seals == [(1, 2, 2), (2, 5, 3), (3, 9, 4)]
    verdict = verified(sealed)
    assert (verdict.seals, verdict.records, verdict.unsealed, verdict.faults) == (3, 9, 0, [])


def test_without_new_records_no_seal_is_added(sealed: str) -> None:
    seal_all(sealed)

    assert raw.run(sealed, "SELECT count(*) FROM audit_seal") == [(3,)]


def test_unsealed_records_are_counted(sealed: str) -> None:
    run_write(sealed, recording(records(2)))

    verdict = verified(sealed)
    assert (verdict.records, verdict.unsealed, verdict.faults) == (9, 2, [])


def test_many_records_are_sealed_in_several_seals(database_url: str) -> None:
    run_write(database_url, recording(records(MAX_SEALED + 1)))

    seal_all(database_url)

    assert raw.run(database_url, "SELECT record_count FROM audit_seal ORDER BY id") == [(MAX_SEALED,), (1,)]
    assert verified(database_url).faults == []


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_order_is_that_of_the_ids_in_whichever_order_the_rows_are_stored(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a removal, PostgreSQL stores new records in front of older ones."""
    monkeypatch.setattr("app.db.audit.chain.MAX_SEALED", 2)
    columns = "id, moment, actor, actor_id, contract, operation, outcome, about, request_id"
    about = """'[[1,1,{"answerSets":[1]}]]', 'request-' || id"""
    row = f"id, '{NOW}', 'CLIENT', 1, 'GRAPHQL', 'assignment', 'DONE', {about}"
    add = f"INSERT INTO audit_record ({columns}) SELECT {row} FROM generate_series(6, 1, -1) AS id"
    raw.run(database_url, add, "ANALYZE")

    seal_all(database_url)
    restored = [f"UPDATE audit_seal SET moment = moment WHERE id = {number}" for number in (3, 2, 1)]
    raw.run(database_url, *GUARDS["postgresql"], *restored, "ANALYZE")

    verdict = verified(database_url)
    due = run_read(database_url, verifying_next(Verdict(), NOW + HOUR, 1))
    assert (verdict.seals, verdict.records, verdict.unsealed, verdict.faults) == (3, 6, 0, [])
    assert due is not None and (due.seal_id, due.last_record_id) == (1, 2)


def test_both_databases_compute_the_same_hash(sealed: str) -> None:
    head = raw.run(sealed, "SELECT hash FROM audit_seal ORDER BY id DESC LIMIT 1")

    assert head == [(HEAD,)]


@pytest.mark.parametrize(
    ("tampering", "fault"),
    [
        ("UPDATE audit_record SET actor_id = 2 WHERE id = 4", CHANGED),
        ("UPDATE audit_record SET about = '[]' WHERE id = 4", CHANGED),
        ("DELETE FROM audit_record WHERE id = 4", "seal 2 covers 3 records, but the table has 2"),
        ("DELETE FROM audit_seal WHERE id = 2", "seal 3 covers 4 records, but the table has 7"),
    ],
)  # fmt: skip
def test_tampering_is_found(sealed: str, tampering: str, fault: str) -> None:
    kind = "sqlite" if sealed.startswith("sqlite") else "postgresql"
    raw.run(sealed, *GUARDS[kind], tampering)

    assert fault in verified(sealed).faults


def test_a_missing_index_entry_is_found(sealed: str) -> None:
    guard = "audit_entry_delete" if sealed.startswith("sqlite") else "audit_entry_removal ON audit_entry"
    raw.run(sealed, f"DROP TRIGGER {guard}", "DELETE FROM audit_entry WHERE record_id = 4")

    assert verified(sealed).faults == ["the index of the records has 8 entries, should be 9"]


def test_a_missing_index_entry_of_a_record_about_drafts_and_submissions_is_found(database_url: str) -> None:
    """A record about drafts only has no entry."""
    both = '[[1,1,{"answerSets":[1],"drafts":[2]}],[2,1,{"drafts":[3]}]]'
    run_write(database_url, recording(records(1, both)))
    seal_all(database_url)
    entries = raw.run(database_url, "SELECT caregiver_id, client_id, record_id FROM audit_entry")
    guard = (
        "audit_entry_delete" if database_url.startswith("sqlite") else "audit_entry_removal ON audit_entry"
    )
    before = verified(database_url).faults

    raw.run(database_url, f"DROP TRIGGER {guard}", "DELETE FROM audit_entry")

    assert (entries, before) == ([(1, 1, 1)], [])
    assert verified(database_url).faults == ["the index of the records has 0 entries, should be 1"]


def test_a_changed_index_entry_is_found(sealed: str) -> None:
    guard = "audit_entry_update" if sealed.startswith("sqlite") else "audit_entry_change ON audit_entry"
    raw.run(sealed, f"DROP TRIGGER {guard}", "UPDATE audit_entry SET client_id = 2 WHERE record_id = 4")

    assert verified(sealed).faults == ["the index of the records has entries that do not match the records"]


def test_a_rewritten_chain_is_found_by_a_noted_seal(sealed: str) -> None:
    [(before,)] = raw.run(sealed, "SELECT hash FROM audit_seal WHERE id = 3")
    kind = "sqlite" if sealed.startswith("sqlite") else "postgresql"
    raw.run(
        sealed,
        *GUARDS[kind],
        "DELETE FROM audit_seal WHERE id = 3",
        "DELETE FROM audit_entry WHERE record_id > 5",
        "UPDATE audit_record SET actor_id = 2 WHERE id = 8",
    )
    seal_all(sealed)

    [(id,)] = raw.run(sealed, "SELECT max(id) FROM audit_seal")
    assert verified(sealed).faults == []
    assert verified(sealed, {id: before}).faults == [f"seal {id} differs from the noted hash"]
    assert verified(sealed, {id + 1: before, id + 2: before}).faults == [
        f"seal {id + 1} is missing",
        f"seal {id + 2} is missing",
    ]


# --- records that are committed late ----------------------------------------------------------------


def test_a_record_that_is_committed_late_is_sealed(database_url: str) -> None:
    """On PostgreSQL it may have a smaller id than records that are committed already."""
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer, so records are committed in order")
    import asyncpg

    async def run() -> None:
        db = await open_database(database_url)
        late = await asyncpg.connect(database_url)
        transaction = late.transaction()
        await transaction.start()
        await late.execute(INSERT)
        await db.write(recording(records(1)))

        with pytest.raises(DatabaseUnavailable):  # it waits a short time only
            await seal(db, NOW)
        await db.write(recording(records(1)))

        await transaction.commit()
        await late.close()
        await seal(db, NOW)
        await db.close()

    asyncio.run(run())
    assert raw.run(database_url, "SELECT last_record_id, record_count FROM audit_seal") == [(3, 3)]
    assert verified(database_url).faults == []


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_seal_waits_for_every_transaction_that_adds_records(database_url: str) -> None:
    async def run() -> list[set[str]]:
        db = await open_database(database_url)
        async with uncommitted(database_url, recording(records(1))):
            async with uncommitted(database_url, recording(records(1))):
                found = [await db.read(finding_writers())]
            found.append(await db.read(finding_writers()))
        found.append(await db.read(finding_writers()))
        await db.close()
        return found

    both, one, none = asyncio.run(run())

    assert (len(both), len(one), one < both, none) == (2, 1, True, set())


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_records_are_sealed_although_some_transaction_always_adds_records(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seal waits only for the transactions that were open when it began."""
    monkeypatch.setattr("app.care.audit.MAX_WAITS", 200)

    async def run() -> None:
        db = await open_database(database_url)
        opened = AsyncExitStack()
        await opened.enter_async_context(uncommitted(database_url, recording(records(1))))
        await db.write(recording(records(1)))
        sealed = asyncio.create_task(seal(db, NOW))
        while not sealed.done():
            following = AsyncExitStack()
            await following.enter_async_context(uncommitted(database_url, recording(records(1))))
            await opened.aclose()
            opened = following
        await opened.aclose()
        await sealed
        await db.close()

    asyncio.run(run())
    verdict = verified(database_url)
    assert (verdict.seals, verdict.faults) == (1, [])


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_records_are_sealed_while_another_database_of_the_server_adds_some(
    database_url: str, migrated: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Its table has the same id, because both databases are copies of one."""

    async def run(other_url: str) -> None:
        db = await open_database(database_url)
        await db.write(recording(records(1)))
        async with uncommitted(other_url, recording(records(1))):
            await seal(db, NOW)
        await db.close()

    with fresh_database("postgresql", migrated, request, tmp_path) as other_url:
        asyncio.run(run(other_url))

    assert (verified(database_url).records, verified(database_url).faults) == (1, [])


def test_records_are_sealed_during_a_vacuum(database_url: str) -> None:
    """A VACUUM holds this lock until it ends."""
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has no such lock")
    import asyncpg

    async def run() -> None:
        db = await open_database(database_url)
        vacuum = await asyncpg.connect(database_url)
        async with vacuum.transaction():
            await vacuum.execute("LOCK TABLE audit_record, audit_seal IN SHARE UPDATE EXCLUSIVE MODE")
            await db.write(recording(records(2)))
            await seal(db, NOW)
        await vacuum.close()
        await db.close()

    asyncio.run(run())
    assert raw.run(database_url, "SELECT last_record_id, record_count FROM audit_seal") == [(2, 2)]


@pytest.mark.parametrize(
    "waiting",
    [partial(sealing, 0, NOW), partial(adding_checkpoint, Checkpoint(1, 1, "", 1, 1, NOW), NOW)],
    ids=["another seal", "a removal"],
)
def test_a_sealer_has_its_own_limit_of_waiting_for_another_one(
    database_url: str, waiting: Callable[[], Steps[bool]]
) -> None:
    """A caregiver who lists audit events waits for it. The connection of the test has no limit."""
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has no such lock")

    async def run() -> None:
        async with uncommitted(database_url, sealing(0, NOW)), asyncio.timeout(PATIENCE / 4):
            with pytest.raises(DatabaseUnavailable):
                async with uncommitted(database_url, waiting()):
                    pass

    asyncio.run(run())


def test_records_after_the_newest_one_wait_for_the_next_seal(database_url: str) -> None:
    """Before one of them, a record with a smaller id may still be committed."""
    run_write(database_url, recording(records(2)))
    newest, _ = run_write(database_url, finding_newest())
    run_write(database_url, recording(records(3)))

    run_write(database_url, sealing(newest, NOW))

    assert newest == 2
    assert raw.run(database_url, "SELECT last_record_id, record_count FROM audit_seal") == [(2, 2)]
    verdict = verified(database_url)
    assert (verdict.unsealed, verdict.faults) == (3, [])


INSERT = (
    "INSERT INTO audit_record (moment, actor, actor_id, contract, operation, outcome, about, request_id)"
    " VALUES (now(), 'CLIENT', 1, 'GRAPHQL', 'ownData', 'DONE', '[]', 'late')"
)


def test_concurrent_sealing_seals_each_record_once(database_url: str) -> None:
    async def run() -> None:
        databases = [await open_database(database_url) for _ in range(4)]
        for count in range(1, 8):
            writes = [databases[0].write(recording(records(count)))]
            sealed = [seal(db, NOW + HOUR) for db in databases]
            for found in await asyncio.gather(*writes, *sealed, return_exceptions=True):
                # A sealer waits for a short time only, and tries again a second later.
                assert not isinstance(found, BaseException) or isinstance(found, DatabaseUnavailable)
        await seal(databases[0], NOW)
        for db in databases:
            await db.close()

    asyncio.run(run())
    verdict = verified(database_url)
    assert (verdict.records, verdict.unsealed, verdict.faults) == (28, 0, [])
