"""`legacy reconcile`: compares a recording with the database."""

from pathlib import Path
from typing import Any

import click
import orjson

from app.cli.common import read_database, settings_or_warn
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.reconciliation import Reconciliation, reconciling
from moving_over.remaining_work import RemainingWork


@click.command()
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def reconcile(recording: Path, as_json: bool) -> None:
    """Compare a recording with the database, without changes; exit code 0: equal, 1: different."""
    settings = settings_or_warn()
    extracted = shared.read_recording(recording, settings.zone, "comparing")
    found = read_database(settings, reconciling(extracted))
    shared.print_gaps(extracted.gaps)
    shared.print_remaining_work(found.remaining)
    if as_json:
        click.echo(orjson.dumps(to_object(found), option=orjson.OPT_INDENT_2))
    else:
        print_text(found)
    raise SystemExit(0 if found.is_equal else 1)


def print_text(found: Reconciliation) -> None:
    for kind in found.recorded | found.stored:
        click.echo(f"{kind}\t{found.recorded[kind]:,} recorded\t{found.stored[kind]:,} here")
    for caregiver, kind in sorted(found.recorded_of_caregiver | found.stored_of_caregiver):
        recorded, stored = (
            counts[caregiver, kind] for counts in (found.recorded_of_caregiver, found.stored_of_caregiver)
        )
        if recorded != stored:
            click.echo(f"caregiver {caregiver}\t{kind}\t{recorded:,} recorded\t{stored:,} here")
    for kind, number in found.missing_here:
        click.echo(f"missing here\t{kind}\t{number}")
    for kind, number in found.only_here:
        click.echo(f"only here\t{kind}\t{number}")
    for (kind, number), members in found.different.items():
        click.echo(f"different\t{kind}\t{number}\t{', '.join(members)}")
    if found.erased:
        click.echo(f"{found.erased:,} of erased clients not compared")
    differences = len(found.missing_here) + len(found.only_here) + len(found.different)
    click.echo(counted(differences, "difference"))


def to_object(found: Reconciliation) -> dict[str, Any]:
    caregivers = sorted({each for each, _ in found.recorded_of_caregiver | found.stored_of_caregiver})
    kinds = ("session", "assignment", "answer_set")
    return {
        "equal": found.is_equal,
        "kinds": {
            kind: {"recorded": found.recorded[kind], "here": found.stored[kind]}
            for kind in found.recorded | found.stored
        },
        "caregivers": {
            str(each): {
                kind: {
                    "recorded": found.recorded_of_caregiver[each, kind],
                    "here": found.stored_of_caregiver[each, kind],
                }
                for kind in kinds
            }
            for each in caregivers
        },
        "missingHere": [{"kind": kind, "id": number} for kind, number in found.missing_here],
        "onlyHere": [{"kind": kind, "id": number} for kind, number in found.only_here],
        "different": [
            {"kind": kind, "id": number, "members": members}
            for (kind, number), members in found.different.items()
        ],
        "erased": found.erased,
        **remaining_work(found.remaining),
    }


def remaining_work(remaining: RemainingWork) -> dict[str, Any]:
    return {
        "peopleWithoutAccount": [
            {"role": role, "id": number} for role, number in remaining.people_without_account
        ],
        "usersWithoutPerson": [
            {"role": role, "userName": user} for role, user in remaining.users_without_person
        ],
        "booksWithoutQuestions": remaining.books_without_questions,
        "erasedClients": remaining.erased_clients,
    }
