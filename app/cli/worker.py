"""The commands `worker` and `deliveries`."""

import asyncio
import logging.config
import signal
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import click

from app.care.context import utc_now
from app.cli.common import (
    EnumChoice,
    Group,
    Service,
    WholeNumber,
    check_before_serving,
    main,
    on_database,
    settings_or_warn,
)
from app.cli.serve import reject_taken_metrics_port
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseError
from app.db.moments import moment_as_text
from app.db.tables import DeliveryState, EventKind
from app.events.deliveries import StoredDelivery, listing_deliveries, retry_dead, retry_event
from app.events.dispatcher import dispatch
from app.events.webhook import TYPES, Webhook, WebhookEvent, body_of, headers_of, open_webhook, post
from app.server.background import Vitals
from app.server.signals import END_SECONDS, end_within
from app.settings import Settings, SettingsError
from app.telemetry.logs import config_of
from app.telemetry.redaction import redact_logs
from app.telemetry.tracing import open_tracing

if TYPE_CHECKING:
    from app.telemetry.tracing.requests import Tracing


@main.command(cls=Service)
def worker() -> None:
    """Run the dispatcher without the server: send due reminders, and deliver events to the webhook."""
    settings = settings_or_warn()
    redact_logs(not settings.in_development)
    webhook = open_webhook(settings)
    check_before_serving(settings)
    reject_taken_metrics_port(settings)
    logging.config.dictConfig(config_of(settings))
    asyncio.run(dispatch_until_stopped(settings, webhook, open_tracing()))


async def dispatch_until_stopped(
    settings: Settings, webhook: Webhook | None, tracing: "Tracing | None"
) -> None:
    stop, vitals, loop = asyncio.Event(), Vitals(), asyncio.get_running_loop()

    def end(*_: object) -> None:
        """Called in any thread, and also while the event loop hangs."""
        end_within(END_SECONDS)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(stop.set)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, end)
    vitals.on_failure(end)
    db = await open_database(
        settings.database, settings.read_threads, loop_read_ms=settings.loop_read_ms, failed=vitals.fail
    )
    try:
        logging.getLogger("care.dispatch").info("dispatching %s a webhook", "to" if webhook else "without")
        async with AsyncExitStack() as stack:
            if tracing:
                stack.enter_context(tracing.opened())
            if settings.metrics_port:
                from app.telemetry.metrics.collect import MetricSources
                from app.telemetry.metrics.server import serve_metrics

                sources = MetricSources(settings.database, db, has_webhook=webhook is not None)
                await stack.enter_async_context(serve_metrics(settings, sources))
            traced_db = tracing.wrap_database(db, settings.database) if tracing else db
            await dispatch(traced_db, webhook, utc_now, stop, periods=settings.retention)
    finally:
        await db.close()
    if vitals.failed_part:
        raise SystemExit(1)  # so that the supervisor restarts the process


@main.group(cls=Group)
def deliveries() -> None:
    """List, retry and test deliveries to the webhook."""


@deliveries.command("list")
@click.option(
    "--state",
    type=EnumChoice(DeliveryState),
    help="Only deliveries in this state; `dead` ones are not retried.",
)
def list_deliveries(state: DeliveryState | None) -> None:
    """List deliveries: event id, type, state, attempts, next attempt, last response."""

    async def show(db: Database) -> None:
        after = 0
        while page := await db.read(listing_deliveries(state, after)):
            for one in page:
                click.echo(as_line(one))
            after = page[-1].event

    on_database(settings_or_warn(), show)


def as_line(one: StoredDelivery) -> str:
    kind = TYPES.get(one.kind, one.kind)  # unknown kinds come from a newer version
    next_date = moment_as_text(one.next_date)
    return f"{one.event}\t{kind}\t{one.state.lower()}\t{one.attempts}\t{next_date}\t{one.last_outcome or '-'}"


@deliveries.command("retry")
@click.argument("event_id", type=WholeNumber(1, 2**63 - 1), required=False)
@click.option("--all-dead", is_flag=True, help="All dead deliveries.")
def retry_deliveries(event_id: int | None, all_dead: bool) -> None:
    """Retry one delivery now, or all dead ones."""
    if (event_id is None) is not all_dead:
        raise click.UsageError("give either EVENT_ID or --all-dead")

    async def retry(db: Database) -> tuple[int, int]:
        if event_id is None:
            return await retry_dead(db, utc_now())
        return 1, await retry_event(db, event_id, utc_now())

    total, scheduled = on_database(settings_or_warn(), retry)
    click.echo(f"{scheduled} scheduled for delivery")
    if scheduled < total:
        raise DatabaseError(f"{total - scheduled} could not be scheduled, for the reasons above")


@deliveries.command("test")
@click.option(
    "--type",
    "kind",
    type=click.Choice(list(TYPES.values())),
    default=TYPES[EventKind.SUBMITTED],
    show_default=True,
    metavar="TYPE",
    help="Type of the event.",
)
def test_delivery(kind: str) -> None:
    """Post a signed example event, `evt_0` with ids that no row has, to the webhook."""
    if (webhook := open_webhook(settings_or_warn())) is None:
        raise SettingsError("CARE_WEBHOOK_URL is not set")
    now = utc_now()
    event = next(each for each, name in TYPES.items() if name == kind)
    data: dict[str, int | None] = dict.fromkeys(("sessionId", "assignmentId", "caregiverId", "clientId"), 0)
    data |= {"reminderId": 0 if event == EventKind.REMINDER_DUE else None}
    body = body_of(WebhookEvent(0, event, now, data))
    result = asyncio.run(post(webhook, headers_of(webhook, 0, body, now), body))
    click.echo(f"{body.decode()}\n{'accepted' if result.is_accepted else 'not accepted'}: {result.status}")
    if not result.is_accepted:
        raise SystemExit(1)
