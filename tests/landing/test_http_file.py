"""Promise: every request of legacy.http works when it is sent, and is the one that the front page shows."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
from app.db.admin.importing import importing
from app.landing.example_calls import example_calls
from tests import keys
from tests.callers import Gateway, run_write
from tests.factories import NOW

TEXT = (Path(__file__).parent.parent.parent / "legacy.http").read_text()


@dataclass(frozen=True)
class Sent:
    """A request as an editor reads it."""

    name: str
    method: str
    target: str
    headers: dict[str, str]
    body: str


def variables(text: str) -> dict[str, str]:
    return dict(re.findall(r"^@(\w+) = (.*)$", text, re.MULTILINE))


def requests(text: str, known: dict[str, str]) -> list[Sent]:
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: known[found[1]], text)
    return [read(part) for part in re.split(r"^###.*\n", text, flags=re.MULTILINE)[1:]]


def read(part: str) -> Sent:
    head, _, body = part.partition("\n\n")
    named, line, *headers = head.strip().splitlines()
    method, target = line.split(" ")
    return Sent(named.removeprefix("# @name "), method, target, dict(map(split, headers)), body.strip())


def split(header: str) -> tuple[str, str]:
    name, value = header.split(": ")
    return name, value


def test_every_request_works_as_it_stands(gateway: Gateway) -> None:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))
    assert variables(TEXT)["host"] == "http://127.0.0.1:8000"
    known = {
        "host": "",
        "caregiver": keys.token("CAREGIVER", CAREGIVER),
        "client": keys.token("CLIENT", CLIENT),
    }
    assert known.keys() == variables(TEXT).keys()

    answers = {
        sent.name: gateway.as_nobody().request(
            sent.method, sent.target, headers=sent.headers, content=sent.body
        )
        for sent in requests(TEXT, known)
    }

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(answers, 200)
    assert len(answers) == 8
    for call in example_calls(NOW):
        said = answers[call.operation].json()
        assert (list(said), list(said["data"])) == (["data"], [call.field])
    assert answers["assignHomework"].json()["data"]["assignHomework"]["userErrors"] == []


def test_it_asks_what_the_front_page_shows() -> None:
    sent = {one.name: one for one in requests(TEXT, dict.fromkeys(variables(TEXT), ""))}

    for call in example_calls(NOW):
        legacy, graphql = sent[f"{call.operation}Legacy"], sent[call.operation]
        assert (legacy.method, legacy.target) == (call.method, call.target)
        assert (json.loads(legacy.body) if legacy.body else None) == call.body
        body = json.loads(graphql.body)
        assert body["query"].split() == call.document.split()
        assert body.get("variables") == call.variables
