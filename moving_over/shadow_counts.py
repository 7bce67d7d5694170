"""Counts of a shadow: responses and differences per path, application, member and kind, but no values."""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from app.care.context import utc_now
from app.telemetry.wording import counted
from moving_over import LegacyMigrationError
from moving_over.body_diff import MISSING, Difference, Likeness
from moving_over.comparison import CallResult

MAX_SERIES = 1000  # above it, new applications and members are OTHER
OTHER = "other"
COMPARED, NOT_COMPARED = ("same", "explained", "different"), ("dropped", "failed", "old failed")
LABELS = {
    "answers": ("path", "application", "outcome"),
    "differences": ("path", "application", "member", "kind", "outcome"),
}
INDEX = re.compile(r"\[(?:id=)?-?\d+\]")
# A name that is not a plain word may be a value, and is not kept.
MEMBER = re.compile(r"(?:(?:^|\.)[A-Za-z_]\w{0,40}|\[\*\]){1,12}|the body", re.ASCII)
KINDS = {Likeness.WRITING: "writing", Likeness.ORDER: "order", Likeness.BYTES: "value"}  # of whole bodies

Found = tuple[str, str]  # the member and the kind of a difference


def differences_in(result: CallResult) -> set[Found]:
    """Only the statuses if they differ: then the bodies are of different kinds."""
    old, new = result.statuses
    if old != new:
        return {(f"{old} -> {new}", "status")}
    found = {(each.path, "header") for each in result.headers}
    for each in result.members:
        member = INDEX.sub("[*]", each.path.partition(" (")[0])
        found.add((member if MEMBER.fullmatch(member) else OTHER, kind_of(each)))
    return found | ({("the body", KINDS[result.body])} if result.body in KINDS else set())


def kind_of(one: Difference) -> str:
    if one.path.endswith(" (order of the items)"):
        return "order"
    if one.old is MISSING or one.new is MISSING:
        return "extra" if one.old is MISSING else "missing"
    return "value" if type(one.old) is type(one.new) else "type"


class Counts:
    """Numbers by key. The first word of a key is `answers`, `differences`, `repeats`, `noise` or `days`."""

    def __init__(self, numbers: dict[tuple[str, ...], int]) -> None:
        self.numbers = Counter(numbers)
        self.lock = threading.Lock()

    def note(self, path: str, application: str, outcome: str, found: dict[Found, str]) -> None:
        """Counts a response and its differences, each with an outcome of its own."""
        with self.lock:
            self.add("answers", path, application, outcome)
            if outcome in COMPARED:
                self.numbers["days", f"{utc_now():%Y-%m-%d}"] += 1
            for (member, kind), judged in found.items():
                self.add("differences", path, application, member, kind, judged)

    def add(self, *key: str) -> None:
        if key not in self.numbers and len(self.numbers) >= MAX_SERIES:
            key = (*key[:2], *(OTHER for _ in key[2:-1]), key[-1])
        self.numbers[key] += 1

    def learn(self, path: str, found: Iterable[Found]) -> None:
        """Remembers which values differed between two responses of the old service."""
        with self.lock:
            self.numbers["repeats", path] += 1
            for each in found:
                self.add("noise", path, *each)

    def is_noise(self, path: str, found: Found) -> bool:
        """Noise is frequent. A value that was changed between two responses differs now and then."""
        times = self.numbers["noise", path, *found]
        return found[1] == "value" and times > 1 and times * 10 >= self.numbers["repeats", path]

    def of(self, family: str) -> list[tuple[tuple[str, ...], int]]:
        return [(key[1:], number) for key, number in sorted(dict(self.numbers).items()) if key[0] == family]

    def total(self, family: str, *outcomes: str) -> int:
        return sum(number for key, number in self.of(family) if key[-1] in outcomes)

    def summary(self) -> str:
        answers, days = self.total("answers", *COMPARED), len(self.of("days"))
        differences = counted(self.total("differences", "different"), "unexplained difference")
        rest = [f"{self.total('answers', each):,} {each}" for each in NOT_COMPARED]
        return ", ".join([f"{counted(answers, 'answer')} of {counted(days, 'day')}", differences, *rest])

    def collect(self) -> Iterator[Any]:
        """For prometheus_client, which other commands do not import."""
        from prometheus_client.core import CounterMetricFamily

        for family, labels in LABELS.items():
            metric = CounterMetricFamily(f"care_shadow_{family}", f"Compared {family}.", labels=labels)
            for key, number in self.of(family):
                metric.add_metric(key, number)
            yield metric


def read_counts(file: Path) -> Counts:
    try:
        return Counts({tuple(key): int(number) for *key, number in orjson.loads(file.read_bytes())})
    except (OSError, ValueError, TypeError) as error:
        raise LegacyMigrationError(f"{file} cannot be read: {error}") from None
