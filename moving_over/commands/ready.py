"""`legacy ready`: whether everything is ready for the switch."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import click

from app.care.context import utc_now
from app.cli.common import WholeNumber, read_database, settings_or_warn
from app.db.interchange.recorded import CONFLICT, MOMENT, Key
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.commands.shadow import state_option
from moving_over.extraction import Recording
from moving_over.reconciliation import Reconciliation, reconciling
from moving_over.shadow_counts import Counts, read_counts


class Check(NamedTuple):
    name: str
    is_ok: bool
    fix: str


@click.command()
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--minutes", type=WholeNumber(1), default=60, show_default=True, help="Maximum age of RECORDING."
)
@click.option(
    "--days", type=WholeNumber(1), default=7, show_default=True, help="Days of the shadow, at least."
)
@state_option
@shared.map_option
def ready(recording: Path, minutes: int, days: int, state: Path, values: Path | None) -> None:
    """Check that the switch can be declared; exit code 0: go, 1: no go."""
    settings = settings_or_warn()
    extracted = shared.read_recording(recording, settings.zone, values, "comparing")
    found = read_database(settings, reconciling(extracted))
    counts = read_counts(state) if state.exists() else Counts({})
    checks = [
        *checks_of(extracted, found, utc_now() - timedelta(minutes=minutes)),
        check_shadow(counts, days),
    ]
    for name, is_ok, fix in checks:
        click.echo(f"ok\t{name}" if is_ok else f"NO\t{name}\t{fix}")
    failed = sum(not each.is_ok for each in checks)
    click.echo(f"no go: {counted(failed, 'check')} failed" if failed else "go: declare the switch")
    raise SystemExit(1 if failed else 0)


def checks_of(recording: Recording, found: Reconciliation, oldest: datetime) -> list[Check]:
    moments, work = recording.moments, found.remaining
    newest: set[Key] = {(MOMENT, int(each.timestamp())) for each in moments[1:]}
    conflicts = sum(kind.startswith(CONFLICT) for kind, _ in found.imported)
    users = len(work.people_without_account) + len(work.users_without_person)
    rows = found.total - len(found.counters)
    books = len(work.books_without_questions)
    return [
        Check(
            "the recording is complete", not recording.is_incomplete, "`import` lists the gaps; record again"
        ),
        Check("it is recent", bool(moments) and moments[0] >= oldest, "record and `import --update` again"),
        Check("it was imported last", newest <= found.imported.keys(), "`import RECORDING --update`"),
        Check("no conflict is open", not conflicts, f"{conflicts:,}; `legacy resolve`"),
        Check("all rows are equal", not rows, f"{rows:,} are not; `legacy reconcile`, `legacy resolve`"),
        Check("all counters are correct", not found.counters, f"{len(found.counters):,} are not; `verify`"),
        Check("all people have accounts", not users, f"{users:,} have none; `account link`"),
        Check("all books have questions", not books, f"{books:,} have none; `books import`"),
    ]


def check_shadow(counts: Counts, days: int) -> Check:
    name = f"the shadow compared answers on {counted(days, 'day')}, without unexplained differences"
    is_ok = len(counts.of("days")) >= days and not counts.total("differences", "different")
    return Check(name, is_ok, f"{counts.summary()}; `legacy shadow report`")
