"""A service with a metrics port, and a parser for its metrics."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.main import create_app
from app.settings import Settings
from app.telemetry import counters
from tests.callers import Gateway, opened
from tests.factories import NOW, a_world
from tests.patience import PATIENCE
from tests.ports import free_port
from tests.schema.test_too_costly import USUAL
from tests.telemetry.spans import EXPORTER, TRACING

KNOWN = "query MyRole { viewer { role } }"
COUNTERS: list[dict[Any, Any]] = [
    counters.requests,
    counters.streams,
    counters.sockets,
    counters.closes,
    counters.limits,
    counters.rejected_tokens,
    counters.codes,
    counters.operations,
    counters.operation_faults,
    counters.deliveries,
]

Sample = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class MeasuredGateway(Gateway):
    """Other tests change the counters of this process, so tests compare differences."""

    def metrics(self, method: str = "GET", path: str = "/metrics") -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.settings.metrics_port, timeout=PATIENCE)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def numbers(self) -> dict[Sample, float]:
        return numbers_in(self.metrics()[1])


def numbers_in(text: str) -> dict[Sample, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def grown(before: dict[Sample, float], after: dict[Sample, float], name: str) -> dict[tuple[str, ...], float]:
    """The growth of the samples with this name, by the values of their labels."""
    differences = {
        tuple(value for _, value in labels): after[found, labels] - before.get((found, labels), 0)
        for found, labels in after
        if found == name
    }
    return {values: by for values, by in differences.items() if by}


def current(numbers: dict[Sample, float], name: str) -> dict[tuple[str, ...], float]:
    found = {labels: number for (sample, labels), number in numbers.items() if sample == name}
    return {tuple(value for _, value in labels): number for labels, number in found.items()}


ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)  # where both are the same


@pytest.fixture
def measured(settings: Settings) -> Iterator[MeasuredGateway]:
    settings = settings.model_copy(
        update={"metrics_port": free_port(), "rate_limit": 1000, "token_limit": 50}
    )
    counters.last_runs.clear()  # of dispatchers elsewhere in this process
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = MeasuredGateway(client, settings)
        gateway.import_records(a_world())
        yield gateway


@pytest.fixture
def fresh(settings: Settings, tmp_path: Path) -> Iterator[MeasuredGateway]:
    """A service whose process has counted nothing, with a manifest: its names are labels."""
    for each in COUNTERS:
        each.clear()
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"1": KNOWN}))
    changed = {
        **USUAL,
        "metrics_port": free_port(),
        "rate_limit": 8000,
        "identifier_limit": 1,
        "trusted_manifest": str(manifest),
        "cors_origins": "https://care.example.test",
    }
    with opened(create_app(settings.model_copy(update=changed), clock=lambda: NOW)) as client:
        gateway = MeasuredGateway(client, settings.model_copy(update=changed))
        gateway.import_records(a_world())
        yield gateway


@pytest.fixture
def traced(settings: Settings) -> Iterator[Gateway]:
    EXPORTER.clear()
    with opened(create_app(settings, clock=lambda: NOW, tracing=TRACING)) as client:
        yield Gateway(client, settings)
