"""`/` shows endpoints, documentation and each legacy call beside its GraphQL replacement.

Tokens and responses are shown only in development, and only to a browser on the same machine.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import pytest
from httpx2 import Response

from app.db.admin.demo import demo_lines
from app.db.admin.importing import importing
from app.landing.example_calls import example_calls
from app.main import create_app
from app.settings import Environment, Settings
from tests import keys
from tests.callers import Gateway, opened, run_write
from tests.db import raw
from tests.factories import DAY, NOW
from tests.schema.test_headers import SECURITY_HEADERS
from tests.test_main import take_away

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "host": "localhost:8000"}
TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
BLOCK = re.compile(r'aria-label="([^"]*)"><code>(.*?)</code>', re.DOTALL)


def responses_in(page: str) -> list[str]:
    return [name for name in blocks(page) if name.startswith(("Legacy response", "GraphQL response"))]


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


def blocks(page: str) -> dict[str, str]:
    """The texts of the preformatted blocks, by their labels."""
    return {html.unescape(name): html.unescape(text) for name, text in BLOCK.findall(page)}


def test_each_legacy_call_is_beside_its_replacement_with_live_responses(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        page = page_of(gateway).text
        tokens = re.findall(r'aria-label="Token of the (\w+)">([^<]+)<', page)
        callers = {role: gateway.with_token(token) for role, token in tokens}
        shown = blocks(page)

        assert list(callers) == ["caregiver", "client"]
        for call in example_calls(NOW):
            assert shown[f"GraphQL operation: {call.title}"] == call.document
            assert shown[f"Legacy request: {call.title}"].startswith(f"{call.method} {call.target}\n")
            if call.method != "GET":
                continue
            caller = callers[call.role.lower()]
            legacy = json.loads(shown[f"Legacy response: {call.title}"])
            assert legacy == caller.get(call.target).json()
            graphql = json.loads(shown[f"GraphQL response: {call.title}"])
            assert graphql == caller.graphql(call.document, **call.variables)
            assert "errors" not in graphql


def test_viewing_the_page_changes_no_data_and_is_not_counted_as_usage(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        before = raw.row_counts(own_keys.database)
        page = page_of(gateway).text
        after = raw.row_counts(own_keys.database)

    assert "Legacy response: Assign homework" not in blocks(page)
    assert after == before
    assert raw.run(own_keys.database, "SELECT * FROM legacy_usage") == []


@pytest.mark.parametrize("host", ["care.example.test", "localhost.example.test", "[::2]", "10.0.0.1"])
def test_another_host_name_shows_no_tokens_and_no_data(own_keys: Settings, host: str) -> None:
    with service(own_keys) as gateway:
        page = page_of(gateway, host=host).text
        short = gateway.as_anonymous().get("/", headers={"host": host}).text

    assert TOKEN.findall(page + short) == []
    assert responses_in(page) == []
    assert "Tokens are shown only to a browser on the same machine" in page


def test_a_visitor_on_another_machine_sees_no_tokens_and_no_data(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        gateway.client.comes_from = "10.0.0.7"
        page = page_of(gateway).text

    assert TOKEN.findall(page) == []
    assert responses_in(page) == []


def test_with_an_external_issuer_the_page_shows_no_tokens(settings: Settings) -> None:
    with service(settings) as gateway:
        page = page_of(gateway).text

    assert TOKEN.findall(page) == []
    assert "The settings name an external token issuer" in page


def test_production_shows_no_tokens_people_or_library_versions(
    own_keys: Settings, settings: Settings
) -> None:
    with service(settings, env=Environment.PRODUCTION) as gateway:
        page = page_of(gateway).text
        schema = gateway.as_anonymous().get("/schema.graphql")
        health = [gateway.as_anonymous().get(path).status_code for path in ("/livez", "/readyz")]

    assert TOKEN.findall(page) == []
    assert responses_in(page) == []
    assert not re.search("Jonas|Mara|Zoë|Python|Strawberry|/schema.graphql|href=./graphql", page)
    assert schema.status_code == 404
    assert health == [200, 200]


def test_without_demo_data_the_page_names_the_command_that_loads_it(settings: Settings) -> None:
    with service(settings, token_key="") as gateway:
        page = page_of(gateway).text

    assert page.count("Load the demo data with") == 6


def test_a_service_that_is_not_ready_is_shown_as_such(settings: Settings) -> None:
    with service(settings) as gateway:
        take_away(settings.database)
        page = page_of(gateway).text

    assert '<span class="status bad">the database does not respond</span>' in page


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


# --- HTTP and HTML -------------------------------------------------------------------------------


def test_other_programs_than_browsers_get_plain_text(own_keys: Settings) -> None:
    with service(own_keys) as gateway:
        found = gateway.as_anonymous().get("/", headers={"accept": "*/*", "host": "127.0.0.1:8000"})
    with service(own_keys, env=Environment.PRODUCTION, token_key=keys.public_pem()) as gateway:
        short = gateway.as_anonymous().get("/")

    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert found.headers["vary"] == "Accept"
    assert len(set(TOKEN.findall(found.text))) == 2
    assert 'curl -sS -H "Authorization: bearer $CAREGIVER"' in found.text
    assert short.text.splitlines()[2:] == [
        "/graphql        GraphQL: POST with a bearer token",
        "/openapi.yaml   OpenAPI description of the legacy paths; also /openapi.json and /openapi.html",
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
    assert [response.status_code for response in rejected] == [405] * 5
    allowed = {frozenset(response.headers["allow"].split(", ")) for response in rejected}
    assert allowed == {frozenset(("GET", "HEAD"))}


@pytest.mark.parametrize("path", ["/", "/openapi.html"])
def test_the_policy_of_a_page_allows_only_its_own_styles(gateway: Gateway, path: str) -> None:
    found = gateway.as_anonymous().get(path, headers=BROWSER)

    (style,) = re.findall("<style>(.*?)</style>", found.text, re.DOTALL)
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert found.headers["content-security-policy"] == (
        f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    others = {name: value for name, value in SECURITY_HEADERS.items() if name != "content-security-policy"}
    assert {name: found.headers[name] for name in others} == others
    assert not re.search(r"<script|<form| on\w+=| style=|https?://(?!www\.w3\.org/2000/svg)", found.text)


class Outline(HTMLParser):
    """The headings, ids, links and labels of a page. Fails if elements are not closed in order."""

    VOID = ("meta", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.labels: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [attributes["href"] or ""] if tag == "a" else []
        self.labels += [attributes["aria-labelledby"] or ""] if "aria-labelledby" in attributes else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("path", ["/", "/openapi.html"])
def test_a_page_has_valid_elements_headings_links_and_labels(own_keys: Settings, path: str) -> None:
    with service(own_keys) as gateway:
        text = gateway.as_anonymous().get(path, headers=BROWSER).text
        outline = Outline()
        outline.feed(text)
        elsewhere = {link for link in outline.links if not link.startswith("#")}
        found = {link: gateway.as_anonymous().get(link, headers=BROWSER) for link in elsewhere}

    assert outline.open == []
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert set(outline.labels) <= set(outline.ids)
    assert {link: response.status_code for link, response in found.items()} == dict.fromkeys(elsewhere, 200)
    for link, response in found.items():
        anchor = link.partition("#")[2]
        assert not anchor or f'id="{anchor}"' in response.text


def test_markup_in_data_is_escaped(settings: Settings) -> None:
    hostile = "<script>alert(1)</script>&\"'"
    records = [
        json.loads(line) | ({"title": hostile} if json.loads(line)["kind"] == "session" else {})
        for line in demo_lines(NOW)
    ]
    run_write(settings.database, importing(json.dumps(record).encode() for record in records))
    with service(settings, token_key="") as gateway:
        page = page_of(gateway).text

    assert "<script>" not in page
    shown = json.loads(blocks(page)["Legacy response: One assignment with the client's answers"])
    assert shown["sessionTitle"] == hostile
