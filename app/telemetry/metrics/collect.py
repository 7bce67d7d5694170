"""Builds the metric families that Prometheus scrapes, from counters and from the current state."""

import os
import platform
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate
from pathlib import Path

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
from app.events.notifications import Notifier
from app.server.admission import AdmissionControl
from app.server.rejections import HEADERS_TOO_LONG, OVERLOADED_MESSAGE, TIMED_OUT
from app.telemetry import counters
from app.telemetry.counters import Histogram
from app.version import own_version

EDGE = {
    OVERLOADED_MESSAGE: "requests at once",
    HEADERS_TOO_LONG: "bytes of headers",
    TIMED_OUT: "seconds to arrive",
}


@dataclass(frozen=True)
class MetricSources:
    """`care-gateway worker` serves no requests, so the last four are absent there."""

    url: str
    db: Database
    admission: AdmissionControl | None = None
    notifier: Notifier | None = None
    keys: KeySet | None = None
    has_webhook: bool = False


async def collect_metrics(sources: MetricSources, with_database: bool) -> list[Metric]:
    """Of several workers, only one reads the database metrics, because they are the same for all."""
    found = [
        *build_metrics(sources),
        *request_metrics(),
        *graphql_metrics(),
        *database_metrics(sources),
        *live_metrics(sources),
    ]
    if with_database:
        found += await stored_metrics(sources)
    return [*found, *process_metrics()]


# --- the process ----------------------------------------------------------------------------------


def build_metrics(sources: MetricSources) -> Iterator[Metric]:
    kind = f"sqlite {sqlite3.sqlite_version}" if sources.url.startswith("sqlite:") else "postgresql"
    labels = {"version": own_version(), "python": platform.python_version(), "database": kind}
    yield InfoMetricFamily("care_build", "Versions of the service, Python and the database.", labels)


@cache
def process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def process_metrics() -> Iterable[Metric]:
    return process_registry().collect()


# --- counters -------------------------------------------------------------------------------------


def request_metrics() -> Iterator[Metric]:
    requests = counter("care_http_requests", "HTTP requests.", "route", "method", "status")
    durations: counters.Durations[str] = counters.Durations()
    for (route, method, status), one in dict(counters.requests).items():
        requests.add_metric([route, method, str(status)], sum(one.counts))
        durations[route].add_all(one)
    yield requests
    yield labelled_histogram(
        "care_http_request_duration_seconds", "Duration of HTTP requests.", durations, "route"
    )
    limits = counter("care_limit_refusals", "Requests rejected by a limit.", "limit")
    for limit, count in (dict.fromkeys(EDGE, 0) | counters.limits).items():  # known limits are exported as 0
        limits.add_metric([EDGE.get(limit, limit)], count)
    yield limits
    refused = counter("care_tokens_refused", "Rejected bearer tokens.", "reason")
    for reason in Reason:  # export 0 as well: a series that starts at 1 shows no increase
        refused.add_metric([reason], counters.refused_tokens[reason])
    yield refused
    yield single_counter("care_event_streams", "Event streams opened.", counters.streams["opened"])
    yield gauge("care_event_streams_open", "Open event streams.", open_count(counters.streams))
    yield single_counter("care_websockets", "Websockets opened.", counters.sockets["opened"])
    yield gauge("care_websockets_open", "Open websockets.", open_count(counters.sockets))
    closes = counter("care_websocket_closes", "Websockets closed.", "by", "code")
    for (by, code), count in dict(counters.closes).items():
        closes.add_metric([by, code], count)
    yield closes


def open_count(counted: Mapping[str, int]) -> int:
    return counted["opened"] - counted["closed"]


def graphql_metrics() -> Iterator[Metric]:
    codes = counter("care_graphql_errors", "Errors in GraphQL responses.", "code")
    for code, count in dict(counters.codes).items():
        codes.add_metric([code], count)
    yield codes
    name, text = (
        "care_graphql_operation_duration_seconds",
        "Duration of GraphQL operations over HTTP, by manifest name.",
    )
    yield labelled_histogram(name, text, counters.operations, "operation")
    faults = counter(
        "care_graphql_operation_errors",
        "GraphQL operations over HTTP with errors, by manifest name.",
        "operation",
    )
    for operation, count in dict(counters.operation_faults).items():
        faults.add_metric([operation], count)
    yield faults


def database_metrics(sources: MetricSources) -> Iterator[Metric]:
    reads = {"loop": counters.reads_on_loop, "thread": counters.reads_in_threads}
    if not sources.url.startswith("sqlite:"):
        reads = {"connection": counters.reads_on_connections}
    yield labelled_histogram(
        "care_database_read_duration_seconds", "Duration of read transactions.", reads, "where"
    )
    yield histogram(
        "care_database_write_duration_seconds",
        "Duration of write transactions, including the wait for the commit.",
        counters.writes,
    )
    yield histogram(
        "care_database_commit_duration_seconds",
        "Duration of SQLite commits, including the disk sync.",
        counters.commits,
    )
    yield histogram(
        "care_database_commit_changes", "Write transactions per SQLite commit.", counters.committed
    )
    occupancy = sources.db.occupancy()
    connections = labelled_gauge(
        "care_database_connections", "Database connections of this process.", "state"
    )
    connections.add_metric(["idle"], occupancy.idle)
    connections.add_metric(["busy"], occupancy.open - occupancy.idle)
    yield connections
    yield gauge("care_database_connections_limit", "Maximum number of database connections.", occupancy.most)
    yield gauge(
        "care_database_writes_waiting",
        "Write transactions waiting for the next commit.",
        occupancy.writes_waiting,
    )
    attempts = counter("care_delivery_attempts", "Webhook delivery attempts.", "outcome")
    for outcome in ("taken", "failed"):
        attempts.add_metric([outcome], counters.deliveries[outcome])
    yield attempts
    text = "1 if a webhook is configured; otherwise events are discarded after a day."
    yield gauge("care_webhook", text, sources.has_webhook)
    rounds = labelled_gauge(
        "care_dispatcher_last_round_timestamp_seconds", "Time of the last dispatcher run.", "work"
    )
    for work, moment in dict(counters.last_runs).items():
        rounds.add_metric([work], moment)
    yield rounds


# --- current state --------------------------------------------------------------------------------


def live_metrics(sources: MetricSources) -> Iterator[Metric]:
    if sources.admission is not None:
        yield gauge("care_http_requests_in_flight", "Requests in progress.", len(sources.admission.running))
        yield gauge(
            "care_http_requests_limit",
            "Maximum number of requests in progress.",
            sources.admission.max_requests,
        )
        yield gauge(
            "care_http_held_bytes", "Bytes of request bodies being received.", sources.admission.buffered
        )
        yield gauge("care_process_leaving", "1 after SIGTERM.", sources.admission.is_leaving)
    if sources.notifier is not None:
        subscriptions = sum(map(len, sources.notifier.wakeups.values()))
        yield gauge("care_subscriptions_open", "Open subscriptions.", subscriptions)
    if sources.keys is not None:
        yield gauge("care_token_keys", "Token verification keys.", len(sources.keys.keys))
        text = "1 while the keys cannot be refreshed; the previous keys stay in use."
        yield gauge("care_token_keys_failing", text, sources.keys.is_failing)


async def stored_metrics(sources: MetricSources) -> list[Metric]:
    up = gauge("care_database_up", "1 if the database responds.", 1)
    try:
        backlog = await sources.db.read(reading_backlog())
    except Exception:  # any failure means that the database is down
        return [gauge(up.name, up.documentation, 0)]
    return [up, *backlog_metrics(backlog, datetime.now(UTC)), *file_metrics(sources.url)]


def backlog_metrics(backlog: Backlog, now: datetime) -> Iterator[Metric]:
    def age(since: datetime | None) -> float:
        return 0 if since is None else max(0.0, (now - since).total_seconds())

    yield gauge("care_outbox_events_waiting", "Events not yet dispatched; at most 10000.", backlog.events)
    yield gauge(
        "care_outbox_oldest_seconds", "Age of the oldest event not yet dispatched.", age(backlog.events_since)
    )
    deliveries = labelled_gauge("care_deliveries", "Unfinished webhook deliveries; at most 10000.", "state")
    deliveries.add_metric(["new"], backlog.deliveries - backlog.retried)
    deliveries.add_metric(["retried"], backlog.retried)
    deliveries.add_metric(["dead"], backlog.dead)
    yield deliveries
    oldest = age(backlog.deliveries_since)
    yield gauge("care_delivery_oldest_seconds", "Age of the oldest unfinished delivery.", oldest)
    yield gauge(
        "care_audit_records_unsealed", "Audit records without a seal; at most 10000.", backlog.unsealed
    )
    yield gauge(
        "care_audit_oldest_unsealed_seconds",
        "Age of the oldest audit record without a seal.",
        age(backlog.unsealed_since),
    )


def file_metrics(url: str) -> Iterator[Metric]:
    """SQLite only; the files of PostgreSQL are on its own machine."""
    if not url.startswith("sqlite:"):
        return
    path = sqlite_path(url)
    sizes = labelled_gauge("care_database_file_bytes", "File sizes of the SQLite database.", "file")
    for name, file in (("database", path), ("log", Path(f"{path}-wal"))):
        sizes.add_metric([name], file.stat().st_size if file.exists() else 0)
    yield sizes
    disk = os.statvfs(path.parent)
    yield gauge(
        "care_database_disk_free_bytes",
        "Free disk space for the SQLite database.",
        disk.f_bavail * disk.f_frsize,
    )


# --- metric families ------------------------------------------------------------------------------


def counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=labels)


def single_counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(name, text, value)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)


def labelled_gauge(name: str, text: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=[label])


def histogram(name: str, text: str, one: Histogram) -> Metric:
    return HistogramMetricFamily(name, text, buckets_of(one), one.sum)


def labelled_histogram(name: str, text: str, by_value: Mapping[str, Histogram], label: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label])
    for value, one in dict(by_value).items():
        family.add_metric([value], buckets_of(one), one.sum)
    return family


def buckets_of(one: Histogram) -> list[tuple[str, float]]:
    """Prometheus expects cumulative counts."""
    names = [*map(floatToGoString, one.bounds), "+Inf"]
    return list(zip(names, accumulate(one.counts), strict=True))
