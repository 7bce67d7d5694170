"""Every request of legacy.http succeeds on the demo data and equals the one on the landing page."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
from app.db.interchange.load import importing
from app.landing.page import example_calls
from tests import keys
from tests.callers import Gateway, run_write
from tests.factories import NOW

TEXT = (Path(__file__).parent.parent.parent / "legacy.http").read_text()


@dataclass(frozen=True)
class EditorRequest:
    name: str
    method: str
    target: str
    headers: dict[str, str]
    body: str


def variables(text: str) -> dict[str, str]:
    return dict(re.findall(r"^@(\w+) = (.*)$", text, re.MULTILINE))


def requests(text: str, known: dict[str, str]) -> list[EditorRequest]:
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: known[found[1]], text)
    return [read(part) for part in re.split(r"^###.*\n", text, flags=re.MULTILINE)[1:]]


def read(part: str) -> EditorRequest:
    head, _, body = part.partition("\n\n")
    named, line, *headers = head.strip().splitlines()
    method, target = line.split(" ")
    return EditorRequest(
        named.removeprefix("# @name "), method, target, dict(map(split, headers)), body.strip()
    )


def split(header: str) -> tuple[str, str]:
    name, value = header.split(": ")
    return name, value


def test_every_request_succeeds(gateway: Gateway) -> None:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))
    assert variables(TEXT)["host"] == "http://127.0.0.1:8000"
    known = {
        "host": "",
        "caregiver": keys.token("CAREGIVER", CAREGIVER),
        "client": keys.token("CLIENT", CLIENT),
    }
    assert known.keys() == variables(TEXT).keys()

    responses = {
        each.name: gateway.as_anonymous().request(
            each.method, each.target, headers=each.headers, content=each.body
        )
        for each in requests(TEXT, known)
    }

    assert len(responses) == 8
    assert [(name, each.text) for name, each in responses.items() if each.status_code != 200] == []
    for call in example_calls(NOW):
        assert list(responses[call.operation].json()) == ["data"]
    assert responses["assignHomework"].json()["data"]["assignHomework"]["userErrors"] == []


def test_the_requests_are_those_of_the_landing_page() -> None:
    written = {each.name: each for each in requests(TEXT, dict.fromkeys(variables(TEXT), ""))}

    for call in example_calls(NOW):
        legacy, graphql = written[f"{call.operation}Legacy"], written[call.operation]
        assert f"{legacy.method} {legacy.target}" == call.line
        assert (json.loads(legacy.body) if legacy.body else None) == call.body
        body = json.loads(graphql.body)
        assert body["query"].split() == call.document.split()
        assert body["variables"] == call.variables
