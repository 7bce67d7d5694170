"""The metrics: what was counted, and what there is at the moment, under the names that Prometheus knows."""

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
from app.server.refusals import TOO_BUSY, TOO_LONG, TOO_SLOW
from app.telemetry import counters
from app.telemetry.counters import Histogram
from app.version import own_version

EDGE = {TOO_BUSY: "requests at once", TOO_LONG: "bytes of headers", TOO_SLOW: "seconds to arrive"}


@dataclass(frozen=True)
class Parts:
    """What a process is made of, as far as it is watched; `worker` has no callers."""

    url: str
    db: Database
    admission: AdmissionControl | None = None
    notifier: Notifier | None = None
    keys: KeySet | None = None
    has_webhook: bool = False


async def gather(parts: Parts, with_stored: bool) -> list[Metric]:
    """What this process knows; and of what is stored, which one process tells for all."""
    told = [
        *of_the_build(parts),
        *of_requests(),
        *of_graphql(),
        *of_the_database(parts),
        *of_the_moment(parts),
    ]
    if with_stored:
        told += await of_what_is_stored(parts)
    return [*told, *of_the_process()]


# --- the process ----------------------------------------------------------------------------------


def of_the_build(parts: Parts) -> Iterator[Metric]:
    kind = f"sqlite {sqlite3.sqlite_version}" if parts.url.startswith("sqlite:") else "postgresql"
    said = {"version": own_version(), "python": platform.python_version(), "database": kind}
    yield InfoMetricFamily("care_build", "The version of the service and of what it runs on.", said)


@cache
def process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def of_the_process() -> Iterable[Metric]:
    return process_registry().collect()


# --- what was counted -----------------------------------------------------------------------------


def of_requests() -> Iterator[Metric]:
    requests = counter("care_http_requests", "Requests that were answered.", "route", "method", "status")
    durations = counters.Durations()
    for (route, method, status), one in dict(counters.answers).items():
        requests.add_metric([route, method, str(status)], sum(one.counts))
        durations[route].add_all(one)
    yield requests
    yield spreads("care_http_request_duration_seconds", "From request to answer.", durations, "route")
    limits = counter("care_limit_refusals", "What was over a limit, the server's own included.", "limit")
    for limit, count in (dict.fromkeys(EDGE, 0) | counters.limits).items():  # known ones are exported as 0
        limits.add_metric([EDGE.get(limit, limit)], count)
    yield limits
    refused = counter("care_tokens_refused", "Bearer tokens that were refused, by reason.", "reason")
    for reason in Reason:  # also at 0: a series that begins at 1 has no increase
        refused.add_metric([reason], counters.refused_tokens[reason])
    yield refused
    yield single_counter("care_event_streams", "Event streams that began.", counters.streams["begun"])
    yield gauge("care_event_streams_open", "Those that last.", still(counters.streams))
    yield single_counter("care_websockets", "Websockets that were opened.", counters.sockets["begun"])
    yield gauge("care_websockets_open", "Those that are open.", still(counters.sockets))
    closes = counter("care_websocket_closes", "Websockets that were closed.", "by", "code")
    for (by, code), count in dict(counters.closes).items():
        closes.add_metric([by, code], count)
    yield closes


def still(counted: Mapping[str, int]) -> int:
    return counted["begun"] - counted["ended"]


def of_graphql() -> Iterator[Metric]:
    codes = counter("care_graphql_errors", "Errors that GraphQL answers said.", "code")
    for code, count in dict(counters.codes).items():
        codes.add_metric([code], count)
    yield codes
    name, text = "care_graphql_operation_duration_seconds", "Operations by HTTP; names are the manifest's."
    yield spreads(name, text, counters.operations, "operation")
    faults = counter("care_graphql_operation_errors", "Those of them that said errors.", "operation")
    for operation, count in dict(counters.operation_faults).items():
        faults.add_metric([operation], count)
    yield faults


def of_the_database(parts: Parts) -> Iterator[Metric]:
    reads = {"loop": counters.reads_on_loop, "thread": counters.reads_in_threads}
    if not parts.url.startswith("sqlite:"):
        reads = {"connection": counters.reads_on_connections}
    yield spreads("care_database_read_duration_seconds", "Reads, by where they ran.", reads, "where")
    yield spread("care_database_write_duration_seconds", "Changes, until they are kept.", counters.writes)
    yield spread(
        "care_database_commit_duration_seconds", "Commits of SQLite, with the disk.", counters.commits
    )
    yield spread(
        "care_database_commit_changes", "Changes that shared a commit of SQLite.", counters.committed
    )
    occupancy = parts.db.occupancy()
    connections = labelled_gauge("care_database_connections", "Connections of this process.", "state")
    connections.add_metric(["idle"], occupancy.idle)
    connections.add_metric(["busy"], occupancy.open - occupancy.idle)
    yield connections
    yield gauge("care_database_connections_limit", "How many there may be.", occupancy.most)
    yield gauge(
        "care_database_writes_waiting", "Changes that wait for the next commit.", occupancy.writes_waiting
    )
    attempts = counter("care_delivery_attempts", "Attempts to deliver to the webhook.", "outcome")
    for outcome in ("taken", "failed"):
        attempts.add_metric([outcome], counters.deliveries[outcome])
    yield attempts
    text = "1 where events go to a webhook; elsewhere they wait for a day."
    yield gauge("care_webhook", text, parts.has_webhook)
    rounds = labelled_gauge(
        "care_dispatcher_last_round_timestamp_seconds", "When the dispatcher last came round.", "work"
    )
    for work, moment in dict(counters.last_runs).items():
        rounds.add_metric([work], moment)
    yield rounds


# --- what there is at the moment ------------------------------------------------------------------


def of_the_moment(parts: Parts) -> Iterator[Metric]:
    if parts.admission is not None:
        yield gauge(
            "care_http_requests_in_flight", "Requests that are carried out.", len(parts.admission.running)
        )
        yield gauge("care_http_requests_limit", "How many there may be.", parts.admission.max_requests)
        yield gauge("care_http_held_bytes", "Bodies that are still coming in.", parts.admission.buffered)
        yield gauge("care_process_leaving", "1 from SIGTERM on.", parts.admission.is_leaving)
    if parts.notifier is not None:
        listening = sum(map(len, parts.notifier.wakeups.values()))
        yield gauge("care_subscriptions_open", "Subscriptions that wait for events.", listening)
    if parts.keys is not None:
        yield gauge("care_token_keys", "Keys that verify tokens.", len(parts.keys.keys))
        text = "1 while the keys cannot be read again; those from before stay in use."
        yield gauge("care_token_keys_failing", text, parts.keys.is_failing)


async def of_what_is_stored(parts: Parts) -> list[Metric]:
    up = gauge("care_database_up", "Whether the database answers.", 1)
    try:
        backlog = await parts.db.read(reading_backlog())
    except Exception:  # whatever it is, it is what is watched for
        return [gauge(up.name, up.documentation, 0)]
    return [up, *of_the_backlog(backlog, datetime.now(UTC)), *of_the_files(parts.url)]


def of_the_backlog(backlog: Backlog, now: datetime) -> Iterator[Metric]:
    def age(since: datetime | None) -> float:
        return 0 if since is None else max(0.0, (now - since).total_seconds())

    yield gauge("care_outbox_events_waiting", "Events not handed over; at most 10000.", backlog.events)
    yield gauge("care_outbox_oldest_seconds", "How long the oldest has waited.", age(backlog.events_since))
    deliveries = labelled_gauge("care_deliveries", "Deliveries that are not done; at most 10000.", "state")
    deliveries.add_metric(["new"], backlog.deliveries - backlog.retried)
    deliveries.add_metric(["retried"], backlog.retried)
    deliveries.add_metric(["dead"], backlog.dead)
    yield deliveries
    oldest = age(backlog.deliveries_since)
    yield gauge("care_delivery_oldest_seconds", "Since when the oldest event is on its way.", oldest)
    yield gauge("care_audit_records_unsealed", "Records without a seal; at most 10000.", backlog.unsealed)
    yield gauge("care_audit_oldest_unsealed_seconds", "Age of the oldest.", age(backlog.unsealed_since))


def of_the_files(url: str) -> Iterator[Metric]:
    """Of the embedded database; PostgreSQL's are on its own machine."""
    if not url.startswith("sqlite:"):
        return
    path = sqlite_path(url)
    sizes = labelled_gauge("care_database_file_bytes", "Sizes of the embedded database's files.", "file")
    for name, file in (("database", path), ("log", Path(f"{path}-wal"))):
        sizes.add_metric([name], file.stat().st_size if file.exists() else 0)
    yield sizes
    disk = os.statvfs(path.parent)
    yield gauge("care_database_disk_free_bytes", "Room on their disk.", disk.f_bavail * disk.f_frsize)


# --- shapes ---------------------------------------------------------------------------------------


def counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=labels)


def single_counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(name, text, value)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)


def labelled_gauge(name: str, text: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=[label])


def spread(name: str, text: str, one: Histogram) -> Metric:
    return HistogramMetricFamily(name, text, buckets_of(one), one.sum)


def spreads(name: str, text: str, all: Mapping[str, Histogram], label: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label])
    for value, one in dict(all).items():
        family.add_metric([value], buckets_of(one), one.sum)
    return family


def buckets_of(one: Histogram) -> list[tuple[str, float]]:
    """Each counts all that lie below, as Prometheus wants them."""
    names = [*map(floatToGoString, one.bounds), "+Inf"]
    return list(zip(names, accumulate(one.counts), strict=True))
