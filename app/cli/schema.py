"""The command `schema`."""

import click


@click.command()
@click.option("--reference", is_flag=True, help="Print an HTML page instead of plain SDL.")
def schema(reference: bool) -> None:
    """Print the GraphQL schema as SDL."""
    from app.landing.reference import schema_page  # slow to import
    from app.schema.schema import build_schema, schema_text

    sdl = schema_text(build_schema())
    click.echo(schema_page(sdl) if reference else sdl, nl=False)
