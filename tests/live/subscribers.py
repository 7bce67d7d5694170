"""Clients that subscribe over a websocket or an event stream."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests import keys
from tests.live.processes import PATIENCE

CHANGES = "subscription ($after: ID) { assignmentChanged(after: $after) { id what assignment { legacyId } } }"


def token(role: str) -> str:
    return "bearer " + keys.token(role.upper(), f"{role}-1")


def graphql(url: str, role: str, query: str) -> dict[str, Any]:
    response = httpx2.post(f"{url}/graphql", json={"query": query}, headers={"authorization": token(role)})
    data: dict[str, Any] = response.json()["data"]
    return data


def assign(url: str) -> str:
    """Returns the id of the new assignment."""
    window = 'startDate: "2030-01-01T09:00:00Z", endDate: "2030-01-02T09:00:00Z"'
    homework = f'{{sessionId: "1", bookIds: ["1"], {window}}}'
    query = f"mutation {{ assignHomework(input: {homework}) {{ assignments {{ legacyId }} }} }}"
    [created] = graphql(url, "caregiver", query)["assignHomework"]["assignments"]
    return str(created["legacyId"])


@contextmanager
def subscribe_by_websocket(url: str, role: str, after: str | None = None) -> Iterator[ClientConnection]:
    address = url.replace("http", "ws") + "/graphql"
    with connect(address, subprotocols=[Subprotocol("graphql-transport-ws")], open_timeout=PATIENCE) as one:
        send(one, type="connection_init", payload={"Authorization": token(role)})
        assert receive(one) == {"type": "connection_ack"}
        send(one, type="subscribe", id="1", payload={"query": CHANGES, "variables": {"after": after}})
        yield one


def send(connection: ClientConnection, **message: Any) -> None:
    connection.send(json.dumps(message))


def receive(connection: ClientConnection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(connection.recv(PATIENCE))
    return message


def change(message: dict[str, Any]) -> tuple[str, str, str]:
    """The event's id, its kind and its assignment."""
    event = message["payload"]["data"]["assignmentChanged"]
    return event["id"], event["what"], event["assignment"]["legacyId"]


@contextmanager
def subscribe_by_event_stream(
    url: str, role: str, after: str | None = None
) -> Iterator[Iterator[dict[str, Any]]]:
    """The events, in the format of websocket messages."""
    request = {"query": CHANGES, "variables": {"after": after}}
    headers = {"authorization": token(role), "accept": "text/event-stream"}
    with httpx2.stream("POST", f"{url}/graphql", json=request, headers=headers, timeout=PATIENCE) as response:
        assert response.status_code == 200, response.read()
        yield events(response.iter_lines())


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield {"type": kind, "payload": json.loads(line.removeprefix("data: ") or "null")}
