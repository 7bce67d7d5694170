"""The commands `legacy report` and `legacy record`."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import orjson

from app.care.context import Role, utc_now
from app.cli.common import Group, WholeNumber, read_database, settings_or_warn
from app.db.moments import moment_as_text
from app.db.statements.usage import reading_usage
from app.legacy_migration import LegacyMigrationError
from app.legacy_migration.http_client import read_address
from app.legacy_migration.recorder import Recorder
from app.legacy_migration.tokens import UserToken, read_tokens
from app.rest_compat.report import Line, PathReport, Report, State, first_day_of, report_of
from app.telemetry.wording import counted

EXIT_CODES = {State.UNUSED: 0, State.USED: 1, State.NOT_KNOWN: 3}  # 2: the command failed
CONCLUSIONS = {
    State.UNUSED: "The legacy paths may be switched off: no calls in this period.",
    State.USED: "The legacy paths are in use.",
    State.NOT_KNOWN: "Unknown: no calls, but the period was not counted completely.",
}
COLUMNS = ("application", "role", "requests", "before", "trend", "last use (UTC)")
NUMERIC_COLUMNS = {"requests", "before", "trend"}

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


@click.group(cls=Group)
def legacy() -> None:
    """Migrate from the old service and retire its paths."""


def read_all_tokens(caregivers: tuple[str, ...], clients: tuple[str, ...], claim: str) -> list[UserToken]:
    return [*read_tokens(Role.CAREGIVER, caregivers, claim), *read_tokens(Role.CLIENT, clients, claim)]


@legacy.command()
@click.option("--old", metavar="URL", required=True, help="URL of the service to record.")
@click.option("--to", "folder", type=click.Path(path_type=Path), metavar="FOLDER", required=True)
@caregivers_option
@clients_option
@click.option("--size", type=WholeNumber(1, 1000), default=100, show_default=True, help="Page size.")
@timeout_option
@at_once_option
def record(
    old: str,
    folder: Path,
    caregivers: tuple[str, ...],
    clients: tuple[str, ...],
    size: int,
    timeout: float,
    at_once: int,
) -> None:
    """Record all pages that these users can read into a new private folder."""
    tokens = read_all_tokens(caregivers, clients, settings_or_warn().claim_user)
    if not tokens:
        raise LegacyMigrationError("no tokens; give files with --caregivers and --clients")
    address = read_address(old)
    if address.exposes_tokens:
        click.echo("warning: tokens are sent to the old service unencrypted", err=True)
    recorder = Recorder(address, folder, size, timeout, at_once)
    responses = 0
    with click.progressbar(length=len(tokens), label="recording", file=sys.stderr) as bar:
        for written in recorder.record(tokens):
            responses += written
            bar.update(1)
    click.echo(f"{counted(responses, 'response')} for {counted(len(tokens), 'user')}, in {folder}")


@legacy.command()
@click.option(
    "--days",
    type=WholeNumber(1, 200),
    default=30,
    show_default=True,
    help="Length of the period up to today (UTC).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def report(days: int, as_json: bool) -> None:
    """Report the usage of the legacy paths; exit code 0: unused, 1: used, 3: unknown."""
    now = utc_now()
    usage = read_database(settings_or_warn(), reading_usage(first_day_of(now, 2 * days)))
    found = report_of(usage, now, days)
    click.echo(orjson.dumps(to_object(found), option=orjson.OPT_INDENT_2) if as_json else to_text(found))
    raise SystemExit(EXIT_CODES[found.state])


def to_text(report: Report) -> str:
    return "\n\n".join([header_of(report), *map(section_of, report.paths), CONCLUSIONS[report.state]])


def header_of(report: Report) -> str:
    if report.since is None:
        return "Calls of the legacy paths have not been counted yet. Counting begins when the service starts."
    return (
        f"Counted since {to_minute(report.since)} UTC. From {report.first_day} to {report.moment:%Y-%m-%d} "
        f"the service ran on {report.counted_days} of {report.days} days."
    )


def section_of(path: PathReport) -> str:
    lines = [path.path, f"  {path.verdict}"]
    if path.lines:
        lines += table_of([COLUMNS, *map(cells_of, path.lines)])
    return "\n".join(lines)


def cells_of(line: Line) -> tuple[str, ...]:
    before = "-" if line.before is None else f"{line.before:,}"
    last_use = to_minute(line.last_use)
    return line.application, line.role.lower(), f"{line.requests:,}", before, line.trend, last_use


def table_of(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["    " + "  ".join(map(align, COLUMNS, row, widths)).rstrip() for row in rows]


def align(column: str, text: str, width: int) -> str:
    return text.rjust(width) if column in NUMERIC_COLUMNS else text.ljust(width)


def to_minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def to_object(report: Report) -> dict[str, Any]:
    return {
        "moment": moment_as_text(report.moment),
        "days": report.days,
        "firstDay": report.first_day,
        "countedSince": report.since and moment_as_text(report.since),
        "countedDays": report.counted_days,
        "state": report.state,
        "paths": [
            {
                "path": path.path,
                "state": path.state,
                "verdict": path.verdict,
                "lastUse": path.last_use and moment_as_text(path.last_use),
                "refused": path.refused,
                "applications": [
                    {
                        "application": line.application,
                        "role": line.role,
                        "requests": line.requests,
                        "before": line.before,
                        "lastUse": moment_as_text(line.last_use),
                    }
                    for line in path.lines
                ],
            }
            for path in report.paths
        ],
    }
