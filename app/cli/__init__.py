"""The command line `care-gateway`."""

from typing import Any

import click
from sqlalchemy.exc import SQLAlchemyError

from app.care.errors import CareError
from app.cli.account import account
from app.cli.audit import audit
from app.cli.backup import backup
from app.cli.books import books
from app.cli.client_data import erase, export
from app.cli.common import Group
from app.cli.database import copy, distribute_command, migrate_command, retention, verify
from app.cli.development import demo, pages
from app.cli.doctor import doctor, list_settings
from app.cli.import_data import import_command
from app.cli.legacy import legacy
from app.cli.restore import restore, tombstones
from app.cli.schema import schema
from app.cli.serve import serve
from app.cli.token import token
from app.cli.worker import deliveries, worker
from app.settings import SettingsError
from app.telemetry.wording import OperatorError


class Gateway(Group):
    """Prints one line per correctable error and exits with code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (SettingsError, OperatorError, CareError) as error:
            message = str(error)
        except SQLAlchemyError as error:
            message = f"database error: {str(error).splitlines()[0]}"
        for line in message.splitlines():  # an import can report several errors
            click.echo(f"care-gateway: {line}", err=True)
        ctx.exit(2)


@click.group(cls=Gateway, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="care-gateway", prog_name="care-gateway")
def main() -> None:
    """Care sessions for caregivers and clients: a GraphQL API and four legacy REST paths."""


service = [serve, worker, demo, token, doctor, list_settings, schema, pages]
data = [
    migrate_command,
    distribute_command,
    import_command,
    verify,
    retention,
    backup,
    restore,
    copy,
    export,
    erase,
    tombstones,
]
administration = [account, books, audit, deliveries, legacy]
for command in [*service, *data, *administration]:
    main.add_command(command)
