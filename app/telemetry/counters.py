"""Counters of this process, which `telemetry.metrics` exports.

They are plain numbers because incrementing must cost a request almost nothing; prometheus_client locks a
mutex for every increment. Keys never contain client input. Only one thread changes each number, so no lock is
needed.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from time import time

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
OTHER = "other"


class Histogram:
    """The number of values in each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, number: float) -> None:
        self.counts[bisect_left(self.bounds, number)] += 1
        self.sum += number

    def add_all(self, other: "Histogram") -> None:
        self.counts = [one + another for one, another in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


class Durations(dict[str, Histogram]):
    def __missing__(self, name: str) -> Histogram:
        return self.setdefault(name, Histogram(SECONDS))


# --- requests -------------------------------------------------------------------------------------

Answer = tuple[str, str, int]  # route, method and status
answers: dict[Answer, Histogram] = {}  # durations
streams: Counter[str] = Counter()  # event streams: "begun", "ended"
sockets: Counter[str] = Counter()  # websockets: "begun", "ended"
closes: dict[tuple[str, str], int] = defaultdict(int)  # closed websockets, by the closing side and the code
limits: Counter[str] = Counter()  # rejected requests, by limit
refused_tokens: Counter[str] = Counter()  # rejected tokens, by reason
codes: Counter[str] = Counter()  # errors in GraphQL responses, by code
operations = Durations()  # GraphQL operations, by name in the manifest of trusted documents
operation_faults: Counter[str] = Counter()  # operations with errors


def expect(answer: Answer) -> None:
    """Exports 0 from the start: Prometheus sees no increase in a counter that first appears as 1."""
    answers.setdefault(answer, Histogram(SECONDS))


def answered(answer: Answer, seconds: float) -> None:
    histogram = answers.get(answer)
    if histogram is None:
        histogram = answers[answer] = Histogram(SECONDS)
    histogram.counts[bisect_left(SECONDS, seconds)] += 1
    histogram.sum += seconds


# --- the database ---------------------------------------------------------------------------------

reads_on_loop, reads_in_threads, reads_on_connections = (
    Histogram(SECONDS),
    Histogram(SECONDS),
    Histogram(SECONDS),
)
writes = Histogram(SECONDS)  # including the wait for the commit
commits = Histogram(SECONDS)  # of SQLite, including the disk sync; changed by the writer thread
committed = Histogram(SIZES)  # write transactions per commit

# --- webhook and dispatcher --------------------------------------------------------------------------------

deliveries: Counter[str] = Counter()  # attempts: "taken" (accepted by the webhook), "failed"
last_runs: dict[str, float] = {}  # when each work of the dispatcher last finished a run


def finished_run(work: str) -> None:
    last_runs[work] = time()
