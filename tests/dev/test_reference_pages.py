"""Development serves browsers the start page, the REST reference, the schema and the documentation.

Production serves the description of the REST paths, and no page.
"""

import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest

from app.dev.quickstart import homework
from app.main import create_app
from app.settings import Environment, Settings
from tests.callers import Caller, opened
from tests.dev.conftest import BROWSER, DOCUMENTS, PAGES
from tests.factories import DAY, NOW

pytestmark = pytest.mark.sqlite_only

PATHS = ("/", "/graphql", "/openapi.html", "/schema", "/docs", "/requests")
NAMES = {"/graphql": "graphiql", "/openapi.html": "rest"}


@pytest.fixture
def unbuilt(settings: Settings) -> Iterator[Caller]:
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Caller(client, None)


def current_links(page: str) -> list[str]:
    return re.findall(r'<a href="([^"]+)" aria-current="page">', page)


def files_of(page: str) -> dict[str, str]:
    [style], [script] = (re.findall(rf'{name}="/assets/([^"]+)"', page) for name in ("href", "src"))
    return {"script": script, "style": style}


@pytest.mark.parametrize("path", PATHS)
def test_every_page_links_to_the_others_and_marks_itself(browser: Caller, path: str) -> None:
    page = browser.get(path, headers=BROWSER)

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert current_links(page.text) == [path]
    navigation = page.text.split('<nav aria-label="Pages">')[1].split("</nav>")[0]
    assert tuple(re.findall(r'href="([^"]+)"', navigation)) == PATHS
    assert files_of(page.text) == PAGES[NAMES.get(path, "site")]


@pytest.mark.parametrize("path", [*DOCUMENTS, "/docs/", "/docs/guides/frontend/"])
def test_rendered_documents_are_served_unchanged(browser: Caller, path: str) -> None:
    page = browser.get(path, headers=BROWSER)

    document = DOCUMENTS[path.rstrip("/")]
    assert page.status_code == 200
    assert f'<div id="page" tabindex="-1">{document["html"]}</div>' in page.text
    assert f"<title>{escape(document['title'])} · Care Gateway</title>" in page.text


@pytest.mark.parametrize("path", ["/docs", "/docs/guides/frontend"])
def test_every_document_is_also_served_as_text(browser: Caller, path: str) -> None:
    text = browser.get(f"{path}.md", headers=BROWSER)

    assert (text.status_code, text.headers["content-type"]) == (200, "text/markdown; charset=utf-8")
    assert text.text == DOCUMENTS[path]["text"]


@pytest.mark.parametrize(
    "origin", ["http://localhost:8000", "http://127.0.0.1:8123", "https://care.example.test"]
)
def test_an_index_for_programs_links_the_text_of_every_document(browser: Caller, origin: str) -> None:
    index = browser.get(f"{origin}/llms.txt")

    assert (index.status_code, index.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert index.text == (
        "# Care Gateway\n\n"
        "> Care sessions, homework and answers over GraphQL, and over four legacy REST paths.\n\n"
        f"- [GraphQL schema]({origin}/schema.graphql)\n"
        f"- [OpenAPI description of the legacy paths]({origin}/openapi.yaml)\n\n"
        f"- [A guide]({origin}/docs/guides/frontend.md): how\n"
    )


@pytest.mark.parametrize(
    "path",
    [
        "/docs/missing",
        "/docs/guides",
        "/docs/guides/frontend.html",
        "/docs/clients/relay.config.json.md",
        "/docs/missing.md",
        "/docs/schema",
        "/schema.md",
        "/nowhere",
    ],
)
def test_other_pages_are_not_found(browser: Caller, path: str) -> None:
    page = browser.get(path, headers=BROWSER)
    text = browser.get(path)

    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>Page not found</h1>" in page.text and current_links(page.text) == []
    assert files_of(page.text) == PAGES[NAMES.get(path, "site")]
    assert (text.status_code, text.text) == (404, "Not Found")


@pytest.mark.parametrize("path", ["/", "/graphql", "/nowhere"])
def test_a_browser_that_prefers_another_type_gets_the_page(browser: Caller, path: str) -> None:
    page = browser.get(path, headers={"accept": "application/xhtml+xml,text/html;q=0.9,*/*;q=0.5"})

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert files_of(page.text) == PAGES[NAMES.get(path, "site")]


@pytest.mark.parametrize("path", ["/openapi.html", "/schema", "/docs", "/docs/guides/frontend", "/docs.md"])
def test_without_a_build_a_page_explains_how_to_build_it(unbuilt: Caller, path: str) -> None:
    page = unbuilt.get(path, headers=BROWSER)

    assert page.status_code == 200
    assert "<code>make pages</code> builds it" in page.text
    assert "<script" not in page.text and "/assets/" not in page.text


def test_without_a_build_the_index_for_programs_links_the_interfaces(unbuilt: Caller) -> None:
    index = unbuilt.get("/llms.txt", headers={"host": "localhost:8000"})

    assert index.status_code == 200
    assert re.findall(r"\((http.*)\)", index.text) == [
        f"http://localhost:8000/{name}" for name in ("schema.graphql", "openapi.yaml")
    ]


def test_the_rest_reference_has_tokens_for_visitors_on_the_same_machine_only(
    folder: Path, settings: Settings
) -> None:
    own = settings.model_copy(update={"token_key": ""})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        caller = Caller(client, None)
        local = caller.get("/openapi.html", headers=BROWSER | {"host": "localhost:8000"}).text
        elsewhere = caller.get("/openapi.html", headers=BROWSER | {"host": "care.example.test"}).text

    assert list(config_of(local)["tokens"]) == ["caregiver", "client"]
    assert config_of(elsewhere)["tokens"] == {}


def test_the_examples_of_a_service_that_runs_for_long_begin_tomorrow(
    folder: Path, settings: Settings
) -> None:
    now = NOW
    with opened(create_app(settings, clock=lambda: now)) as client:
        caller = Caller(client, None)
        for now in (NOW, NOW + 90 * DAY):
            pages = [caller.get(path, headers=BROWSER).text for path in ("/openapi.html", "/")]

            assert config_of(pages[0])["homework"] == homework(now)
            assert f"{now + DAY:%Y/%m/%d}" in pages[1] and f"{now + DAY:%Y-%m-%d}T08:00:00Z" in pages[1]


def config_of(page: str) -> dict[str, Any]:
    return dict(json.loads(page.split('id="config">')[1].split("</script>")[0]))


def test_production_serves_the_description_and_no_page(folder: Path, settings: Settings) -> None:
    own = settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        found = {path: Caller(client, None).get(path, headers=BROWSER) for path in PATHS}
        files = [Caller(client, None).get(path) for path in ("/openapi.yaml", "/openapi.json")]
        texts = [Caller(client, None).get(path, headers=BROWSER) for path in ("/llms.txt", "/docs.md")]

    assert {path: response.status_code for path, response in found.items()} == {
        "/": 200,
        "/graphql": 401,
        "/openapi.html": 200,
        "/schema": 404,
        "/docs": 404,
        "/requests": 404,
    }
    assert [(response.status_code, response.text) for response in texts] == [(404, "Not Found")] * 2
    assert found["/openapi.html"].headers["content-type"] == "text/plain; charset=utf-8"
    assert found["/openapi.html"].text == found["/"].text
    assert [response.status_code for response in files] == [200, 200]
