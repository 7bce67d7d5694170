"""Metrics count requests, errors and database work. Labels contain no client input and no id."""

import json
from pathlib import Path

from app.auth.refusals import Reason
from app.main import create_app
from app.settings import Settings
from tests.callers import opened
from tests.db import raw
from tests.factories import NOW, a_world
from tests.live.processes import free_port
from tests.schema.listening import connected, listening, wait_until_somebody_listens
from tests.telemetry.conftest import ON_SQLITE, Watched, new, now

ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
VIEWER = "{ viewer { role } }"
WORDS = """by code database file generation implementation le limit major method minor operation outcome
patchlevel python reason route state status version where work"""


@ON_SQLITE
def test_requests_are_counted_by_route_method_and_status(watched: Watched) -> None:
    caregiver, nobody = watched.as_caregiver(1), watched.as_nobody()
    before = watched.numbers()

    caregiver.post_graphql(VIEWER)
    nobody.get(f"{ASSIGNMENTS}/1")
    caregiver.get(f"{ASSIGNMENTS}/1")
    caregiver.get(f"{ASSIGNMENTS}/2")
    caregiver.put(ASSIGNMENTS, content=b"{")
    caregiver.request("BREW", "/gateway/pot")
    nobody.get("/livez")
    nobody.get("/care-of-mara")
    nobody.get("/gateways")

    after = watched.numbers()
    assert new(before, after, "care_http_requests_total") == {
        ("POST", "/graphql", "200"): 1,
        ("GET", f"{ASSIGNMENTS}/{{id}}", "401"): 1,
        ("GET", f"{ASSIGNMENTS}/{{id}}", "200"): 2,
        ("PUT", ASSIGNMENTS, "400"): 1,
        ("other", "/gateway/*", "404"): 1,
        ("GET", "/livez", "200"): 1,
        ("GET", "other", "404"): 2,
    }
    took = new(before, after, "care_http_request_duration_seconds_count")
    assert took[f"{ASSIGNMENTS}/{{id}}",] == 3
    assert sum(took.values()) == 9
    below = new(before, after, "care_http_request_duration_seconds_bucket")
    assert below["+Inf", f"{ASSIGNMENTS}/{{id}}"] == 3


@ON_SQLITE
def test_rejections_are_counted_by_limit(watched: Watched) -> None:
    caregiver = watched.as_caregiver(1)
    before = watched.numbers()

    caregiver.post_graphql("{" + " viewer { role }" * 20 + "}")
    asked = [caregiver.post_graphql("{ sessions(first: 100) { nodes { id } } }") for _ in range(12)]

    after = watched.numbers()
    refused = [one.status_code for one in asked].count(429)
    assert 0 < refused < 12
    assert new(before, after, "care_limit_refusals_total") == {("tokens",): 1, ("points a minute",): refused}
    assert new(before, after, "care_graphql_errors_total") == {("TOO_COSTLY",): 1, ("RATE_LIMITED",): refused}
    assert new(before, after, "care_http_requests_total")["POST", "/graphql", "429"] == refused


@ON_SQLITE
def test_rejected_tokens_are_counted_by_reason(watched: Watched) -> None:
    before = watched.numbers()

    watched.with_token("garbage").post_graphql(VIEWER)
    watched.as_caregiver(9).get(f"{ASSIGNMENTS}/1")
    watched.as_nobody().get(f"{ASSIGNMENTS}/1")

    after = watched.numbers()
    assert new(before, after, "care_tokens_refused_total") == {("malformed",): 1, ("unknown account",): 1}
    assert len(now(after, "care_tokens_refused_total")) == len(Reason)


@ON_SQLITE
def test_operations_are_counted_by_manifest_name(settings: Settings, tmp_path: Path) -> None:
    known = "query MyRole { viewer { role } }"
    two = "query One { viewer { role } } query Two { viewer { role } }"
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"1": known, "2": two}))
    settings = settings.model_copy(update={"metrics_port": free_port(), "trusted_manifest": str(manifest)})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Watched(client, settings)
        gateway.given(a_world())
        caregiver, stranger = gateway.as_caregiver(1), gateway.as_caregiver(9)
        before = gateway.numbers()

        caregiver.post_graphql(known)
        caregiver.post_graphql("query OfSomebodyElse { viewer { role } }")
        caregiver.request("POST", "/graphql", json={"query": two, "operationName": "Two"})
        caregiver.post_graphql("query MyRole { x }")
        stranger.post_graphql(known)  # is not let in, and nothing runs

        after = gateway.numbers()
    ran = new(before, after, "care_graphql_operation_duration_seconds_count")
    assert ran == {("MyRole",): 1, ("Two",): 1, ("other",): 2}
    assert new(before, after, "care_graphql_operation_errors_total") == {("other",): 1}
    assert "OfSomebodyElse" not in str(after)


@ON_SQLITE
def test_open_websockets_and_event_streams_are_counted(watched: Watched) -> None:
    before = watched.numbers()
    with listening(watched.as_client(1)) as listener:
        listener.ask("subscription { assignmentChanged { id } }")
        wait_until_somebody_listens(watched)
        during = watched.numbers()
    with connected(watched.as_client(1)) as listener:
        listener.say(type="subscribe", id="1", payload={"query": VIEWER})
        listener.hear_close()

    after = watched.numbers()
    assert now(during, "care_subscriptions_open") == {(): 1}
    assert new(before, during, "care_websockets_open") == {(): 1}
    assert new(before, after, "care_websockets_total") == {(): 2}
    assert new(before, after, "care_websockets_open") == {}
    assert new(before, after, "care_websocket_closes_total") == {("client", "1000"): 1, ("server", "4401"): 1}


@ON_SQLITE
def test_unknown_close_codes_are_counted_together(watched: Watched) -> None:
    before = watched.numbers()

    with listening(watched.as_client(1)) as listener:
        listener.session.close(4711)

    assert new(before, watched.numbers(), "care_websocket_closes_total") == {("client", "other"): 1}


def test_the_backlog_in_the_database_is_exported(watched: Watched) -> None:
    url = watched.settings.database
    watched.as_caregiver(1).post_graphql("{ assignments { nodes { answerSets { nodes { id } } } } }")
    events = raw.run(url, "SELECT count(*) FROM event WHERE hand_over_date IS NULL")[0][0]
    records = raw.run(url, "SELECT count(*) FROM audit_record")[0][0]

    numbers = watched.numbers()

    assert now(numbers, "care_database_up") == {(): 1}
    assert now(numbers, "care_outbox_events_waiting") == {(): events}
    assert now(numbers, "care_audit_records_unsealed") == {(): records}
    assert now(numbers, "care_deliveries") == {("new",): 0, ("retried",): 0, ("dead",): 0}


def test_an_unavailable_database_is_exported(watched: Watched) -> None:
    raw.run(watched.settings.database, "ALTER TABLE event RENAME TO happened")

    numbers = watched.numbers()

    assert now(numbers, "care_database_up") == {(): 0}
    assert now(numbers, "care_outbox_events_waiting") == {}
    assert now(numbers, "care_http_requests_in_flight") == {(): 0}


def test_reads_and_writes_are_counted(watched: Watched) -> None:
    before = watched.numbers()

    changed = watched.as_caregiver(1).data(
        "mutation ($input: UpdateSessionInput!) { updateSession(input: $input) { session { title } } }",
        input={"sessionId": 1, "title": "Sleep"},
    )

    after = watched.numbers()
    assert changed == {"updateSession": {"session": {"title": "Sleep"}}}
    assert sum(new(before, after, "care_database_read_duration_seconds_count").values()) >= 2
    assert new(before, after, "care_database_write_duration_seconds_count") == {(): 1}
    if watched.settings.database.startswith("sqlite:"):
        assert new(before, after, "care_database_commit_changes_sum")[()] >= 1


@ON_SQLITE
def test_labels_contain_no_client_input(watched: Watched) -> None:
    watched.as_caregiver(1).post_graphql(VIEWER)

    numbers = watched.numbers()

    assert {name for _, labels in numbers for name, _ in labels} <= set(WORDS.split())
    said = {value for _, labels in numbers for _, value in labels}
    assert [value for value in said if "caregiver-" in value or "client-" in value] == []
