"""A gateway whose viewers have points that do not grow, and what its only viewer may still spend."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from app.auth.authenticator import Authenticator
from app.care.budgets import Budget
from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.factories import NOW


@contextmanager
def limited_gateway(
    settings: Settings, points: int, records: Iterable[dict[str, Any]], reports_cost: bool = False
) -> Iterator[Gateway]:
    settings = settings.model_copy(update={"rate_limit": points})
    with opened(create_app(settings, clock=lambda: NOW), reports_cost=reports_cost) as client:
        gateway = Gateway(client, settings)
        authenticator: Authenticator = client.app_state["authenticator"]
        authenticator.budgets.ticks = lambda: 1000.0
        gateway.import_records(records)
        yield gateway


def described(records: Iterable[dict[str, Any]], description: str) -> Iterator[dict[str, Any]]:
    """The records, with this description of each session."""
    for each in records:
        yield {**each, "description": description} if each["kind"] == "session" else each


def only_budget(gateway: Gateway) -> Budget:
    authenticator: Authenticator = gateway.client.app_state["authenticator"]
    [budget] = authenticator.budgets.viewers.values.values()
    return budget
