"""`legacy compare`: compares the responses of the old and the new service."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import orjson

from app.cli.common import settings_or_warn
from app.telemetry.wording import counted
from moving_over.body_diff import (
    MISSING,
    Difference,
    Likeness,
    Masks,
    kind_of,
    printable,
    read_masks,
    shown_values,
)
from moving_over.commands import shared
from moving_over.comparison import HEADERS, CallResult, Comparison, Outcome, Service
from moving_over.http_client import read_address

MAX_SHOWN = 20  # differences per call
PUBLIC_HEADERS = ("content-type", "content-encoding", "allow")  # contain no personal data
BODIES = {
    Likeness.WRITING: "body: same JSON, different formatting",
    Likeness.ORDER: "body: different order of members",
    Likeness.BYTES: "body: different bytes, not both valid JSON",
}
NEW_TOKENS = "Tokens for the new service, if different."
MASK = "Ignore differences at: content[*].score, header:allow."
HEADER = f"Compare this header in addition to {', '.join(HEADERS)}."
SUMMARY = {
    Outcome.SAME: "same",
    Outcome.DIFFERENT: "different",
    Outcome.FAILED: "not compared",
    Outcome.SKIPPED: "skipped because they change data (--changes)",
}


@click.command()
@click.argument("cases", type=click.Path(exists=True, path_type=Path))
@click.option("--old", metavar="URL", help="URL of the old service.")
@click.option("--recorded", is_flag=True, help="Use the responses recorded in CASES instead of --old.")
@click.option("--new", metavar="URL", required=True, help="URL of the new service.")
@shared.caregivers_option
@shared.clients_option
@click.option("--new-caregivers", multiple=True, metavar="FILE", help=NEW_TOKENS)
@click.option("--new-clients", multiple=True, metavar="FILE", help=NEW_TOKENS)
@click.option("--mask", "masked", multiple=True, metavar="PATH", help=MASK)
@click.option("--header", "more", multiple=True, metavar="NAME", help=HEADER)
@click.option("--loose", is_flag=True, help="Ignore whitespace, escapes and the order of members.")
@click.option("--changes", is_flag=True, help="Also send calls that change data, to both services.")
@click.option("--values", is_flag=True, help="Show values; default is only their types.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@shared.timeout_option
@shared.at_once_option
def compare(
    cases: Path, old: str | None, recorded: bool, new: str, values: bool, as_json: bool, **options: Any
) -> None:
    """Send the same calls to two services; exit code 0: same responses, 1: different, 2: not compared.

    CASES is a file of calls, or a recording.
    """
    if (old is None) != recorded:
        raise click.UsageError("give either --old or --recorded")
    claim = settings_or_warn().claim_user
    caregivers, clients = options["caregivers"], options["clients"]
    tokens = shared.read_all_tokens(caregivers, clients, claim)
    new_tokens = shared.read_all_tokens(
        options["new_caregivers"] or caregivers, options["new_clients"] or clients, claim
    )
    comparison = Comparison(
        None if old is None else Service("old", read_address(old), tokens),
        Service("new", read_address(new), new_tokens),
        masks := read_masks(options["masked"]),
        options["timeout"],
        (*HEADERS, *(name.lower() for name in options["more"])),
        options["changes"],
        options["loose"],
        options["at_once"],
    )
    warn(comparison)
    counts: Counter[Outcome] = Counter()
    shown: list[dict[str, Any]] = []
    for compared in comparison.run(shared.read_with_bar(cases, "comparing")):
        counts[compared.outcome] += 1
        if compared.outcome in (Outcome.DIFFERENT, Outcome.FAILED):
            if as_json:
                shown.append(to_object(compared, values))
            else:
                if sys.stderr.isatty():  # the next call draws the bar again
                    click.echo("\r\x1b[K", err=True, nl=False)
                click.echo("\n".join(lines_of(compared, values)))
    print_summary(counts, masks, shown, as_json)
    if counts[Outcome.FAILED] or not (counts[Outcome.SAME] + counts[Outcome.DIFFERENT]):
        raise SystemExit(2)
    raise SystemExit(1 if counts[Outcome.DIFFERENT] else 0)


def warn(comparison: Comparison) -> None:
    for side in (comparison.old, comparison.new):
        if side and side.address.exposes_tokens:
            click.echo(f"warning: tokens are sent to the {side.name} service unencrypted", err=True)
    if comparison.with_changes:
        click.echo("warning: calls that change data are sent to all services", err=True)


def lines_of(compared: CallResult, shows_values: bool) -> Iterator[str]:
    call = compared.call
    named = f" {printable(call.user)}" if shows_values and call.user else ""
    who = (call.role or "anonymous").lower() + named
    yield f"line {call.line}: {call.method} {call.path} ({who})"
    if compared.outcome is Outcome.FAILED:
        yield f"  not compared: {compared.reason}"
        return
    old, new = compared.statuses
    if old != new:
        yield f"  status: {old} -> {new}"
    for header in compared.headers:
        yield f"  header {arrow(header, shows_values or header.path in PUBLIC_HEADERS)}"
    if compared.body in BODIES:
        yield f"  {BODIES[compared.body]}"
    yield from (f"  {arrow(one, shows_values)}" for one in compared.members[:MAX_SHOWN])
    if len(compared.members) > MAX_SHOWN:
        yield f"  and {counted(len(compared.members) - MAX_SHOWN, 'more member')}"


def arrow(one: Difference, shows_values: bool) -> str:
    old, new = shown_values(one.old, one.new, shows_values)
    return f"{printable(one.path)}: {old} -> {new}"


def to_object(compared: CallResult, shows_values: bool) -> dict[str, Any]:
    call = compared.call
    return {
        **{name: getattr(call, name) for name in ("line", "method", "path", "role")},
        "outcome": compared.outcome,
        "reason": compared.reason or None,
        "status": {"old": compared.statuses[0] or None, "new": compared.statuses[1] or None},
        "headers": [to_member(one, shows_values or one.path in PUBLIC_HEADERS) for one in compared.headers],
        "body": compared.body,
        "members": [to_member(one, shows_values) for one in compared.members],
    }


def to_member(one: Difference, shows_values: bool) -> dict[str, Any]:
    values = {"old": one.old, "new": one.new}
    return {"path": one.path} | {
        side: value if shows_values and value is not MISSING else kind_of(value)
        for side, value in values.items()
    }


def print_summary(counts: Counter[Outcome], masks: Masks, calls: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        numbers = {outcome.lower(): counts[outcome] for outcome in Outcome}
        summary = {**numbers, "unmatchedMasks": masks.unmatched, "calls": calls}
        click.echo(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        return
    shown = [one for one in SUMMARY if counts[one] or one in (Outcome.SAME, Outcome.DIFFERENT)]
    click.echo(", ".join(f"{counts[one]:,} {SUMMARY[one]}" for one in shown))
    for mask in masks.unmatched:
        click.echo(f"the mask {mask} matched nothing")
