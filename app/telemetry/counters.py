"""Counters of this process, which `telemetry.metrics` exports.

They are plain numbers, which cost a request almost nothing: prometheus_client locks a mutex for every
increment. Only one thread changes each number, so no lock is needed. Keys never contain client input.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from time import time
from typing import TypeVar

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
OTHER = "other"  # the label of values that have none of their own

Key = TypeVar("Key")


class Histogram:
    """The number of values in each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add_all(self, other: "Histogram") -> None:
        self.counts = [one + another for one, another in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


class Durations(dict[Key, Histogram]):
    def __missing__(self, key: Key) -> Histogram:
        return self.setdefault(key, Histogram())


# --- requests -------------------------------------------------------------------------------------

RequestLabels = tuple[str, str, int]  # route, method and status
requests: Durations[RequestLabels] = Durations()
streams: Counter[str] = Counter()  # event streams: "opened", "closed"
sockets: Counter[str] = Counter()  # websockets: "opened", "closed"
closes: Counter[tuple[str, str]] = Counter()  # closed websockets, by the closing side and the code
long_slices = Histogram()  # time for which a request held the event loop, if it was long
limits: Counter[str] = Counter()  # rejected requests, by limit
turned_away: Counter[str] = Counter()  # of them calls of the legacy paths, for the usage report
rejected_tokens: Counter[str] = Counter()  # rejected tokens, by reason
codes: Counter[str] = Counter()  # errors in GraphQL responses, by code
operations: Durations[str] = Durations()  # GraphQL operations, by name in the manifest of trusted documents
operation_faults: Counter[str] = Counter()  # operations with errors


# --- the database ---------------------------------------------------------------------------------

reads_on_loop = Histogram()
reads_in_threads = Histogram()
reads_on_connections = Histogram()
writes = Histogram()  # including the wait for the commit
commits = Histogram()  # of SQLite, including the disk sync; changed by the writer thread
committed = Histogram(SIZES)  # write transactions per commit

# --- webhook and dispatcher -----------------------------------------------------------------------

deliveries: Counter[str] = Counter()  # attempts: "accepted", "failed"
last_runs: dict[str, float] = {}  # Unix time at which each task of the dispatcher last finished a run


def record_run(task: str) -> None:
    last_runs[task] = time()
