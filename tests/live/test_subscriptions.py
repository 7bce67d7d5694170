"""Subscriptions across processes: events reach subscribers of another process, a subscriber resumes after
a disconnect, and open subscriptions do not delay shutdown."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from app.schema.types.scalars import global_id
from tests import keys
from tests.callers import load
from tests.factories import a_world
from tests.live.processes import PATIENCE, serving
from tests.live.subscribers import assign, change, receive, subscribe_by_event_stream, subscribe_by_websocket
from tests.ports import free_port
from tests.schema.listening import insert_event

pytestmark = pytest.mark.live


@pytest.fixture
def care(database_url: str) -> dict[str, str]:
    """Settings of processes that share a database. Event 1 exists already."""
    load(database_url, a_world())
    insert_event(database_url, "ASSIGNED", number=1)
    # Without the dispatcher: reminders fall due by the clock of the machine, and each is an event.
    return {"database_url": database_url, "token_key": keys.public_pem(), "dispatcher": "off"}


def test_a_change_in_one_process_reaches_subscribers_of_another(tmp_path: Path, care: dict[str, str]) -> None:
    with ExitStack() as stack:
        one = stack.enter_context(serving(tmp_path / "one", **care))
        other = stack.enter_context(serving(tmp_path / "other", **care))
        received = []
        socket = stack.enter_context(subscribe_by_websocket(other.url, "client", after="1"))
        stream = stack.enter_context(subscribe_by_event_stream(other.url, "caregiver", after="1"))
        for _ in range(3):
            created = assign(one.url)
            received.append((created, change(receive(socket)), change(next(stream))))

    assert received == [
        (
            str(number),
            (global_id("Event", number - 4), "ASSIGNED", str(number)),
            (global_id("Event", number - 4), "ASSIGNED", str(number)),
        )
        for number in (6, 7, 8)
    ]


def test_a_subscriber_that_reconnects_receives_the_missed_events(
    tmp_path: Path, care: dict[str, str]
) -> None:
    with (
        serving(tmp_path / "first", **care) as served,
        subscribe_by_websocket(served.url, "client", "1") as socket,
    ):
        assign(served.url)
        last, *_ = change(receive(socket))
        served.process.kill()
        with pytest.raises(ConnectionClosed):
            socket.recv()

    with serving(tmp_path / "second", **care) as served:
        assign(served.url)
        with (
            subscribe_by_websocket(served.url, "client", last) as socket,
            subscribe_by_event_stream(served.url, "client", last) as stream,
        ):
            missed = (change(receive(socket)), change(next(stream)))
            assign(served.url)
            new = (change(receive(socket)), change(next(stream)))

    assert missed == ((global_id("Event", 3), "ASSIGNED", "7"),) * 2
    assert new == ((global_id("Event", 4), "ASSIGNED", "8"),) * 2


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)  # no database is asked
def test_a_too_long_message_closes_the_websocket_with_1009(tmp_path: Path, care: dict[str, str]) -> None:
    with (
        serving(tmp_path / "log", **care, graphql_body_limit="300000") as served,
        subscribe_by_websocket(served.url, "client", "1") as socket,
    ):
        socket.send('{"type": "ping"}'.ljust(300_000))
        assert receive(socket) == {"type": "pong"}
        socket.send('{"type": "ping"}'.ljust(300_001))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("kind", "number"), [("sqlite", signal.SIGINT), ("postgresql", signal.SIGTERM)], indirect=["kind"]
)
def test_a_process_stops_despite_open_subscriptions(
    tmp_path: Path, care: dict[str, str], number: signal.Signals
) -> None:
    with (
        serving(tmp_path / "log", **care) as served,
        subscribe_by_websocket(served.url, "client", "1") as socket,
        subscribe_by_event_stream(served.url, "client", "1") as stream,
    ):
        assign(served.url)
        received = (change(receive(socket)), change(next(stream)))
        code, output = served.stop(number)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv()
        left = list(stream)

    assert received == ((global_id("Event", 2), "ASSIGNED", "6"),) * 2
    assert (code, left) == (0, [])
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012  # service restart: clients reconnect
    assert "Application shutdown complete." in output
    assert ("Traceback" in output, "ERROR" in output) == (False, False)


@pytest.mark.sqlite_only
def test_workers_stop_despite_open_subscriptions(tmp_path: Path, care: dict[str, str]) -> None:
    port = str(free_port())

    with serving(tmp_path / "log", "--workers", "2", **care, port=port) as served, ExitStack() as stack:
        streams = [
            stack.enter_context(subscribe_by_event_stream(served.url, "client", "1")) for _ in range(4)
        ]
        created = assign(served.url)
        received = [change(next(stream)) for stream in streams]
        code, output = served.stop(signal.SIGTERM)
        left = [list(stream) for stream in streams]

    assert received == [(global_id("Event", 2), "ASSIGNED", created)] * 4
    assert (code, left) == (0, [[]] * 4)
    assert output.count("Application shutdown complete.") == 2
    assert "Traceback" not in output
