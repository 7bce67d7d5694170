"""The commands with which the service tells about itself: `schema`, `settings`."""

import os

import click

from app.settings import Settings, variable


@click.command()
@click.option("--reference", is_flag=True, help="Print an HTML page instead of plain SDL.")
def schema(reference: bool) -> None:
    """Print the GraphQL schema as SDL."""
    from app.landing.reference import schema_page  # slow to import
    from app.schema.schema import build_schema, schema_text

    sdl = schema_text(build_schema())
    click.echo(schema_page(sdl) if reference else sdl, nl=False)


@click.command("settings")
def list_settings() -> None:
    """Print every setting: its variable, default and meaning, and what it is set to here."""
    for name, field in Settings.model_fields.items():
        default = str(field.default)
        if isinstance(field.default, bool):
            default = "on" if field.default else "off"
        if field.default is None:
            default = "unset"
        here = as_set(os.environ.get(variable(name), ""), bool(field.repr))
        click.echo(f"{variable(name)} (default: {default or 'empty'}{here})\n    {field.description}")


def as_set(value: str, may_be_told: bool) -> str:
    """Also where it cannot be used. Of keys that are written out somebody may have taken the wrong half."""
    if not value:
        return ""
    is_told = may_be_told and "-----BEGIN" not in value
    return f"; set to {value}" if is_told else "; set, and not told"
