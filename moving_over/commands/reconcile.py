"""`legacy reconcile`: compares a recording with the database."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import orjson

from app.cli.common import read_database, settings_or_warn
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.reconciliation import Reconciliation, reconciling

NOT_COMPARED = "end dates, close dates, reminders, drafts, feedback texts, earlier attempts, own scores"


@click.command()
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@shared.map_option
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
    raise SystemExit(0 if found.is_equal else 1)


def print_text(found: Reconciliation) -> None:
    click.echo(f"not compared: {NOT_COMPARED}")
    for kind in found.recorded | found.stored:
        click.echo(f"{kind}\t{found.recorded[kind]:,} recorded\t{found.stored[kind]:,} here")
    of_caregivers = found.recorded_of_caregiver, found.stored_of_caregiver
    for caregiver, kind in sorted(of_caregivers[0] | of_caregivers[1]):
        recorded, stored = (counts[caregiver, kind] for counts in of_caregivers)
        if recorded != stored:
            click.echo(f"caregiver {caregiver}\t{kind}\t{recorded:,} recorded\t{stored:,} here")
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
    listed = (*lists.values(), found.different, found.counters)
    click.echo(counted(sum(map(len, listed)), "difference"))


def to_object(found: Reconciliation) -> dict[str, Any]:
    def compared(key: Any, recorded: Counter[Any], stored: Counter[Any]) -> dict[str, int]:
        return {"recorded": recorded[key], "here": stored[key]}

    different = ((*key, names) for key, names in found.different.items())
    of_caregivers = found.recorded_of_caregiver, found.stored_of_caregiver
    caregivers = sorted({each for counts in of_caregivers for each, _ in counts})
    kinds, remaining = ("session", "assignment", "answer_set"), found.remaining
    return {
        "equal": found.is_equal,
        "kinds": {
            kind: compared(kind, found.recorded, found.stored) for kind in found.recorded | found.stored
        },
        "caregivers": {
            str(each): {kind: compared((each, kind), *of_caregivers) for kind in kinds} for each in caregivers
        },
        "missingHere": objects_of(found.missing_here, "kind", "id"),
        "onlyHere": objects_of(found.only_here, "kind", "id"),
        "different": objects_of(different, "kind", "id", "members"),
        "setAside": objects_of(found.aside, "kind", "id"),
        "counters": objects_of(((one.session_id, one.name) for one in found.counters), "session", "name"),
        "erased": found.erased,
        "peopleWithoutAccount": objects_of(remaining.people_without_account, "role", "id"),
        "usersWithoutPerson": objects_of(remaining.users_without_person, "role", "userName"),
        "booksWithoutQuestions": remaining.books_without_questions,
        "erasedClients": remaining.erased_clients,
    }


def objects_of(rows: Iterable[tuple[Any, ...]], *names: str) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]
