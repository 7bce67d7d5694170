"""Promise: a websocket speaks graphql-transport-ws, opens with a good token alone, carries every kind of
operation, and ends with a code that says why, whatever is thrown at it."""

import logging
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect

import app.schema.transport.websockets
from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.factories import NOW, a_world
from tests.schema.listening import PROTOCOL, Listener, connected, listening, wait_until_somebody_listens

pytestmark = pytest.mark.sqlite_only

FOREVER = "subscription { assignmentChanged { id } }"
VIEWER = "{ viewer { role } }"
BAD_TOKEN = (4403, "Forbidden")


@pytest.fixture
def caregivers(gateway: Gateway) -> Gateway:
    gateway.given(a_world())
    return gateway


# --- coming in ---


@pytest.mark.parametrize("name", ["authorization", "Authorization", "AUTHORIZATION"])
def test_the_token_may_come_with_the_first_message(unchanged: Gateway, name: str) -> None:
    token = unchanged.as_client(1).token

    with connected(unchanged.as_nobody()) as listener:
        listener.say(type="connection_init", payload={name: f"Bearer {token}", "other": 1})

        assert listener.hear() == {"type": "connection_ack"}
        assert listener.told(VIEWER) == {"viewer": {"role": "CLIENT"}}


def test_the_first_message_counts_before_the_header(unchanged: Gateway) -> None:
    token = unchanged.as_client(1).token

    with connected(unchanged.as_caregiver(1)) as listener:
        listener.say(type="connection_init", payload={"authorization": f"bearer {token}"})

        assert listener.hear() == {"type": "connection_ack"}
        assert listener.told(VIEWER) == {"viewer": {"role": "CLIENT"}}


@pytest.mark.parametrize(
    "payload",
    [None, {}, {"authorization": "bearer x"}, {"authorization": "x"}, {"authorization": 1}, {"token": "x"}],
)
def test_without_a_good_token_nobody_comes_in(unchanged: Gateway, payload: object) -> None:
    """In development too: there is nothing to listen to for nobody."""
    with connected(unchanged.as_nobody()) as listener:
        listener.say(type="connection_init", payload=payload)

        assert listener.hear_close() == BAD_TOKEN


def test_an_account_that_is_not_there_does_not_come_in(unchanged: Gateway) -> None:
    with connected(unchanged.as_client(77)) as listener:
        listener.say(type="connection_init")

        assert listener.hear_close() == BAD_TOKEN


def test_who_says_nothing_is_shown_out(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.schema.transport.websockets, "INIT_SECONDS", 0.01)

    with (
        opened(create_app(settings)) as client,
        connected(Gateway(client, settings).as_nobody()) as listener,
    ):
        assert listener.hear_close() == (4408, "Connection initialisation timeout")


def test_who_asks_before_coming_in_is_shown_out(unchanged: Gateway) -> None:
    with connected(unchanged.as_caregiver(1)) as listener:
        listener.ask(VIEWER)

        assert listener.hear_close() == (4401, "Unauthorized")


def test_another_protocol_is_not_spoken(unchanged: Gateway) -> None:
    with (
        unchanged.client.websocket_connect("/graphql", ["graphql-ws"]) as session,
        pytest.raises(WebSocketDisconnect) as closed,
    ):
        session.receive_json()

    assert closed.value.code == 4406


@pytest.mark.parametrize("origin", ["https://elsewhere.test", "null", "http://testserver:81"])
def test_a_page_of_another_site_does_not_come_in(unchanged: Gateway, origin: str) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        connected(unchanged.as_caregiver(1), origin=origin),
    ):
        pass

    assert refused.value.code == 1008  # before it was accepted: the server says 403


def test_each_refused_origin_is_logged_once(caregivers: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    for origin in ("https://elsewhere.test", "https://elsewhere.test", "https://third.test"):
        with pytest.raises(WebSocketDisconnect), connected(caregivers.as_caregiver(1), origin=origin):
            pass

    logged = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert logged == [
        f"rejected a websocket from origin {origin}, which is not in CARE_CORS_ORIGINS"
        for origin in ("https://elsewhere.test", "https://third.test")
    ]


def test_a_page_of_the_same_host_comes_in(unchanged: Gateway) -> None:
    with connected(unchanged.as_caregiver(1), origin="http://testserver") as listener:
        listener.say(type="connection_init")

        assert listener.hear() == {"type": "connection_ack"}


@pytest.mark.parametrize("path", ["/", "/gateway/profile/client/session", "/graphql/", "/livez"])
def test_there_are_websockets_at_one_path_only(unchanged: Gateway, path: str) -> None:
    with pytest.raises(WebSocketDisconnect), unchanged.client.websocket_connect(path, [PROTOCOL]):
        pass


# --- asking ---


def test_a_change_can_be_made_and_heard_of_at_one_socket(caregivers: Gateway) -> None:
    window = 'startDate: "2026-11-22T09:00:00Z", endDate: "2026-11-25T09:00:00Z"'
    assign = (
        f'mutation {{ assignHomework(input: {{sessionId: "1", bookIds: ["1"], {window}}}) {{ message }} }}'
    )

    with listening(caregivers.as_caregiver(1)) as listener:
        listener.ask("subscription { assignmentChanged { what } }", id="heard")
        wait_until_somebody_listens(caregivers)
        listener.ask(assign, id="made")
        messages = [listener.hear() for _ in range(3)]

    made = {"assignHomework": {"message": "The assignments were added to the session."}}
    assert [one for one in messages if one["id"] == "made"] == [
        {"id": "made", "type": "next", "payload": {"data": made}},
        {"id": "made", "type": "complete"},
    ]
    assert [one for one in messages if one["id"] == "heard"] == [
        {"id": "heard", "type": "next", "payload": {"data": {"assignmentChanged": {"what": "ASSIGNED"}}}},
    ]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (
            {"query": "{ viewer { rol } }"},
            {
                "message": "Cannot query field 'rol' on type 'Viewer'. Did you mean 'role'?",
                "locations": [{"line": 1, "column": 12}],
                "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"},
            },
        ),
        (
            {"query": "{ viewer"},
            {
                "message": "Syntax Error: Expected Name, found <EOF>.",
                "locations": [{"line": 1, "column": 9}],
                "extensions": {"code": "GRAPHQL_PARSE_FAILED"},
            },
        ),
        (
            {"query": "subscription { assignmentChanged { idd } }"},
            {
                "message": "Cannot query field 'idd' on type 'AssignmentChange'. Did you mean 'id'?",
                "locations": [{"line": 1, "column": 36}],
                "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"},
            },
        ),
        (
            {"query": "query A { viewer { role } }", "operationName": "B"},
            {"message": 'Unknown operation named "B".', "extensions": {"code": "BAD_REQUEST"}},
        ),
        (
            {"query": ""},
            {"message": "No GraphQL query found in the message", "extensions": {"code": "BAD_REQUEST"}},
        ),
        (
            {"query": "{ a: " * 5000},
            None,
        ),
    ],
    ids=["unknown field", "no document", "unknown field of an event", "unknown name", "empty", "deep"],
)
def test_what_is_wrong_with_an_operation_ends_that_operation_alone(
    unchanged: Gateway, payload: dict[str, Any], error: dict[str, Any] | None
) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        listener.say(type="subscribe", id="1", payload=payload)
        said = listener.hear()
        still = listener.told(VIEWER)

    assert (said["id"], said["type"]) == ("1", "error")
    assert error is None or said["payload"] == [error]
    assert still == {"viewer": {"role": "CAREGIVER"}}


def test_an_answer_may_hold_errors_of_its_fields(unchanged: Gateway) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        listener.ask('{ viewer { role } session(id: "77") { title } }')
        answer, end = listener.hear(), listener.hear()

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


def test_every_operation_has_a_moment_of_its_own(settings: Settings) -> None:
    moments = (NOW + timedelta(days=day) for day in count())
    late = "{ assignment(id: 2) { lateness { seconds } } }"

    with opened(create_app(settings, clock=lambda: next(moments))) as client:
        gateway = Gateway(client, settings)
        gateway.given(a_world())
        with listening(gateway.as_caregiver(1)) as listener:
            seconds = [listener.told(late)["assignment"]["lateness"]["seconds"] for _ in range(12)]

    assert seconds == sorted(seconds)
    assert seconds[0] == 0 < seconds[-1]


def test_a_subscription_can_be_ended_and_its_id_used_again(caregivers: Gateway) -> None:
    with listening(caregivers.as_caregiver(1)) as listener:
        listener.ask(FOREVER)
        listener.say(type="complete", id="1")
        listener.say(type="complete", id="unknown")
        listener.ask(VIEWER)

        assert listener.hear()["payload"] == {"data": {"viewer": {"role": "CAREGIVER"}}}


def test_a_ping_is_answered(unchanged: Gateway) -> None:
    with connected(unchanged.as_nobody()) as listener:
        listener.say(type="ping", payload={"x": 1})

        assert listener.hear() == {"type": "pong"}


def test_there_is_an_end_to_what_one_socket_carries(caregivers: Gateway) -> None:
    with listening(caregivers.as_caregiver(1)) as listener:
        for number in range(101):
            listener.ask(FOREVER, id=str(number))
        said = listener.hear()

    message = "there are 100 operations already on this connection, and no more are allowed"
    refused = {"message": message, "extensions": {"code": "RATE_LIMITED"}}
    assert said == {"id": "100", "type": "error", "payload": [refused]}


# --- garbage ---

GARBAGE = "The message does not follow the protocol"
FRAMES = {
    "null": ("null", GARBAGE),
    "a number": ("1", GARBAGE),
    "a text": ('"x"', GARBAGE),
    "a list": ("[]", GARBAGE),
    "nothing in it": ("{}", GARBAGE),
    "no type": ('{"type": null}', GARBAGE),
    "no JSON": ("{", "WebSocket message must be valid JSON"),
    "empty": ("", "WebSocket message must be valid JSON"),
    "too deep": ("[" * 100_000, "WebSocket message must be valid JSON"),
    "a type of its own": (
        '{"type": "' + "ü" * 200 + '"}',
        "Unknown message type: " + "ü" * 50,
    ),
    "an id that is none": ('{"type": "subscribe", "id": {}, "payload": {"query": "{a}"}}', GARBAGE),
    "no id": ('{"type": "subscribe", "payload": {"query": "{a}"}}', "Failed to parse message"),
    "no payload": ('{"type": "subscribe", "id": "1"}', GARBAGE),
    "a payload that is none": ('{"type": "subscribe", "id": "1", "payload": []}', GARBAGE),
    "no query": ('{"type": "subscribe", "id": "1", "payload": {}}', "Failed to parse message"),
    "a query that is none": ('{"type": "subscribe", "id": "1", "payload": {"query": 1}}', GARBAGE),
    "variables that are none": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "variables": []}}',
        GARBAGE,
    ),
    "a name that is none": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "operationName": 1}}',
        GARBAGE,
    ),
    "variables that are too long": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "variables": {"x": "'
        + "x" * 262_144
        + '"}}}',
        GARBAGE,
    ),
    "too long": (
        '{"type": "subscribe", "id": "1", "payload": {"query": "#' + "x" * 262_144 + '"}}',
        GARBAGE,
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_garbage_is_answered_by_a_code_and_a_reason(unchanged: Gateway, name: str) -> None:
    frame, reason = FRAMES[name]

    with listening(unchanged.as_caregiver(1)) as listener:
        listener.ask(FOREVER, id="running")
        listener.session.send_text(frame)

        assert listener.hear_close() == (4400, reason)


def test_bytes_are_no_message(unchanged: Gateway) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        listener.session.send_bytes(b'{"type": "ping"}')

        assert listener.hear_close() == (4400, "WebSocket message type must be text")


def twice(listener: Listener) -> None:
    listener.ask(FOREVER, id="x" * 200)
    listener.ask(FOREVER, id="x" * 200)


def init_again(listener: Listener) -> None:
    listener.say(type="connection_init")


@pytest.mark.parametrize(
    ("deed", "code", "reason"),
    [
        (twice, 4409, "Subscriber for " + "x" * 108),
        (init_again, 4429, "Too many initialisation requests"),
    ],
)
def test_what_the_protocol_forbids_ends_the_connection(
    unchanged: Gateway, deed: Any, code: int, reason: str
) -> None:
    with listening(unchanged.as_caregiver(1)) as listener:
        deed(listener)

        assert listener.hear_close() == (code, reason)
