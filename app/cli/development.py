"""The commands for development: `demo` and `pages`."""

import asyncio
import time

import click

from app.care.context import utc_now
from app.cli.common import Group, main, on_database, settings_or_warn
from app.cli.serve import reject_taken_port, run_server
from app.db.admin.demo import demo_lines
from app.db.admin.migrate import migrate
from app.db.drivers.interface import Database
from app.db.interchange.load import importing, reading_users
from app.dev.building import build
from app.dev.quickstart import quickstart_text
from app.settings import SettingsError
from app.telemetry.wording import counted

NO_DEMO = (
    "`care-gateway demo` creates demo users and tokens, so it needs CARE_ENV=development and no "
    "CARE_TOKEN_KEY or CARE_TOKEN_JWKS; for production see docs/guides/operator.md"
)


@main.command()
@click.option("--serve", "then_serve", is_flag=True, help="Start the server afterwards.")
def demo(then_serve: bool) -> None:
    """Migrate, load demo data into an empty database, and print example commands."""
    from app.dev.tokens import demo_tokens, has_own_keys

    settings = settings_or_warn()
    if not has_own_keys(settings) and not (settings.in_development and settings.token_secret):
        raise SettingsError(NO_DEMO)
    if then_serve:
        reject_taken_port(
            settings.host, settings.port, "; set another port with CARE_PORT or `make run PORT=8001`"
        )
    tokens = demo_tokens(settings)
    asyncio.run(migrate(settings.database))

    async def load(db: Database) -> None:
        if not await db.read(reading_users()):
            await db.write(importing(demo_lines(utc_now())))

    on_database(settings, load)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host  # IPv6
    click.echo(quickstart_text(f"http://{host}:{settings.port}", tokens))
    if then_serve:
        run_server(settings)


@main.group(cls=Group)
def pages() -> None:
    """GraphiQL and the other pages of development."""


@pages.command("build")
def build_command() -> None:
    """Build the pages from their npm packages (needs Node)."""
    started = time.perf_counter()
    built = build(report=click.echo)
    seconds = time.perf_counter() - started
    click.echo(f"built: {counted(len(built.files), 'file')}, {built.size / 1e6:.1f} MB, in {seconds:.0f} s")
    click.echo("Restart a running server to use them.")
