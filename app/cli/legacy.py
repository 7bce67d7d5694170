"""The `legacy` commands: record and compare the old service, report the usage of the legacy paths."""

from datetime import datetime
from typing import Any

import click
import orjson

from app.care.context import utc_now
from app.cli.common import Group, Whole, on_database, settings_or_warn
from app.db.admin.usage import reading_usage
from app.db.drivers.interface import Database
from app.db.moments import moment_as_text
from app.rest_compat.report import Line, PathReport, Report, State, first_day_of, report_of

EXIT_CODES = {State.UNUSED: 0, State.USED: 1, State.NOT_KNOWN: 3}  # 2: the command failed
ANSWERS = {
    State.UNUSED: "The legacy paths may be switched off: no calls in this period.",
    State.USED: "The legacy paths are in use.",
    State.NOT_KNOWN: "Unknown: no calls, but the period was not counted completely.",
}
HEAD = ("application", "role", "requests", "before", "trend", "last use (UTC)")
NUMBERS = {"requests", "before", "trend"}


@click.group(cls=Group)
def legacy() -> None:
    """Migrate from the old service and retire its paths."""


@legacy.command()
@click.option(
    "--days",
    type=Whole(1, 200),
    default=30,
    show_default=True,
    help="Length of the period up to today (UTC).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def report(days: int, as_json: bool) -> None:
    """Report the usage of the legacy paths; exit code 0: unused, 1: used, 3: unknown."""
    now = utc_now()

    async def read(db: Database) -> Report:
        return report_of(await db.read(reading_usage(first_day_of(now, 2 * days))), now, days)

    found = on_database(settings_or_warn(), read)
    click.echo(orjson.dumps(as_object(found), option=orjson.OPT_INDENT_2) if as_json else as_text(found))
    raise SystemExit(EXIT_CODES[found.state])


# --- text ---


def as_text(report: Report) -> str:
    return "\n\n".join([header(report), *map(section, report.paths), ANSWERS[report.state]])


def header(report: Report) -> str:
    if report.since is None:
        return "Calls of the legacy paths have not been counted yet. Counting begins when the service starts."
    return (
        f"Counted since {minute(report.since)} UTC. From {report.first_day} to {report.moment:%Y-%m-%d} "
        f"the service ran on {report.counted_days} of {report.days} days."
    )


def section(path: PathReport) -> str:
    lines = [path.path, f"  {path.verdict}"]
    if path.lines:
        lines += table([HEAD, *map(cells, path.lines)])
    return "\n".join(lines)


def cells(line: Line) -> tuple[str, ...]:
    before = "-" if line.before is None else f"{line.before:,}"
    return (
        line.application,
        line.role.lower(),
        f"{line.requests:,}",
        before,
        line.trend,
        minute(line.last_use),
    )


def table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    return ["    " + "  ".join(map(aligned, HEAD, row, widths)).rstrip() for row in rows]


def aligned(column: str, text: str, width: int) -> str:
    return text.rjust(width) if column in NUMBERS else text.ljust(width)


def minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


# --- JSON ---


def as_object(report: Report) -> dict[str, Any]:
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
