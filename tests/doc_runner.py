"""Carries out what a page of the documentation shows, step by step, and what came of it beside what is shown.

A page says who asks (`As **caregiver**.`), what (`graphql` with `json variables` and `http` headers, or `sh`
with a curl line) and what the answer is (`json`, with a status other than 200 behind it). `http again` sends
the same once more; `graphql listen` begins to listen, and `json event` is what is heard. Two values are new
every time, request ids and the moments of legacy errors: pages show dots in their place.
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


def as_people_have_it(settings: Settings) -> Settings:
    """With the limits of the service, where other tests ask for more."""
    return settings.model_copy(update={name: Settings.model_fields[name].default for name in WIDE})


class Kitchen:
    """What was asked last is sent when its answer stands on the page."""

    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self.gateway = gateway
        self.stack = stack
        self.caller = gateway.as_nobody()
        self.listener: Listener | None = None
        self.last: tuple[int, Any] = (0, None)
        self.ask_in_graphql("")

    def be(self, who: str) -> None:
        self.caller = Caller(self.gateway.client, token_of(who) if who in USERS else None)

    def ask_in_graphql(self, query: str) -> None:
        self.body: dict[str, Any] = {"query": query}
        self.headers: dict[str, str] = {}
        self.send: Callable[[], Response] = self.post_graphql

    def post_graphql(self) -> Response:
        return self.caller.request("POST", "/graphql", json=self.body, headers=self.headers)

    def ask_by_curl(self, text: str) -> None:
        """The last curl line of a block, sent by ourselves."""
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

    def heard(self) -> Any:
        assert self.listener is not None
        return self.listener.hear()["payload"]

    def dispatch(self, moment: datetime) -> None:
        asyncio.run(self.dispatching(moment))

    async def dispatching(self, moment: datetime) -> None:
        db = await open_database(self.gateway.settings.database)
        await dispatch_once(db, self.gateway.settings, moment)
        await db.close()

    def answered(self) -> dict[str, str]:
        """Sends what is asked, and keeps status and answer; returns the headers."""
        answer = self.send()
        said = answer.json()
        for error in said.get("errors", ()):
            assert error["extensions"]["requestId"]
            error["extensions"]["requestId"] = "..."
        if "timestamp" in said:
            assert datetime.fromisoformat(said["timestamp"])
            said["timestamp"] = "..."
        self.last = answer.status_code, said
        return dict(answer.headers)


def token_of(who: str) -> str:
    return keys.token(who.upper(), USERS[who])


def headers_in(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def carried_out(text: str, gateway: Gateway) -> Iterator[tuple[Any, Any]]:
    """What the page shows and what came, answer by answer."""
    with ExitStack() as stack:
        kitchen = Kitchen(gateway, stack)
        for who, later, kind, block in STEP.findall(text):
            match who or later or kind:
                case "caregiver" | "client" | "anonymous":
                    kitchen.be(who)
                case "Two days later":
                    kitchen.dispatch(NOW + timedelta(days=2))
                case "graphql":
                    kitchen.ask_in_graphql(block)
                case "graphql listen":
                    kitchen.listen(block)
                case "json variables":
                    kitchen.body["variables"] = json.loads(block)
                case "http":
                    kitchen.headers = headers_in(block)
                case "sh":
                    kitchen.ask_by_curl(block)
                case "json event":
                    yield json.loads(block), kitchen.heard()
                case "http again":
                    shown, before = headers_in(block), kitchen.last
                    headers = kitchen.answered()
                    yield shown, {name: headers.get(name.lower()) for name in shown}
                    yield before, kitchen.last
                case _ if re.fullmatch(r"json( \d+)?", kind):
                    kitchen.answered()
                    yield (int(kind.removeprefix("json") or 200), json.loads(block)), kitchen.last
                case _:
                    assert kind in ("js", "jsonl", "ini", "sql", "console"), (
                        f"a block of an unknown kind: {kind}"
                    )
