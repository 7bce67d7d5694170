"""Websocket and event-stream subscribers, and the events that they receive."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from httpx2 import Response
from starlette.testclient import WebSocketTestSession

from tests.callers import Caller, Gateway
from tests.db import raw
from tests.factories import NOW
from tests.patience import PATIENCE

PROTOCOL = "graphql-transport-ws"


@dataclass
class Listener:
    session: WebSocketTestSession
    threads: ThreadPoolExecutor

    def send(self, **message: Any) -> None:
        self.session.send_json(message)

    def receive(self) -> Any:
        """The next message, without the request ids of errors, which differ every time."""
        message = self.threads.submit(self.session.receive_json).result(PATIENCE)
        payload = message.get("payload")
        errors = payload if isinstance(payload, list) else (payload or {}).get("errors", ())
        for error in errors:
            assert error["extensions"].pop("requestId")
        return message

    def receive_close(self) -> tuple[int, str]:
        message = self.threads.submit(self.session.receive).result(PATIENCE)
        assert message["type"] == "websocket.close", message
        return message["code"], message["reason"]

    def subscribe(self, query: str, id: str = "1", **variables: Any) -> None:
        self.send(type="subscribe", id=id, payload={"query": query, "variables": variables})

    def query(self, query: str, **variables: Any) -> dict[str, Any]:
        """The complete result of a query."""
        self.subscribe(query, "query", **variables)
        message = self.receive()
        assert (message["id"], message["type"]) == ("query", "next"), message
        assert self.receive() == {"id": "query", "type": "complete"}
        data: dict[str, Any] = message["payload"]["data"]
        return data

    def receive_change(self) -> dict[str, Any]:
        """The fields of the next event, which must have no errors."""
        message = self.receive()
        assert message["type"] == "next", message
        assert "errors" not in message["payload"], message
        [event] = message["payload"]["data"].values()
        return dict(event)


@contextmanager
def connected(caller: Caller, **headers: str) -> Iterator[Listener]:
    """Opens a websocket and sends nothing."""
    if caller.token is not None:
        headers.setdefault("authorization", f"bearer {caller.token}")
    with (
        ThreadPoolExecutor(1) as threads,
        caller.client.websocket_connect("/graphql", [PROTOCOL], headers=headers) as session,
    ):
        yield Listener(session, threads)


@contextmanager
def listening(caller: Caller) -> Iterator[Listener]:
    """Opens a websocket and initializes the connection."""
    with connected(caller) as listener:
        listener.send(type="connection_init")
        assert listener.receive() == {"type": "connection_ack"}
        yield listener


def wait_for_subscription(gateway: Gateway) -> None:
    """Waits until a subscription without `after` has started."""
    wait_for(lambda: bool(gateway.client.app_state["notifier"].wakeups))


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def insert_event(
    url: str,
    kind: str,
    assignment: int | None = 2,
    session: int = 1,
    caregiver: int = 1,
    client: int = 1,
    number: int | None = None,
    reminder: int | None = None,
    moment: datetime = NOW,
) -> int:
    """Inserts the event that a change would insert. Returns its id."""
    columns: dict[str, object] = {
        "kind": f"'{kind}'",
        "assignment_id": assignment,
        "session_id": session,
        "caregiver_id": caregiver,
        "client_id": client,
        "reminder_id": reminder,
        "moment": f"'{moment.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}'",
        "actor": "'SERVICE'",
    }
    if number is not None:
        columns["id"] = number
    values = {name: value for name, value in columns.items() if value is not None}
    columns_sql, values_sql = ", ".join(values), ", ".join(map(str, values.values()))
    found = raw.run(url, f"INSERT INTO event ({columns_sql}) VALUES ({values_sql}) RETURNING id")
    if url.startswith("postgresql"):
        raw.run(
            url,
            "SELECT setval(pg_get_serial_sequence('event', 'id'), (SELECT max(id) FROM event))",
            f"SELECT pg_notify('care_event', '{caregiver} {client}')",
        )
    return int(found[0][0])


# --- requests whose messages a test sends and receives itself ---


def scope_of(caller: Caller, method: str, path: str, **headers: str) -> dict[str, Any]:
    headers = {"authorization": f"bearer {caller.token}", "content-type": "application/json", **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "state": dict(caller.client.app_state),
    }


# --- event streams ---


@dataclass
class Stream:
    response: Response
    lines: Iterator[str]
    threads: ThreadPoolExecutor

    def line(self) -> str:
        found = self.threads.submit(next, self.lines, None).result(PATIENCE)
        if found is None:
            raise EOFError
        return found

    def receive(self) -> tuple[str, Any]:
        """The kind and the data of the next event."""
        event, data = self.line(), self.line()
        assert self.line() == ""
        return event.removeprefix("event: "), json.loads(data.removeprefix("data: ") or "null")

    @property
    def events(self) -> Iterator[tuple[str, Any]]:
        """The remaining events, until the stream ends."""
        try:
            while True:
                yield self.receive()
        except EOFError:
            return


@contextmanager
def streaming(
    caller: Caller, query: str, accept: str = "text/event-stream", **variables: Any
) -> Iterator[Stream]:
    more: dict[str, str] = variables.pop("headers", {})
    request = {"query": query, "operationName": variables.pop("operationName", None), "variables": variables}
    headers = {"accept": accept, "authorization": f"bearer {caller.token}", **more}
    with (
        ThreadPoolExecutor(1) as threads,
        caller.client.stream("POST", "/graphql", json=request, headers=headers) as response,
    ):
        assert response.status_code == 200, response.read()
        yield Stream(response, response.iter_lines(), threads)


def stop(gateway: Gateway) -> None:
    """Ends all subscriptions, as at shutdown."""
    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.client.app_state["notifier"].stop)
