"""The `audit` commands: list and verify the audit log."""

from datetime import UTC, datetime

import click
import orjson

from app.care.audit import seal
from app.care.context import utc_now
from app.cli.common import ID, EnumChoice, Group, main, on_database, settings_or_warn
from app.db.audit.reading import StoredRecord, listing_records
from app.db.audit.records import DONE
from app.db.audit.verifying import Verdict, verifying
from app.db.drivers.interface import Database
from app.db.moments import moment_as_text
from app.db.tables import AuditActor
from app.telemetry.wording import counted

PAGE_SIZE = 1000


def noted_seal(value: str) -> tuple[int, str]:
    """An option type: a seal as `audit verify` prints it."""
    number, _, hash = value.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) < 19 and len(hash) == 64):
        raise click.BadParameter("must be a seal as printed by `audit verify`: N:HASH")
    return int(number), hash


@main.group(cls=Group)
def audit() -> None:
    """List and verify the audit log: who read and changed what."""


@audit.command("list")
@click.option("--client", type=ID, metavar="N", help="Only records about this client.")
@click.option("--caregiver", type=ID, metavar="N", help="Only records about this caregiver's clients.")
@click.option("--actor", type=EnumChoice(AuditActor), help="Only records of this kind of actor.")
@click.option(
    "--actor-id", type=ID, metavar="N", help="Only records of the caregiver or client with this id."
)
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY", help="Only records since this day (UTC)."
)
@click.option("--refused", "is_rejected", is_flag=True, help="Only rejected requests.")
def list_audit(
    client: int | None,
    caregiver: int | None,
    actor: AuditActor | None,
    actor_id: int | None,
    since: datetime | None,
    is_rejected: bool,
) -> None:
    """Print audit records as JSON Lines, oldest first."""
    first = None if since is None else since.replace(tzinfo=UTC)

    def matches(record: StoredRecord) -> bool:
        return (
            (first is None or record.moment >= first)
            and (record.outcome != DONE or not is_rejected)
            and (actor is None or record.actor is actor)
            and (actor_id is None or record.actor_id == actor_id)
            and (client is None or any(parties[1] == client for parties in record.about))
            and (caregiver is None or any(parties[0] == caregiver for parties in record.about))
        )

    async def show(db: Database) -> None:
        after = 0
        while page := await db.read(listing_records(after, PAGE_SIZE)):
            for record in filter(matches, page):
                click.echo(as_json(record))
            after = page[-1].id

    on_database(settings_or_warn(), show)


def as_json(record: StoredRecord) -> bytes:
    return orjson.dumps(
        {
            "id": record.id,
            "moment": moment_as_text(record.moment),
            "actor": record.actor,
            "actorId": record.actor_id,
            "contract": record.contract,
            "operation": record.operation,
            "outcome": record.outcome,
            "about": [
                {"caregiver": caregiver, "client": client, **rows} for caregiver, client, rows in record.about
            ],
            "requestId": record.request_id,
        }
    )


@audit.command("verify")
@click.option("--noted", type=noted_seal, multiple=True, metavar="N:HASH", help="A seal from an earlier run.")
def verify_audit(noted: tuple[tuple[int, str], ...]) -> None:
    """Recompute the hash chain over all records and print its last seal, to be stored elsewhere."""

    if len(dict(noted)) < len(set(noted)):
        raise click.UsageError("--noted names a seal with two hashes; verify them one after the other")

    async def verify(db: Database) -> Verdict:
        await seal(db, utc_now())
        return await db.read(verifying(dict(noted)))

    verdict = on_database(settings_or_warn(), verify)
    for fault in verdict.faults:
        click.echo(fault)
    if verdict.removed:
        last = verdict.removed[-1]
        records = counted(sum(one.record_count for one in verdict.removed), "record")
        click.echo(f"removed by retention: {records}, sealed until {moment_as_text(last.seal_date)}")
        click.echo(f"the last seal of these was {last.seal_id}:{last.hash}")
    click.echo(
        f"{counted(verdict.records, 'record')} under {counted(verdict.seals, 'seal')}, "
        f"{counted(len(verdict.faults), 'fault')}"
    )
    if verdict.seals:
        click.echo(f"{verdict.last.id}:{verdict.last.hash}")
    if verdict.faults:
        raise SystemExit(1)
