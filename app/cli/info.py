"""The commands `schema` and `settings`."""

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
    """Print every setting: variable, default, description and current value."""
    for name, field in Settings.model_fields.items():
        default = str(field.default)
        if isinstance(field.default, bool):
            default = "on" if field.default else "off"
        if field.default is None:
            default = "unset"
        here = current_value(os.environ.get(variable(name), ""), bool(field.repr))
        click.echo(f"{variable(name)} (default: {default or 'empty'}{here})\n    {field.description}")


def current_value(value: str, is_public: bool) -> str:
    """Hides secrets. An inline key is hidden as well, because it may be the private one by mistake."""
    if not value:
        return ""
    is_shown = is_public and "-----BEGIN" not in value
    return f"; set to {value}" if is_shown else "; set, not shown"
