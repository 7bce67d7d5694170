"""`legacy resolve`: decides conflicts that `import --update` has listed."""

from pathlib import Path

import click

from app.care.context import utc_now
from app.cli.common import audited, settings_or_warn, write_database
from app.db.interchange.merge import Choice, Update
from app.db.interchange.recorded import COLUMNS, Key
from app.telemetry.wording import counted
from moving_over.commands import shared
from moving_over.updating import deciding


def read_key(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[Key]:
    found = []
    for kind, _, number in (text.partition(":") for text in texts):
        if kind not in COLUMNS or not number.isdecimal():
            raise click.BadParameter("must be like assignment:17")
        found.append((kind, int(number)))
    return found


@click.command()
@click.argument("choice", type=click.Choice([each.value for each in Choice]))
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.argument("keys", nargs=-1, required=True, callback=read_key, metavar="KIND:ID...")
@shared.map_option
def resolve(choice: str, recording: Path, keys: list[Key], values: Path | None) -> None:
    """Decide conflicts: take-old writes the recorded row over the one here, keep-here keeps the one here.

    A later change in the old service is a conflict again after keep-here.
    """
    settings = settings_or_warn()
    extracted = shared.read_recording(recording, settings.zone, values, "importing")
    steps = deciding(extracted, utc_now(), dict.fromkeys(keys, Choice(choice)))
    write_database(settings, audited("resolve", steps, Update.about))
    click.echo(f"{counted(len(keys), 'conflict')} resolved")
