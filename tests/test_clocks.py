"""Limits and caches use monotonic clocks, so that a change of the system time does not affect them."""

import time
from collections.abc import Callable
from typing import cast

import pytest

from app.auth.authenticator import Authenticator
from app.auth.keys import KeySet, Source
from app.auth.rejections import RejectionLog
from app.auth.tokens import Verifier
from app.care.budgets import Budget, Budgets, IdentifierLimiter
from app.db.drivers.interface import Database
from app.server.turns import Turns
from app.settings import Settings
from app.telemetry.logs import LineLimit

KEYS = KeySet(Source(lambda: b"", lambda _: []))
VERIFIER = Verifier(Settings(), KEYS)
CLOCKS: dict[str, Callable[[], float]] = {
    "keys": KEYS.ticks,
    "tokens": VERIFIER.ticks,
    "accounts": Authenticator(cast(Database, None), None, VERIFIER, "UTC").ticks,
    "lines about refused tokens": RejectionLog(logs_all=False).ticks,
    "other lines of the log": LineLimit().ticks,
    "points of a viewer": Budget().ticks,
    "points of all viewers": Budgets().ticks,
    "client identifiers": IdentifierLimiter(1).ticks,
    "turns": Turns().clock,
}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_limits_and_caches_do_not_use_the_system_time(clock: Callable[[], float]) -> None:
    assert clock in (time.monotonic, time.perf_counter)
