"""The metrics that Prometheus scrapes. One statement declares each: its name and text, where its value is,
its labels, and the values of labels that are known from the start."""

import asyncio
import os
import platform
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from itertools import accumulate, product
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
from app.auth.rejections import Reason
from app.db.admin.backup import marker_of
from app.db.drivers.interface import Database, sqlite_path
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.events.notifications import Notifier
from app.http.errors import Failure
from app.http.health import HEALTH
from app.http.paths import ASSIGNMENTS, ONE_ASSIGNMENT, SESSIONS
from app.http.router import ANY_LEGACY, CLOSE_CODES, METHODS
from app.schema.transport.content_negotiation import PARTIAL_SUCCESS
from app.server.admission import AdmissionControl
from app.server.rejections import INVALID_HTTP, LIMITS
from app.telemetry import counters
from app.telemetry.counters import OTHER, Histogram
from app.telemetry.metrics.backlog import BACKLOG, is_moment, reading_backlog
from app.version import own_version

DATABASE_SECONDS = 2  # less than a scrape may take, so that a database that hangs is reported


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

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")


def own_metrics(sources: MetricSources) -> list[Metric]:
    """Those of this process."""
    groups = [build_metrics, request_metrics, database_metrics, live_metrics]
    found = [family for group in groups for family in group(sources)]
    return [*found, *process_registry().collect()]


@cache
def process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


# --- families -------------------------------------------------------------------------------------


def family_of(
    kind: Any, name: str, text: str, value: Any, *labels: str, known: Iterable[Any] = (), zero: Any = 0
) -> Metric:
    """`value` is a number or a histogram; with labels a mapping from their values: a string for one label, a
    tuple for several.

    Series of `known` values are exported with 0 from the start: in a series that appears with its first
    error, Prometheus sees no increase."""
    family = kind(name, text, labels=labels)
    for key, one in (dict.fromkeys(known, zero) | dict(value) if labels else {(): value}).items():
        values = [key] if isinstance(key, str) else list(map(str, key))
        if isinstance(one, Histogram):  # Prometheus expects cumulative counts
            bounds = [*map(floatToGoString, one.bounds), "+Inf"]
            family.add_metric(values, list(zip(bounds, accumulate(one.counts), strict=True)), one.sum)
        else:
            family.add_metric(values, one)
    found: Metric = family
    return found


counter = partial(family_of, CounterMetricFamily)
gauge = partial(family_of, GaugeMetricFamily)
histogram = partial(family_of, HistogramMetricFamily, zero=Histogram())


# --- requests -------------------------------------------------------------------------------------

GRAPHQL = {200, PARTIAL_SUCCESS, *(status for each in Failure for status in (each.graphql, each.json))}
LEGACY = {200, *(each.legacy for each in Failure)}
REJECTED = {204, 403, 404, 405, 500}  # of other methods; 204 and 403: CORS preflights
# The methods of each route with their statuses, and the statuses of all other methods.
STATUSES: dict[str, tuple[set[str], set[int], set[int]]] = {
    "/graphql": ({"GET", "POST"}, GRAPHQL, {204, 401, 403, 405, 500, 503}),
    SESSIONS: ({"GET", "HEAD"}, LEGACY, REJECTED),
    ASSIGNMENTS: ({"GET", "HEAD", "PUT"}, LEGACY, REJECTED),
    ONE_ASSIGNMENT: ({"GET", "HEAD"}, LEGACY, REJECTED),
    ANY_LEGACY: (set(), set(), REJECTED),
    **{path: ({"GET", "HEAD"}, {200, 500, 503}, {405, 500}) for path in HEALTH},
    OTHER: (set(), set(), {200, 404, 405, 500}),
}
REQUESTS: list[counters.RequestLabels] = [
    (route, method, status)
    for route, (methods, statuses, others) in STATUSES.items()
    for method in (*METHODS, OTHER)
    for status in sorted(statuses if method in methods else others)
]
LIMIT_LABELS = (
    *LIMITS.values(),
    INVALID_HTTP,
    "frames of a websocket",
    "operations of a websocket",
    "websockets that are not signed in",
    "subscriptions of a viewer",
    "points a minute",
    "unsent bytes of a viewer",
    "client identifiers an hour",
    # of a document, in `engine/limits.py`
    "tokens",
    "comments",
    "levels",
    "levels of fields",
    "fragments",
    "selections",
    "aliases",
    "root fields",
    "objects and lists",
    "lists with pages inside objects",
    "directives",
    "comparisons of fields under one name",
    "values in the variables",
    "points of cost",
    "bytes of a response",
)
CLOSES = list(product(("client", "server"), [*map(str, sorted(CLOSE_CODES)), OTHER]))


def request_metrics(sources: MetricSources) -> Iterator[Metric]:
    if sources.admission is None:
        return
    totals: dict[counters.RequestLabels, int] = {}
    durations: dict[str, Histogram] = defaultdict(Histogram)
    for labels, one in dict(counters.requests).items():
        totals[labels] = sum(one.counts)
        durations[labels[0]].add_all(one)
    text = "HTTP responses. Websockets and event streams are counted separately."
    yield counter("care_http_requests", text, totals, "route", "method", "status", known=REQUESTS)
    text = "Seconds from a complete HTTP request to its response."
    yield histogram("care_http_request_duration_seconds", text, durations, "route", known=STATUSES)
    text = "Requests rejected by a limit."
    yield counter("care_limit_refusals", text, counters.limits, "limit", known=LIMIT_LABELS)
    text = "Rejected bearer tokens."
    yield counter("care_tokens_refused", text, counters.rejected_tokens, "reason", known=Reason)
    streams, sockets = counters.streams, counters.sockets
    yield counter("care_event_streams", "Event streams opened.", streams["opened"])
    yield gauge("care_event_streams_open", "Open event streams.", streams["opened"] - streams["closed"])
    yield counter("care_websockets", "Websockets opened.", sockets["opened"])
    yield gauge("care_websockets_open", "Open websockets.", sockets["opened"] - sockets["closed"])
    text = "Websockets closed, by side and close code."
    yield counter("care_websocket_closes", text, counters.closes, "by", "code", known=CLOSES)
    text = "Seconds for which a request held the event loop, if longer than 50 ms."
    yield histogram("care_event_loop_held_seconds", text, counters.long_slices)
    codes = sorted({each.code for each in Failure})
    yield counter("care_graphql_errors", "Errors in GraphQL responses.", counters.codes, "code", known=codes)
    names = {*sources.operations, OTHER} if sources.operations else ()
    text = "Seconds to execute a GraphQL operation over HTTP, by its name in the manifest."
    seconds = counters.operations
    yield histogram("care_graphql_operation_duration_seconds", text, seconds, "operation", known=names)
    text = "GraphQL operations over HTTP whose response has errors, by their name in the manifest."
    yield counter("care_graphql_operation_errors", text, counters.operation_faults, "operation", known=names)


# --- the process ----------------------------------------------------------------------------------


def build_metrics(sources: MetricSources) -> Iterator[Metric]:
    kind = f"sqlite {sqlite3.sqlite_version}" if sources.is_sqlite else "postgresql"
    versions = {"version": own_version(), "python": platform.python_version(), "database": kind}
    text = "Versions of the service, Python and the database."
    yield InfoMetricFamily("care_build", text, versions)


def database_metrics(sources: MetricSources) -> Iterator[Metric]:
    reads = {"connection": counters.reads_on_connections}
    if sources.is_sqlite:
        reads = {"loop": counters.reads_on_loop, "thread": counters.reads_in_threads}
    yield histogram("care_database_read_duration_seconds", "Seconds of a read transaction.", reads, "where")
    text = "Seconds of a write transaction, including the wait for its commit."
    yield histogram("care_database_write_duration_seconds", text, counters.writes)
    text = "Seconds of a SQLite commit, including the disk sync."
    yield histogram("care_database_commit_duration_seconds", text, counters.commits)
    text = "Write transactions in a SQLite commit."
    yield histogram("care_database_commit_changes", text, counters.committed)
    occupancy = sources.db.occupancy()
    states = {"idle": occupancy.idle, "busy": occupancy.open - occupancy.idle}
    text = "Open database connections of this process."
    yield gauge("care_database_connections", text, states, "state")
    yield gauge("care_database_connections_limit", "Maximum number of database connections.", occupancy.limit)
    text = "Write transactions waiting for the next commit."
    yield gauge("care_database_writes_waiting", text, occupancy.writes_waiting)
    text, outcomes = "Attempts to deliver an event to the webhook.", ("accepted", "failed")
    yield counter("care_delivery_attempts", text, counters.deliveries, "outcome", known=outcomes)
    text = "1 if a webhook is configured, otherwise 0. Without a webhook events are discarded after a day."
    yield gauge("care_webhook_configured", text, sources.has_webhook)
    text = "Unix time at which the dispatcher of this process last finished a run."
    yield gauge("care_dispatcher_last_run_timestamp_seconds", text, counters.last_runs, "work")


def live_metrics(sources: MetricSources) -> Iterator[Metric]:
    if admission := sources.admission:
        text = "HTTP requests and GraphQL operations in progress."
        yield gauge("care_http_requests_in_flight", text, len(admission.running))
        text = "Maximum number of requests in progress (CARE_MOST_REQUESTS)."
        yield gauge("care_http_requests_limit", text, admission.most_requests)
        text = "Received bytes of incomplete request bodies."
        yield gauge("care_http_buffered_body_bytes", text, admission.bodies.bytes)
        text = "1 from SIGTERM until the process ends, otherwise 0."
        yield gauge("care_process_draining", text, admission.is_draining)
    if sources.notifier is not None:
        subscriptions = sum(map(len, sources.notifier.wakeups.values()))
        yield gauge("care_subscriptions_open", "Open subscriptions.", subscriptions)
    if sources.keys is not None:
        yield gauge("care_token_keys", "Keys for verifying tokens.", len(sources.keys.keys))
        text = "1 while the keys cannot be read again, otherwise 0. The previous keys stay in use."
        yield gauge("care_token_keys_failing", text, sources.keys.is_failing)


# --- stored rows and files ------------------------------------------------------------------------


async def stored_metrics(sources: MetricSources) -> list[Metric]:
    """Those of stored rows and files, which are the same for all processes."""
    text = "1 if the database responds, otherwise 0."
    up, down = gauge("care_database_up", text, 1), gauge("care_database_up", text, 0)
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            backlog = await sources.db.read(reading_backlog())
            _, wait = await sources.db.read(reading_waiting_commits())
    except Exception:  # any failure means that the database is down
        return [down]
    text = "Age of the oldest commit waiting for a synchronous standby."
    waiting = gauge("care_database_standby_wait_seconds", text, wait)
    files = file_metrics(sqlite_path(sources.url)) if sources.is_sqlite else ()
    return [up, waiting, *backlog_metrics(backlog, datetime.now(UTC)), *files]


def backlog_metrics(backlog: dict[str, Any], now: datetime) -> Iterator[Metric]:
    def age(since: datetime | None) -> float:
        return 0 if since is None else max(0.0, (now - since).total_seconds())

    for name, text, queries, *label in BACKLOG:
        values = {key: age(backlog[key]) if is_moment(key) else backlog[key] for key in queries}
        yield gauge(name, text, values if label else next(iter(values.values())), *label)


def file_metrics(path: Path) -> Iterator[Metric]:
    """SQLite only; the files of PostgreSQL are on its own machine."""
    files = {"database": path, "log": Path(f"{path}-wal")}
    sizes = {name: file.stat().st_size if file.exists() else 0 for name, file in files.items()}
    text = "Sizes of the SQLite files: the database and its write-ahead log."
    yield gauge("care_database_file_bytes", text, sizes, "file")
    marker = marker_of(path)
    text = "Unix time of the last `care-gateway backup`, or 0."
    yield gauge("care_backup_timestamp_seconds", text, marker.stat().st_mtime if marker.exists() else 0)
    disk = os.statvfs(path.parent)
    text = "Free bytes on the disk of the SQLite database."
    yield gauge("care_database_disk_free_bytes", text, disk.f_bavail * disk.f_frsize)
