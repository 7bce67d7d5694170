"""The command `schema`."""

import click


@click.command()
def schema() -> None:
    """Print the GraphQL schema as SDL."""
    from app.schema.schema import build_schema, schema_text  # slow to import

    click.echo(schema_text(build_schema()), nl=False)
