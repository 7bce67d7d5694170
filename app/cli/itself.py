"""The commands with which the service tells about itself: `schema`, `settings`."""

import click

from app.settings import Settings, variable


@click.command()
def schema() -> None:
    """Print the GraphQL schema in SDL."""
    from app.schema.schema import build_schema, schema_text  # takes long to load

    click.echo(schema_text(build_schema()), nl=False)


@click.command("settings")
def list_settings() -> None:
    """Print every setting: its variable, default and meaning."""
    for name, field in Settings.model_fields.items():
        default = str(field.default)
        if isinstance(field.default, bool):
            default = "on" if field.default else "off"
        if field.default is None:
            default = "unset"
        click.echo(f"{variable(name)} (default: {default or 'empty'})\n    {field.description}")
