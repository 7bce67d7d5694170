"""The `legacy` commands, about the four paths of the old service and whoever still calls them."""

import click


@click.group()
def legacy() -> None:
    """Move over from the old service."""
