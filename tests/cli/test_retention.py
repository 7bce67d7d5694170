"""Promise: `retention` removes and counts rows older than their retention period; `--dry-run` only counts."""

from app.care.context import utc_now
from app.db.audit.records import recording
from app.db.moments import moment_as_text
from app.db.statements.dispatch import SEARCH_LIMIT
from app.settings import Settings
from tests.audit.test_chain import GUARDS, records, seal_all
from tests.callers import run_write
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import DAY, a_world, starting_with

pytestmark = starting_with(a_world)


def add_old_rows(settings: Settings) -> None:
    """Rows of 400 days ago: two events, one dead delivery, and two seals over three records; and one new."""
    old = utc_now() - 400 * DAY
    for number in (1, 2):
        raw.run(
            settings.database,
            "INSERT INTO event (id, caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
            f" SELECT {number}, 1, 1, 'ASSIGNED', 1, '{moment_as_text(old)}', '{moment_as_text(old)}'",
        )
    raw.run(
        settings.database,
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        f" VALUES (1, 1, 1, 'DEAD', 11, '{moment_as_text(old)}')",
    )
    for count, moment in ((2, old), (1, old), (1, utc_now())):
        run_write(settings.database, recording(records(count, moment=moment)))
        seal_all(settings.database, moment)


def test_expired_rows_are_removed_and_counted(command: Command, settings: Settings) -> None:
    add_old_rows(settings)
    [(hash,)] = raw.run(settings.database, "SELECT hash FROM audit_seal WHERE id = 2")
    before = raw.row_counts(settings.database)

    counted = command("retention", "--dry-run", retention_audit="365")
    unchanged = raw.row_counts(settings.database) == before
    result = command("retention", retention_audit="365")

    assert [(one.exit_code, one.stderr) for one in (counted, result)] == [(0, "")] * 2
    assert unchanged
    assert counted.stdout.splitlines() == [
        "1 event to be removed (kept for 365 days)",
        "1 dead delivery to be removed (kept for 90 days)",
        "0 drafts to be removed (kept for 365 days)",
        "3 audit records to be removed (kept for 365 days)",
    ]
    assert result.stdout.splitlines() == [
        "2 events removed (kept for 365 days)",
        "1 dead delivery removed (kept for 90 days)",
        "0 drafts removed (kept for 365 days)",
        "3 audit records removed (kept for 365 days)",
        f"the audit log now begins after this seal; store it: 2:{hash}",
    ]
    again = command("retention", retention_audit="365")
    assert again.stdout.splitlines()[3:] == ["0 audit records removed (kept for 365 days)"]
    verified = command("audit", "verify", "--noted", f"2:{hash}")
    assert verified.exit_code == 0
    sealed = f"{utc_now() - 400 * DAY:%Y-%m-%d}"
    first, second, third, _ = verified.stdout.splitlines()
    assert first.startswith(f"removed by retention: 3 records, sealed until {sealed}T")
    assert second == f"the last seal of these was 2:{hash}"
    assert third == "2 records under 2 seals, 0 faults"


def test_all_batches_are_counted(command: Command, settings: Settings) -> None:
    old = moment_as_text(utc_now() - 400 * DAY)
    rows = ", ".join([f"(1, 1, 'ASSIGNED', 1, '{old}', '{old}')"] * (SEARCH_LIMIT + 7))
    raw.run(
        settings.database,
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
        f" VALUES {rows}",
    )

    results = [command("retention", *words) for words in (("--dry-run",), ())]

    assert [result.stdout.splitlines()[0] for result in results] == [
        "507 events to be removed (kept for 365 days)",
        "507 events removed (kept for 365 days)",
    ]


def test_rows_that_are_kept_forever_are_not_removed(command: Command, settings: Settings) -> None:
    add_old_rows(settings)
    before = raw.row_counts(settings.database)

    result = command("retention", retention_events="0", retention_deliveries="0", retention_drafts="0")

    assert result.stdout.splitlines() == [
        "events are kept forever (CARE_RETENTION_EVENTS=0)",
        "dead deliveries are kept forever (CARE_RETENTION_DELIVERIES=0)",
        "drafts are kept forever (CARE_RETENTION_DRAFTS=0)",
        "audit records are kept forever (CARE_RETENTION_AUDIT=0)",
    ]
    assert raw.row_counts(settings.database) == before


def test_audit_records_that_do_not_match_their_seal_are_not_removed(
    command: Command, settings: Settings, kind: str
) -> None:
    add_old_rows(settings)
    raw.run(settings.database, *GUARDS[kind], "UPDATE audit_record SET actor_id = 9 WHERE id = 1")

    assert_rejected(
        command("retention", retention_audit="365"),
        "no audit record was removed: the records of seal 1 were changed after it was made; see "
        "`care-gateway audit verify`",
    )
    assert raw.run(settings.database, "SELECT count(*) FROM audit_record") == [(4,)]
