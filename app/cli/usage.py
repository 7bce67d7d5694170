"""Prints the usage of the legacy paths (`legacy report`) or of deprecated parts (`schema usage`)."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NoReturn

import click
import orjson

from app.care.context import utc_now
from app.cli.common import WholeNumber, read_database, settings_or_warn
from app.db.moments import moment_as_text
from app.db.statements.usage import reading_usage
from app.usage.report import Line, PartReport, Report, State, report_of

EXIT_CODES = {State.UNUSED: 0, State.USED: 1, State.NOT_KNOWN: 3}  # 2: the command failed
COLUMNS = ("application", "role", "requests", "before", "trend", "last use (UTC)")
NUMERIC_COLUMNS = {"requests", "before", "trend"}


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")(command)
    return click.option(
        "--days",
        type=WholeNumber(1, 200),
        default=30,
        show_default=True,
        help="Length of the period up to today (UTC).",
    )(command)


def print_usage(
    report: Report, kind: str, as_json: bool, what: str, conclusions: Mapping[State, str]
) -> NoReturn:
    """`kind` names a part in the JSON object: "path" or "part"."""
    if as_json:
        click.echo(orjson.dumps(to_object(report, kind), option=orjson.OPT_INDENT_2))
    else:
        sections = [header_of(report, what), *map(section_of, report.parts), conclusions[report.state]]
        click.echo("\n\n".join(sections))
    raise SystemExit(EXIT_CODES[report.state])


def read_report(names: Iterable[str], days: int, are_deprecated: bool = False) -> Report:
    now = utc_now()
    usage = read_database(settings_or_warn(), reading_usage())
    return report_of(usage, now, days, names, are_deprecated)


def header_of(report: Report, what: str) -> str:
    if report.since is None:
        return (
            f"{what} have not been counted for a complete minute yet. "
            "Counting begins when the service starts."
        )
    lines = [
        f"Counted since {to_minute(report.since)} UTC. From {report.first_day} to {report.moment:%Y-%m-%d} "
        f"calls were counted in {report.counted_minutes / 60:,.1f} of {report.minutes / 60:,.1f} hours, "
        f"which is {report.counted_days} of {report.days} days."
    ]
    lines += [f"  not counted: {to_minute(begin)} to {to_minute(end)}" for begin, end in report.gaps]
    return "\n".join(lines)


def section_of(part: PartReport) -> str:
    lines = [part.name, f"  {part.verdict}"]
    if part.lines:
        lines += table_of([COLUMNS, *map(cells_of, part.lines)])
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


def to_object(report: Report, kind: str) -> dict[str, Any]:
    return {
        "moment": moment_as_text(report.moment),
        "days": report.days,
        "firstDay": report.first_day,
        "countedSince": report.since and moment_as_text(report.since),
        "countedDays": report.counted_days,
        "countedHours": round(report.counted_minutes / 60, 1),
        "notCounted": [[moment_as_text(moment) for moment in gap] for gap in report.gaps],
        "state": report.state,
        f"{kind}s": [
            {
                kind: part.name,
                "state": part.state,
                "verdict": part.verdict,
                "lastUse": part.last_use and moment_as_text(part.last_use),
                "refused": part.rejected,
                "applications": [
                    {
                        "application": line.application,
                        "role": line.role,
                        "requests": line.requests,
                        "before": line.before,
                        "lastUse": moment_as_text(line.last_use),
                    }
                    for line in part.lines
                ],
            }
            for part in report.parts
        ],
    }
