"""Runs the requests that a page of the documentation shows, and yields each shown response with the real one.

A page names the viewer (`As **caregiver**.`), the request (`graphql` with `json variables` and `http`
headers, or `sh` with a curl line) and the response (`json`, followed by a status other than 200).
`http again` repeats the request; `graphql listen` subscribes, and `json event` is the next event. Pages show
dots in place of values that change with every run (request ids, timestamps of legacy errors) and of the end
of an export.
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
from tests.schema.listening import Listener, listening, wait_for_subscription

STEP = re.compile(r"^(?:As \*\*(\w+)\*\*|(Two days later))|" + pages.FENCE.pattern, re.DOTALL | re.MULTILINE)
USERS = {"caregiver": CAREGIVER, "client": CLIENT}
HOST = "http://127.0.0.1:8000"
NOT_RUN = ("js", "jsonl", "ini", "sql", "console", "text")


def with_default_limits(settings: Settings) -> Settings:
    """Other tests run with wider limits."""
    return settings.model_copy(update={name: Settings.model_fields[name].default for name in WIDE})


class PageRunner:
    """Prepares the request that a page shows, and sends it when the page shows the response."""

    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self.gateway = gateway
        self.stack = stack
        self.caller = gateway.as_anonymous()
        self.listener: Listener | None = None
        self.last: tuple[int, Any] = (0, None)
        self.prepare_graphql("")

    def use_viewer(self, name: str) -> None:
        self.caller = Caller(self.gateway.client, token_of(name) if name in USERS else None)

    def prepare_graphql(self, query: str) -> None:
        self.body: dict[str, Any] = {"query": query}
        self.headers: dict[str, str] = {}
        self.send: Callable[[], Response] = self.post_graphql

    def post_graphql(self) -> Response:
        return self.caller.request("POST", "/graphql", json=self.body, headers=self.headers)

    def prepare_curl(self, text: str) -> None:
        """Prepares the last curl line of a block."""
        if "curl " in text:
            line = text.replace("\\\n", " ").split("\ncurl ")[-1].removeprefix("curl ")
            words = shlex.split(line)
            self.send = lambda: self.curl(words)

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
                    assert word in ("-sS", "-sSG"), f"unknown argument of curl: {word}"
        return self.gateway.as_anonymous().request(method, path + query, headers=headers, content=content)

    def subscribe(self, query: str) -> None:
        self.listener = self.stack.enter_context(listening(self.caller))
        self.listener.subscribe(query)
        wait_for_subscription(self.gateway)

    def next_event(self) -> Any:
        assert self.listener is not None
        return self.listener.receive()["payload"]

    def dispatch(self, moment: datetime) -> None:
        async def run() -> None:
            db = await open_database(self.gateway.settings.database)
            await dispatch_once(db, self.gateway.settings, moment)
            await db.close()

        asyncio.run(run())

    def request(self) -> dict[str, str]:
        """Sends the request, stores status and body, and returns the headers."""
        response = self.send()
        body = response.json()
        for error in body.get("errors", ()):
            assert error["extensions"]["requestId"]
            error["extensions"]["requestId"] = "..."
        if "timestamp" in body:
            assert datetime.fromisoformat(body["timestamp"])
            body["timestamp"] = "..."
        if export := (body.get("data") or {}).get("ownData"):
            body["data"]["ownData"] = "\r\n".join([*export.split("\r\n")[:2], "..."])
        self.last = response.status_code, body
        return dict(response.headers)


def token_of(name: str) -> str:
    return keys.token(name.upper(), USERS[name])


def headers_in(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def run_page(text: str, gateway: Gateway) -> Iterator[tuple[Any, Any]]:
    """Yields each response that the page shows, and the real one."""
    with ExitStack() as stack:
        runner = PageRunner(gateway, stack)
        for viewer, later, kind, block in STEP.findall(text):
            match viewer or later or kind:
                case "caregiver" | "client" | "anonymous":
                    runner.use_viewer(viewer)
                case "Two days later":
                    runner.dispatch(NOW + timedelta(days=2))
                case "graphql":
                    runner.prepare_graphql(block)
                case "graphql listen":
                    runner.subscribe(block)
                case "json variables":
                    runner.body["variables"] = json.loads(block)
                case "http":
                    runner.headers = headers_in(block)
                case "sh":
                    runner.prepare_curl(block)
                case "json event":
                    yield json.loads(block), runner.next_event()
                case "http again":
                    shown, before = headers_in(block), runner.last
                    headers = runner.request()
                    yield shown, {name: headers.get(name.lower()) for name in shown}
                    yield before, runner.last
                case _ if re.fullmatch(r"json( \d+)?", kind):
                    runner.request()
                    yield (int(kind.removeprefix("json") or 200), json.loads(block)), runner.last
                case _:
                    assert kind in NOT_RUN, f"unknown kind of block: {kind}"
