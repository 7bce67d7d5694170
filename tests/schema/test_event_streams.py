"""Subscriptions over server-sent events. A single result is JSON if the client accepts JSON, and
authentication happens before the stream."""

import asyncio
import json
from typing import Any

import pytest
from httpx2 import Response

from app.care.budgets import MAX_DELIVERIES, Budget
from app.main import create_app
from app.schema.transport import event_stream
from app.schema.types.scalars import global_id
from app.server.admission import AdmissionControl
from app.settings import Environment, Settings
from app.telemetry import counters
from tests.callers import Caller, Gateway, opened, schema_of
from tests.concurrency import before_database_calls, nothing
from tests.factories import NOW, a_world
from tests.patience import PATIENCE
from tests.schema.listening import (
    Stream,
    insert_event,
    scope_of,
    stop,
    streaming,
    wait_for,
    wait_for_subscription,
)

pytestmark = pytest.mark.sqlite_only

ACCEPT_OF_URQL = "application/graphql-response+json, application/json, text/event-stream, multipart/mixed"
CHANGES = "subscription ($after: ID) { assignmentChanged(after: $after) { id what } }"
VIEWER = "{ viewer { role } }"
ROLE = {"data": {"viewer": {"role": "CAREGIVER"}}}


@pytest.fixture
def caregiver(gateway: Gateway) -> Caller:
    gateway.import_records(a_world())
    return gateway.as_caregiver(1)


def change_event(number: int, what: str) -> tuple[str, Any]:
    return "next", {"data": {"assignmentChanged": {"id": global_id("Event", number), "what": what}}}


def without_request_ids(stream: Stream) -> list[Any]:
    """All events without their request ids."""
    events = list(stream.events)
    for _, data in events:
        for error in (data or {}).get("errors", ()):
            assert error["extensions"].pop("requestId") == stream.response.headers["x-request-id"]
    return events


@pytest.mark.parametrize(
    "accept", ["text/event-stream", "Text/Event-Stream;q=0.9", ACCEPT_OF_URQL, "*/*, text/event-stream"]
)
def test_a_subscription_sends_server_sent_events(gateway: Gateway, caregiver: Caller, accept: str) -> None:
    url = gateway.settings.database
    insert_event(url, "ASSIGNED", number=1)
    insert_event(url, "EXTENDED", number=2)

    with streaming(caregiver, CHANGES, accept, after="1") as stream:
        first = stream.receive()
        insert_event(url, "SUBMITTED", number=3)
        second = stream.receive()

    assert (first, second) == (change_event(2, "EXTENDED"), change_event(3, "SUBMITTED"))
    assert stream.response.headers["content-type"] == "text/event-stream"
    assert stream.response.headers["cache-control"] == "no-store, no-transform"
    assert stream.response.headers["x-accel-buffering"] == "no"


def test_the_response_begins_once_the_subscription_has_its_position(
    gateway: Gateway, caregiver: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever loads a list after the headers misses no change of it."""
    order: list[str] = []
    send_start = event_stream.send_start

    async def noted_start(*args: Any) -> None:
        order.append("headers")
        await send_start(*args)

    async def note_position() -> None:
        order.append("position")

    monkeypatch.setattr(event_stream, "send_start", noted_start)
    with before_database_calls(gateway, reads=[nothing, note_position]), streaming(caregiver, CHANGES):
        pass

    assert order == ["position", "headers"]


def test_a_disconnected_client_ends_its_subscription(gateway: Gateway, caregiver: Caller) -> None:
    with streaming(caregiver, CHANGES):
        wait_for_subscription(gateway)

    wait_for(lambda: not gateway.client.app_state["notifier"].wakeups)


def test_a_stream_holds_no_slot_and_ends_before_it_has_its_position(
    gateway: Gateway, caregiver: Caller
) -> None:
    """The client disconnects while the position is read."""
    admission: AdmissionControl = gateway.client.app_state["admission"]
    budget, before = Budget(), counters.streams.copy()
    running: list[int] = []
    is_reading = asyncio.Event()
    messages = [{"type": "http.request", "body": json.dumps({"query": CHANGES}).encode()}]

    async def read_without_end() -> None:
        running.append(budget.running)
        is_reading.set()
        await asyncio.Event().wait()

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await is_reading.wait()
        return {"type": "http.disconnect"}

    async def send(message: object) -> None: ...

    async def request() -> None:
        task: Any = asyncio.current_task()
        admission.enqueue(task, budget)
        admission.dequeue(budget)
        scope = scope_of(caregiver, "POST", "/graphql", accept="text/event-stream")
        async with asyncio.timeout(PATIENCE):
            await application(scope, receive, send)

    application: Any = gateway.client.app
    assert gateway.client.portal is not None
    with before_database_calls(gateway, reads=[nothing, read_without_end]):
        gateway.client.portal.call(request)

    assert running == [0]
    assert counters.streams - before == {"opened": 1, "closed": 1}


def test_streams_that_are_not_read_delay_no_other_of_the_viewer(gateway: Gateway, caregiver: Caller) -> None:
    """The server loads and sends a limited number of events of a viewer at a time."""
    for number in (1, 2):
        insert_event(gateway.settings.database, "EXTENDED", number=number)
    waiting: list[object] = []
    leaving = asyncio.Event()

    class FullBuffer:
        async def drain(self) -> None:
            waiting.append(self)
            await leaving.wait()

    async def open_unread() -> None:
        messages = [{"type": "http.request", "body": json.dumps({"query": CHANGES}).encode()}]
        scope = scope_of(caregiver, "POST", "/graphql", accept="text/event-stream")
        scope["state"]["flow"] = FullBuffer()

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await leaving.wait()
            return {"type": "http.disconnect"}

        async def send(message: object) -> None: ...

        await application(scope, receive, send)

    application: Any = gateway.client.app
    portal = gateway.client.portal
    assert portal is not None
    unread = [portal.start_task_soon(open_unread) for _ in range(MAX_DELIVERIES)]
    wait_for(lambda: len(waiting) == MAX_DELIVERIES)
    with streaming(caregiver, CHANGES, after="1") as stream:
        received = stream.receive()
    portal.call(leaving.set)

    assert [each.result(PATIENCE) for each in unread] == [None] * MAX_DELIVERIES
    assert received == change_event(2, "EXTENDED")


def test_a_stream_that_fails_has_no_regular_end(
    gateway: Gateway, caregiver: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server logs the error and closes the connection, so that the client knows that events may be
    missing."""
    messages = [{"type": "http.request", "body": b'{"query": "subscription { nothing }"}'}]
    before, sent = counters.streams.copy(), []

    def fail(*_: object) -> None:
        raise MemoryError

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: dict[str, Any]) -> None:
        sent.append((message["type"], message.get("status")))

    monkeypatch.setattr(event_stream, "write_result", fail)
    scope = scope_of(caregiver, "POST", "/graphql", accept="text/event-stream")
    assert gateway.client.portal is not None
    with pytest.raises(MemoryError):
        gateway.client.portal.call(gateway.client.app, scope, receive, send)

    assert sent == [("http.response.start", 200)]
    assert counters.streams - before == {"opened": 1, "closed": 1}


def test_shutdown_ends_a_stream_without_a_complete_event(gateway: Gateway, caregiver: Caller) -> None:
    """The client then reconnects."""
    with streaming(caregiver, CHANGES) as stream:
        wait_for_subscription(gateway)
        stop(gateway)

        assert list(stream.events) == []


def test_an_idle_stream_sends_heartbeats(
    gateway: Gateway, caregiver: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.01)

    with streaming(caregiver, CHANGES) as stream:
        lines = [stream.line(), stream.line(), stream.line()]

    assert lines == [": still there", "", ": still there"]


def post(caller: Caller, query: str, accept: str | None, **given: Any) -> Response:
    headers = given.pop("headers", {}) | ({} if accept is None else {"accept": accept})
    return caller.request("POST", "/graphql", json={"query": query, **given}, headers=headers)


@pytest.mark.parametrize(
    "accept", [None, "*/*", "application/json", ACCEPT_OF_URQL, "text/event-stream, */*"]
)
def test_a_query_is_answered_as_json_if_json_is_accepted(caregiver: Caller, accept: str | None) -> None:
    response = post(caregiver, VIEWER, accept)

    kind = (
        "application/graphql-response+json; charset=utf-8" if accept == ACCEPT_OF_URQL else "application/json"
    )
    assert (response.status_code, response.headers["content-type"]) == (200, kind)
    assert response.json() == ROLE


def test_a_query_is_one_event_if_only_event_streams_are_accepted(caregiver: Caller) -> None:
    with streaming(caregiver, VIEWER) as stream:
        assert list(stream.events) == [("next", ROLE), ("complete", None)]


@pytest.mark.parametrize(
    "other", ["", ", application/json;q=0.5", ", application/graphql-response+json;q=0.5"]
)
def test_a_result_with_errors_is_one_event_if_event_streams_are_preferred(
    caregiver: Caller, other: str
) -> None:
    query = '{ viewer { role } session(id: "99") { id } }'
    with streaming(caregiver, query, f"text/event-stream{other}") as stream:
        [(kind, body), end] = without_request_ids(stream)

    assert (kind, body["data"], end) == ("next", {**ROLE["data"], "session": None}, ("complete", None))
    assert [error["message"] for error in body["errors"]] == ["session not found"]


ASSIGN = """mutation { assignHomework(input: {sessionId: "1", bookIds: ["3"],
    startDate: "2026-11-22T09:00:00Z", endDate: "2026-11-25T09:00:00Z"}) { assignments { legacyId } } }"""


@pytest.mark.parametrize("query", [VIEWER, ASSIGN, CHANGES], ids=["query", "mutation", "subscription"])
def test_a_stream_has_the_headers_of_a_response(settings: Settings, query: str) -> None:
    """The second request repeats the first; only a mutation is executed once."""
    limited = settings.model_copy(update={"rate_limit": 1000})
    key = {"idempotency-key": "one"}
    with opened(create_app(limited, clock=lambda: NOW)) as client:
        gateway = Gateway(client, limited)
        gateway.import_records(a_world())
        caller = gateway.as_caregiver(1)
        responses = [post(caller, query, "application/json", headers=key) for _ in range(2)]
        with streaming(caller, query, headers=key) as stream:
            streamed = stream.response.headers

    names = ["ratelimit", "ratelimit-policy", "idempotency-replayed"]
    assert [name in streamed for name in names] == [name in responses[1].headers for name in names]
    assert (streamed.get("idempotency-replayed") == "true") == (query is ASSIGN)
    assert streamed["ratelimit-policy"] == '"default";q=1000;w=60'


def test_operation_name_selects_a_query_or_a_subscription(gateway: Gateway, caregiver: Caller) -> None:
    insert_event(gateway.settings.database, "ASSIGNED", number=1)
    insert_event(gateway.settings.database, "EXTENDED", number=2)
    both = f"query One {VIEWER} {CHANGES.replace('subscription', 'subscription Many')}"

    one = post(caregiver, both, ACCEPT_OF_URQL, operationName="One")
    with streaming(caregiver, both, ACCEPT_OF_URQL, operationName="Many", after="1") as stream:
        many = stream.receive()

    assert one.json() == ROLE
    assert many == change_event(2, "EXTENDED")


NOT_STREAMED = "A subscription needs a POST with `Accept: text/event-stream`, or a websocket."


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "*/*, text/event-stream;q=0"])
def test_a_subscription_needs_a_client_that_accepts_event_streams(
    caregiver: Caller, accept: str | None
) -> None:
    response = post(caregiver, CHANGES, accept, variables={}, headers={"x-request-id": "r"})

    assert (response.status_code, response.json()) == (400, error_response(NOT_STREAMED, "BAD_REQUEST"))


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_subscription_by_get_is_rejected(caregiver: Caller, accept: str) -> None:
    headers = {"accept": accept, "x-request-id": "r"}
    response = caregiver.get("/graphql", params={"query": CHANGES}, headers=headers)

    assert (response.status_code, response.json()) == (400, error_response(NOT_STREAMED, "BAD_REQUEST"))


def error_response(message: str, code: str) -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": {"code": code, "requestId": "r"}}]}


def test_an_unauthenticated_subscription_is_rejected_before_the_stream(
    gateway: Gateway, caregiver: Caller
) -> None:
    """In development as well."""
    callers = [gateway.as_anonymous(), gateway.with_token("x"), gateway.as_client(77)]

    responses = [
        post(caller, CHANGES, "text/event-stream", headers={"x-request-id": "r"}) for caller in callers
    ]

    assert [(one.status_code, one.json()) for one in responses] == [
        (401, error_response("sign in with a valid bearer token", "UNAUTHENTICATED")),
        (401, error_response("the bearer token is not valid", "UNAUTHENTICATED")),
        (403, error_response("there is no enabled account for this token", "FORBIDDEN")),
    ]
    assert [one.headers.get("www-authenticate") for one in responses] == ["Bearer", "Bearer", None]


@pytest.mark.parametrize(
    ("query", "errors"),
    [
        (
            "subscription { assignmentChanged { idd } }",
            [
                {
                    "message": "Cannot query field 'idd' on type 'AssignmentChange'. Did you mean 'id'?",
                    "locations": [{"line": 1, "column": 36}],
                    "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"},
                }
            ],
        ),
        (
            "subscription { reminderDue { id } }",
            [
                {
                    "message": "only a client may do this",
                    "locations": [{"line": 1, "column": 16}],
                    "path": ["reminderDue"],
                    "extensions": {"code": "FORBIDDEN"},
                }
            ],
        ),
    ],
)
def test_an_invalid_subscription_sends_its_errors_and_completes(
    caregiver: Caller, query: str, errors: list[Any]
) -> None:
    with streaming(caregiver, query) as stream:
        assert without_request_ids(stream) == [("next", {"data": None, "errors": errors}), ("complete", None)]


@pytest.mark.parametrize("token", [None, "garbage"])
@pytest.mark.parametrize("accept", ["text/event-stream", ACCEPT_OF_URQL, "application/json"])
def test_no_document_is_parsed_before_authentication(
    settings: Settings, token: str | None, accept: str
) -> None:
    production = settings.model_copy(update={"env": Environment.PRODUCTION})
    service = create_app(production, clock=lambda: NOW)
    with opened(service) as client:
        headers = {"accept": accept}
        query = "subscription OfStranger { assignmentChanged { id } }"

        response = Caller(client, token).request("POST", "/graphql", json={"query": query}, headers=headers)

        assert response.status_code == 401
        assert query not in schema_of(service).documents.recent.values


def test_a_malformed_request_for_events_is_rejected_as_json(caregiver: Caller) -> None:
    response = caregiver.request(
        "POST", "/graphql", json=[], headers={"accept": "text/event-stream", "x-request-id": "r"}
    )

    assert (response.status_code, response.json()) == (
        400,
        error_response("The request must be a JSON object.", "BAD_REQUEST"),
    )
