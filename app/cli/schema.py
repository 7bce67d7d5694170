"""`schema`: the GraphQL schema, and the usage of its deprecated parts."""

import click

from app.cli.common import Group, main
from app.cli.usage import print_usage, read_report, report_options
from app.usage.report import State

CONCLUSIONS = {
    State.UNUSED: "The deprecated parts may be removed: no calls in this period.",
    State.USED: "Deprecated parts are in use.",
    State.NOT_KNOWN: "Unknown: no calls, but the period was not counted completely.",
}


@main.group(cls=Group, invoke_without_command=True)
@click.pass_context
def schema(ctx: click.Context) -> None:
    """Print the GraphQL schema as SDL."""
    from app.schema.schema import build_schema, schema_text  # slow to import

    if ctx.invoked_subcommand is None:
        click.echo(schema_text(build_schema()), nl=False)


@schema.command()
@report_options
def usage(days: int, as_json: bool) -> None:
    """Report the usage of deprecated parts of the schema; exit code 0: unused, 1: used, 3: unknown."""
    from app.schema.schema import build_schema  # slow to import

    parts = build_schema().deprecated
    if not parts and not as_json:
        click.echo("The schema has no deprecated parts.")
        return
    report = read_report(parts, days, are_deprecated=True)
    print_usage(report, "part", as_json, "Uses of deprecated parts", CONCLUSIONS)
