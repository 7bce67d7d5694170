"""Metrics count requests, errors and database work. Labels contain no client input and no id."""

import asyncio
import json
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from prometheus_client.core import HistogramMetricFamily, Metric
from sqlalchemy import text
from starlette.types import Message
from uvicorn.protocols.utils import ClientDisconnected

from app.auth.authenticator import Authenticator
from app.auth.rejections import Reason
from app.care.budgets import Budget
from app.care.context import Role, Viewer, utc_now
from app.cli import main
from app.db.audit.records import recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Occupancy, sqlite_path
from app.db.sql import Statement
from app.http.router import count_socket, method_of, route_of
from app.main import create_app
from app.server.admission import AdmissionControl
from app.settings import Settings
from app.telemetry import counters
from app.telemetry.metrics.backlog import reading_backlog
from app.telemetry.metrics.collect import (
    MetricSources,
    backlog_metrics,
    family_of,
    file_metrics,
    own_metrics,
    stored_metrics,
)
from tests import keys
from tests.audit.test_chain import records, seal_all
from tests.callers import opened, run_read, run_write
from tests.db import raw
from tests.events.receiver import SECRET
from tests.factories import HOUR, NOW, a_world, starting_with
from tests.fault_injection import Hanging
from tests.ports import free_port
from tests.schema.listening import connected, listening, stop, streaming, wait_for, wait_for_subscription
from tests.telemetry.conftest import ON_SQLITE, MeasuredGateway, current, grown

ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
SESSIONS = "/gateway/profile/client/session"
VIEWER = "{ viewer { role } }"
LABELS = """by code database file generation implementation le limit major method minor operation outcome
patchlevel python reason route state status version where work"""


@ON_SQLITE
def test_requests_are_counted_by_route_method_and_status(measured: MeasuredGateway) -> None:
    caregiver, anonymous = measured.as_caregiver(1), measured.as_anonymous()
    before = measured.numbers()

    caregiver.post_graphql(VIEWER)
    anonymous.get(f"{ASSIGNMENTS}/1")
    caregiver.get(f"{ASSIGNMENTS}/1")
    caregiver.get(f"{ASSIGNMENTS}/2")
    caregiver.put(ASSIGNMENTS, content=b"{")
    caregiver.request("BREW", "/gateway/pot")
    anonymous.get("/livez")
    anonymous.get("/care-of-mara")
    anonymous.get("/gateways")

    after = measured.numbers()
    assert grown(before, after, "care_http_requests_total") == {
        ("POST", "/graphql", "200"): 1,
        ("GET", f"{ASSIGNMENTS}/{{id}}", "401"): 1,
        ("GET", f"{ASSIGNMENTS}/{{id}}", "200"): 2,
        ("PUT", ASSIGNMENTS, "400"): 1,
        ("other", "/gateway/*", "404"): 1,
        ("GET", "/livez", "200"): 1,
        ("GET", "other", "404"): 2,
    }
    took = grown(before, after, "care_http_request_duration_seconds_count")
    assert took[f"{ASSIGNMENTS}/{{id}}",] == 3
    assert sum(took.values()) == 9
    below = grown(before, after, "care_http_request_duration_seconds_bucket")
    assert below["+Inf", f"{ASSIGNMENTS}/{{id}}"] == 3


@ON_SQLITE
def test_the_duration_of_a_request_includes_its_wait(
    measured: MeasuredGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = measured.numbers()
    monkeypatch.setitem(measured.client.app_state, "received", perf_counter() - 100)  # by the server

    measured.as_caregiver(1).get(f"{ASSIGNMENTS}/1")

    seconds = grown(before, measured.numbers(), "care_http_request_duration_seconds_sum")
    assert seconds[f"{ASSIGNMENTS}/{{id}}",] >= 100


def test_a_value_that_equals_a_bound_is_in_its_bucket() -> None:
    """As Prometheus defines `le`."""
    values = counters.Histogram(bounds=(1, 2, 4))
    for value in (0, 1, 1.5, 2, 4, 4.5):
        values.add(value)

    samples = family_of(HistogramMetricFamily, "care_planted", "Values.", values).samples

    buckets = {sample.labels["le"]: sample.value for sample in samples if sample.name.endswith("_bucket")}
    assert buckets == {"1.0": 2, "2.0": 4, "4.0": 5, "+Inf": 6}


def test_values_of_two_histograms_add_up() -> None:
    """The durations of a route are those of all its methods and statuses."""
    one, other = counters.Histogram(bounds=(1, 2)), counters.Histogram(bounds=(1, 2))
    one.add(0.5)
    other.add(1.5)
    other.add(4)

    one.add_all(other)

    assert (one.counts, one.sum) == ([1, 1, 1], 6)


@ON_SQLITE
def test_rejections_are_counted_by_limit(measured: MeasuredGateway) -> None:
    caregiver = measured.as_caregiver(1)
    before = measured.numbers()

    caregiver.post_graphql("{" + " viewer { role }" * 20 + "}")
    responses = [caregiver.post_graphql("{ sessions(first: 100) { nodes { id } } }") for _ in range(12)]

    after = measured.numbers()
    count = [one.status_code for one in responses].count(429)
    assert 0 < count < 12
    assert grown(before, after, "care_limit_refusals_total") == {("tokens",): 1, ("points a minute",): count}
    assert grown(before, after, "care_graphql_errors_total") == {("TOO_COSTLY",): 1, ("RATE_LIMITED",): count}
    assert grown(before, after, "care_http_requests_total")["POST", "/graphql", "429"] == count


@ON_SQLITE
def test_rejected_tokens_are_counted_by_reason(measured: MeasuredGateway) -> None:
    before = measured.numbers()

    measured.with_token("garbage").post_graphql(VIEWER)
    measured.as_caregiver(9).get(f"{ASSIGNMENTS}/1")
    measured.as_anonymous().get(f"{ASSIGNMENTS}/1")

    after = measured.numbers()
    assert grown(before, after, "care_tokens_refused_total") == {("malformed",): 1, ("unknown account",): 1}
    assert len(current(after, "care_tokens_refused_total")) == len(Reason)


@ON_SQLITE
def test_operations_are_counted_by_manifest_name(settings: Settings, tmp_path: Path) -> None:
    known = "query MyRole { viewer { role } }"
    two = "query One { viewer { role } } query Two { viewer { role } }"
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"1": known, "2": two}))
    settings = settings.model_copy(update={"metrics_port": free_port(), "trusted_manifest": str(manifest)})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = MeasuredGateway(client, settings)
        gateway.import_records(a_world())
        caregiver, stranger = gateway.as_caregiver(1), gateway.as_caregiver(9)
        before = gateway.numbers()

        caregiver.post_graphql(known)
        caregiver.post_graphql("query OfSomebodyElse { viewer { role } }")
        caregiver.request("POST", "/graphql", json={"query": two, "operationName": "Two"})
        caregiver.post_graphql(two)  # names none of them
        caregiver.post_graphql("query MyRole { x y }")  # two errors
        caregiver.post_graphql('{ viewer { role } session(id: "99") { id } }')  # an error beside data
        stranger.post_graphql(known)  # is not let in, and nothing runs

        after = gateway.numbers()
    executed = grown(before, after, "care_graphql_operation_duration_seconds_count")
    assert executed == {("MyRole",): 1, ("Two",): 1, ("other",): 4}
    assert grown(before, after, "care_graphql_operation_errors_total") == {("other",): 3}
    assert "OfSomebodyElse" not in str(after)


@ON_SQLITE
def test_an_operation_whose_response_is_too_long_counts_as_one_with_errors(
    settings: Settings, tmp_path: Path
) -> None:
    manifest = tmp_path / "manifest.json"
    descriptions = " ".join(f"a{number}: description" for number in range(20))
    long = f"query Long {{ session(id: 1) {{ {descriptions} }} }}"
    manifest.write_text(json.dumps({"1": long}))
    changed = {"metrics_port": free_port(), "trusted_manifest": str(manifest), "response_limit": 65_536}
    settings = settings.model_copy(update=changed)
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = MeasuredGateway(client, settings)
        gateway.import_records(
            {**each, "description": "a" * 4000} if each["kind"] == "session" else each for each in a_world()
        )
        before = gateway.numbers()

        response = gateway.as_caregiver(1).post_graphql(long)

        after = gateway.numbers()
    assert "response would have more than 65536 bytes" in response.json()["errors"][0]["message"]
    assert grown(before, after, "care_graphql_operation_duration_seconds_count") == {("Long",): 1}
    assert grown(before, after, "care_graphql_operation_errors_total") == {("Long",): 1}


@ON_SQLITE
def test_only_errors_that_a_response_has_are_counted(settings: Settings) -> None:
    """One that would be too long has the error about its length instead of the errors of its fields."""
    descriptions = " ".join(f"a{number}: description" for number in range(20))
    query = f"{{ session(id: 1) {{ {descriptions} }} missing: session(id: 99) {{ id }} }}"
    changed = {"metrics_port": free_port(), "response_limit": 65_536}
    settings = settings.model_copy(update=changed)
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = MeasuredGateway(client, settings)
        gateway.import_records(
            {**each, "description": "a" * 4000} if each["kind"] == "session" else each for each in a_world()
        )
        caregiver = gateway.as_caregiver(1)
        before = gateway.numbers()

        response = caregiver.post_graphql(query)
        with listening(caregiver) as listener:
            listener.subscribe(query)
            message = listener.receive()
            listener.subscribe("{ unknown }")
            listener.receive()

        after = gateway.numbers()
    codes = [each["extensions"]["code"] for each in (*response.json()["errors"], *message["payload"])]
    assert codes == ["TOO_COSTLY"] * 2
    counted = {("TOO_COSTLY",): 2, ("GRAPHQL_VALIDATION_FAILED",): 1}
    assert grown(before, after, "care_graphql_errors_total") == counted


CHANGES = "subscription { assignmentChanged { id } }"


@ON_SQLITE
def test_event_streams_are_counted_and_only_those_with_a_single_result_are_requests(
    measured: MeasuredGateway,
) -> None:
    caller, before = measured.as_client(1), measured.numbers()
    with streaming(caller, CHANGES):
        during = measured.numbers()
    with streaming(caller, VIEWER) as stream:
        assert len(list(stream.events)) == 2
    wait_for(lambda: counters.streams["opened"] == counters.streams["closed"])

    after = measured.numbers()
    assert grown(before, during, "care_event_streams_open") == {(): 1}
    assert grown(before, after, "care_event_streams_open") == {}
    assert grown(before, after, "care_event_streams_total") == {(): 1}
    assert grown(before, after, "care_http_requests_total") == {("POST", "/graphql", "200"): 1}


@ON_SQLITE
def test_open_websockets_and_event_streams_are_counted(measured: MeasuredGateway) -> None:
    before = measured.numbers()
    wakeups = measured.client.app_state["notifier"].wakeups
    with listening(measured.as_client(1)) as listener:
        for id in ("1", "2"):
            listener.subscribe(CHANGES, id)
        wait_for(lambda: [len(each) for each in wakeups.values()] == [2])
        during = measured.numbers()
    with connected(measured.as_client(1)) as listener:
        listener.send(type="subscribe", id="1", payload={"query": VIEWER})
        listener.receive_close()
    closed = measured.numbers()
    with streaming(measured.as_client(1), CHANGES) as stream:
        wait_for_subscription(measured)
        of_stream = measured.numbers()
        stop(measured)
        assert list(stream.events) == []

    after = measured.numbers()
    for numbers, open_sockets, open_streams in (
        (during, 1, 0),
        (closed, 0, 0),
        (of_stream, 0, 1),
        (after, 0, 0),
    ):
        assert grown(before, numbers, "care_websockets_open").get((), 0) == open_sockets
        assert grown(before, numbers, "care_event_streams_open").get((), 0) == open_streams
    assert grown(before, after, "care_event_streams_total") == {(): 1}
    assert current(during, "care_subscriptions_open") == {(): 2}
    assert grown(before, after, "care_websockets_total") == {(): 2}
    assert grown(before, after, "care_websocket_closes_total") == {
        ("client", "1000"): 1,
        ("server", "4401"): 1,
    }


@pytest.mark.parametrize("undelivered", ["websocket.accept", "websocket.send"])
def test_a_websocket_whose_client_leaves_before_a_message_is_closed(undelivered: str) -> None:
    """Its handler ends, and does not receive that the client has left."""
    before = counters.sockets.copy(), counters.closes.copy()

    async def receive() -> Message:
        raise AssertionError("nothing is received any more")

    async def send(message: Message) -> None:
        if message["type"] == undelivered:
            raise ClientDisconnected

    async def run() -> None:
        _, counted_send = count_socket(receive, send)
        with pytest.raises(ClientDisconnected):
            await counted_send({"type": "websocket.accept"})
            await counted_send({"type": "websocket.send", "text": "{}"})

    asyncio.run(run())

    assert counters.sockets - before[0] == {"opened": 1, "closed": 1}
    assert counters.closes - before[1] == {("client", "1006"): 1}


@pytest.mark.parametrize(
    "path, route",
    [
        ("/graphql", "/graphql"),
        ("/graphql/", "other"),
        ("/readyz", "/readyz"),
        ("/livez", "/livez"),
        (SESSIONS, SESSIONS),
        (ASSIGNMENTS, ASSIGNMENTS),
        (f"{ASSIGNMENTS}/7", f"{ASSIGNMENTS}/{{id}}"),
        (f"{ASSIGNMENTS}/7/8", "/gateway/*"),
        ("//gateway/a", "/gateway/*"),
        *((f"/gateway{end}", "other") for end in ("s", ".html", "-old/a", "%2Fa")),
    ],
)
def test_a_path_counts_for_its_route(path: str, route: str) -> None:
    assert route_of(path) == route


def test_an_unknown_method_counts_as_another_one() -> None:
    known = ["GET", "HEAD", "POST", "PUT", "OPTIONS"]

    assert [method_of({"method": each}) for each in (*known, "BREW", "get")] == [*known, "other", "other"]


ENDS: list[tuple[list[Message], dict[tuple[str, str], int]]] = [
    ([{"type": "websocket.close"}, {"type": "websocket.disconnect", "code": 1006}], {("server", "1000"): 1}),
    *(
        ([{"type": "websocket.close", "code": code}], {("server", str(code)): 1})
        for code in (1000, 1011, 4400, 4401, 4403, 4406, 4408, 4409, 4429)
    ),
    ([{"type": "websocket.close", "code": 999}], {("server", "other"): 1}),
    ([{"type": "websocket.close", "code": 4404}], {("server", "other"): 1}),
    ([{"type": "websocket.disconnect", "code": 1015}], {("client", "1015"): 1}),
    ([{"type": "websocket.disconnect", "code": 1016}], {("client", "other"): 1}),
    ([{"type": "websocket.disconnect", "code": 1013, "is_by_server": True}], {("server", "1013"): 1}),
]


@pytest.mark.parametrize("messages, closes", ENDS)
@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_websocket_that_was_accepted_counts_once_by_its_first_close(
    messages: list[Message], closes: dict[tuple[str, str], int], is_accepted: bool
) -> None:
    before = counters.sockets.copy(), counters.closes.copy()

    async def send(message: Message) -> None:
        pass

    async def receive() -> Message:
        return messages[-1]

    async def run() -> None:
        counted_receive, counted_send = count_socket(receive, send)
        if is_accepted:
            await counted_send({"type": "websocket.accept"})
        for message in messages:
            if message["type"] == "websocket.close":
                await counted_send(message)
            else:
                await counted_receive()

    asyncio.run(run())

    assert counters.sockets - before[0] == ({"opened": 1, "closed": 1} if is_accepted else {})
    assert counters.closes - before[1] == (closes if is_accepted else {})


@ON_SQLITE
def test_the_bytes_of_incomplete_bodies_are_exported(measured: MeasuredGateway) -> None:
    admission: AdmissionControl = measured.client.app_state["admission"]
    connection = cast(Any, object())
    admission.heads.set_size(connection, 3)
    admission.bodies.set_size(connection, 7)

    numbers = measured.numbers()
    admission.heads.remove(connection)
    admission.bodies.remove(connection)

    assert current(numbers, "care_http_buffered_body_bytes") == {(): 7}


@ON_SQLITE
def test_unknown_close_codes_are_counted_together(measured: MeasuredGateway) -> None:
    before = measured.numbers()

    with listening(measured.as_client(1)) as listener:
        listener.session.close(4711)

    assert grown(before, measured.numbers(), "care_websocket_closes_total") == {("client", "other"): 1}


def test_the_backlog_in_the_database_is_exported(measured: MeasuredGateway) -> None:
    url = measured.settings.database
    measured.as_caregiver(1).post_graphql("{ assignments { nodes { answerSets { nodes { id } } } } }")
    events = raw.run(url, "SELECT count(*) FROM event WHERE hand_over_date IS NULL")[0][0]
    records = raw.run(url, "SELECT count(*) FROM audit_record")[0][0]

    numbers = measured.numbers()

    assert current(numbers, "care_database_up") == {(): 1}
    assert current(numbers, "care_outbox_events_waiting") == {(): events}
    assert current(numbers, "care_audit_records_unsealed") == {(): records}
    assert current(numbers, "care_deliveries") == {("new",): 0, ("retried",): 0, ("dead",): 0}


def add_backlog(url: str) -> None:
    """Events without deliveries of 1, 2 and 1.5 hours ago. Deliveries: 101 new ones, of which one has an
    event of 5 hours ago and is not the next; one retried, two dead, one delivered. Audit records: two sealed,
    two not."""
    ago = {hours: f"'{NOW - hours * HOUR:%Y-%m-%dT%H:%M:%S.%fZ}'" for hours in (1, 1.5, 2, 4, 5, 9)}
    deliveries = [
        (903, 5, "WAITING", 0, 4),
        (904, 4, "WAITING", 1, 5),
        (895, 9, "DEAD", 11, 2),
        (896, 9, "DELIVERED", 1, 2),
        (897, 9, "DEAD", 11, 2),
        *((number, 1, "WAITING", 0, 1) for number in range(1001, 1101)),
    ]
    events = [f"({number}, {ago[hours]}, NULL)" for number, hours in ((901, 1), (902, 2), (907, 1.5))]
    events += [f"({number}, {ago[hours]}, {ago[1]})" for number, hours, *_ in deliveries]
    rows = [f"({event}, '{state}', {tries}, {ago[hours]})" for event, _, state, tries, hours in deliveries]
    raw.run(
        url,
        "INSERT INTO event (id, moment, hand_over_date, caregiver_id, client_id, kind, session_id) VALUES "
        + ", ".join(row.replace(")", ", 1, 1, 'ASSIGNED', 1)") for row in events),
        "INSERT INTO delivery (event_id, state, attempts, next_date, caregiver_id, client_id) VALUES "
        + ", ".join(row.replace(")", ", 1, 1)") for row in rows),
    )
    for hours in (9, 8):
        run_write(url, recording(records(1, moment=NOW - hours * HOUR)))
        seal_all(url, NOW - hours * HOUR)
    for hours in (3, 2):
        run_write(url, recording(records(1, moment=NOW - hours * HOUR)))


def test_all_records_before_the_first_seal_are_unsealed(settings: Settings) -> None:
    run_write(settings.database, recording(records(2, moment=NOW - HOUR)))

    backlog = run_read(settings.database, reading_backlog())

    assert (backlog["unsealed"], backlog["unsealed_since"]) == (2, NOW - HOUR)


@starting_with(a_world)
def test_the_backlog_is_exported_with_its_age(settings: Settings) -> None:
    add_backlog(settings.database)

    backlog = run_read(settings.database, reading_backlog())

    found, of_slow_clock = (
        {
            (family.name, *sample.labels.values()): sample.value
            for family in backlog_metrics(backlog, now)
            for sample in family.samples
        }
        for now in (NOW, NOW - 10 * HOUR)
    )
    counts = {
        ("care_outbox_events_waiting",): 3,
        ("care_deliveries", "new"): 101,
        ("care_deliveries", "retried"): 1,
        ("care_deliveries", "dead"): 2,
        ("care_audit_records_unsealed",): 2,
    }
    ages = {"care_outbox_oldest": 2, "care_delivery_oldest": 5, "care_audit_oldest_unsealed": 3}
    assert found == counts | {(f"{name}_seconds",): hours * 3600 for name, hours in ages.items()}
    assert of_slow_clock == counts | {(f"{name}_seconds",): 0 for name in ages}


def test_the_state_of_the_process_is_exported(settings: Settings, kind: str) -> None:
    changed = {
        "metrics_port": free_port(),
        "token_key": keys.public_pem() + keys.public_pem(keys.private_key("other")),
        "webhook_url": "https://example.test/care",
        "webhook_secret": SECRET,
        "most_requests": 77,
    }
    settings = settings.model_copy(update=changed)
    names = (
        "care_http_requests_in_flight",
        "care_http_requests_limit",
        "care_process_draining",
        "care_subscriptions_open",
        "care_token_keys",
        "care_token_keys_failing",
        "care_webhook_configured",
    )
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = MeasuredGateway(client, settings)
        authenticator: Authenticator = client.app_state["authenticator"]
        admission: AdmissionControl = client.app_state["admission"]
        before = gateway.numbers()
        occupancy = gateway.database.occupancy()
        admission.is_draining = authenticator.verifier.keys.is_failing = True
        admission.running |= dict.fromkeys("abc", Budget())
        wakeups: dict[Viewer, set[asyncio.Event]] = client.app_state["notifier"].wakeups
        wakeups |= {Viewer(role, 1): {asyncio.Event(), asyncio.Event()} for role in Role}
        after = gateway.numbers()
        wakeups.clear()
        admission.running.clear()

    states = [[current(numbers, name)[()] for name in names] for numbers in (before, after)]
    assert states == [[0, 77, 0, 0, 2, 0, 1], [3, 77, 1, 4, 2, 1, 1]]
    assert occupancy.open > 0
    assert current(after, "care_database_connections") == {
        ("busy",): occupancy.open - occupancy.idle,
        ("idle",): occupancy.idle,
    }
    assert current(after, "care_database_connections_limit") == {(): occupancy.limit}
    [(database, _, _)] = current(before, "care_build_info")
    assert database.partition(" ")[0] == kind


@pytest.mark.sqlite_only
def test_connections_in_use_and_waiting_writes_are_exported(settings: Settings) -> None:
    occupancy = Occupancy(open=9, idle=5, limit=16, writes_waiting=3)
    db = cast(Any, SimpleNamespace(occupancy=lambda: occupancy))

    found = {
        (family.name.removeprefix("care_database_"), *sample.labels.values()): sample.value
        for family in own_metrics(MetricSources(settings.database, db))
        for sample in family.samples
    }

    names = [("connections", "idle"), ("connections", "busy"), ("connections_limit",), ("writes_waiting",)]
    assert [found[name] for name in names] == [5, 4, 16, 3]


@ON_SQLITE
@pytest.mark.parametrize(("url", "number"), [("", 0), ("http://127.0.0.1:1", 1)])
def test_a_configured_webhook_is_exported(settings: Settings, url: str, number: int) -> None:
    """An alert about waiting events applies only with a webhook."""
    webhook = {"webhook_url": url, "webhook_secret": SECRET if url else ""}
    settings = settings.model_copy(update=webhook | {"metrics_port": free_port()})

    with opened(create_app(settings)) as client:
        numbers = MeasuredGateway(client, settings).numbers()

    assert current(numbers, "care_webhook_configured") == {(): number}


@ON_SQLITE
def test_every_counter_is_exported_under_its_name(measured: MeasuredGateway) -> None:
    before = measured.numbers()

    counters.deliveries["failed"] += 2
    counters.record_run("outbox")
    counters.record_run("audit trail")
    for number, each in enumerate(
        (counters.long_slices, counters.reads_on_loop, counters.reads_in_threads, counters.commits), 1
    ):
        each.add(number * 100)

    after = measured.numbers()
    assert grown(before, after, "care_delivery_attempts_total") == {("failed",): 2}
    last_runs = "care_dispatcher_last_run_timestamp_seconds"
    works = {
        work: abs(utc_now().timestamp() - moment) < 3600 for work, moment in current(after, last_runs).items()
    }
    assert current(before, last_runs) == {}  # an alert compares them with the time
    assert works == {("outbox",): True, ("audit trail",): True}
    held, commits, reads = (
        {labels: round(value, -2) for labels, value in grown(before, after, f"{name}_seconds_sum").items()}
        for name in ("care_event_loop_held", "care_database_commit_duration", "care_database_read_duration")
    )
    assert (held, commits, reads) == ({(): 100}, {(): 400}, {("loop",): 200, ("thread",): 300})


@ON_SQLITE
def test_the_files_and_the_disk_are_exported(
    measured: MeasuredGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sqlite_path(measured.settings.database)
    disk = type("Disk", (), {"f_bavail": 3, "f_bfree": 5, "f_bsize": 7, "f_frsize": 1024})
    monkeypatch.setattr("os.statvfs", lambda folder: disk if folder == path.parent else None)

    numbers = measured.numbers()

    sizes = {("database",): path.stat().st_size, ("log",): Path(f"{path}-wal").stat().st_size}
    assert min(sizes.values()) > 0
    assert current(numbers, "care_database_file_bytes") == sizes
    assert current(numbers, "care_database_disk_free_bytes") == {(): 3072}


@pytest.mark.parametrize("name", ["care.db", "care.sqlite", "care"])
def test_the_files_of_a_database_of_any_name_are_measured(tmp_path: Path, name: str) -> None:
    for suffix, size in (("", 3), ("-wal", 5), ("-shm", 7)):
        (tmp_path / f"{name}{suffix}").write_bytes(bytes(size))

    sizes, *_ = file_metrics(tmp_path / name)

    assert {sample.labels["file"]: sample.value for sample in sizes.samples} == {"database": 3, "log": 5}


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_wait_for_a_synchronous_standby_is_exported(
    measured: MeasuredGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Statement(text("SELECT 3, 12.5::float"))
    monkeypatch.setattr("app.db.drivers.waiting_commits.WAITING_COMMITS", waiting)

    assert current(measured.numbers(), "care_database_standby_wait_seconds") == {(): 12.5}


def test_an_unavailable_database_is_exported(measured: MeasuredGateway) -> None:
    raw.run(measured.settings.database, "ALTER TABLE event RENAME TO happened")

    numbers = measured.numbers()

    assert current(numbers, "care_database_up") == {(): 0}
    assert current(numbers, "care_outbox_events_waiting") == {}
    assert current(numbers, "care_http_requests_in_flight") == {(): 0}


@pytest.mark.sqlite_only
def test_a_worker_of_the_dispatcher_has_metrics_of_its_database_and_deliveries_only(
    settings: Settings,
) -> None:
    async def run() -> list[Metric]:
        db = await open_database(settings.database)
        try:
            return own_metrics(MetricSources(settings.database, db))
        finally:
            await db.close()

    names = {metric.name.split("_")[1] for metric in asyncio.run(run()) if metric.name.startswith("care_")}

    assert names == {"build", "database", "delivery", "webhook", "dispatcher"}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("responses", [0, 1])
def test_a_database_that_hangs_is_down(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, responses: int
) -> None:
    """Also from the second read of a scrape on."""
    monkeypatch.setattr("app.telemetry.metrics.collect.DATABASE_SECONDS", 0.2)

    async def run() -> list[Metric]:
        db, hanging = await open_database(settings.database), Hanging()
        reads = iter([db.read] * responses)
        monkeypatch.setattr(db, "read", lambda steps: next(reads, hanging.read)(steps))
        try:
            return await stored_metrics(MetricSources(settings.database, db))
        finally:
            await db.close()

    assert [(metric.name, metric.samples[0].value) for metric in asyncio.run(run())] == [
        ("care_database_up", 0)
    ]


def test_reads_and_writes_are_counted(measured: MeasuredGateway) -> None:
    before = measured.numbers()

    changed = measured.as_caregiver(1).data(
        "mutation ($input: UpdateSessionInput!) { updateSession(input: $input) { session { title } } }",
        input={"sessionId": 1, "title": "Sleep"},
    )

    after = measured.numbers()
    assert changed == {"updateSession": {"session": {"title": "Sleep"}}}
    assert sum(grown(before, after, "care_database_read_duration_seconds_count").values()) >= 2
    assert grown(before, after, "care_database_write_duration_seconds_count") == {(): 1}
    if measured.settings.database.startswith("sqlite:"):
        assert grown(before, after, "care_database_commit_changes_sum")[()] >= 1


@ON_SQLITE
def test_labels_contain_no_client_input(measured: MeasuredGateway) -> None:
    measured.as_caregiver(1).post_graphql(VIEWER)

    numbers = measured.numbers()

    assert {name for _, labels in numbers for name, _ in labels} <= set(LABELS.split())
    values = {value for _, labels in numbers for _, value in labels}
    assert [value for value in values if "caregiver-" in value or "client-" in value] == []


@ON_SQLITE
def test_the_age_of_the_last_backup_is_exported(fresh: MeasuredGateway, tmp_path: Path) -> None:
    name = ("care_backup_timestamp_seconds", ())
    before = fresh.numbers()[name]

    settings = {"CARE_ENV": "development", "CARE_DATABASE_URL": fresh.settings.database}
    result = CliRunner().invoke(main, ["backup", str(tmp_path / "copy.db")], env=settings)

    copied = (tmp_path / "copy.db").stat().st_mtime
    assert (result.exit_code, before) == (0, 0)
    assert copied - 1 < fresh.numbers()[name] < copied + 60
