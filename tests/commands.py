"""Every command of the command line, with its words."""

from collections.abc import Iterator

import click


def every_command(command: click.Command, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and, if it is a group, all commands below it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, *words, name)
