"""The dashboard, the alerts and the scrape configuration use only metrics and labels that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.telemetry import counters
from tests import pages
from tests.telemetry.conftest import ON_SQLITE, MeasuredGateway

OPS = Path(__file__).parent.parent.parent / "ops"
DASHBOARD = json.loads((OPS / "grafana.json").read_text())
ALERTS = yaml.safe_load((OPS / "alerts.yml").read_text())
PROMETHEUS = yaml.safe_load((OPS / "prometheus.yml").read_text())

DOCS = "https://docs.example.test/"
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
OF_PROMETHEUS = {"up"}  # which it tells itself
OF_LITESTREAM = re.compile(r"\blitestream_sync_(error_)?count\b")  # seen with 0.5.17
ITS_LABELS = {"instance", "job", "worker"}  # that of `serve --workers` included

NAME = re.compile(r"\b((?:care|process)_[a-z0-9_]+|up)\b")
LABELS = re.compile(r"(?<=by )\(([^)]*)\)|\{([^}]*)\}")


def names_in(query: str) -> set[str]:
    return set(NAME.findall(query)) - OF_PROMETHEUS


def labels_in(query: str) -> set[str]:
    labels = [by or within for by, within in LABELS.findall(query)]
    return {part.split("=")[0].strip() for one in labels for part in one.split(",")} - ITS_LABELS


@ON_SQLITE
def test_every_query_uses_exported_metrics(fresh: MeasuredGateway) -> None:
    counters.record_run("outbox")
    exported = fresh.numbers()
    labels = {
        name: {label for found, labels in exported for label, _ in labels if found == name}
        for name, _ in exported
    }

    for query in [*QUERIES, *(rule["expr"] for rule in RULES)]:
        names = names_in(query)
        assert names or "up" in query or OF_LITESTREAM.search(query), query
        assert names <= labels.keys(), query
        assert labels_in(query) <= set().union(*(labels[name] for name in names)), query


GROWTH = re.compile(r"(?:rate|increase)\((\w+)\{(\w+)=\"([^\"]+)\"\}")


@ON_SQLITE
def test_counters_used_by_alerts_start_at_0(fresh: MeasuredGateway) -> None:
    """A series that starts at 1 shows no increase: the first error would raise no alert."""
    exported = [(name, dict(labels)) for name, labels in fresh.numbers()]

    alerting = {found for rule in RULES for found in GROWTH.findall(rule["expr"])}
    assert alerting == {
        ("care_http_requests_total", "status", "500"),
        ("care_http_requests_total", "status", "401"),
        ("care_graphql_errors_total", "code", "INTERNAL"),
        ("care_limit_refusals_total", "limit", "requests at once"),
    }
    for name, label, value in alerting:
        assert any(found == name and labels[label] == value for found, labels in exported)


ERRORS = 'care_graphql_errors_total{code="INTERNAL"}'


@pytest.mark.skipif(not shutil.which("promtool"), reason="Prometheus is not installed")
@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("CareInternalErrors", {ERRORS: "0x4 1x20"}),
        ("CareInternalErrors", {ERRORS: "_x4 1x20"}),  # before the first scrape
        ("CareReplicaStopped", {'up{job="litestream"}': "1x2 0x20", "litestream_sync_count": "1 2 3"}),
    ],
)
def test_an_alert_fires(name: str, series: dict[str, str], tmp_path: Path) -> None:
    def expected(at: str, value: int) -> dict[str, Any]:
        found = {"expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'}
        return found | {"eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}

    case = {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [expected("2m", 0), expected("10m", 1)],
    }
    file = tmp_path / "case.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(OPS / "alerts.yml")], "tests": [case]}))

    found = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)

    assert found.returncode == 0, found.stdout + found.stderr


def test_an_unknown_metric_would_be_found() -> None:
    query = 'sum by (le, route) (rate(care_nothing_total{status="500", job=~"$job"}[5m]))'

    assert (names_in(query), labels_in(query)) == ({"care_nothing_total"}, {"le", "route", "status"})


def test_dashboard_panels_do_not_overlap_and_have_distinct_titles() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_every_alert_has_a_severity_a_summary_and_a_section_about_it() -> None:
    assert {rule["labels"]["severity"] for rule in RULES} == {"page", "ticket"}
    assert [rule["alert"] for rule in RULES if not rule["annotations"]["summary"].endswith((".", "?"))] == []
    for rule in RULES:
        page, _, anchor = rule["annotations"]["runbook_url"].removeprefix(DOCS).partition("#")
        assert anchor in pages.anchors(pages.read(f"docs/{page}")), rule["alert"]
    assert PROMETHEUS["rule_files"] == ["alerts.yml"]
    assert {job["job_name"] for job in PROMETHEUS["scrape_configs"]} == {"care-gateway"}


@ON_SQLITE
def test_the_page_lists_every_metric_with_its_labels(fresh: MeasuredGateway) -> None:
    counters.record_run("outbox")
    exported: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(fresh.metrics()[1]):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        exported[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    page = dict(pages.sections(pages.read("docs/observability.md"), level=3))["List of metrics"]

    listed: set[str] = set()
    for names, labels in re.findall(r"^\| (`[^|]*) \|([^|]*)\|", page, re.MULTILINE):
        of_row = set(re.findall(r"`(care_\w+)`", names))
        listed |= of_row
        shown = set(re.findall(r"`(\w+)`", labels))
        assert set().union(*(exported.get(name, set()) for name in of_row)) == shown, names
    assert listed == {name for name in exported if name.startswith("care_")}
