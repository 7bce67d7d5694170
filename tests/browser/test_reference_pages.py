"""Every page fits wide and narrow windows, in light and dark, and can be used with the keyboard alone.

Search, filter, copy buttons, links and the requests of the REST reference work. Screenshots: var/browser.
"""

import re
from typing import Any

import httpx2
import pytest
from graphql import parse, print_ast

from tests.browser.browsers import ROOT
from tests.browser.chrome import Page
from tests.browser.conftest import SCREENSHOTS, allow_clipboard, assert_no_errors_and_no_foreign_requests
from tests.live.processes import Served

pytestmark = pytest.mark.browser

PAGES = {
    "start": "/",
    "graphql": "/graphql",
    "rest": "/openapi.html",
    "rest-operation": "/openapi.html#tag/caregiver/assignHomework",
    "schema": "/schema",
    "schema-field": "/schema#Assignment.draft",
    "docs": "/docs",
    "docs-cookbook": "/docs/cookbook",
    "docs-settings": "/docs/settings",
    "docs-errors": "/docs/cookbook#errors",
    "docs-code": "/docs/clients/setups/apollo.ts",
    "requests": "/requests",
}
READY = (  # the scripts have run, and rendered the page if they render it
    "document.readyState === 'complete' && "
    "document.querySelector('main.home, main.prose, .graphiql-execute-button, [data-testid=auth-indicator]')"
)
HEADINGS_HOLD_THEIR_CALLS = """[...document.querySelectorAll("summary code")].every((call) =>
  call.getBoundingClientRect().bottom <= call.parentElement.getBoundingClientRect().bottom)"""


SCHEMA_ROWS = """Object.fromEntries([...document.querySelectorAll(".schema dl > [id]")].map((row) =>
  [row.id, [...row.querySelectorAll("b, dt code, p:not(:has(.try))")]
    .map((one) => one.textContent.trim())]))"""
BROKEN_ANCHORS = """[...document.querySelectorAll('#page a[href^="#"]')].map(({ hash }) => hash.slice(1))
  .filter((id) => !document.getElementById(id))"""


def named(text: str, selector: str = "button") -> str:
    """The first visible element that begins with the text."""
    every = f"[...document.querySelectorAll('{selector}')]"
    return f"{every}.find((one) => one.offsetWidth && one.textContent.trim().startsWith('{text}'))"


def members_of(definition: Any) -> tuple[Any, ...]:
    return getattr(definition, "fields", None) or getattr(definition, "values", None) or ()


def row_texts(one: Any) -> list[str]:
    """Name, type with default, description, and the same of each argument."""
    texts = [one.name.value]
    if hasattr(one, "type"):
        default = getattr(one, "default_value", None)
        texts.append(print_ast(one.type) + (f" = {print_ast(default)}" if default else ""))
    texts.append(one.description.value.replace("`", ""))
    arguments = getattr(one, "arguments", None) or ()
    return texts + ["Arguments"] * bool(arguments) + [text for each in arguments for text in row_texts(each)]


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_fits_the_window(served: Served, page: Page, width: int, mode: str) -> None:
    if mode == "dark":
        page.use_dark_mode()
    httpx2.get(f"{served.url}/gateway/profile/client/session")  # for the list of requests
    for name, path in PAGES.items():
        page.open("about:blank")
        page.open(f"{served.url}{path}", width, 900 if width > 800 else 844)
        page.until(READY)
        page.evaluate("new Promise((done) => setTimeout(done, 500))")  # for the screenshot
        page.save_screenshot(SCREENSHOTS / f"{name}-{width}-{mode}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert (
            page.evaluate("document.querySelector('.top [aria-current]').getBoundingClientRect().right")
            < width
        )
        assert page.evaluate(HEADINGS_HOLD_THEIR_CALLS), name
    assert_no_errors_and_no_foreign_requests(served, page)


@pytest.mark.parametrize(
    ("path", "element"), [("/docs/clients/setups/apollo.ts", "pre"), ("/docs/caches", ".wide")]
)
def test_a_shadow_marks_the_edge_behind_which_there_is_more(
    served: Served, page: Page, path: str, element: str
) -> None:
    page.open(f"{served.url}{path}", 390, 844)
    page.until(READY)
    block = f"document.querySelector('main {element}')"

    def edges() -> list[str]:
        """A pixel inside of the left and one inside of the right edge, above the text."""
        box = page.evaluate(f"{block}.getBoundingClientRect().toJSON()")
        clips = [
            {"x": x, "y": box["top"] + 9, "width": 1, "height": 1, "scale": 1}
            for x in (box["left"] + 1, box["right"] - 2)
        ]
        return [page.send("Page.captureScreenshot", format="png", clip=clip)["data"] for clip in clips]

    plain, shaded = edges()
    assert plain != shaded
    page.evaluate(f"{block}.scrollTo(1e6, 0)")
    page.until(f"{block}.scrollLeft > 0")
    left, right = edges()
    assert left != plain and right == plain


def test_a_request_of_the_rest_reference_is_answered(served: Served, page: Page) -> None:
    for operation in ("client/listClientSessions", "caregiver/assignHomework"):
        page.open("about:blank")
        page.open(f"{served.url}/openapi.html#tag/{operation}", 1280, 900)
        section = f"document.querySelector('section[id$=\"tag/{operation}\"]')"
        page.until(f"Math.abs({section}.getBoundingClientRect().top) < 200")
        page.click(f"{section}.querySelector('.show-api-client-button')")
        page.click(named("Send"))
        page.until("document.body.innerText.includes('200 OK')")
        page.save_screenshot(SCREENSHOTS / f"rest-{operation.split('/')[1]}-sent.png")
    assert_no_errors_and_no_foreign_requests(served, page)


def test_in_a_narrow_window_the_rest_reference_shows_the_response(served: Served, page: Page) -> None:
    page.open(f"{served.url}/openapi.html#tag/client/listClientSessions", 390, 844)
    section = "document.querySelector('section[id$=\"tag/client/listClientSessions\"]')"
    page.until(f"Math.abs({section}.getBoundingClientRect().top) < 200")
    page.click(f"{section}.querySelector('.show-api-client-button')")
    page.until(f"{named('Send')} && !{named('', '.scalar-client .scalar-sidebar-toggle')}")
    page.click(named("Send"))
    header = "[...document.querySelectorAll('.request-response-header')].at(-1)"
    page.until(f"{header}.innerText.includes('200 OK') && {header}.getBoundingClientRect().top < 400")
    page.save_screenshot(SCREENSHOTS / "rest-sent-390.png")
    assert_no_errors_and_no_foreign_requests(served, page)


def test_the_statuses_of_the_rest_reference_do_not_overlap_the_copy_button(
    served: Served, page: Page
) -> None:
    page.open(f"{served.url}/openapi.html#tag/client/listClientSessions", 1280, 900)
    page.until("document.querySelector('.response-card [role=tab]')")
    edges = page.evaluate(
        """[...document.querySelectorAll(".response-card .scalar-card-header")].map((header) => [
          [...header.querySelectorAll("[role=tab]")].at(-1).getBoundingClientRect().right,
          header.querySelector("button:not([role=tab])").getBoundingClientRect().left])"""
    )
    assert edges and [edge for edge in edges if edge[0] > edge[1]] == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_of_errors_shows_its_meanings(served: Served, page: Page, width: int) -> None:
    page.open(f"{served.url}/docs/cookbook#errors", width, 900)
    page.until(READY)
    table = "document.querySelector('#errors ~ .wide table')"
    assert page.evaluate(f"{table}.parentElement.scrollWidth <= {table}.parentElement.clientWidth")
    first, whole = (f"{one}.getBoundingClientRect().width" for one in (f"{table}.querySelector('td')", table))
    assert page.evaluate(f"{first} < 0.4 * {whole}")


def test_the_current_page_does_not_move_the_links_to_the_others(served: Served, page: Page) -> None:
    places = []
    for path in ("/", "/docs", "/requests"):
        page.open(f"{served.url}{path}", 1280, 900)
        page.until(f"location.pathname === '{path}' && {READY}")
        places.append(
            page.evaluate("[...document.querySelectorAll('.top nav a')].map((one) => one.offsetLeft)")
        )
    assert places[0] == places[1] == places[2]


def test_the_code_of_the_first_legacy_call_fits_its_column(served: Served, page: Page) -> None:
    page.open(f"{served.url}/", 1280, 900)
    page.until(READY)
    blocks = "[...document.querySelectorAll('details[open] pre')]"
    assert page.evaluate(f"{blocks}.map((one) => one.scrollWidth - one.clientWidth)") == [0, 0, 0]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_role_stands_beside_the_heading_of_its_box(served: Served, page: Page, width: int) -> None:
    page.open(f"{served.url}/openapi.html", width, 900)
    page.until(READY)
    heading, role = "document.querySelector('[data-testid=auth-indicator]')", named("Role: caregiver")
    page.until(f"{heading}.getBoundingClientRect().right + 8 < {role}.getBoundingClientRect().left")
    assert_no_errors_and_no_foreign_requests(served, page)


@pytest.mark.parametrize(("path", "target"), [("/", "/graphql"), ("/docs", "/docs/guides/frontend")])
def test_a_click_anywhere_on_a_card_follows_its_link(
    served: Served, page: Page, path: str, target: str
) -> None:
    page.open(f"{served.url}{path}", 1280, 900)
    page.until(READY)
    page.click("document.querySelector('.cards li')")
    page.until(f"location.pathname === '{target}'")
    assert_no_errors_and_no_foreign_requests(served, page)


def test_the_search_finds_a_section(served: Served, page: Page) -> None:
    page.open(f"{served.url}/docs", 1280, 900)
    page.until(READY)
    page.press("/")
    page.until("document.querySelector('dialog[open]')")
    page.send("Input.insertText", text="rate limit")
    page.until("document.querySelector('dialog li')")
    page.save_screenshot(SCREENSHOTS / "docs-search.png")
    page.until(f"{named('Limits › Rate limits', 'dialog a')}")
    page.click(named("Limits › Rate limits", "dialog a"))
    page.until("location.pathname === '/docs/limits' && location.hash === '#rate-limits'")
    page.until("Math.abs(document.getElementById('rate-limits').getBoundingClientRect().top - 72) < 40")
    assert_no_errors_and_no_foreign_requests(served, page)


def test_the_search_finds_a_setting_by_its_name(served: Served, page: Page) -> None:
    page.open(f"{served.url}/docs", 1280, 900)
    page.until(READY)
    page.press("/")
    page.until("document.querySelector('dialog[open]')")
    page.send("Input.insertText", text="CARE_RATE_LIMIT")
    page.until("document.querySelector('dialog li')")
    assert page.evaluate("document.querySelector('dialog li b').textContent") == (
        "Settings and commands › Settings"
    )
    marked = page.evaluate("[...document.querySelectorAll('dialog mark')].map((one) => one.textContent)")
    assert set(marked) == {"CARE_RATE_LIMIT"}


@pytest.mark.parametrize(("path", "field"), [("/docs", "dialog input"), ("/schema", "[data-filter]")])
def test_a_search_without_results_says_so(served: Served, page: Page, path: str, field: str) -> None:
    page.open(f"{served.url}{path}", 1280, 800)
    page.until("document.readyState === 'complete'")
    page.evaluate("document.querySelector('[data-search]')?.click()")
    page.click(f"document.querySelector('{field}')")
    page.send("Input.insertText", text="xyzzyq")
    page.until("document.body.innerText.includes('No results')")
    page.save_screenshot(SCREENSHOTS / f"no-results-{path[1:]}.png")
    page.evaluate(f"document.querySelector('{field}').select()")
    page.send("Input.insertText", text="assignment")
    page.until("!document.body.innerText.includes('No results')")


def test_an_unknown_path_shows_a_page(served: Served, page: Page) -> None:
    page.open(f"{served.url}/docs/nothing", 390, 844)
    page.until("document.querySelector('h1').textContent === 'Page not found'")
    page.save_screenshot(SCREENSHOTS / "not-found-390.png")


def test_the_side_bar_opens_in_a_narrow_window(served: Served, page: Page) -> None:
    page.open(f"{served.url}/docs", 390, 844)
    page.until(READY)
    assert not page.evaluate(named("Cookbook", ".side a"))
    page.click(named("Pages"))
    page.until(named("Cookbook", ".side a"))
    page.save_screenshot(SCREENSHOTS / "docs-side-bar.png")
    page.click(named("Cookbook", ".side a"))
    page.until("location.pathname === '/docs/cookbook'")
    assert_no_errors_and_no_foreign_requests(served, page)


def test_the_filter_finds_types_and_fields(served: Served, page: Page) -> None:
    page.open(f"{served.url}/schema", 1280, 900)
    page.until(READY)
    page.click("document.querySelector('[data-filter]')")
    page.send("Input.insertText", text="scoreH")
    shown = "[...document.querySelectorAll('.side li')].filter((one) => one.offsetWidth)"
    page.until(
        f"{shown}.map((one) => one.firstChild.textContent) == 'Client,scoreHistory,Session,scoreHistory'"
    )
    page.save_screenshot(SCREENSHOTS / "schema-filter.png")
    page.click(named("scoreHistory", ".side a"))
    page.until("location.hash === '#Client.scoreHistory'")
    page.until("document.getElementById('Client.scoreHistory').getBoundingClientRect().top > 56")
    assert page.evaluate("document.getElementById('Client.scoreHistory').getBoundingClientRect().top") < 200
    assert_no_errors_and_no_foreign_requests(served, page)


def test_the_schema_has_a_row_for_each_field_and_links_its_type(served: Served, page: Page) -> None:
    page.open(f"{served.url}/schema#Query.assignments", 1280, 900)
    page.until(READY)
    text = (ROOT / "schema.graphql").read_text(encoding="utf-8")
    assert page.evaluate(SCHEMA_ROWS) == {
        f"{definition.name.value}.{member.name.value}": row_texts(member)
        for definition in parse(text).definitions
        for member in members_of(definition)
    }
    assert page.evaluate(BROKEN_ANCHORS) == []
    page.click(named("AssignmentConnection", "dt a"))
    page.until("location.hash === '#AssignmentConnection'")
    page.until("document.querySelector(':target h2').getBoundingClientRect().top > 56")
    assert page.evaluate("document.querySelector(':target h2').getBoundingClientRect().top") < 200
    assert_no_errors_and_no_foreign_requests(served, page)


def test_copy_buttons_copy_the_whole_text(served: Served, page: Page) -> None:
    allow_clipboard(served, page)
    page.open(f"{served.url}/", 1280, 900)
    page.until(READY)
    page.click("document.querySelector('.token .copy')")
    page.until("document.querySelector('.token .copy[data-done]')")
    token = page.evaluate("navigator.clipboard.readText()")
    viewer = httpx2.post(
        f"{served.url}/graphql",
        json={"query": "{ viewer { role } }"},
        headers={"authorization": f"bearer {token}"},
    )
    assert viewer.json()["data"] == {"viewer": {"role": "CAREGIVER"}}

    page.open(f"{served.url}/schema", 1280, 900)
    page.until(READY)
    page.click(named("Copy all"))
    page.until("document.querySelector('[data-copy][data-done]')")
    whole = httpx2.get(f"{served.url}/schema.graphql").text
    assert page.evaluate("navigator.clipboard.readText()") == whole
    page.click("document.querySelector('#PageInfo [data-text]')")
    page.until("document.querySelector('#PageInfo [data-done]')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "type PageInfo {" in copied and copied in whole
    assert_no_errors_and_no_foreign_requests(served, page)


@pytest.mark.parametrize("path", ["/", "/openapi.html", "/schema", "/docs/limits"])
def test_the_first_tab_key_offers_to_skip_the_header(served: Served, page: Page, path: str) -> None:
    """GraphiQL puts the focus into its tabs."""
    page.open(f"{served.url}{path}", 1280, 900)
    page.until(READY)
    page.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.press("Enter")
    page.press("Tab")
    assert page.evaluate("document.getElementById('page').contains(document.activeElement)")


def test_the_keyboard_reaches_every_link_and_code_block(served: Served, page: Page) -> None:
    page.open(f"{served.url}/docs/limits", 1280, 900)
    page.until(READY)
    stops = (
        "[...document.querySelectorAll('main a[href]:not([tabindex]), main pre, main .wide, main button')]"
    )
    page.evaluate(f"globalThis.left = new Set({stops}.filter((one) => one.offsetWidth))")
    assert page.evaluate("left.size") > 5
    for _ in range(120):
        page.press("Tab")
        page.evaluate("left.delete(document.activeElement)")
    assert page.evaluate("[...left].map((one) => one.outerHTML)") == []


def test_no_link_of_the_documentation_is_broken(served: Served) -> None:
    pages: dict[str, str] = {}
    missing = []
    waiting = ["/docs"]
    while waiting:
        path = waiting.pop()
        response = httpx2.get(f"{served.url}{path}", headers={"accept": "text/html"})
        pages[path] = response.text if response.status_code == 200 else ""
        missing += [] if response.status_code == 200 else [path]
        links = {link.partition("#")[0] for link in re.findall(r'<a [^>]*href="(/[^"]*)"', response.text)}
        waiting += [link for link in links if link.startswith("/docs") and link not in {*pages, *waiting}]
    anchors = {path: set(re.findall(r'id="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for target, anchor in re.findall(r'href="((?!/graphql)[^"#]*)#([^"]+)"', text):
            missing += [] if anchor in anchors[target or path] else [f"{path}: {target}#{anchor}"]

    assert missing == []
    assert len(pages) > 50


def test_every_document_is_served_as_text_with_links_to_the_text_of_others(served: Served) -> None:
    found: dict[str, str] = {}
    waiting = ["/docs.md"]
    while waiting:
        path = waiting.pop()
        response = httpx2.get(f"{served.url}{path}")
        assert (path, response.status_code) == (path, 200)
        found[path] = response.text
        links = set(re.findall(r"\]\((/docs[^)#]*)", response.text))
        assert {link for link in links if not link.endswith(".md")} == set()
        waiting += links - {*found, *waiting}

    assert len(found) > 50
    assert found["/docs/settings.md"].startswith("# ")
    index = httpx2.get(f"{served.url}/llms.txt").text
    assert f"]({served.url}/docs/cookbook.md)" in index
