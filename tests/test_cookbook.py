"""What docs/cookbook.md shows is so: every recipe, carried out on the demo world as it was loaded, answers
what the page says, to the last member.

Its dates are those of a world that was loaded at the frozen moment. One value is new every time, the request
id of an error: the page shows dots in its place.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import pytest
from graphql import parse, print_ast

from app.care.errors import CareError
from app.db.drivers import open_database
from app.db.upkeep.demo import CAREGIVER, CLIENT, demo_lines
from app.db.upkeep.importing import importing
from app.ide.examples import EXAMPLES
from app.schema.errors import INTERNAL, OVERLOADED, TOO_COSTLY
from app.schema.schema import build_schema
from tests import keys, pages
from tests.callers import Caller, Gateway, run_write
from tests.dispatch.rounds import dispatch_once
from tests.given import NOW
from tests.schema.listening import Listener, listening, wait_until_somebody_listens

PAGE = pages.read("docs/cookbook.md")
STEP = re.compile(r"^(?:As \*\*(\w+)\*\*|(Two days later))|" + pages.FENCE.pattern, re.DOTALL | re.MULTILINE)
USERS = {"caregiver": CAREGIVER, "client": CLIENT}


def recipes() -> dict[str, str]:
    return {title: text for title, text in pages.sections(PAGE, level=3) if "```json" in text}


class Kitchen:
    """Carries out a recipe step by step; what it asked last is asked when its answer stands on the page."""

    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self.gateway = gateway
        self.stack = stack
        self.caller = gateway.as_nobody()
        self.listener: Listener | None = None
        self.last: tuple[int, Any] = (0, None)
        self.begin("")

    def begin(self, query: str) -> None:
        self.query, self.variables = query, {}
        self.headers: dict[str, str] = {}

    def be(self, who: str) -> None:
        token = keys.token(who.upper(), USERS[who]) if who in USERS else None
        self.caller = Caller(self.gateway.client, token)

    def listen(self, query: str) -> None:
        self.listener = self.stack.enter_context(listening(self.caller))
        self.listener.ask(query)
        wait_until_somebody_listens(self.gateway)

    def dispatch(self, moment: datetime) -> None:
        asyncio.run(self.dispatching(moment))

    async def dispatching(self, moment: datetime) -> None:
        db = await open_database(self.gateway.settings.database)
        await dispatch_once(db, self.gateway.settings, moment)
        await db.close()

    def heard(self) -> Any:
        assert self.listener is not None
        return self.listener.hear()["payload"]

    def answered(self) -> tuple[int, dict[str, str], Any]:
        body: dict[str, Any] = {"query": self.query}
        if self.variables:
            body["variables"] = self.variables
        answer = self.caller.request("POST", "/graphql", json=body, headers=self.headers)
        said = answer.json()
        for error in said.get("errors", ()):
            assert error["extensions"]["requestId"]
            error["extensions"]["requestId"] = "..."
        return answer.status_code, dict(answer.headers), said


def headers_in(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def carried_out(text: str, gateway: Gateway) -> Iterator[tuple[Any, Any]]:
    """What the page shows and what came, answer by answer."""
    with ExitStack() as stack:
        kitchen = Kitchen(gateway, stack)
        for who, later, kind, block in STEP.findall(text):
            match who or later or kind:
                case "Two days later":
                    kitchen.dispatch(NOW + timedelta(days=2))
                case "caregiver" | "client" | "nobody":
                    kitchen.be(who)
                case "graphql":
                    kitchen.begin(block)
                case "graphql listen":
                    kitchen.listen(block)
                case "json variables":
                    kitchen.variables = json.loads(block)
                case "http":
                    kitchen.headers = headers_in(block)
                case "json event":
                    yield json.loads(block), kitchen.heard()
                case "http again":
                    status, headers, said = kitchen.answered()
                    shown = {name.lower(): value for name, value in headers_in(block).items()}
                    yield shown, {name: headers.get(name) for name in shown}
                    yield kitchen.last, (status, said)
                case _ if kind.startswith("json"):
                    status, _, said = kitchen.answered()
                    kitchen.last = status, said
                    yield (int(kind.removeprefix("json") or 200), json.loads(block)), kitchen.last
                case _:
                    assert kind == "sh", f"a block of an unknown kind: {kind}"


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("engine", ["prepared"], indirect=True)
@pytest.mark.parametrize("title", recipes())
def test_a_recipe_answers_what_the_page_shows(gateway: Gateway, title: str) -> None:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))

    for shown, came in carried_out(recipes()[title], gateway):
        assert came == shown


def operations(text: str) -> dict[str, str]:
    document = parse(text)
    return {one.name.value: print_ast(one) for one in document.definitions if getattr(one, "name", None)}


def test_what_the_graphql_page_offers_under_the_same_name_is_the_same() -> None:
    shown: dict[str, str] = {}
    for block in pages.blocks(PAGE):
        if block.kind.startswith("graphql"):
            shown |= operations(block.text)
    offered = {name: text for example in EXAMPLES for name, text in operations(example.query).items()}

    common = shown.keys() & offered.keys()
    assert {"MyRunningSessions", "AssignHomework", "SubmitAnswers"} <= common
    assert {name: offered[name] for name in common} == {name: shown[name] for name in common}


def test_every_question_change_and_subscription_has_a_recipe() -> None:
    schema = build_schema()._schema
    roots = (schema.query_type, schema.mutation_type, schema.subscription_type)

    shown = {
        field.name.value
        for block in pages.blocks(PAGE)
        if block.kind.startswith("graphql")
        for one in parse(block.text).definitions
        for field in one.selection_set.selections  # type: ignore[attr-defined]
    }

    assert {name for root in roots if root for name in root.fields} - shown == set()


def codes(kind: type[CareError] = CareError) -> set[str]:
    own = {kind.code} if hasattr(kind, "code") else set()
    return own.union(*(codes(each) for each in kind.__subclasses__()))


def test_every_code_is_told_what_to_do_about() -> None:
    table = dict(pages.sections(PAGE))["Errors and what to do about them"]

    told = set(re.findall(r"`([A-Z_]+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))))

    assert codes() | {INTERNAL, OVERLOADED, TOO_COSTLY} <= told
