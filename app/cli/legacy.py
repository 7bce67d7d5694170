"""`legacy`: the report of the usage of the legacy paths, the switch, and the commands of `moving_over`."""

from contextlib import suppress
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any

import click
import orjson

from app.auth.authenticator import ACCOUNT_CACHE_SECONDS
from app.care.context import utc_now
from app.cli.common import (
    Group,
    WholeNumber,
    audited,
    main,
    read_database,
    settings_or_warn,
    write_database,
)
from app.db.moments import moment_as_text
from app.db.statements.switch import SwitchState, saving_switch
from app.db.statements.usage import reading_usage
from app.rest_compat.report import Line, PathReport, Report, State, first_day_of, report_of
from app.telemetry.wording import OperatorError

EXIT_CODES = {State.UNUSED: 0, State.USED: 1, State.NOT_KNOWN: 3}  # 2: the command failed
CONCLUSIONS = {
    State.UNUSED: "The legacy paths may be switched off: no calls in this period.",
    State.USED: "The legacy paths are in use.",
    State.NOT_KNOWN: "Unknown: no calls, but the period was not counted completely.",
}
COLUMNS = ("application", "role", "requests", "before", "trend", "last use (UTC)")
NUMERIC_COLUMNS = {"requests", "before", "trend"}


def moving_over() -> Any:
    """The commands of the package `moving_over`, which is imported only when one of them is needed."""
    for each in entry_points(group="care_gateway.legacy"):
        try:
            return each.load()
        except ModuleNotFoundError as error:
            if error.name != each.module.partition(".")[0]:
                raise
    raise OperatorError("moving over needs the package moving_over, which is not installed")


class Legacy(Group):
    """Adds the commands of `moving_over` to its own, if that package is installed."""

    def load(self) -> None:
        for command in moving_over().COMMANDS:
            self.add_command(command)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands:
            self.load()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        with suppress(OperatorError):
            self.load()
        return super().list_commands(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        try:
            self.load()
        except OperatorError as error:
            formatter.write_paragraph()
            formatter.write_text(str(error))


@main.group(cls=Legacy)
def legacy() -> None:
    """Migrate from the old service and retire its paths."""


@legacy.command()
@click.option("--back", is_flag=True, help="Declare that people use the old service again.")
def switch(back: bool) -> None:
    """Declare that people use this service instead of the old one: it accepts their changes.

    Before, it rejects them with 503 if the first recording was imported into a database without sessions.
    """
    state = SwitchState.WAITING if back else SwitchState.DECLARED
    write_database(settings_or_warn(), audited("switch", saving_switch(state)))
    done = "rejected: people use the old service" if back else "accepted"
    click.echo(f"within {ACCOUNT_CACHE_SECONDS} s changes by people are {done}")


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
        return (
            "Calls of the legacy paths have not been counted for a complete minute yet. "
            "Counting begins when the service starts."
        )
    lines = [
        f"Counted since {to_minute(report.since)} UTC. From {report.first_day} to {report.moment:%Y-%m-%d} "
        f"calls were counted in {report.counted_minutes / 60:,.1f} of {report.minutes / 60:,.1f} hours, "
        f"which is {report.counted_days} of {report.days} days."
    ]
    lines += [f"  not counted: {to_minute(begin)} to {to_minute(end)}" for begin, end in report.gaps]
    return "\n".join(lines)


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
        "countedHours": round(report.counted_minutes / 60, 1),
        "notCounted": [[moment_as_text(moment) for moment in gap] for gap in report.gaps],
        "state": report.state,
        "paths": [
            {
                "path": path.path,
                "state": path.state,
                "verdict": path.verdict,
                "lastUse": path.last_use and moment_as_text(path.last_use),
                "refused": path.rejected,
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
