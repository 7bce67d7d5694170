"""Executes the examples of a page of the documentation, and yields documented and received responses.

A page names the caller (`As **caregiver**.`), a request (`graphql` with `json variables` and `http` headers,
or `sh` with a curl line) and the response (`json`, followed by a status other than 200). `http again` repeats
the request. `graphql listen` subscribes, and `json event` is the next event. Pages show dots in place of
request ids and of the timestamps of legacy errors.
"""

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from httpx2 import Response

from app.db.admin.demo import CAREGIVER, CLIENT
from app.db.drivers.factory import open_database
from app.settings import Settings
from tests import keys, pages
from tests.callers import WIDE, Caller, Gateway
from tests.events.dispatch_once import dispatch_once
from tests.factories import NOW
from tests.schema.listening import Listener, listening, wait_until_somebody_listens

STEP = re.compile(r"^(?:As \*\*(\w+)\*\*|(Two days later))|" + pages.FENCE.pattern, re.DOTALL | re.MULTILINE)
USERS = {"caregiver": CAREGIVER, "client": CLIENT}
HOST = "http://127.0.0.1:8000"


def with_default_limits(settings: Settings) -> Settings:
    """Restores the limits of the service, which are higher in other tests."""
    return settings.model_copy(update={name: Settings.model_fields[name].default for name in WIDE})


class PageRunner:
    """Holds the last request of the page, and sends it when the page shows a response."""

    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self.gateway = gateway
        self.stack = stack
        self.caller = gateway.as_nobody()
        self.listener: Listener | None = None
        self.last: tuple[int, Any] = (0, None)
        self.set_graphql("")

    def set_caller(self, who: str) -> None:
        self.caller = Caller(self.gateway.client, token_of(who) if who in USERS else None)

    def set_graphql(self, query: str) -> None:
        self.body: dict[str, Any] = {"query": query}
        self.headers: dict[str, str] = {}
        self.send: Callable[[], Response] = self.post_graphql

    def post_graphql(self) -> Response:
        return self.caller.request("POST", "/graphql", json=self.body, headers=self.headers)

    def set_curl(self, text: str) -> None:
        """Uses the last curl line of the block."""
        lines = [line for line in text.replace("\\\n", " ").split("\ncurl ")]
        if "curl " in text:
            words = shlex.split("curl " + lines[-1].removeprefix("curl "))
            self.send = lambda: self.curl(words[1:])

    def curl(self, words: list[str]) -> Response:
        method, headers, content, query = "GET", {}, None, ""
        rest = iter(words)
        for word in rest:
            match word:
                case "-H":
                    name, _, value = next(rest).partition(": ")
                    headers[name] = value.replace("$CAREGIVER", token_of("caregiver")).replace(
                        "$CLIENT", token_of("client")
                    )
                case "-X":
                    method = next(rest)
                case "-d":
                    method, content = "POST" if method == "GET" else method, next(rest)
                case "--data-urlencode":
                    query += ("&" if query else "?") + urlencode([tuple(next(rest).split("=", 1))])
                case _ if word.startswith(HOST):
                    path = word.removeprefix(HOST)
                case _:
                    assert word in ("-sS", "-sSG"), f"an unknown word for curl: {word}"
        return self.gateway.as_nobody().request(method, path + query, headers=headers, content=content)

    def listen(self, query: str) -> None:
        self.listener = self.stack.enter_context(listening(self.caller))
        self.listener.ask(query)
        wait_until_somebody_listens(self.gateway)

    def next_event(self) -> Any:
        assert self.listener is not None
        return self.listener.hear()["payload"]

    def dispatch(self, moment: datetime) -> None:
        asyncio.run(self.dispatching(moment))

    async def dispatching(self, moment: datetime) -> None:
        db = await open_database(self.gateway.settings.database)
        await dispatch_once(db, self.gateway.settings, moment)
        await db.close()

    def send_request(self) -> dict[str, str]:
        """Keeps status and body, and returns the headers."""
        response = self.send()
        body = response.json()
        for error in body.get("errors", ()):
            assert error["extensions"]["requestId"]
            error["extensions"]["requestId"] = "..."
        if "timestamp" in body:
            assert datetime.fromisoformat(body["timestamp"])
            body["timestamp"] = "..."
        self.last = response.status_code, body
        return dict(response.headers)


def token_of(who: str) -> str:
    return keys.token(who.upper(), USERS[who])


def headers_in(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def run_page(text: str, gateway: Gateway) -> Iterator[tuple[Any, Any]]:
    """Yields pairs of what the page shows and what the service returns."""
    with ExitStack() as stack:
        runner = PageRunner(gateway, stack)
        for who, later, kind, block in STEP.findall(text):
            match who or later or kind:
                case "caregiver" | "client" | "anonymous":
                    runner.set_caller(who)
                case "Two days later":
                    runner.dispatch(NOW + timedelta(days=2))
                case "graphql":
                    runner.set_graphql(block)
                case "graphql listen":
                    runner.listen(block)
                case "json variables":
                    runner.body["variables"] = json.loads(block)
                case "http":
                    runner.headers = headers_in(block)
                case "sh":
                    runner.set_curl(block)
                case "json event":
                    yield json.loads(block), runner.next_event()
                case "http again":
                    shown, before = headers_in(block), runner.last
                    headers = runner.send_request()
                    yield shown, {name: headers.get(name.lower()) for name in shown}
                    yield before, runner.last
                case _ if re.fullmatch(r"json( \d+)?", kind):
                    runner.send_request()
                    yield (int(kind.removeprefix("json") or 200), json.loads(block)), runner.last
                case _:
                    assert kind in ("js", "jsonl", "ini", "sql", "console"), (
                        f"a block of an unknown kind: {kind}"
                    )
