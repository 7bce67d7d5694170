"""What happens in this process, counted in plain numbers that `telemetry.metrics` exports.

Whoever counts only adds to a number: a request must not pay for being counted. What comes from a caller is
never a key here. Each number is changed by one thread alone, so that none needs a lock.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from time import time

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
OTHER = "other"


class Histogram:
    """How numbers are spread: how many lie below each bound, and what they come to."""

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
answers: dict[Answer, Histogram] = {}  # how long they took, and so how many there were
streams: Counter[str] = Counter()  # "begun", "ended"; they are no answers
sockets: Counter[str] = Counter()  # websockets likewise
closes: dict[tuple[str, str], int] = defaultdict(int)  # of websockets, by who closed and the code
limits: Counter[str] = Counter()  # what was over a limit, by the limit
refused_tokens: Counter[str] = Counter()  # by reason
codes: Counter[str] = Counter()  # errors said in GraphQL
operations = Durations()  # of GraphQL, by the name in the manifest of trusted documents
operation_faults: Counter[str] = Counter()  # those that said errors


def expect(answer: Answer) -> None:
    """Exports it as 0 from the start: a counter that first appears as 1 has not increased for Prometheus."""
    answers.setdefault(answer, Histogram(SECONDS))


def answered(answer: Answer, seconds: float) -> None:
    """A request is over."""
    spread = answers.get(answer)
    if spread is None:
        spread = answers[answer] = Histogram(SECONDS)
    spread.counts[bisect_left(SECONDS, seconds)] += 1
    spread.sum += seconds


# --- the database ---------------------------------------------------------------------------------

reads_on_loop, reads_in_threads, reads_on_connections = (
    Histogram(SECONDS),
    Histogram(SECONDS),
    Histogram(SECONDS),
)
writes = Histogram(SECONDS)  # from when one waits for its change until it is kept
commits = Histogram(SECONDS)  # of SQLite, the disk included; counted by the thread that writes
committed = Histogram(SIZES)  # changes that shared a commit

# --- what goes out --------------------------------------------------------------------------------

deliveries: Counter[str] = Counter()  # attempts: "taken" by the webhook, "failed"
last_runs: dict[str, float] = {}  # when each work of the dispatcher last finished a run


def finished_run(work: str) -> None:
    last_runs[work] = time()
