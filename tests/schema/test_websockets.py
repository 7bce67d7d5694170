"""A websocket speaks graphql-transport-ws, needs a valid token, carries every kind of operation, and is
closed with a code and a reason."""

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect

import app.schema.transport.websockets
from app.care.budgets import Budget
from app.main import create_app
from app.settings import Settings
from app.telemetry import counters
from tests.callers import Gateway, opened
from tests.factories import NOW, a_world
from tests.live.edge import write_lock
from tests.schema.listening import (
    PROTOCOL,
    Listener,
    connected,
    insert_event,
    listening,
    scope_of,
    stop,
    wait_for,
    wait_for_subscription,
)

pytestmark = pytest.mark.sqlite_only

SUBSCRIPTION = "subscription { assignmentChanged { id } }"
VIEWER = "{ viewer { role } }"
NOT_SIGNED_IN = "sign in with a valid bearer token"


@pytest.fixture
def caregivers(gateway: Gateway) -> Gateway:
    gateway.import_records(a_world())
    return gateway


# --- sign-in ---


@pytest.mark.parametrize("name", ["authorization", "Authorization", "AUTHORIZATION"])
def test_the_token_may_be_in_the_first_message(unchanged: Gateway, name: str) -> None:
    token = unchanged.as_client(1).token

    with connected(unchanged.as_anonymous()) as listener:
        listener.send(type="connection_init", payload={name: f"Bearer {token}", "other": 1})

        assert listener.receive() == {"type": "connection_ack"}
        assert listener.query(VIEWER) == {"viewer": {"role": "CLIENT"}}


def test_the_token_of_the_first_message_replaces_that_of_the_header(unchanged: Gateway) -> None:
    token = unchanged.as_client(1).token

    with connected(unchanged.as_caregiver(1)) as listener:
        listener.send(type="connection_init", payload={"authorization": f"bearer {token}"})

        assert listener.receive() == {"type": "connection_ack"}
        assert listener.query(VIEWER) == {"viewer": {"role": "CLIENT"}}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, NOT_SIGNED_IN),
        ({}, NOT_SIGNED_IN),
        ({"token": "x"}, NOT_SIGNED_IN),
        ({"headers": {"authorization": "bearer x"}}, NOT_SIGNED_IN),
        ({"authorization": "bearer x"}, "the bearer token is not valid"),
        ({"authorization": "x"}, "the Authorization header must read: bearer <token>"),
        ({"authorization": 1}, "the Authorization header must read: bearer <token>"),
    ],
)
def test_a_websocket_needs_a_valid_token(unchanged: Gateway, payload: object, reason: str) -> None:
    """In development as well."""
    with connected(unchanged.as_anonymous()) as listener:
        listener.send(type="connection_init", payload=payload)

        assert listener.receive_close() == (4403, reason)


def test_a_websocket_needs_an_account(unchanged: Gateway) -> None:
    with connected(unchanged.as_client(77)) as listener:
        listener.send(type="connection_init")

        assert listener.receive_close() == (4403, "there is no enabled account for this token")


def test_a_websocket_without_a_first_message_is_closed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.schema.transport.websockets, "INIT_SECONDS", 0.01)

    with (
        opened(create_app(settings)) as client,
        connected(Gateway(client, settings).as_anonymous()) as listener,
    ):
        assert listener.receive_close() == (4408, "Connection initialisation timeout")


def test_an_operation_before_sign_in_closes_the_websocket(unchanged: Gateway) -> None:
    with connected(unchanged.as_caregiver(1)) as listener:
        listener.subscribe(VIEWER)

        assert listener.receive_close() == (4401, "Unauthorized")


def test_another_subprotocol_is_rejected(unchanged: Gateway) -> None:
    with (
        unchanged.client.websocket_connect("/graphql", ["graphql-ws"]) as session,
        pytest.raises(WebSocketDisconnect) as closed,
    ):
        session.receive_json()

    assert closed.value.code == 4406


@pytest.mark.parametrize("origin", ["https://elsewhere.test", "null", "http://testserver:81"])
def test_another_origin_is_rejected(unchanged: Gateway, origin: str) -> None:
    with pytest.raises(WebSocketDisconnect) as rejected, connected(unchanged.as_caregiver(1), origin=origin):
        pass

    assert rejected.value.code == 1008  # before it was accepted: the server says 403


def test_each_rejected_origin_is_logged_once(caregivers: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    for origin in ("https://elsewhere.test", "https://elsewhere.test", "https://third.test"):
        with pytest.raises(WebSocketDisconnect), connected(caregivers.as_caregiver(1), origin=origin):
            pass

    logged = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert logged == [
        f"rejected a websocket from origin {origin}, which is not in CARE_CORS_ORIGINS"
        for origin in ("https://elsewhere.test", "https://third.test")
    ]


def test_the_own_origin_is_accepted(unchanged: Gateway) -> None:
    with connected(unchanged.as_caregiver(1), origin="http://testserver") as listener:
        listener.send(type="connection_init")

        assert listener.receive() == {"type": "connection_ack"}


@pytest.mark.parametrize("path", ["/", "/gateway/profile/client/session", "/graphql/", "/livez"])
def test_other_paths_reject_websockets(unchanged: Gateway, path: str) -> None:
    with pytest.raises(WebSocketDisconnect), unchanged.client.websocket_connect(path, [PROTOCOL]):
        pass


# --- operations ---


def operate(gateway: Gateway, before_result: Callable[[], None], **state: Any) -> dict[str, Any]:
    """Runs one operation, calls `before_result` when its result is sent, and returns the state at the end."""
    messages: list[dict[str, Any]] = [{"type": "websocket.connect"}]
    for message in (
        {"type": "connection_init"},
        {"type": "subscribe", "id": "1", "payload": {"query": VIEWER}},
    ):
        messages.append({"type": "websocket.receive", "text": json.dumps(message)})
    scope = scope_of(gateway.as_caregiver(1), "GET", "/graphql")
    scope |= {"type": "websocket", "subprotocols": [PROTOCOL]}
    scope["state"] |= state
    has_result = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await has_result.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: dict[str, Any]) -> None:
        if json.loads(message.get("text", "{}")).get("type") == "next":
            has_result.set()
            before_result()

    application: Any = gateway.client.app
    assert gateway.client.portal is not None
    gateway.client.portal.call(application, scope, receive, send)
    found: dict[str, Any] = scope["state"]
    return found


def test_an_operation_counts_for_its_viewer_and_holds_no_slot_while_its_response_is_sent(
    caregivers: Gateway,
) -> None:
    admission = caregivers.client.app_state["admission"]
    running: list[int] = []
    of_address = Budget()

    state = operate(caregivers, lambda: running.append(len(admission.running)), budget=of_address)

    assert running == [0]
    assert state["budget"] is not of_address


def test_a_client_that_leaves_while_a_result_is_sent_is_no_failure(
    caregivers: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    def leave() -> None:
        raise OSError("the connection was reset")

    operate(caregivers, leave)

    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_one_websocket_carries_a_mutation_and_a_subscription(caregivers: Gateway) -> None:
    window = 'startDate: "2026-11-22T09:00:00Z", endDate: "2026-11-25T09:00:00Z"'
    assign = (
        f'mutation {{ assignHomework(input: {{sessionId: "1", bookIds: ["1"], {window}}}) {{ message }} }}'
    )

    with listening(caregivers.as_caregiver(1)) as listener:
        listener.subscribe("subscription { assignmentChanged { what } }", id="subscription")
        wait_for_subscription(caregivers)
        assert caregivers.client.app_state["admission"].running == {}  # a subscription holds no slot
        listener.subscribe(assign, id="mutation")
        messages = [listener.receive() for _ in range(3)]

    made = {"assignHomework": {"message": "The assignments were added to the session."}}
    assert [one for one in messages if one["id"] == "mutation"] == [
        {"id": "mutation", "type": "next", "payload": {"data": made}},
        {"id": "mutation", "type": "complete"},
    ]
    assert [one for one in messages if one["id"] == "subscription"] == [
        {
            "id": "subscription",
            "type": "next",
            "payload": {"data": {"assignmentChanged": {"what": "ASSIGNED"}}},
        }
    ]


@pytest.mark.parametrize(
    ("payload", "errors"),
    [
        (
            {"query": "{ viewer { rol xyz } }"},
            [
                {
                    "message": "Cannot query field 'rol' on type 'Viewer'. Did you mean 'role'?",
                    "locations": [{"line": 1, "column": 12}],
                    "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"},
                },
                {
                    "message": "Cannot query field 'xyz' on type 'Viewer'.",
                    "locations": [{"line": 1, "column": 16}],
                    "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"},
                },
            ],
        ),
        (
            {"query": "{ viewer"},
            [
                {
                    "message": "Syntax Error: Expected Name, found <EOF>.",
                    "locations": [{"line": 1, "column": 9}],
                    "extensions": {"code": "GRAPHQL_PARSE_FAILED"},
                }
            ],
        ),
        (
            {"query": "subscription { assignmentChanged { idd } }"},
            [
                {
                    "message": "Cannot query field 'idd' on type 'AssignmentChange'. Did you mean 'id'?",
                    "locations": [{"line": 1, "column": 36}],
                    "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"},
                }
            ],
        ),
        (
            {"query": "query A { viewer { role } }", "operationName": "B"},
            [{"message": 'Unknown operation named "B".', "extensions": {"code": "BAD_REQUEST"}}],
        ),
        (
            {"query": ""},
            [{"message": "No GraphQL query found in the message", "extensions": {"code": "BAD_REQUEST"}}],
        ),
        ({"query": "{ a: " * 5000}, None),
    ],
    ids=["unknown fields", "no document", "unknown field of an event", "unknown name", "empty", "deep"],
)
def test_an_invalid_operation_ends_only_that_operation(
    unchanged: Gateway, payload: dict[str, Any], errors: list[dict[str, Any]] | None
) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        listener.send(type="subscribe", id="1", payload=payload)
        message = listener.receive()
        viewer = listener.query(VIEWER)

    assert (message["id"], message["type"]) == ("1", "error")
    assert errors is None or message["payload"] == errors
    assert viewer == {"viewer": {"role": "CAREGIVER"}}


def test_a_result_may_contain_field_errors(unchanged: Gateway) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        listener.subscribe('{ viewer { role } session(id: "77") { title } }')
        answer, end = listener.receive(), listener.receive()

    assert answer == {
        "id": "1",
        "type": "next",
        "payload": {
            "data": {"viewer": {"role": "CAREGIVER"}, "session": None},
            "errors": [
                {
                    "message": "session not found",
                    "locations": [{"line": 1, "column": 19}],
                    "path": ["session"],
                    "extensions": {"code": "NOT_FOUND"},
                }
            ],
        },
    }
    assert end == {"id": "1", "type": "complete"}


def test_every_operation_has_its_own_moment(settings: Settings) -> None:
    moments = (NOW + timedelta(days=day) for day in count())
    late = "{ assignment(id: 2) { lateness { seconds } } }"

    with opened(create_app(settings, clock=lambda: next(moments))) as client:
        gateway = Gateway(client, settings)
        gateway.import_records(a_world())
        with listening(gateway.as_caregiver(1)) as listener:
            seconds = [listener.query(late)["assignment"]["lateness"]["seconds"] for _ in range(12)]

    assert seconds == sorted(seconds)
    assert seconds[0] == 0 < seconds[-1]


def test_an_event_does_not_repeat_the_cost(settings: Settings) -> None:
    with opened(create_app(settings, clock=lambda: NOW), reports_cost=True) as client:
        gateway = Gateway(client, settings)
        gateway.import_records(a_world())
        for number in (1, 2):
            insert_event(settings.database, "EXTENDED", number=number)
        with listening(gateway.as_caregiver(1)) as listener:
            listener.subscribe("subscription { assignmentChanged(after: 1) { what } }")

            assert listener.receive()["payload"] == {"data": {"assignmentChanged": {"what": "EXTENDED"}}}


def test_the_id_of_a_completed_subscription_may_be_reused(caregivers: Gateway) -> None:
    with listening(caregivers.as_caregiver(1)) as listener:
        listener.subscribe(SUBSCRIPTION)
        listener.send(type="complete", id="1")
        listener.send(type="complete", id="unknown")
        listener.subscribe(VIEWER)

        assert listener.receive()["payload"] == {"data": {"viewer": {"role": "CAREGIVER"}}}


def test_an_operation_that_ends_late_leaves_its_id_to_the_next_one(caregivers: Gateway) -> None:
    missing = "{ session(id: 999) { title } }"
    with listening(caregivers.as_caregiver(1)) as listener:
        with write_lock(caregivers.settings.database):
            listener.subscribe(missing)
            listener.query(VIEWER)
            listener.send(type="complete", id="1")  # it ends when its audit record is stored
            listener.subscribe(SUBSCRIPTION)
            listener.query(VIEWER)
        listener.subscribe(missing, id="2")
        assert [listener.receive()["type"], listener.receive()["type"]] == ["next", "complete"]
        listener.subscribe(SUBSCRIPTION)

        assert listener.receive_close() == (4409, "Subscriber for 1 already exists")


def test_a_ping_is_answered(unchanged: Gateway) -> None:
    with connected(unchanged.as_anonymous()) as listener:
        listener.send(type="ping", payload={"x": 1})

        assert listener.receive() == {"type": "pong"}


def test_the_number_of_operations_per_websocket_is_limited(caregivers: Gateway) -> None:
    text = "there are 100 operations already on this connection, and no more are allowed"
    rejected = {"message": text, "extensions": {"code": "RATE_LIMITED"}}
    before = counters.limits["operations of a websocket"]
    with listening(caregivers.as_caregiver(1)) as listener:
        for number in range(101):
            listener.subscribe(SUBSCRIPTION, id=str(number))
        assert listener.receive() == {"id": "100", "type": "error", "payload": [rejected]}
        assert counters.limits["operations of a websocket"] == before + 1
        listener.send(type="complete", id="0")
        assert listener.query(VIEWER) == {"viewer": {"role": "CAREGIVER"}}
        listener.subscribe(SUBSCRIPTION, id="100")
        listener.subscribe(SUBSCRIPTION, id="1")
        assert listener.receive_close() == (4409, "Subscriber for 1 already exists")


def test_an_overloaded_process_rejects_an_operation_and_keeps_the_websocket(caregivers: Gateway) -> None:
    admission = caregivers.client.app_state["admission"]
    before = counters.limits["requests at once"]
    rejected = {"message": "server overloaded", "extensions": {"code": "OVERLOADED"}}
    with listening(caregivers.as_caregiver(1)) as listener:
        most, admission.most_requests = admission.most_requests, 0
        listener.subscribe(VIEWER)
        assert listener.receive() == {"id": "1", "type": "error", "payload": [rejected]}
        admission.most_requests = most
        assert listener.query(VIEWER) == {"viewer": {"role": "CAREGIVER"}}

    assert counters.limits["requests at once"] == before + 1


def test_shutdown_completes_no_subscription(caregivers: Gateway) -> None:
    """The server then closes the connection, and the client reconnects."""
    with listening(caregivers.as_caregiver(1)) as listener:
        listener.subscribe(SUBSCRIPTION)
        wait_for_subscription(caregivers)
        stop(caregivers)
        wait_for(lambda: not caregivers.client.app_state["notifier"].wakeups)
        listener.send(type="ping")

        assert listener.receive() == {"type": "pong"}


def test_a_message_may_have_the_length_of_the_limit(unchanged: Gateway) -> None:
    text = json.dumps({"type": "subscribe", "id": "1", "payload": {"query": f"{VIEWER} #"}})
    with listening(unchanged.as_caregiver(1)) as listener:
        listener.session.send_text(text.replace("#", "#".ljust(262_144 - len(text) + 1, "x")))

        assert listener.receive()["payload"] == {"data": {"viewer": {"role": "CAREGIVER"}}}


# --- malformed messages ---

MALFORMED = "The message does not follow the protocol"
FRAMES = {
    "null": ("null", MALFORMED),
    "a number": ("1", MALFORMED),
    "a text": ('"x"', MALFORMED),
    "a list": ("[]", MALFORMED),
    "nothing in it": ("{}", MALFORMED),
    "no type": ('{"type": null}', MALFORMED),
    "no JSON": ("{", "WebSocket message must be valid JSON"),
    "empty": ("", "WebSocket message must be valid JSON"),
    "too deep": ("[" * 100_000, "WebSocket message must be valid JSON"),
    "a type of its own": ('{"type": "' + "ü" * 200 + '"}', "Unknown message type: " + "ü" * 50),
    "an id that is none": ('{"type": "subscribe", "id": {}, "payload": {"query": "{a}"}}', MALFORMED),
    "no id": ('{"type": "subscribe", "payload": {"query": "{a}"}}', "Failed to parse message"),
    "no payload": ('{"type": "subscribe", "id": "1"}', MALFORMED),
    "a payload that is none": ('{"type": "subscribe", "id": "1", "payload": []}', MALFORMED),
    "no query": ('{"type": "subscribe", "id": "1", "payload": {}}', "Failed to parse message"),
    "a query that is none": ('{"type": "subscribe", "id": "1", "payload": {"query": 1}}', MALFORMED),
    "variables that are none": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "variables": []}}',
        MALFORMED,
    ),
    "a name that is none": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "operationName": 1}}',
        MALFORMED,
    ),
    "variables that are too long": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "variables": {"x": "'
        + "x" * 262_144
        + '"}}}',
        MALFORMED,
    ),
    "too long": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "#' + "x" * 262_144 + '"}}',
        MALFORMED,
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_malformed_message_closes_the_websocket_with_a_reason(unchanged: Gateway, name: str) -> None:
    frame, reason = FRAMES[name]

    with listening(unchanged.as_caregiver(1)) as listener:
        listener.subscribe(SUBSCRIPTION, id="running")
        listener.session.send_text(frame)

        assert listener.receive_close() == (4400, reason)


def test_a_binary_message_closes_the_websocket(unchanged: Gateway) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        listener.session.send_bytes(b'{"type": "ping"}')

        assert listener.receive_close() == (4400, "WebSocket message type must be text")


def subscribe_twice(listener: Listener) -> None:
    listener.subscribe(SUBSCRIPTION, id="x" * 200)
    listener.subscribe(SUBSCRIPTION, id="x" * 200)


def initialise_again(listener: Listener) -> None:
    listener.send(type="connection_init")


@pytest.mark.parametrize(
    ("violate", "code", "reason"),
    [
        (subscribe_twice, 4409, "Subscriber for " + "x" * 108),
        (initialise_again, 4429, "Too many initialisation requests"),
    ],
)
def test_a_protocol_violation_closes_the_websocket(
    unchanged: Gateway, violate: Any, code: int, reason: str
) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        violate(listener)

        assert listener.receive_close() == (code, reason)
