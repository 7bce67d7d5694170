"""Shared by the commands: options, tokens, warnings, progress bars, and what a recording lacks."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from app.care.context import Role
from app.cli.common import WholeNumber
from moving_over.body_diff import printable
from moving_over.extraction import Gaps, Recording, extract
from moving_over.pages import Reading, read_values
from moving_over.recorded_calls import Call, read_calls, size_of
from moving_over.recorded_rows import RemainingWork
from moving_over.tokens import UserToken, read_tokens

MAX_SHOWN = 10  # lines below each heading

caregivers_option = click.option(
    "--caregivers", multiple=True, metavar="FILE", help="Caregivers' tokens, one per line, or env:NAME."
)
clients_option = click.option(
    "--clients", multiple=True, metavar="FILE", help="Clients' tokens, one per line, or env:NAME."
)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(0.1, 600), default=30, show_default=True, metavar="SECONDS"
)
at_once_option = click.option("--at-once", type=WholeNumber(1, 16), default=4, show_default=True, metavar="N")


def read_all_tokens(caregivers: tuple[str, ...], clients: tuple[str, ...], claim: str) -> list[UserToken]:
    return [*read_tokens(Role.CAREGIVER, caregivers, claim), *read_tokens(Role.CLIENT, clients, claim)]


def read_recording(path: Path, zone: ZoneInfo, values: Path | None, label: str) -> Recording:
    """The label is shown while its answers are read."""
    reading = Reading(zone, read_values(values))
    return extract(path, reading, read_with_bar(path, "reading"), partial(read_with_bar, path, label))


def read_with_bar(path: Path, label: str) -> Iterator[Call]:
    """The calls of the file, with a progress bar on a terminal."""
    with click.progressbar(length=size_of(path), label=label, file=sys.stderr) as bar:
        yield from read_calls(path, bar.update)


def print_gaps(gaps: Gaps) -> None:
    for gap, found in gaps.items():
        print_list(f"{gap}:", found)


def print_remaining_work(remaining: RemainingWork) -> None:
    clients = (f"client {number}" for number in remaining.erased_clients)
    books = (f"book {number}" for number in remaining.books_without_questions)
    people = (f"{role.lower()} {number}" for role, number in remaining.people_without_account)
    users = (f"{role.lower()} {user}" for role, user in remaining.users_without_person)
    print_list("erased clients, whose rows were skipped:", clients)
    print_list("books without questions; add them with `care-gateway books import`:", books)
    print_list("people without an account; add it with `care-gateway account link`:", people)
    print_list("user names that match no person; use `care-gateway account link` or `add`:", users)


def print_list(title: str, items: Iterable[str]) -> None:
    """Prints the title and the first items to standard error, or nothing if there are no items."""
    items = list(items)
    if items:
        shown = [title, *(f"  {printable(item)}" for item in items[:MAX_SHOWN])]
        if len(items) > MAX_SHOWN:
            shown.append(f"  and {len(items) - MAX_SHOWN:,} more")
        click.echo("\n".join(shown), err=True)
