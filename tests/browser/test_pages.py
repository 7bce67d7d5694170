"""Promise: a person with a browser and no network runs a query, a mutation and a subscription in the full
page, or what the plain one can, sees the answers, and the browser has nothing to complain of.

Pictures of what was seen are in var/browser.
"""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.dev.ide.building import NotBuilt
from app.dev.ide.examples import HOMEWORK, OPERATIONS
from tests.browser.browsers import ROOT, NoBrowser, find_browser
from tests.browser.chrome import Page, opened_browser
from tests.live.processes import Served, run, serving

pytestmark = pytest.mark.browser

PICTURES = ROOT / "var" / "browser"
ANSWER = "globalThis.__MONACO.editor.getModels().find((one) => one.uri.path.includes('response')).getValue()"
EDITED = {name: ANSWER.replace("response", name) for name in ("operation", "variables", "request-headers")}
RUN = "document.querySelector('.graphiql-execute-button')"
IS_RUNNING = "document.querySelector('.graphiql-execute-button').ariaLabel.startsWith('Stop')"
# Kept by the page: the browser's own storage of either kind, and cookies.
KEPT = "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"


def tab(name: str) -> str:
    return (
        f"[...document.querySelectorAll('.graphiql-tab-button')].find((one) => one.textContent === '{name}')"
    )


def whose(text: str) -> str:
    return f"[...document.querySelectorAll('.whose button')].find((one) => one.textContent === '{text}')"


def runs_as(text: str) -> str:
    """Whose token the open tab says that it runs with."""
    pressed = "[...document.querySelectorAll('.whose [aria-pressed=true]')]"
    return f"{pressed}.map((one) => one.textContent) == '{text}'"


def button(label: str) -> str:
    return f"document.querySelector('[aria-label=\"{label}\"]')"


def example(title: str) -> str:
    every = "[...document.querySelectorAll('.examples button, .example')]"
    return f"{every}.find((one) => one.textContent.startsWith('{title}'))"


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return find_browser()
    except (NoBrowser, NotBuilt) as fault:
        pytest.fail(str(fault), pytrace=False)


@pytest.fixture
def page(program: Path) -> Iterator[Page]:
    with opened_browser(program) as one:
        yield one


@pytest.fixture(params=["app", "tests.browser.plain"])
def module(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    var = tmp_path_factory.mktemp("demo")
    assert run("demo", env="development", var=str(var)).returncode == 0
    return var


@pytest.fixture
def served(demo: Path, tmp_path: Path, module: str) -> Iterator[Served]:
    """A demo world of its own."""
    var = shutil.copytree(demo, tmp_path / "var")
    with serving(tmp_path / "log", module=module, env="development", var=str(var)) as one:
        yield one


def as_others_ask(served: Served, page: Page, role: str, query: str, variables: str = "") -> dict[str, Any]:
    """Past the page, with its own token."""
    token = page.evaluate("document.getElementById('config').textContent")
    headers = {"authorization": f"bearer {json.loads(token)['tokens'][role]}"}
    asked = {"query": query, "variables": json.loads(variables or "{}")}
    said = httpx2.post(f"{served.url}/graphql", json=asked, headers=headers, verify=False)
    return dict(said.json()["data"])


def run_tab(page: Page, contains: str, name: str = "operation") -> None:
    """GraphiQL looks which operation a text has a moment after it changed; nothing shows when it did."""
    page.until(f"{EDITED[name]}.includes('{contains}')")
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    page.click(RUN)


def write_query(page: Page, text: str) -> None:
    page.evaluate(f"{EDITED['operation'].removesuffix('.getValue()')}.setValue({json.dumps(text)})")


def is_in_view(page: Page, element: str) -> bool:
    """Whole, and under the mouse."""
    return bool(
        page.evaluate(
            f"""(() => {{
              const box = ({element}).getBoundingClientRect();
              const under = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
              const fits = box.x >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
              return fits && ({element}).contains(under);
            }})()"""
        )
    )


def answered(page: Page, what: str) -> dict[str, Any]:
    page.until(f"JSON.parse({ANSWER}).data.{what}")
    return dict(json.loads(page.evaluate(ANSWER))["data"])


def assert_nothing_amiss(served: Served, page: Page) -> None:
    here = (f"{served.url}/", f"{served.url.replace('http', 'ws')}/", "data:")
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(here)] == []
    assert "bearer" not in page.evaluate(KEPT).lower()


@pytest.mark.parametrize("module", ["app"])
def test_the_full_page_asks_changes_and_listens(served: Served, page: Page) -> None:
    page.open(f"{served.url}/graphql")
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions') && {tab('RunningAssignments')}")
    page.until("document.querySelector('.examples') && document.fonts.status === 'loaded'")
    page.keep_picture(PICTURES / "full-1-opened.png")

    page.click(RUN)
    asked = answered(page, "sessions")
    page.keep_picture(PICTURES / "full-2-query.png")
    assert asked == as_others_ask(served, page, "client", OPERATIONS["MyRunningSessions"])

    page.click(example("Assign homework"))
    run_tab(page, "bookIds", "variables")
    changed = answered(page, "assignHomework")["assignHomework"]
    page.keep_picture(PICTURES / "full-3-mutation.png")
    assert changed["userErrors"] == [] and len(changed["assignments"]) == 2
    numbers = {one["legacyId"] for one in changed["assignments"]}
    listed = as_others_ask(served, page, "caregiver", "{ assignments(first: 50) { nodes { legacyId } } }")
    assert numbers <= {one["legacyId"] for one in listed["assignments"]["nodes"]}

    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    heard = None
    for _ in range(10):  # who listens from now on may have begun a moment after the first
        as_others_ask(served, page, "caregiver", OPERATIONS["AssignHomework"], {"input": HOMEWORK})
        if page.evaluate(f"new Promise((done) => setTimeout(() => done({ANSWER}), 500))"):
            heard = answered(page, "assignmentChanged")["assignmentChanged"]
            break
    assert heard is not None and heard["what"] == "ASSIGNED"
    page.keep_picture(PICTURES / "full-4-subscription.png")
    page.click(RUN)  # stops it
    page.until("!document.querySelector('.graphiql-spinner')")

    for plugin in ("Show GraphiQL Explorer", "Show Documentation Explorer", "Show History"):
        page.click(button(plugin))
        page.until("document.querySelector('.graphiql-plugin').innerText.length > 20")
        page.keep_picture(PICTURES / f"full-5-{plugin.split()[-1].lower()}-{plugin.split()[1].lower()}.png")
    page.click(button("Show Examples"))
    page.click(example("Who am I"))
    run_tab(page, "WhoAmI")
    assert answered(page, "viewer")["viewer"]["role"] == "CLIENT"
    assert_nothing_amiss(served, page)

    page.until(f"{KEPT}.includes('WhoAmI')")
    page.reload()
    page.until(f"{EDITED['request-headers']}.includes('bearer')")
    run_tab(page, "WhoAmI")
    assert answered(page, "viewer")["viewer"]["role"] == "CLIENT"
    page.click(tab("RunningAssignments"))
    run_tab(page, "RunningAssignments")
    assert answered(page, "assignments") == as_others_ask(
        served, page, "caregiver", OPERATIONS["RunningAssignments"]
    )
    assert_nothing_amiss(served, page)


@pytest.mark.parametrize("module", ["app"])
def test_a_tab_keeps_listening_while_another_runs(served: Served, page: Page) -> None:
    page.open(f"{served.url}/graphql")
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions') && {tab('RunningAssignments')}")
    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    page.until(IS_RUNNING)

    page.click(example("Assign homework"))  # in a new tab
    page.until(f"!{IS_RUNNING}")
    run_tab(page, "bookIds", "variables")
    changed = answered(page, "assignHomework")["assignHomework"]
    page.click(tab("RunningAssignments"))  # which was there before
    run_tab(page, "RunningAssignments")
    assert answered(page, "assignments") == as_others_ask(
        served, page, "caregiver", OPERATIONS["RunningAssignments"]
    )
    page.keep_picture(PICTURES / "full-10-another-tab.png")

    page.click(tab("WatchAssignments"))
    for _ in range(10):  # the subscription may have begun a moment after the mutation
        if page.evaluate(f"new Promise((done) => setTimeout(() => done({ANSWER}), 500))"):
            break
        as_others_ask(served, page, "caregiver", OPERATIONS["AssignHomework"], {"input": HOMEWORK})
    event = answered(page, "assignmentChanged")["assignmentChanged"]
    assert event["assignment"]["name"] in {one["name"] for one in changed["assignments"]}
    page.until(IS_RUNNING)
    page.keep_picture(PICTURES / "full-11-still-listening.png")
    page.click(RUN)  # stops it
    page.until(f"!{IS_RUNNING}")
    page.click(tab("RunningAssignments"))
    page.click(tab("WatchAssignments"))
    page.until(f"{ANSWER}.includes('assignmentChanged') && !{IS_RUNNING}")
    assert_nothing_amiss(served, page)


@pytest.mark.parametrize("module", ["app"])
def test_the_full_page_in_the_dark_and_when_it_is_narrow(served: Served, page: Page) -> None:
    page.dark()
    page.open(f"{served.url}/graphql", 1100, 720)
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions')")
    page.click(RUN)
    answered(page, "sessions")
    page.keep_picture(PICTURES / "full-6-dark.png")
    page.click(button("Hide Examples"))
    page.until(f"{button('Show Examples')} && !document.querySelector('.examples')")
    page.reload()
    page.until(button("Show Examples"))
    page.click(button("Open settings dialog"))
    page.until("document.body.innerText.includes('Clear storage')")
    assert "headers" not in page.evaluate("document.querySelector('[role=dialog]').innerText").lower()

    for width, height in ((390, 800), (640, 400)):
        page.open(f"{served.url}/graphql", width, height)
        page.until(f"{EDITED['operation']}.includes('query') && document.querySelector('.whose')")
        page.click(button("Show Examples"))
        page.click(example("Running assignments"))
        page.until(f"{runs_as('caregiver')} && !document.querySelector('.examples')")
        assert is_in_view(page, RUN) and is_in_view(page, whose("own token"))
        assert is_in_view(page, tab("RunningAssignments"))
        run_tab(page, "RunningAssignments")
        answered(page, "assignments")
        page.keep_picture(PICTURES / f"full-7-narrow-{width}.png")
        answer = page.evaluate("document.querySelector('.result-window').getBoundingClientRect().toJSON()")
        assert answer["width"] > 280 and min(height, answer["bottom"]) - answer["top"] > 180

    assert_nothing_amiss(served, page)


@pytest.mark.parametrize("module", ["app"])
def test_a_tab_says_whose_token_it_has_and_keeps_the_word_alone(served: Served, page: Page) -> None:
    page.open(f"{served.url}/graphql")
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions') && {runs_as('client')}")
    for role in ("client", "caregiver"):
        page.click(button("New tab"))
        page.until(f"{EDITED['operation']} === '' && {runs_as('client')}")
        page.click(whose(role))
        page.until(runs_as(role))
        write_query(page, f"query Mine_{role} {{ viewer {{ role }} }}")
        page.until(f"{tab(f'Mine_{role}')} && {KEPT}.includes('Mine_{role}')")
    page.reload()
    for role in ("caregiver", "client"):
        page.click(tab(f"Mine_{role}"))
        page.until(runs_as(role))
        run_tab(page, f"Mine_{role}")
        assert answered(page, "viewer") == {"viewer": {"role": role.upper()}}

    page.click(whose("own token"))
    page.until("document.activeElement.closest('.graphiql-editor-tool')")
    page.send("Input.insertText", text="of-my-own")
    page.until(f"{EDITED['request-headers']}.includes('bearer of-my-own') && {runs_as('own token')}")
    page.until(f"{KEPT}.includes('own token')")
    page.keep_picture(PICTURES / "full-8-own-token.png")
    assert "of-my-own" not in page.evaluate(KEPT)
    page.reload()
    page.until("document.querySelector('.whose').innerText.includes('Nobody is signed in')")
    assert page.evaluate(EDITED["request-headers"]) == ""

    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    page.until("document.querySelector('.graphiql-spinner')")
    served.stop(signal.SIGTERM)
    page.until(f"{ANSWER}.includes('Nothing more will be heard')")
    page.until("!document.querySelector('.graphiql-spinner')")
    page.keep_picture(PICTURES / "full-9-cut-off.png")
    assert_nothing_amiss(served, page)


@pytest.mark.parametrize("module", ["tests.browser.plain"])
def test_the_plain_page_asks_and_changes_and_says_how_to_build_the_full_one(
    served: Served, page: Page
) -> None:
    page.open(f"{served.url}/graphql")
    page.click(example("My running sessions"))
    page.click("document.getElementById('run')")
    page.until("document.getElementById('status').textContent.startsWith('200')")
    shown = json.loads(page.evaluate("document.getElementById('body').textContent"))
    page.keep_picture(PICTURES / "plain-1-query.png")
    assert shown["data"] == as_others_ask(served, page, "client", OPERATIONS["MyRunningSessions"])

    page.click(example("Assign homework"))
    page.click("document.getElementById('run')")
    page.until("document.getElementById('body').textContent.includes('assignHomework')")
    changed = json.loads(page.evaluate("document.getElementById('body').textContent"))["data"][
        "assignHomework"
    ]
    page.keep_picture(PICTURES / "plain-2-mutation.png")
    assert changed["userErrors"] == [] and len(changed["assignments"]) == 2

    assert "make ide" in page.evaluate("document.body.innerText")
    assert_nothing_amiss(served, page)
