"""`legacy compare`: compares the responses of the old and the new service."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import orjson

from app.care.context import Role
from app.cli.common import Whole, settings_or_warn
from app.legacy_migration.body_diff import MISSING, Difference, Likeness, kind_of, printable, shown_values
from app.legacy_migration.comparison import HEADERS, CallResult, Comparison, Outcome, Service
from app.legacy_migration.http_client import read_address
from app.legacy_migration.masks import Masks, read_masks
from app.legacy_migration.recorded_calls import Call, read_calls, size_of
from app.legacy_migration.tokens import UserToken, read_tokens
from app.telemetry.wording import counted

MOST_SHOWN = 20  # differences per call
OPEN_HEADERS = ("content-type", "content-encoding", "allow")  # contain no personal data
BODIES = {
    Likeness.WRITING: "body: same JSON, different formatting",
    Likeness.ORDER: "body: different order of members",
    Likeness.BYTES: "body: different bytes, not both valid JSON",
}
SOURCE = "FILE"  # or env:NAME


@click.command()
@click.argument("cases", type=click.Path(exists=True, path_type=Path))
@click.option("--old", metavar="URL", help="URL of the old service.")
@click.option("--recorded", is_flag=True, help="Use the responses recorded in CASES instead of --old.")
@click.option("--new", metavar="URL", required=True, help="URL of the new service.")
@click.option(
    "--caregivers", multiple=True, metavar=SOURCE, help="Caregivers' tokens, one per line, or env:NAME."
)
@click.option("--clients", multiple=True, metavar=SOURCE, help="Clients' tokens, one per line, or env:NAME.")
@click.option(
    "--new-caregivers", multiple=True, metavar=SOURCE, help="Tokens for the new service, if different."
)
@click.option(
    "--new-clients", multiple=True, metavar=SOURCE, help="Tokens for the new service, if different."
)
@click.option(
    "--mask",
    "masked",
    multiple=True,
    metavar="PATH",
    help="Ignore differences at: content[*].score, header:allow.",
)
@click.option(
    "--header",
    "more",
    multiple=True,
    metavar="NAME",
    help=f"Compare this header in addition to {', '.join(HEADERS)}.",
)
@click.option("--loose", is_flag=True, help="Ignore whitespace, escapes and the order of members.")
@click.option("--changes", is_flag=True, help="Also send calls that change data, to both services.")
@click.option("--values", is_flag=True, help="Show values; default is only their types.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.option("--timeout", type=click.FloatRange(0.1, 600), default=30, show_default=True, metavar="SECONDS")
@click.option("--at-once", type=Whole(1, 16), default=4, show_default=True, metavar="N")
def compare(
    cases: Path,
    old: str | None,
    recorded: bool,
    new: str,
    caregivers: tuple[str, ...],
    clients: tuple[str, ...],
    new_caregivers: tuple[str, ...],
    new_clients: tuple[str, ...],
    masked: tuple[str, ...],
    more: tuple[str, ...],
    loose: bool,
    changes: bool,
    values: bool,
    is_json: bool,
    timeout: float,
    at_once: int,
) -> None:
    """Send the same calls to two services; exit code 0: same responses, 1: different, 2: not compared.

    CASES is a file of calls, or a recording.
    """
    if (old is None) != recorded:
        raise click.UsageError("give either --old or --recorded")
    claim = settings_or_warn().claim_user
    tokens = read_both(caregivers, clients, claim)
    new_tokens = read_both(new_caregivers or caregivers, new_clients or clients, claim)
    masks = read_masks(masked)
    comparison = Comparison(
        None if old is None else Service("old", read_address(old), tokens),
        Service("new", read_address(new), new_tokens),
        masks,
        (*HEADERS, *(name.lower() for name in more)),
        changes,
        loose,
        timeout,
        at_once,
    )
    warn(comparison)
    counts: Counter[Outcome] = Counter()
    shown: list[dict[str, Any]] = []
    for compared in comparison.run(with_bar(cases)):
        counts[compared.outcome] += 1
        if compared.outcome in (Outcome.DIFFERENT, Outcome.FAILED):
            if is_json:
                shown.append(as_record(compared, values))
            else:
                clear_bar()
                click.echo("\n".join(lines_of(compared, values)))
    print_summary(counts, masks, shown if is_json else None)
    if counts[Outcome.FAILED] or not (counts[Outcome.SAME] + counts[Outcome.DIFFERENT]):
        raise SystemExit(2)
    raise SystemExit(1 if counts[Outcome.DIFFERENT] else 0)


def read_both(caregivers: tuple[str, ...], clients: tuple[str, ...], claim: str) -> list[UserToken]:
    return [
        *read_tokens(Role.CAREGIVER, caregivers, claim),
        *read_tokens(Role.CLIENT, clients, claim),
    ]


def warn(comparison: Comparison) -> None:
    for side in (comparison.old, comparison.new):
        if side and side.tokens and side.address.exposes_tokens:
            click.echo(f"warning: tokens are sent to the {side.name} service unencrypted", err=True)
    if comparison.with_changes:
        click.echo("warning: calls that change data are sent to all services", err=True)


def with_bar(cases: Path) -> Iterator[Call]:
    """The calls, with a progress bar on a terminal."""
    with click.progressbar(length=size_of(cases), label="comparing", file=sys.stderr) as bar:
        yield from read_calls(cases, bar.update)


def clear_bar() -> None:
    """Clears the bar before a line is printed; the next call draws it again."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


# --- what is printed ------------------------------------------------------------------------------


def lines_of(compared: CallResult, is_open: bool) -> Iterator[str]:
    call = compared.call
    who = (call.role or "anonymous").lower() + (f" {call.user}" if is_open and call.user else "")
    yield f"line {call.line}: {call.method} {call.path} ({who})"
    if compared.outcome is Outcome.FAILED:
        yield f"  not compared: {compared.reason}"
        return
    old, new = compared.statuses
    if old != new:
        yield f"  status: {old} -> {new}"
    for header in compared.headers:
        yield f"  header {arrow(header, is_open or header.path in OPEN_HEADERS)}"
    if compared.body in BODIES:
        yield f"  {BODIES[compared.body]}"
    yield from (f"  {arrow(one, is_open)}" for one in compared.members[:MOST_SHOWN])
    if len(compared.members) > MOST_SHOWN:
        yield f"  and {counted(len(compared.members) - MOST_SHOWN, 'more member')}"


def arrow(one: Difference, is_open: bool) -> str:
    old, new = shown_values(one.old, one.new, is_open)
    return f"{printable(one.path)}: {old} -> {new}"


def as_record(compared: CallResult, is_open: bool) -> dict[str, Any]:
    call = compared.call
    return {
        "line": call.line,
        "method": call.method,
        "path": call.path,
        "role": call.role,
        "outcome": compared.outcome,
        "reason": compared.reason or None,
        "status": {"old": compared.statuses[0] or None, "new": compared.statuses[1] or None},
        "headers": [as_member(one, is_open or one.path in OPEN_HEADERS) for one in compared.headers],
        "body": compared.body,
        "members": [as_member(one, is_open) for one in compared.members],
    }


def as_member(one: Difference, is_open: bool) -> dict[str, Any]:
    return {"path": one.path, "old": shown_value(one.old, is_open), "new": shown_value(one.new, is_open)}


def shown_value(value: Any, is_open: bool) -> Any:
    return value if is_open and value is not MISSING else kind_of(value)


def print_summary(counts: Counter[Outcome], masks: Masks, shown: Iterable[dict[str, Any]] | None) -> None:
    unmatched = masks.unmatched
    if shown is not None:
        said = {
            "same": counts[Outcome.SAME],
            "different": counts[Outcome.DIFFERENT],
            "failed": counts[Outcome.FAILED],
            "leftOut": counts[Outcome.SKIPPED],
            "unmatchedMasks": unmatched,
            "calls": shown,
        }
        click.echo(orjson.dumps(said, option=orjson.OPT_INDENT_2))
        return
    words = ", ".join(
        f"{counts[one]:,} {word}" for one, word in WORDS.items() if counts[one] or word in ALWAYS
    )
    click.echo(words)
    for mask in unmatched:
        click.echo(f"the mask {mask} matched nothing")


WORDS = {
    Outcome.SAME: "same",
    Outcome.DIFFERENT: "different",
    Outcome.FAILED: "not compared",
    Outcome.SKIPPED: "skipped because they change data (--changes)",
}
ALWAYS = ("same", "different")
