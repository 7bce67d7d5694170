"""Promise: audit records are removed only after a configured period, oldest first. The removal is recorded,
the other records still verify, and an unauthorized removal is found."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.db.audit.records import operator_record, recording
from app.db.audit.removing import Checkpoint, adding_checkpoint, removing_records
from app.db.audit.verifying import Verdict, finding_newest_moment, verifying_next, verifying_tail
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.tables import AuditActor
from app.events.retention import RetentionRejected, expire, removing_expired
from app.settings import KEEP_ALL, Retention
from tests.audit.audit_log import audited
from tests.audit.test_chain import GUARDS, records, seal_all, verified
from tests.callers import run_read, run_write
from tests.db import raw
from tests.factories import DAY, NOW

PERIOD = Retention(events=0, deliveries=0, drafts=0, audit=30)
MIDNIGHT = NOW.replace(hour=0)
MOMENT = timedelta(microseconds=1)
OLD = MIDNIGHT - 30 * DAY - MOMENT
ABOUT = '[[1,1,{"answerSets":[1]}],[1,2,{"answerSets":[2]}]]'
REMOVAL = ("OPERATOR", None, "retention audit", "DONE", [[None, None, {"seals": [2], "records": [5]}]])


def removed(url: str, periods: Retention = PERIOD, is_dry_run: bool = False, now: datetime = NOW) -> int:
    async def run() -> int:
        db = await open_database(url)
        try:
            steps = removing_expired(db, periods, now, is_dry_run)
            return sum([count async for kind, count in steps if kind == "audit"])
        finally:
            await db.close()

    return asyncio.run(run())


@pytest.fixture
def aged(database_url: str) -> str:
    """Seals 1 and 2, over records 1 to 5, are older than the period; 3 and 4, over 6 to 12, are not."""
    for count, moment in ((2, OLD), (3, OLD), (4, MIDNIGHT - 30 * DAY), (3, NOW)):
        run_write(database_url, recording(records(count, ABOUT, moment)))
        seal_all(database_url, moment)
    return database_url


def ids(url: str, table: str, column: str = "id") -> list[int]:
    return [row[0] for row in raw.run(url, f"SELECT DISTINCT {column} FROM {table} ORDER BY {column}")]


def remaining(url: str) -> tuple[list[int], list[int], list[int]]:
    """The remaining records, seals and entries."""
    return ids(url, "audit_record"), ids(url, "audit_seal"), ids(url, "audit_entry", "record_id")


def kind_of(url: str) -> str:
    return "sqlite" if url.startswith("sqlite") else "postgresql"


# --- removing ---------------------------------------------------------------------------------------


def test_expired_records_are_removed_and_the_others_verify(
    aged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verification reads the seals and the entries of two clients in several pages."""
    monkeypatch.setattr("app.db.audit.verifying.PAGE_SIZE", 2)
    [(hash,)] = raw.run(aged, "SELECT hash FROM audit_seal WHERE id = 2")

    assert removed(aged, is_dry_run=True) == 5
    assert verified(aged).records == 12
    assert removed(aged) == 5

    verdict = verified(aged, {2: hash})
    assert remaining(aged) == ([*range(6, 14)], [3, 4, 5], [*range(6, 13)])
    assert audited(aged)[-1] == REMOVAL
    assert run_read(aged, finding_newest_moment()) == NOW
    assert (verdict.faults, verdict.records, verdict.seals, verdict.unsealed) == ([], 8, 3, 0)
    assert [(one.seal_id, one.hash, one.record_count, one.seal_count) for one in verdict.removed] == [
        (2, hash, 5, 2)
    ]
    assert (removed(aged), verified(aged).faults) == (0, [])


def test_a_later_removal_continues_after_the_checkpoint(aged: str) -> None:
    """The last seals of both removals can be compared, and the one that remains is verified from there."""
    seals = dict(raw.run(aged, "SELECT id, hash FROM audit_seal WHERE id IN (2, 3)"))
    removed(aged)

    assert removed(aged, PERIOD._replace(audit=29)) == 4

    verdict = verified(aged, seals)
    assert (verdict.faults, [one.seal_id for one in verdict.removed]) == ([], [2, 3])
    assert remaining(aged) == ([*range(10, 15)], [4, 5, 6], [10, 11, 12])
    assert verified(aged, {2: seals[3]}).faults == ["seal 2 differs from the noted hash"]
    raw.run(aged, *GUARDS[kind_of(aged)], "DELETE FROM audit_seal WHERE id > 4")
    assert run_read(aged, verifying_tail()).faults == []


def test_a_third_removal_continues_after_the_last_checkpoint(aged: str) -> None:
    removals = [removed(aged, now=NOW + days * DAY) for days in (0, 1, 60)]

    assert all(removals)
    assert (verified(aged).faults, len(verified(aged).removed)) == ([], 3)


def test_nothing_is_removed_without_a_period(aged: str) -> None:
    assert removed(aged, KEEP_ALL) == 0
    assert (remaining(aged)[0], verified(aged).removed) == ([*range(1, 13)], [])


def test_the_newest_seal_and_its_records_are_never_removed(database_url: str) -> None:
    """The next seal needs its hash, and without records SQLite would assign ids from 1 again."""
    for _ in range(2):
        run_write(database_url, recording(records(1, moment=OLD)))
        seal_all(database_url, OLD)

    assert removed(database_url) == 1

    run_write(database_url, recording(records(1)))
    seal_all(database_url)
    assert remaining(database_url)[:2] == ([2, 3, 4], [2, 3, 4])
    assert verified(database_url).faults == []


def test_an_old_seal_behind_a_newer_one_waits_for_it(database_url: str) -> None:
    """The clock was ahead when the newer one was made."""
    for moment in (OLD, NOW, OLD, NOW):
        run_write(database_url, recording(records(1)))
        seal_all(database_url, moment)

    assert removed(database_url) == 1
    assert (remaining(database_url)[1], verified(database_url).faults) == ([2, 3, 4, 5], [])


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_records_are_verified_and_the_oldest_removed_in_whichever_order_they_are_stored(
    aged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.audit.removing.MAX_SEALED", 2)
    stored_again = [f"UPDATE audit_record SET outcome = outcome WHERE id = {id}" for id in range(12, 0, -1)]
    raw.run(aged, *GUARDS["postgresql"], *stored_again, "ANALYZE")
    monkeypatch.setattr("app.db.audit.verifying.PAGE_SIZE", 2)

    assert verified(aged).faults == []
    assert removed(aged) == 5
    assert remaining(aged) == ([*range(6, 14)], [3, 4, 5], [*range(6, 13)])


def seal_five_old_and_one_new(url: str, count: int = 3) -> None:
    for _ in range(5):
        run_write(url, recording(records(count, ABOUT, OLD)))
        seal_all(url, OLD)
    run_write(url, recording(records(1)))
    seal_all(url)


@pytest.mark.parametrize("count", [1, 3])
def test_a_removal_takes_several_batches(
    database_url: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A batch may contain several seals, or only some records of one."""
    monkeypatch.setattr("app.db.audit.removing.MAX_SEALED", 4)
    monkeypatch.setattr("app.events.retention.MAX_VERIFIED", 2)
    seal_five_old_and_one_new(database_url, count)

    assert removed(database_url) == 5 * count

    verdict = verified(database_url)
    assert (verdict.faults, [(one.record_count, one.seal_count) for one in verdict.removed]) == (
        [],
        [(5 * count, 5)],
    )
    assert remaining(database_url)[:2] == ([5 * count + 1, 5 * count + 2], [6, 7])


@pytest.mark.parametrize("by_other", [8, 15], ids=["which goes on", "which has ended"])
def test_a_removal_beside_another_one_reports_no_fault(
    database_url: str, monkeypatch: pytest.MonkeyPatch, by_other: int
) -> None:
    """The other one removes what this one has not verified yet."""
    monkeypatch.setattr("app.db.audit.removing.MAX_SEALED", 4)
    monkeypatch.setattr("app.events.retention.MAX_VERIFIED", 2)
    seal_five_old_and_one_new(database_url)

    async def run() -> int:
        db = await open_database(database_url)
        steps, other = [removing_expired(db, PERIOD, NOW) for _ in range(2)]
        await anext(steps)
        count = 0
        while count < by_other:
            count += (await anext(other))[1]
        assert [count async for _, count in steps if count] == []
        count += sum([count async for _, count in other])
        await db.close()
        return count

    assert asyncio.run(run()) == 15
    assert verified(database_url).faults == []


def test_an_interrupted_removal_verifies_and_the_next_run_finishes_it(
    aged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.audit.removing.MAX_SEALED", 3)

    async def break_off(db: Database) -> None:
        due = await db.read(verifying_next(Verdict(), MIDNIGHT - 30 * DAY, 10))
        assert due is not None and await db.write(adding_checkpoint(due, NOW))
        await db.write(removing_records())

    async def run() -> None:
        db = await open_database(aged)
        await break_off(db)
        await db.close()

    asyncio.run(run())
    with pytest.raises(Exception, match="the audit trail is only added to"):
        raw.run(aged, "DELETE FROM audit_record WHERE id >= 4")  # also of later ones
    seal_all(aged)
    between, verdict = remaining(aged), verified(aged)
    monkeypatch.undo()

    assert between == ([*range(4, 14)], [2, 3, 4, 5], [*range(4, 13)])
    assert verdict.faults == []
    assert (removed(aged, KEEP_ALL, is_dry_run=True), remaining(aged)) == (0, between)
    assert removed(aged, KEEP_ALL) == 2
    assert remaining(aged)[0] == [*range(6, 14)]


def test_concurrent_removals_store_one_checkpoint(aged: str) -> None:
    async def remove(db: Database) -> None:
        try:
            async for _ in removing_expired(db, PERIOD, NOW):
                pass
        except DatabaseUnavailable:  # another run has locked the table; the next run continues
            pass

    async def run() -> None:
        databases = [await open_database(aged) for _ in range(3)]
        await asyncio.gather(*map(remove, databases))
        await remove(databases[0])
        for db in databases:
            await db.close()

    asyncio.run(run())
    seal_all(aged)  # the run that removed may have found the table locked when it sealed

    assert [one for one in audited(aged) if one[2] == "retention audit"] == [REMOVAL]
    assert (ids(aged, "audit_record"), verified(aged).faults) == ([*range(6, 14)], [])


def test_a_checkpoint_is_stored_once_and_none_before_it(aged: str) -> None:
    """Another process may have stored it, or a later one."""
    removed(aged)
    seals = dict(raw.run(aged, "SELECT id, hash FROM audit_seal"))
    due = Checkpoint(3, 9, seals[3], 4, 1, MIDNIGHT - 30 * DAY)

    stored = [run_write(aged, adding_checkpoint(each, NOW)) for each in (due, due, due._replace(seal_id=2))]

    assert stored == [True, False, False]
    assert ids(aged, "audit_checkpoint", "seal_id") == [2, 3]


# --- unauthorized changes ---------------------------------------------------------------------------


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("changed", "is_record"),
    [
        ({}, True),
        ({"actor": AuditActor.CAREGIVER}, False),
        ({"operation": "retention"}, False),
        ({"about": ABOUT}, False),
    ],
    ids=str,
)
def test_a_removal_needs_the_record_of_an_operator(changed: dict[str, Any], is_record: bool) -> None:
    due = Checkpoint(2, 5, "", 5, 2, OLD)
    record = operator_record(NOW, "retention audit", due.about)._replace(**changed)

    assert due.is_record_of((1, *record)) == is_record


def test_changed_records_are_not_removed(aged: str) -> None:
    raw.run(aged, *GUARDS[kind_of(aged)], "UPDATE audit_record SET actor_id = 2 WHERE id = 4")

    with pytest.raises(RetentionRejected, match="the records of seal 2 were changed after it was made"):
        removed(aged)

    assert remaining(aged)[0] == [*range(1, 13)]
    assert verified(aged).faults == ["the records of seal 2 were changed after it was made"]


@pytest.mark.sqlite_only
def test_the_dispatcher_reports_changed_records_and_continues(
    aged: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw.run(aged, *GUARDS[kind_of(aged)], "UPDATE audit_record SET actor_id = 2 WHERE id = 4")

    async def run() -> None:
        db = await open_database(aged)
        try:
            await expire(db, PERIOD, NOW, asyncio.Event())
        finally:
            await db.close()

    asyncio.run(run())

    reason = "the records of seal 2 were changed after it was made; see `care-gateway audit verify`"
    logged = [(record.levelname, record.message) for record in caplog.records]
    assert logged == [("ERROR", f"no audit record was removed: {reason}")]
    assert remaining(aged)[0] == [*range(1, 13)]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM audit_record WHERE id >= 5",
        "DELETE FROM audit_record WHERE id = 6",
        "DELETE FROM audit_seal WHERE id = 3",
        "DELETE FROM audit_entry WHERE record_id = 7",
        "UPDATE audit_record SET actor_id = 2 WHERE id = 6",
        "DELETE FROM audit_checkpoint",
        "UPDATE audit_checkpoint SET last_record_id = 9",
    ],
)
def test_the_database_rejects_changes_after_the_checkpoint(aged: str, change: str) -> None:
    removed(aged)
    before = remaining(aged)

    with pytest.raises(Exception, match="the audit trail is only added to"):
        raw.run(aged, change)

    assert (remaining(aged), verified(aged).faults) == (before, [])


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_no_table_of_the_audit_log_can_be_truncated(aged: str) -> None:
    removed(aged)
    before = remaining(aged)

    for table in ("audit_record", "audit_seal", "audit_entry", "audit_checkpoint"):
        with pytest.raises(Exception, match="the audit trail is only added to"):
            raw.run(aged, f"TRUNCATE {table}")

    assert (remaining(aged), len(verified(aged).removed)) == (before, 1)


def a_checkpoint(seal: int, record: int, hash: str) -> str:
    moment = "'2026-11-21T09:00:00.000000Z'"
    return (
        "INSERT INTO audit_checkpoint"
        " (seal_id, last_record_id, hash, record_count, seal_count, seal_date, moment)"
        f" VALUES ({seal}, {record}, {hash}, 9, 3, {moment}, {moment})"
    )


OF_SEAL_3 = "(SELECT hash FROM audit_seal WHERE id = 3)"


@pytest.mark.parametrize(
    ("seal", "record", "hash"),
    [
        (3, 9, "'0'"),
        (3, 10, OF_SEAL_3),
        (9, 9, OF_SEAL_3),
        (4, 12, "(SELECT hash FROM audit_seal WHERE id = 4)"),  # the newest
    ],
)
def test_a_checkpoint_without_its_seal_is_rejected(aged: str, seal: int, record: int, hash: str) -> None:
    with pytest.raises(Exception, match="a checkpoint names a seal that exists and is not the newest"):
        raw.run(aged, a_checkpoint(seal, record, hash))


@pytest.mark.parametrize("is_first", [True, False], ids=["the first", "after one with a record"])
def test_a_removal_without_an_audit_record_is_found(aged: str, is_first: bool) -> None:
    """Anyone with write access can add a checkpoint and then remove the records before it."""
    if not is_first:
        removed(aged)
    raw.run(aged, a_checkpoint(3, 9, OF_SEAL_3), "DELETE FROM audit_record WHERE id <= 9")
    raw.run(aged, "DELETE FROM audit_entry WHERE record_id <= 9", "DELETE FROM audit_seal WHERE id <= 3")

    assert verified(aged).faults == ["no sealed record shows that the records up to seal 3 were removed"]


def test_a_removal_without_a_checkpoint_is_found(aged: str) -> None:
    raw.run(
        aged,
        *GUARDS[kind_of(aged)],
        "DELETE FROM audit_entry WHERE record_id <= 5",
        "DELETE FROM audit_record WHERE id <= 5",
        "DELETE FROM audit_seal WHERE id <= 2",
    )

    assert verified(aged).faults == ["the records of seal 3 were changed after it was made"]


def test_a_noted_seal_that_was_removed_cannot_be_compared(aged: str) -> None:
    [(first,), (second,)] = raw.run(aged, "SELECT hash FROM audit_seal WHERE id <= 2 ORDER BY id")
    removed(aged)

    assert verified(aged, {2: second}).faults == []
    differs = "seal 2 differs from the noted hash"
    cannot = (
        f"seal 1 cannot be compared: it was removed with the records up to seal 2; note 2:{second} instead"
    )
    assert verified(aged, {2: first}).faults == [differs]
    assert verified(aged, {1: first}).faults == [cannot]
    assert verified(aged, {2: first, 1: first}).faults == [cannot, differs]


def test_verifying_only_the_newest_seal_begins_at_the_checkpoint(aged: str) -> None:
    removed(aged)
    raw.run(aged, *GUARDS[kind_of(aged)], "DELETE FROM audit_seal WHERE id > 3")

    assert run_read(aged, verifying_tail()).faults == []
