"""Every counter exists with 0 from the start, so that its first increase raises an alert."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from app.telemetry.metrics.collect import LIMIT_LABELS, REQUESTS
from tests.db import raw
from tests.live.edge import HOMEWORK
from tests.schema.keyed import KEY, post
from tests.schema.listening import connected, listening, stop, streaming, wait_for_subscription
from tests.schema.test_too_costly import REFUSED
from tests.telemetry.conftest import KNOWN, ON_SQLITE, MeasuredGateway, Sample

APP = Path(__file__).parents[2] / "app"
ASSIGNMENTS, SESSIONS = "/gateway/profile/caregiver/session/assignment", "/gateway/profile/client/session"
CHANGES = "subscription { assignmentChanged { id } }"
RENAME = "mutation ($input: UpdateSessionInput!) { updateSession(input: $input) { session { id } } }"


def counted(gateway: MeasuredGateway) -> dict[Sample, float]:
    """All series that only grow: of counters, and of histograms."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(gateway.metrics()[1])
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


def use(gateway: MeasuredGateway) -> None:
    """Requests of all kinds, most of which are rejected."""
    caregiver, client = gateway.as_caregiver(1), gateway.as_client(1)
    for caller in (caregiver, client, gateway.as_anonymous(), gateway.with_token("x"), gateway.as_client(9)):
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"):
            for path in ("/graphql", "/gateway/x", ASSIGNMENTS, f"{ASSIGNMENTS}/1", "/livez", "/", "/x"):
                caller.request(method, path)
    preflight = {"access-control-request-method": "POST"}
    for origin in ("https://care.example.test", "https://example.test"):
        caregiver.request("OPTIONS", "/graphql", headers={"origin": origin, **preflight})
    for document in (KNOWN, "{", "{ x }", CHANGES, *REFUSED):
        caregiver.post_graphql(document)
    for members in (
        {"query": ""},
        {"documentId": "x"},
        {"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "x"}}},
        {"query": KNOWN, "variables": {f"v{n}": 1 for n in range(2001)}},
    ):
        caregiver.request("POST", "/graphql", json=members)
    caregiver.request(
        "POST", "/graphql", content=b"x" * 300_000, headers={"content-type": "application/json"}
    )
    caregiver.request("POST", "/graphql", content=b"{}", headers={"content-type": "text/plain"})
    caregiver.put(ASSIGNMENTS, json=HOMEWORK)
    caregiver.put(ASSIGNMENTS, content=b"x" * 70_000)
    caregiver.put(ASSIGNMENTS, content=b"{}", headers={"content-type": "text/plain"})
    for title in ("one", "two"):  # with the same key
        request = {"query": RENAME, "variables": {"input": {"sessionId": 1, "title": title}}}
        post(caregiver, request, KEY)
    with listening(client) as listener:
        listener.subscribe(CHANGES)
        wait_for_subscription(gateway)
        listener.session.close(4711)
    with connected(client) as listener:
        listener.send(type="subscribe", id="1", payload={"query": KNOWN})
        listener.receive_close()
    raw.run(gateway.settings.database, "ALTER TABLE assignment RENAME TO homework")
    caregiver.get(f"{ASSIGNMENTS}/1")
    for _ in range(80):
        caregiver.post_graphql("{ sessions(first: 100) { nodes { id } } }")
    with streaming(client, CHANGES):
        stop(gateway)


@ON_SQLITE
def test_no_counter_appears_after_the_start(fresh: MeasuredGateway) -> None:
    start = counted(fresh)

    use(fresh)

    end = counted(fresh)
    assert end.keys() == start.keys()
    grown: dict[str, set[str]] = {}
    for (name, labels), value in end.items():
        values = dict(labels)
        for label in {"status", "limit", "code", "reason", "operation"} & values.keys():
            if value > start[name, labels] and name.endswith("_total"):
                grown.setdefault(name, set()).add(values[label])
    units = {text.partition(",")[0].removeprefix("more than ").partition(" ")[2] for text in REFUSED.values()}
    assert {name: " ".join(sorted(values)) for name, values in grown.items() if "limit" not in name} == {
        "care_http_requests_total": "200 204 400 401 403 404 405 413 415 422 429 500",
        "care_tokens_refused_total": "malformed unknown account",
        "care_websocket_closes_total": "4401 other",
        "care_graphql_errors_total": "BAD_REQUEST DOCUMENT_NOT_FOUND FORBIDDEN GRAPHQL_PARSE_FAILED"
        " GRAPHQL_VALIDATION_FAILED IDEMPOTENCY_CONFLICT PERSISTED_QUERY_NOT_FOUND RATE_LIMITED TOO_COSTLY"
        " UNAUTHENTICATED",
        "care_graphql_operation_errors_total": "MyRole other",
    }
    assert grown["care_limit_refusals_total"] == {*units, "values in the variables", "points a minute"}


OF_GRAPHQL = {200, 294, 400, 401, 403, 405, 406, 409, 413, 415, 422, 429, 500, 503}
OF_LEGACY = {200, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 503}
OF_REJECTED = {204, 403, 404, 405, 500}
OF_OTHER_METHODS = {
    "/graphql": {204, 401, 403, 405, 500, 503},
    SESSIONS: OF_REJECTED,
    ASSIGNMENTS: OF_REJECTED,
    f"{ASSIGNMENTS}/{{id}}": OF_REJECTED,
    "/gateway/*": OF_REJECTED,
    "/livez": {405, 500},
    "/readyz": {405, 500},
    "other": {200, 404, 405, 500},
}
OF_METHODS = {
    **{("/graphql", method): OF_GRAPHQL for method in ("GET", "POST")},
    **{(ASSIGNMENTS, method): OF_LEGACY for method in ("GET", "HEAD", "PUT")},
    **{
        (path, method): OF_LEGACY
        for path in (SESSIONS, f"{ASSIGNMENTS}/{{id}}")
        for method in ("GET", "HEAD")
    },
    **{(path, method): {200, 500, 503} for path in ("/livez", "/readyz") for method in ("GET", "HEAD")},
}
METHODS = ("GET", "HEAD", "POST", "PUT", "OPTIONS", "other")


def test_every_status_of_a_method_is_known_from_the_start() -> None:
    assert set(REQUESTS) == {
        (route, method, status)
        for route, of_others in OF_OTHER_METHODS.items()
        for method in METHODS
        for status in OF_METHODS.get((route, method), of_others)
    }


def test_every_limit_that_the_code_counts_is_known_from_the_start() -> None:
    counted = re.compile(r'limits\["([^"]+)"\]|(?:TooCostly|check)\((?:f?"[^"]*"|[^,"]+), "([^"]+)"')
    code = "".join(path.read_text() for path in APP.rglob("*.py"))
    found = {label or unit for label, unit in counted.findall(code)}

    assert {"unsent bytes of a viewer", "levels", "values in the variables"} < found
    assert set(LIMIT_LABELS) - found == {
        "bytes of a request target",
        "bytes of headers",
        "comments",
        "invalid HTTP",
        "requests at once",
        "seconds to arrive",
        "tokens",
    }
    assert found <= set(LIMIT_LABELS)


@ON_SQLITE
def test_counters_start_at_0(fresh: MeasuredGateway) -> None:
    start = counted(fresh)

    own = {name: value for (name, _), value in start.items() if name.startswith("care_http")}
    assert set(own.values()) == {0}
    requests = {labels for name, labels in start if name == "care_http_requests_total"}
    assert len(requests) == len(REQUESTS) == len(set(REQUESTS))
    operations = {labels for name, labels in start if name == "care_graphql_operation_errors_total"}
    assert operations == {(("operation", "MyRole"),), (("operation", "other"),)}
