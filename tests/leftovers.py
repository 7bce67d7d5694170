"""What a service gives back until it has ended: slots, bytes, turns, connections and subscriptions."""

import gc
from collections.abc import Iterator
from inspect import unwrap
from typing import Any

from app.auth.authenticator import Authenticator
from app.caches import BoundedCache
from app.care.budgets import MAX_DELIVERIES, Budget
from app.db.drivers.fair_turns import FairTurns
from app.db.drivers.group_commit import Writer
from app.db.drivers.sqlite import SqliteDatabase
from app.db.reader.plan_cache import PLANS
from app.events.notifications import Notifier
from app.server.admission import AdmissionControl, IncompleteRequests
from app.telemetry import counters

State = dict[str, Any]


def in_memory(*kinds: type) -> list[Any]:
    """The objects of these classes. `isinstance` would fail for a weak proxy whose object ends meanwhile."""
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)]


def reject_leftovers(app: Any, state: State) -> None:
    """Fails unless everything is as it was at the start. The service has been closed; `state` is that of its
    lifespan."""
    groups = [of_requests(state["admission"])]
    if "authenticator" in state:
        authenticator: Authenticator = state["authenticator"]
        db: Any = authenticator.db
        while hasattr(db, "db"):  # traced, or collecting its statements
            db = db.db
        groups += [
            of_subscribers(authenticator, state["notifier"]),
            of_sqlite(db) if hasattr(db, "writer") else of_postgres(db),
            of_caches(app, authenticator),
        ]
    found = {name: value for group in groups for name, value in group if value}
    assert not found, found


def of_requests(admission: AdmissionControl) -> Iterator[tuple[str, Any]]:
    yield "requests in progress", admission.running
    yield "queued requests", admission.queued
    yield "viewers of queued requests", admission.viewers_waiting
    yield "websockets that have not signed in", admission.pending_sockets
    yield "websockets to read", admission.read_queue
    incomplete: dict[str, IncompleteRequests] = {
        "incomplete heads": admission.heads,
        "incomplete bodies": admission.bodies,
        "deferred requests": admission.deferred,
    }
    for name, each in incomplete.items():
        yield name, each.sizes
        yield f"bytes of {name}", each.bytes
    budgets = admission.budgets
    every: list[Budget] = [*budgets.viewers.values.values(), *budgets.addresses.values.values()]
    for name in ("running", "waiting", "slow_connections", "unsent"):
        yield f"{name} of viewers", [each for each in every if getattr(each, name)]
    yield "deliveries", [each for each in every if each.deliveries._value != MAX_DELIVERIES]


def of_subscribers(authenticator: Authenticator, notifier: Notifier) -> Iterator[tuple[str, Any]]:
    yield "subscriptions", notifier.wakeups
    yield "the follower of events", notifier.follower
    yield "requests that wait for keys", authenticator.verifier.keys.waiting
    if authenticator.recorder is not None:
        yield "audit records", authenticator.recorder.waiting
        yield "the writer of audit records", authenticator.recorder.work


def of_sqlite(db: SqliteDatabase) -> Iterator[tuple[str, Any]]:
    writer: Writer = db.writer
    yield "pending writes", writer.pending
    yield "queued writes", not writer.has_ended and writer.queue.qsize()
    yield "waiting reads", db.threads.waiting.items
    yield "busy readers", db.opened.symmetric_difference(db.idle)


def of_postgres(db: Any) -> Iterator[tuple[str, Any]]:
    yield "connections in use", db.in_use
    yield "idle connections", db.idle
    yield "open connections", db.pool.get_size()
    yield "the announcement of events", db.announcing
    size = db.pool.get_max_size() - 1
    numbers = {"turns": size, "turns_to_change": max(1, size - 1), "turn_to_record": 1, "fast_path_turn": 1}
    for name, number in numbers.items():
        turns: FairTurns = getattr(db, name)
        yield name, number - turns.free
        yield f"waiters for {name}", turns.waiting.items


def of_caches(app: Any, authenticator: Authenticator) -> Iterator[tuple[str, Any]]:
    """Caches keep values, and count their weight exactly."""
    endpoint: Any = unwrap(app.graphql)  # development measures it
    yield "idempotency keys in progress", endpoint.running
    schema = endpoint.schema
    caches: dict[str, BoundedCache[Any]] = {
        "tokens": authenticator.accepted,
        "identities": authenticator.verifier.cached,
        "viewers": authenticator.budgets.viewers,
        "addresses": authenticator.budgets.addresses,
        "operations": schema.operations.recent,
        "compiled operations": schema.operations.compiled,
        "persisted queries": endpoint.documents.persisted,
    }
    for name, cache in caches.items():
        yield f"weight of {name}", cache.weight - sum(cache.weights.values())
        yield f"keys of {name}", cache.values.keys() ^ cache.weights.keys()
    yield "weight of plans", PLANS.weight - sum(each.weight for each in PLANS.plans.values())


def open_streams() -> tuple[int, int]:
    """The numbers of open event streams and websockets of this process."""
    streams, sockets = counters.streams, counters.sockets
    return streams["opened"] - streams["closed"], sockets["opened"] - sockets["closed"]
