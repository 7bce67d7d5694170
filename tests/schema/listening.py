"""A websocket listener for tests, and events that occur while it listens."""

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

PROTOCOL = "graphql-transport-ws"
PATIENCE = 30  # seconds until a message that does not come is a failure


@dataclass
class Listener:
    session: WebSocketTestSession
    threads: ThreadPoolExecutor

    def say(self, **message: Any) -> None:
        self.session.send_json(message)

    def hear(self) -> Any:
        """The next message. Request ids are new every time."""
        message = self.threads.submit(self.session.receive_json).result(PATIENCE)
        payload = message.get("payload")
        errors = payload if isinstance(payload, list) else (payload or {}).get("errors", ())
        for error in errors:
            assert error["extensions"].pop("requestId")
        return message

    def hear_close(self) -> tuple[int, str]:
        message = self.threads.submit(self.session.receive).result(PATIENCE)
        assert message["type"] == "websocket.close", message
        return message["code"], message["reason"]

    def ask(self, query: str, id: str = "1", **variables: Any) -> None:
        self.say(type="subscribe", id=id, payload={"query": query, "variables": variables})

    def told(self, query: str, **variables: Any) -> dict[str, Any]:
        """The answer to a query, all of it."""
        self.ask(query, "told", **variables)
        answer = self.hear()
        assert (answer["id"], answer["type"]) == ("told", "next"), answer
        assert self.hear() == {"id": "told", "type": "complete"}
        data: dict[str, Any] = answer["payload"]["data"]
        return data

    def change(self) -> dict[str, Any]:
        """What the next event says, with nothing wrong in it."""
        message = self.hear()
        assert message["type"] == "next", message
        assert "errors" not in message["payload"], message
        [said] = message["payload"]["data"].values()
        return dict(said)


@contextmanager
def connected(caller: Caller, **headers: str) -> Iterator[Listener]:
    """At a websocket, before the first message."""
    if caller.token is not None:
        headers.setdefault("authorization", f"bearer {caller.token}")
    with (
        ThreadPoolExecutor(1) as threads,
        caller.client.websocket_connect("/graphql", [PROTOCOL], headers=headers) as session,
    ):
        yield Listener(session, threads)


@contextmanager
def listening(caller: Caller) -> Iterator[Listener]:
    with connected(caller) as listener:
        listener.say(type="connection_init")
        assert listener.hear() == {"type": "connection_ack"}
        yield listener


def wait_until_somebody_listens(gateway: Gateway) -> None:
    """Until a subscription that begins with now has begun."""
    wait_for(lambda: bool(gateway.client.app_state["notifier"].wakeups))


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)  # between two looks


def happened(
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
    """An event as the change that it tells of would have written it. Returns its number."""
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
    given = {name: value for name, value in columns.items() if value is not None}
    sql = (
        f"INSERT INTO event ({', '.join(given)}) VALUES ({', '.join(map(str, given.values()))}) RETURNING id"
    )
    found = raw.run(url, sql)
    if url.startswith("postgresql"):
        raw.run(
            url,
            "SELECT setval(pg_get_serial_sequence('event', 'id'), (SELECT max(id) FROM event))",
            f"SELECT pg_notify('care_event', '{caregiver} {client}')",
        )
    return int(found[0][0])


# --- event streams ---


@dataclass
class Stream:
    answer: Response
    lines: Iterator[str]
    threads: ThreadPoolExecutor

    def line(self) -> str:
        found = self.threads.submit(next, self.lines, None).result(PATIENCE)
        if found is None:
            raise EOFError
        return found

    def hear(self) -> tuple[str, Any]:
        """The next event: its kind, and what it says."""
        event, data = self.line(), self.line()
        assert self.line() == ""
        return event.removeprefix("event: "), json.loads(data.removeprefix("data: ") or "null")

    @property
    def events(self) -> Iterator[tuple[str, Any]]:
        """Those that are left, until the stream ends."""
        try:
            while True:
                yield self.hear()
        except EOFError:
            return


@contextmanager
def streaming(
    caller: Caller, query: str, accept: str = "text/event-stream", **variables: Any
) -> Iterator[Stream]:
    request = {"query": query, "operationName": variables.pop("operationName", None), "variables": variables}
    headers = {"accept": accept, "authorization": f"bearer {caller.token}"}
    with (
        ThreadPoolExecutor(1) as threads,
        caller.client.stream("POST", "/graphql", json=request, headers=headers) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        yield Stream(answer, answer.iter_lines(), threads)


def stop(gateway: Gateway) -> None:
    """As if the process were told to end."""
    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.client.app_state["notifier"].stop)
