"""Builds the metric families that Prometheus scrapes, from counters and from the current state."""

import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from app.auth.keys import KeySet
from app.auth.refusals import Reason
from app.db.admin.backlog import Backlog, reading_backlog
from app.db.drivers.interface import Database, sqlite_path
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.events.notifications import Notifier
from app.server.admission import AdmissionControl
from app.telemetry import counters
from app.telemetry.counters import OTHER, Histogram
from app.telemetry.metrics.known_labels import CLOSES, CODES, LIMIT_LABELS, REQUESTS, STATUSES
from app.version import own_version


@dataclass(frozen=True)
class MetricSources:
    """What the metrics are read from. `care-gateway worker` serves no requests and has only the database."""

    url: str
    db: Database
    admission: AdmissionControl | None = None
    notifier: Notifier | None = None
    keys: KeySet | None = None
    has_webhook: bool = False
    operations: frozenset[str] = frozenset()  # the names of trusted operations


async def collect_metrics(sources: MetricSources, with_database: bool) -> list[Metric]:
    """`with_database` adds the metrics of stored rows and files, which are the same for all processes."""
    found = [
        *build_metrics(sources),
        *(request_metrics(sources) if sources.admission else ()),
        *database_metrics(sources),
        *live_metrics(sources),
    ]
    if with_database:
        found += await stored_metrics(sources)
    return [*found, *process_registry().collect()]


# --- the process ----------------------------------------------------------------------------------


def build_metrics(sources: MetricSources) -> Iterator[Metric]:
    kind = f"sqlite {sqlite3.sqlite_version}" if sources.url.startswith("sqlite:") else "postgresql"
    labels = {"version": own_version(), "python": platform.python_version(), "database": kind}
    yield InfoMetricFamily("care_build", "Versions of the service, Python and the database.", labels)


@cache
def process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


# --- counters -------------------------------------------------------------------------------------


def request_metrics(sources: MetricSources) -> Iterator[Metric]:
    totals = dict.fromkeys(REQUESTS, 0)
    durations = {route: Histogram() for route in STATUSES}
    for labels, one in dict(counters.requests).items():
        totals[labels] = sum(one.counts)
        durations[labels[0]].add_all(one)
    text = "HTTP responses. Websockets and event streams are counted separately."
    yield counter("care_http_requests", text, totals, "route", "method", "status")
    text = "Seconds from a complete HTTP request to its response."
    yield histogram("care_http_request_duration_seconds", text, durations, "route")
    limits = dict.fromkeys(LIMIT_LABELS, 0) | counters.limits
    yield counter("care_limit_refusals", "Requests rejected by a limit.", limits, "limit")
    tokens = {reason: counters.refused_tokens[reason] for reason in Reason}
    yield counter("care_tokens_refused", "Rejected bearer tokens.", tokens, "reason")
    streams, sockets = counters.streams, counters.sockets
    yield CounterMetricFamily("care_event_streams", "Event streams opened.", streams["opened"])
    yield gauge("care_event_streams_open", "Open event streams.", streams["opened"] - streams["closed"])
    yield CounterMetricFamily("care_websockets", "Websockets opened.", sockets["opened"])
    yield gauge("care_websockets_open", "Open websockets.", sockets["opened"] - sockets["closed"])
    closes = dict.fromkeys(CLOSES, 0) | counters.closes
    yield counter("care_websocket_closes", "Websockets closed, by side and close code.", closes, "by", "code")
    text = "Seconds for which a request held the event loop, if longer than 50 ms."
    yield histogram("care_event_loop_held_seconds", text, {"": counters.long_slices})
    codes = dict.fromkeys(CODES, 0) | counters.codes
    yield counter("care_graphql_errors", "Errors in GraphQL responses.", codes, "code")
    names = {*sources.operations, OTHER} if sources.operations else ()
    text = "Seconds to execute a GraphQL operation over HTTP, by its name in the manifest."
    operations = {name: counters.operations[name] for name in names}
    yield histogram("care_graphql_operation_duration_seconds", text, operations, "operation")
    text = "GraphQL operations over HTTP whose response has errors, by their name in the manifest."
    faults = {name: counters.operation_faults[name] for name in names}
    yield counter("care_graphql_operation_errors", text, faults, "operation")


def database_metrics(sources: MetricSources) -> Iterator[Metric]:
    reads = {"connection": counters.reads_on_connections}
    if sources.url.startswith("sqlite:"):
        reads = {"loop": counters.reads_on_loop, "thread": counters.reads_in_threads}
    yield histogram("care_database_read_duration_seconds", "Seconds of a read transaction.", reads, "where")
    text = "Seconds of a write transaction, including the wait for its commit."
    yield histogram("care_database_write_duration_seconds", text, {"": counters.writes})
    text = "Seconds of a SQLite commit, including the disk sync."
    yield histogram("care_database_commit_duration_seconds", text, {"": counters.commits})
    text = "Write transactions in a SQLite commit."
    yield histogram("care_database_commit_changes", text, {"": counters.committed})
    occupancy = sources.db.occupancy()
    states = {"idle": occupancy.idle, "busy": occupancy.open - occupancy.idle}
    text = "Open database connections of this process."
    yield labelled_gauge("care_database_connections", text, states, "state")
    yield gauge("care_database_connections_limit", "Maximum number of database connections.", occupancy.limit)
    text = "Write transactions waiting for the next commit."
    yield gauge("care_database_writes_waiting", text, occupancy.writes_waiting)
    attempts = {outcome: counters.deliveries[outcome] for outcome in ("accepted", "failed")}
    yield counter(
        "care_delivery_attempts", "Attempts to deliver an event to the webhook.", attempts, "outcome"
    )
    text = "1 if a webhook is configured, otherwise 0. Without a webhook events are discarded after a day."
    yield gauge("care_webhook_configured", text, sources.has_webhook)
    text = "Unix time at which the dispatcher of this process last finished a run."
    yield labelled_gauge("care_dispatcher_last_run_timestamp_seconds", text, counters.last_runs, "work")


# --- current state --------------------------------------------------------------------------------


def live_metrics(sources: MetricSources) -> Iterator[Metric]:
    if admission := sources.admission:
        yield gauge(
            "care_http_requests_in_flight",
            "HTTP requests and GraphQL operations in progress.",
            len(admission.running),
        )
        text = "Maximum number of requests in progress (CARE_MOST_REQUESTS)."
        yield gauge("care_http_requests_limit", text, admission.most_requests)
        yield gauge(
            "care_http_buffered_body_bytes",
            "Received bytes of incomplete request bodies.",
            admission.bodies.bytes,
        )
        yield gauge(
            "care_process_draining",
            "1 from SIGTERM until the process ends, otherwise 0.",
            admission.is_draining,
        )
    if sources.notifier is not None:
        subscriptions = sum(map(len, sources.notifier.wakeups.values()))
        yield gauge("care_subscriptions_open", "Open subscriptions.", subscriptions)
    if sources.keys is not None:
        yield gauge("care_token_keys", "Keys for verifying tokens.", len(sources.keys.keys))
        text = "1 while the keys cannot be read again, otherwise 0. The previous keys stay in use."
        yield gauge("care_token_keys_failing", text, sources.keys.is_failing)


async def stored_metrics(sources: MetricSources) -> list[Metric]:
    up = gauge("care_database_up", "1 if the database responds, otherwise 0.", 1)
    try:
        backlog = await sources.db.read(reading_backlog())
        _, wait = await sources.db.read(reading_waiting_commits())
    except Exception:  # any failure means that the database is down
        return [gauge(up.name, up.documentation, 0)]
    text = "Age of the oldest commit waiting for a synchronous standby."
    waiting = gauge("care_database_standby_wait_seconds", text, wait)
    return [up, waiting, *backlog_metrics(backlog, datetime.now(UTC)), *file_metrics(sources.url)]


def backlog_metrics(backlog: Backlog, now: datetime) -> Iterator[Metric]:
    def age(since: datetime | None) -> float:
        return 0 if since is None else max(0.0, (now - since).total_seconds())

    yield gauge(
        "care_outbox_events_waiting",
        "Events that the dispatcher has not processed, counted up to 10000.",
        backlog.events,
    )
    text = "Age in seconds of the oldest event that the dispatcher has not processed."
    yield gauge("care_outbox_oldest_seconds", text, age(backlog.events_since))
    new = backlog.deliveries - backlog.retried
    states = {"new": new, "retried": backlog.retried, "dead": backlog.dead}
    text = "Webhook deliveries that are not accepted, counted up to 10000."
    yield labelled_gauge("care_deliveries", text, states, "state")
    oldest = age(backlog.deliveries_since)
    yield gauge(
        "care_delivery_oldest_seconds",
        "Age in seconds of the oldest webhook delivery that is new or retried.",
        oldest,
    )
    text = "Audit records without a seal, counted up to 10000."
    yield gauge("care_audit_records_unsealed", text, backlog.unsealed)
    text = "Age in seconds of the oldest audit record without a seal."
    yield gauge("care_audit_oldest_unsealed_seconds", text, age(backlog.unsealed_since))


def file_metrics(url: str) -> Iterator[Metric]:
    """SQLite only; the files of PostgreSQL are on its own machine."""
    if not url.startswith("sqlite:"):
        return
    path = sqlite_path(url)
    files = {"database": path, "log": Path(f"{path}-wal")}
    sizes = {name: file.stat().st_size if file.exists() else 0 for name, file in files.items()}
    yield labelled_gauge(
        "care_database_file_bytes",
        "Sizes of the SQLite files: the database and its write-ahead log.",
        sizes,
        "file",
    )
    disk = os.statvfs(path.parent)
    text = "Free bytes on the disk of the SQLite database."
    yield gauge("care_database_disk_free_bytes", text, disk.f_bavail * disk.f_frsize)


# --- metric families ------------------------------------------------------------------------------


def counter(name: str, text: str, counts: Mapping[Any, int], *labels: str) -> Metric:
    """The keys are the values of the labels: a string for one label, a tuple for several."""
    family = CounterMetricFamily(name, text, labels=labels)
    for key, count in dict(counts).items():
        family.add_metric([key] if isinstance(key, str) else list(map(str, key)), count)
    return family


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)


def labelled_gauge(name: str, text: str, values: Mapping[str, float], label: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in dict(values).items():
        family.add_metric([key], value)
    return family


def histogram(name: str, text: str, histograms: Mapping[str, Histogram], label: str = "") -> Metric:
    """Without a label there is one histogram. Prometheus expects cumulative counts."""
    family = HistogramMetricFamily(name, text, labels=[label] if label else [])
    for key, one in dict(histograms).items():
        bounds = [*map(floatToGoString, one.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(one.counts), strict=True))
        family.add_metric([key] if label else [], buckets, one.sum)
    return family
