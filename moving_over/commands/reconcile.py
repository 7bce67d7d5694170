"""`legacy reconcile` compares a recording with the database; `legacy ready` checks what a switch requires."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import orjson

from app.care.context import utc_now
from app.cli.common import WholeNumber, read_database, settings_or_warn
from app.cli.import_data import map_option
from app.db.interchange.recorded import CONFLICT, MOMENT, Key
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.commands.shadow import state_option
from moving_over.extraction import Recording
from moving_over.reconciliation import Reconciliation, reconciling
from moving_over.shadow_counts import Counts, read_counts

NOT_COMPARED = (
    "seconds, end dates, close dates, reminders, drafts, feedback texts, earlier attempts, "
    "scores of answer sets, questions, retired books, disabled accounts"
)


@click.command()
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@map_option
def reconcile(recording: Path, as_json: bool, values: Path | None) -> None:
    """Compare a recording with the database, without changes; exit code 0: equal, 1: different."""
    settings = settings_or_warn()
    extracted = shared.read_recording(recording, settings.zone, values, "comparing")
    found = read_database(settings, reconciling(extracted))
    shared.print_gaps(extracted.gaps)
    shared.print_remaining_work(found.remaining)
    if as_json:
        click.echo(orjson.dumps(to_object(found), option=orjson.OPT_INDENT_2))
    else:
        print_text(found)
    raise SystemExit(1 if found.total else 0)


def print_text(found: Reconciliation) -> None:
    click.echo(f"not compared: {NOT_COMPARED}")
    both = found.recorded | found.stored
    for caregiver, kind in sorted(both, key=lambda each: (each[0], each[1] if each[0] else "")):
        recorded, stored = (counts[caregiver, kind] for counts in (found.recorded, found.stored))
        if not caregiver or recorded != stored:
            whose = f"caregiver {caregiver}\t" if caregiver else ""
            click.echo(f"{whose}{kind}\t{recorded:,} recorded\t{stored:,} here")
    lists = {"missing here": found.missing_here, "only here": found.only_here, "set aside": found.aside}
    for name, keys in lists.items():
        for kind, number in keys:
            click.echo(f"{name}\t{kind}\t{number}")
    for (kind, number), members in found.different.items():
        click.echo(f"different\t{kind}\t{number}\t{', '.join(members)}")
    for one in found.counters:
        click.echo(f"verify\tsession\t{one.session_id}\t{one.name}")
    if found.erased:
        click.echo(f"{found.erased:,} of erased clients not compared")
    if found.kept:
        click.echo(f"{found.kept:,} not compared, because they were resolved")
    click.echo(counted(found.total, "difference"))


def to_object(found: Reconciliation) -> dict[str, Any]:
    def compared(caregiver: int, kind: str) -> dict[str, int]:
        return {"recorded": found.recorded[caregiver, kind], "here": found.stored[caregiver, kind]}

    different = ((*key, names) for key, names in found.different.items())
    both, remaining = found.recorded | found.stored, found.remaining
    kinds = ("session", "assignment", "answer_set")
    return {
        "equal": not found.total,
        "kinds": {kind: compared(0, kind) for caregiver, kind in both if not caregiver},
        "caregivers": {
            str(each): {kind: compared(each, kind) for kind in kinds}
            for each in sorted({each for each, _ in both} - {0})
        },
        "missingHere": objects_of(found.missing_here, "kind", "id"),
        "onlyHere": objects_of(found.only_here, "kind", "id"),
        "different": objects_of(different, "kind", "id", "members"),
        "setAside": objects_of(found.aside, "kind", "id"),
        "counters": objects_of(((one.session_id, one.name) for one in found.counters), "session", "name"),
        "erased": found.erased,
        "resolved": found.kept,
        "peopleWithoutAccount": objects_of(remaining.people_without_account, "role", "id"),
        "usersWithoutPerson": objects_of(remaining.users_without_person, "role", "userName"),
        "booksWithoutQuestions": remaining.books_without_questions,
        "erasedClients": remaining.erased_clients,
    }


def objects_of(rows: Iterable[tuple[Any, ...]], *names: str) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


@click.command()
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--minutes", type=WholeNumber(1), default=60, show_default=True, help="Maximum age of RECORDING."
)
@click.option(
    "--days", type=WholeNumber(1), default=7, show_default=True, help="Days of the shadow, at least."
)
@state_option
@map_option
def ready(recording: Path, minutes: int, days: int, state: Path, values: Path | None) -> None:
    """Check that the switch can be declared; exit code 0: go, 1: no go."""
    settings = settings_or_warn()
    extracted = shared.read_recording(recording, settings.zone, values, "comparing")
    found = read_database(settings, reconciling(extracted))
    counts = read_counts(state) if state.exists() else Counts({})
    checks = checks_of(extracted, found, utc_now() - timedelta(minutes=minutes))
    name = f"the shadow compared answers on {counted(days, 'day')}, without unexplained differences"
    is_ok = len(counts.of("days")) >= days and not counts.total("differences", "different")
    checks[name] = not is_ok and f"{counts.summary()}; `legacy shadow report`"
    for name, fix in checks.items():
        click.echo(f"NO\t{name}\t{fix}" if fix else f"ok\t{name}")
    failed = sum(map(bool, checks.values()))
    click.echo(f"no go: {counted(failed, 'check')} failed" if failed else "go: declare the switch")
    raise SystemExit(1 if failed else 0)


def checks_of(recording: Recording, found: Reconciliation, oldest: datetime) -> dict[str, str | bool]:
    """What to do for each check that fails, by its name."""
    moments, work, rows = recording.moments, found.remaining, found.total - len(found.counters)
    newest: set[Key] = {(MOMENT, int(each.timestamp())) for each in moments[1:]}
    conflicts = sum(kind.startswith(CONFLICT) for kind, _ in found.imported)
    people = len(work.people_without_account) + len(work.users_without_person)
    books = len(work.books_without_questions)
    return {
        "the recording is complete": recording.is_incomplete and "`import` lists the gaps; record again",
        "it is recent": not (moments and moments[0] >= oldest) and "record and `import --update` again",
        "it was imported last": not newest <= found.imported.keys() and "`import RECORDING --update`",
        "no conflict is open": conflicts > 0 and f"{conflicts:,}; `legacy resolve`",
        "all rows are equal": rows > 0 and f"{rows:,} are not; `legacy reconcile`, `legacy resolve`",
        "all counters are correct": bool(found.counters) and f"{len(found.counters):,} are not; `verify`",
        "all people have accounts": people > 0 and f"{people:,} have none; `account link`",
        "all books have questions": books > 0 and f"{books:,} have none; `books import`",
    }
