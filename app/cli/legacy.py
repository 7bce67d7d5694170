"""`legacy`: the report of the usage of the legacy paths, the switch, and the commands of `moving_over`."""

from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

import click

from app.auth.authenticator import ACCOUNT_CACHE_SECONDS
from app.cli.common import Group, audited, main, settings_or_warn, write_database
from app.cli.usage import print_usage, read_report, report_options
from app.db.statements.switch import SwitchState, saving_switch
from app.http.paths import PATHS
from app.telemetry.wording import OperatorError
from app.usage.report import State

CONCLUSIONS = {
    State.UNUSED: "The legacy paths may be switched off: no calls in this period.",
    State.USED: "The legacy paths are in use.",
    State.NOT_KNOWN: "Unknown: no calls, but the period was not counted completely.",
}


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
@report_options
def report(days: int, as_json: bool) -> None:
    """Report the usage of the legacy paths; exit code 0: unused, 1: used, 3: unknown."""
    print_usage(read_report(PATHS, days), "path", as_json, "Calls of the legacy paths", CONCLUSIONS)
