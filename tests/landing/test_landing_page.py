"""`/` shows endpoints, and in development tokens and each legacy call beside its GraphQL replacement.

Tokens are shown only in development, and only to a visitor on the same machine.
"""

import html
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

import orjson
import pytest
from httpx2 import Response

from app.db.admin.demo import demo_lines
from app.db.interchange.load import importing
from app.dev.assets import POLICY
from app.landing.page import example_calls
from app.main import create_app
from app.rest_compat.homework import read_homework
from app.settings import Environment, Settings
from tests import keys
from tests.callers import Gateway, opened, run_write
from tests.factories import DAY, NOW
from tests.schema.test_headers import SECURITY_HEADERS

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "host": "localhost:8000"}
TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
CODE = re.compile(r'<code data-language="(\w*)">(.*?)</code>', re.DOTALL)


@contextmanager
def service(settings: Settings, **changed: object) -> Iterator[Gateway]:
    own = settings.model_copy(update=changed)
    with opened(create_app(own, clock=lambda: NOW)) as client:
        yield Gateway(client, own)


@pytest.fixture
def own_keys(settings: Settings) -> Settings:
    """Settings like those of `make run`, with the demo data."""
    run_write(settings.database, importing(demo_lines(NOW)))
    return settings.model_copy(update={"token_key": ""})


def page_of(gateway: Gateway, **headers: str) -> Response:
    found = gateway.as_anonymous().get("/", headers=BROWSER | headers)
    assert found.status_code == 200
    return found


def test_each_legacy_call_is_beside_its_replacement(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        page = page_of(gateway).text
    blocks = [(kind, html.unescape(text)) for kind, text in CODE.findall(page)]

    assert page.count("<details open ") == 1
    tokens = [text for kind, text in blocks if not kind]
    assert [bool(TOKEN.fullmatch(token)) for token in tokens] == [True, True]
    requests = [text for kind, text in blocks if kind == "http"]
    for call, request in zip(example_calls(NOW), requests, strict=True):
        line, _, body = request.partition("\nAuthorization: bearer <token>\n")
        assert line == f"{call.line} HTTP/1.1"
        if call.body:
            assert json.loads(body.removeprefix("Content-Type: application/json\n\n")) == call.body
    assert [text for kind, text in blocks if kind == "graphql"] == [
        call.document for call in example_calls(NOW)
    ]
    assert [json.loads(text) for kind, text in blocks if kind == "json"] == [
        call.variables for call in example_calls(NOW)
    ]


def test_each_call_links_its_reference_and_opens_in_graphiql_for_its_role(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        page = page_of(gateway).text
    links = re.findall(r'href="/openapi.html#(.+?)"', page)
    fragments = [html.unescape(each) for each in re.findall(r'href="/graphql#(.+?)"', page)]
    states = [{name: value for name, (value,) in parse_qs(each).items()} for each in fragments]

    assert links == [
        "tag/client/listClientSessions",
        "tag/caregiver/listCaregiverAssignments",
        "tag/caregiver/getCaregiverAssignment",
        "tag/caregiver/assignHomework",
    ]
    assert [(state["query"], json.loads(state["variables"]), state["role"]) for state in states] == [
        (call.document, call.variables, call.role.lower()) for call in example_calls(NOW)
    ]


@pytest.mark.parametrize(
    ("now", "start", "middle", "end"),
    [
        (NOW, "2026-11-22", "2026-11-25", "2026-11-29"),
        (datetime(2026, 12, 31, tzinfo=UTC), "2027-01-01", "2027-01-04", "2027-01-08"),
        (datetime(2026, 12, 30, 23, 59, tzinfo=UTC), "2026-12-31", "2027-01-03", "2027-01-07"),
    ],
)
def test_the_homework_of_the_page_begins_tomorrow_and_is_the_same_in_both_contracts(
    now: datetime, start: str, middle: str, end: str
) -> None:
    call = example_calls(now)[-1]

    assert call.variables["input"] == {
        "sessionId": "1",
        "bookIds": ["1", "2"],
        "startDate": f"{start}T08:00:00Z",
        "endDate": f"{end}T20:00:00Z",
        "remindDates": [f"{middle}T18:30:00Z"],
    }
    read = read_homework(json.dumps(call.body).encode(), ZoneInfo("UTC"))
    assert json.loads(orjson.dumps(read, option=orjson.OPT_UTC_Z)) == call.variables["input"]


def test_the_tokens_are_valid_for_their_roles(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        page = page_of(gateway).text
        callers = [gateway.with_token(token) for token in TOKEN.findall(page)]
        viewers = [caller.data("{ viewer { role } }")["viewer"] for caller in callers]

    assert viewers == [{"role": "CAREGIVER"}, {"role": "CLIENT"}]
    people = re.findall(r'<h3>For (.+)</h3>\n<div class="token">', page)
    assert people == ["a caregiver, Mara Lind", "a client, Jonas Berg"]


@pytest.mark.parametrize("host", ["care.example.test", "localhost.example.test", "[::2]", "10.0.0.1"])
def test_another_host_name_shows_no_tokens(own_keys: Settings, host: str) -> None:
    with service(own_keys) as gateway:
        page = page_of(gateway, host=host).text
        short = gateway.as_anonymous().get("/", headers={"host": host}).text

    assert TOKEN.findall(page + short) == []
    assert "Tokens are shown only to a browser on the same machine" in page


def test_a_visitor_on_another_machine_sees_no_tokens(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        gateway.client.comes_from = "10.0.0.7"
        page = page_of(gateway).text

    assert TOKEN.findall(page) == []


def test_with_an_external_issuer_the_page_shows_no_tokens(settings: Settings) -> None:
    with service(settings) as gateway:
        page = page_of(gateway).text

    assert TOKEN.findall(page) == []
    assert "The settings name an external token issuer" in page


def test_the_deprecation_dates_of_the_legacy_paths_are_shown(settings: Settings) -> None:
    dated = {
        "legacy_deprecated": NOW,
        "legacy_sunset": NOW + 365 * DAY,
        "legacy_notice": "https://example.test/leaving?a=1&b=2",
    }
    with service(settings, **dated) as gateway:
        page = page_of(gateway).text
        short = gateway.as_anonymous().get("/").text

    notice = (
        "The legacy paths are deprecated from 2026-11-21 09:00 UTC on "
        "and may no longer answer from 2027-11-21 09:00 UTC on."
    )
    assert f'<strong>{notice}</strong> <a href="https://example.test/leaving?a=1&amp;b=2">' in page
    assert f"\n{notice} https://example.test/leaving?a=1&b=2\n" in short


def test_a_deprecation_without_a_page_about_it_has_no_link(settings: Settings) -> None:
    with service(settings, legacy_deprecated=NOW, legacy_notice="") as gateway:
        page = page_of(gateway).text
        short = gateway.as_anonymous().get("/").text

    notice = "The legacy paths are deprecated from 2026-11-21 09:00 UTC on."
    assert f"<p><strong>{notice}</strong></p>" in page
    assert short.endswith(f"\n{notice}\n")


def test_a_page_about_a_deprecation_without_a_date_is_not_linked(settings: Settings) -> None:
    with service(settings, legacy_notice="https://example.test/leaving") as gateway:
        page = page_of(gateway).text
        short = gateway.as_anonymous().get("/").text

    assert "https://example.test/leaving" not in page + short
    assert "<strong></strong>" not in page


# --- HTTP and HTML -------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "[::1]:8000", "localhost"])
def test_other_programs_than_browsers_get_plain_text_with_commands(own_keys: Settings, host: str) -> None:
    """The commands contain the address of the request."""
    with service(own_keys) as gateway:
        found = gateway.as_anonymous().get("/", headers={"accept": "*/*", "host": host})

    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert found.headers["vary"] == "Accept"
    assert len(set(TOKEN.findall(found.text))) == 2
    assert 'curl -sS -H "Authorization: bearer $CAREGIVER"' in found.text
    assert set(re.findall(r"https?://[^/ '\"]+", found.text)) == {f"http://{host}"}


@pytest.mark.parametrize(
    "program, command",
    [
        ("/opt/my folder/care-gateway", "'/opt/my folder/care-gateway'"),
        ("/opt/care-gateway/app/__main__.py", "'/opt/my python' -m app"),
    ],
)
def test_the_command_for_another_token_can_be_pasted(
    own_keys: Settings, monkeypatch: pytest.MonkeyPatch, program: str, command: str
) -> None:
    """It is quoted as a shell needs it."""
    monkeypatch.setattr(sys, "argv", [program, "serve"])
    monkeypatch.setattr(sys, "orig_argv", ["/opt/my python", "-m", "app", "serve"])
    with service(own_keys) as gateway:
        found = gateway.as_anonymous().get("/", headers={"host": "localhost"}).text

    assert f"CARE_ENV=development {command} token --role caregiver" in found


def test_production_answers_everyone_with_the_endpoints(own_keys: Settings) -> None:
    with service(own_keys, env=Environment.PRODUCTION, token_key=keys.public_pem()) as gateway:
        page, text = page_of(gateway), gateway.as_anonymous().get("/")

    assert page.text == text.text
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text.splitlines() == [
        "Care Gateway: care sessions over GraphQL and four legacy REST paths.",
        "",
        "/graphql        GraphQL: POST with a bearer token",
        "/openapi.yaml   OpenAPI description of the legacy paths; also /openapi.json",
        "/livez          liveness",
        "/readyz         readiness",
    ]


def test_other_methods_than_get_and_head_are_rejected(gateway: Gateway) -> None:
    anonymous = gateway.as_anonymous()

    head = anonymous.request("HEAD", "/", headers=BROWSER)
    get = anonymous.get("/", headers=BROWSER)
    rejected = [anonymous.request(method, "/") for method in ("POST", "PUT", "DELETE", "OPTIONS", "REPORT")]

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"] == "text/html; charset=utf-8"
    assert get.headers["vary"] == "Accept"
    assert [response.status_code for response in rejected] == [405] * 5
    allowed = {frozenset(response.headers["allow"].split(", ")) for response in rejected}
    assert allowed == {frozenset(("GET", "HEAD"))}


def test_the_policy_allows_no_other_hosts(gateway: Gateway) -> None:
    found = page_of(gateway)

    assert found.headers["content-security-policy"] == POLICY
    others = {name: value for name, value in SECURITY_HEADERS.items() if name != "content-security-policy"}
    assert {name: found.headers[name] for name in others} == others
    assert not re.search(r"<script|<form| on\w+=|https?://(?!www\.w3\.org/2000/svg)", found.text)


class Outline(HTMLParser):
    """The headings, ids and links of a page. Fails if elements are not closed in order."""

    VOID = ("meta", "link", "rect", "path")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [attributes["href"] or ""] if tag == "a" else []

    def handle_endtag(self, tag: str) -> None:
        assert tag in self.VOID or self.open.pop() == tag


def test_the_page_has_valid_elements_headings_and_links(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        outline = Outline()
        outline.feed(page_of(gateway).text)
        elsewhere = {link.partition("#")[0] for link in outline.links if not link.startswith("#")}
        found = {link: gateway.as_anonymous().get(link, headers=BROWSER) for link in elsewhere}

    assert outline.open == []
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert {link: response.status_code for link, response in found.items()} == dict.fromkeys(elsewhere, 200)
