"""GraphiQL runs queries, mutations and subscriptions, in several tabs, in dark mode and in narrow windows.

It loads nothing from other hosts, causes no browser errors and stores no tokens. Screenshots: var/browser.
"""

import json
import signal
from typing import Any

import httpx2
import pytest

from app.dev.graphiql import EXAMPLES, HOMEWORK, OPERATIONS, Example
from tests.browser.chrome import Page
from tests.browser.conftest import (
    SCREENSHOTS,
    STORED,
    assert_no_errors_and_no_foreign_requests,
)
from tests.live.processes import Served

pytestmark = pytest.mark.browser

RESPONSE = (
    "globalThis.__MONACO.editor.getModels().find((one) => one.uri.path.includes('response')).getValue()"
)
EDITED = {name: RESPONSE.replace("response", name) for name in ("operation", "variables", "request-headers")}
RUN = "document.querySelector('.graphiql-execute-button')"
HINT = "document.querySelector('.hint')"
IS_RUNNING = "document.querySelector('.graphiql-execute-button').ariaLabel.startsWith('Stop')"


def tab(name: str) -> str:
    return (
        f"[...document.querySelectorAll('.graphiql-tab-button')].find((one) => one.textContent === '{name}')"
    )


def token_button(text: str) -> str:
    return f"[...document.querySelectorAll('.tokens button')].find((one) => one.textContent === '{text}')"


def runs_as(text: str) -> str:
    """Whether the open tab runs with this token."""
    pressed = "[...document.querySelectorAll('.tokens [aria-pressed=true]')]"
    return f"{pressed}.map((one) => one.textContent) == '{text}'"


def button(label: str) -> str:
    return f"document.querySelector('[aria-label=\"{label}\"]')"


def example(title: str) -> str:
    every = "[...document.querySelectorAll('.examples button')]"
    return f"{every}.find((one) => one.textContent.startsWith('{title}'))"


def label(one: Example) -> str:
    """The title, `query`, `mutation` or `subscription`, and the legacy call."""
    return f"{one.title}{one.query.split()[0]}{one.replaces and f', replaces {one.replaces}'}"


def send_graphql(
    served: Served, page: Page, role: str, query: str, variables: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Sends a request without the page, but with its token."""
    config = page.evaluate("document.getElementById('config').textContent")
    headers = {"authorization": f"bearer {json.loads(config)['tokens'][role]}"}
    body = {"query": query, "variables": variables or {}}
    response = httpx2.post(f"{served.url}/graphql", json=body, headers=headers)
    return dict(response.json()["data"])


def run_tab(page: Page, contains: str, name: str = "operation") -> None:
    """Waits a moment, because GraphiQL parses a changed text later and does not show when it has."""
    page.until(f"{EDITED[name]}.includes('{contains}')")
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    page.click(RUN)


def write_query(page: Page, text: str) -> None:
    page.evaluate(f"{EDITED['operation'].removesuffix('.getValue()')}.setValue({json.dumps(text)})")


def is_in_view(page: Page, element: str) -> bool:
    """Whether the element is completely visible and clickable."""
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


def response_data(page: Page, field: str) -> dict[str, Any]:
    page.until(f"JSON.parse({RESPONSE}).data.{field}")
    return dict(json.loads(page.evaluate(RESPONSE))["data"])


def test_graphiql_runs_a_query_a_mutation_and_a_subscription(served: Served, page: Page) -> None:
    page.open(f"{served.url}/graphql")
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions') && {tab('RunningAssignments')}")
    page.until("document.querySelector('.examples') && document.fonts.status === 'loaded'")
    page.until(f"{HINT}.textContent.startsWith('Run the operation with ')")
    page.save_screenshot(SCREENSHOTS / "graphiql-1-opened.png")
    labels = page.evaluate("[...document.querySelectorAll('.examples button')].map((one) => one.textContent)")
    assert sorted(labels) == sorted(label(one) for one in EXAMPLES)

    page.click(RUN)
    queried = response_data(page, "sessions")
    page.until(f"!{HINT}")
    page.save_screenshot(SCREENSHOTS / "graphiql-2-query.png")
    assert queried == send_graphql(served, page, "client", OPERATIONS["MyRunningSessions"])

    page.click(example("Assign homework"))
    run_tab(page, "bookIds", "variables")
    changed = response_data(page, "assignHomework")["assignHomework"]
    page.save_screenshot(SCREENSHOTS / "graphiql-3-mutation.png")
    assert changed["userErrors"] == [] and len(changed["assignments"]) == 2
    numbers = {one["legacyId"] for one in changed["assignments"]}
    listed = send_graphql(served, page, "caregiver", "{ assignments(first: 50) { nodes { legacyId } } }")
    assert numbers <= {one["legacyId"] for one in listed["assignments"]["nodes"]}

    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    event = None
    for _ in range(10):  # the subscription may start after the first mutation
        send_graphql(served, page, "caregiver", OPERATIONS["AssignHomework"], {"input": HOMEWORK})
        if page.evaluate(f"new Promise((done) => setTimeout(() => done({RESPONSE}), 500))"):
            event = response_data(page, "assignmentChanged")["assignmentChanged"]
            break
    assert event is not None and event["what"] == "ASSIGNED"
    page.save_screenshot(SCREENSHOTS / "graphiql-4-subscription.png")
    page.click(RUN)  # stops it
    page.until("!document.querySelector('.graphiql-spinner')")

    for plugin in ("Show GraphiQL Explorer", "Show Documentation Explorer", "Show History"):
        page.click(button(plugin))
        page.until("document.querySelector('.graphiql-plugin').innerText.length > 20")
        page.save_screenshot(
            SCREENSHOTS / f"graphiql-5-{plugin.split()[-1].lower()}-{plugin.split()[1].lower()}.png"
        )
    page.click(button("Show Examples"))
    page.click(example("Who am I"))
    run_tab(page, "WhoAmI")
    assert response_data(page, "viewer")["viewer"]["role"] == "CLIENT"
    assert_no_errors_and_no_foreign_requests(served, page)

    page.until(f"{STORED}.includes('WhoAmI')")
    page.reload()
    page.until(f"{EDITED['request-headers']}.includes('bearer')")
    run_tab(page, "WhoAmI")
    assert response_data(page, "viewer")["viewer"]["role"] == "CLIENT"
    page.click(tab("RunningAssignments"))
    run_tab(page, "RunningAssignments")
    assert response_data(page, "assignments") == send_graphql(
        served, page, "caregiver", OPERATIONS["RunningAssignments"]
    )
    assert_no_errors_and_no_foreign_requests(served, page)


def test_a_subscription_continues_while_another_tab_runs(served: Served, page: Page) -> None:
    page.open(f"{served.url}/graphql")
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions') && {tab('RunningAssignments')}")
    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    page.until(IS_RUNNING)

    page.click(example("Assign homework"))  # in a new tab
    page.until(f"!{IS_RUNNING}")
    run_tab(page, "bookIds", "variables")
    changed = response_data(page, "assignHomework")["assignHomework"]
    page.click(tab("RunningAssignments"))  # an existing tab
    run_tab(page, "RunningAssignments")
    assert response_data(page, "assignments") == send_graphql(
        served, page, "caregiver", OPERATIONS["RunningAssignments"]
    )
    page.save_screenshot(SCREENSHOTS / "graphiql-10-another-tab.png")

    page.click(tab("WatchAssignments"))
    for _ in range(10):  # the subscription may start after the mutation
        if page.evaluate(f"new Promise((done) => setTimeout(() => done({RESPONSE}), 500))"):
            break
        send_graphql(served, page, "caregiver", OPERATIONS["AssignHomework"], {"input": HOMEWORK})
    event = response_data(page, "assignmentChanged")["assignmentChanged"]
    assert event["assignment"]["name"] in {one["name"] for one in changed["assignments"]}
    page.until(IS_RUNNING)
    page.save_screenshot(SCREENSHOTS / "graphiql-11-still-listening.png")
    page.click(RUN)  # stops it
    page.until(f"!{IS_RUNNING}")
    page.click(tab("RunningAssignments"))
    page.click(tab("WatchAssignments"))
    page.until(f"{RESPONSE}.includes('assignmentChanged') && !{IS_RUNNING}")
    assert_no_errors_and_no_foreign_requests(served, page)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1024, 768)])
def test_examples_query_and_response_have_room(served: Served, page: Page, width: int, height: int) -> None:
    page.open(f"{served.url}/graphql", width, height)
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions')")
    page.click(RUN)
    response_data(page, "sessions")
    page.save_screenshot(SCREENSHOTS / f"graphiql-12-{width}.png")

    for pane, least_width, least_height in (
        (".examples", 190, 600),
        (".graphiql-query-editor", 440, 250),
        (".result-window", 440, 190),  # with the facts about the response below it
    ):
        box = page.evaluate(f"document.querySelector('{pane}').getBoundingClientRect().toJSON()")
        shown = min(height, box["bottom"]) - box["top"]
        assert box["width"] >= least_width and shown >= least_height, (pane, box)
        assert box["left"] >= 0 and box["right"] <= width, (pane, box)


def test_graphiql_in_dark_mode_and_in_narrow_windows(served: Served, page: Page) -> None:
    page.use_dark_mode()
    page.open(f"{served.url}/graphql", 1100, 720)
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions')")
    page.click(RUN)
    response_data(page, "sessions")
    page.save_screenshot(SCREENSHOTS / "graphiql-6-dark.png")
    page.click(button("Hide Examples"))
    page.until(f"{button('Show Examples')} && !document.querySelector('.examples')")
    page.reload()
    page.until(button("Show Examples"))
    page.click(button("Open settings dialog"))
    page.until("document.body.innerText.includes('Clear storage')")
    assert "headers" not in page.evaluate("document.querySelector('[role=dialog]').innerText").lower()

    for width, height in ((390, 800), (640, 400)):
        page.open(f"{served.url}/graphql", width, height)
        page.until(f"{EDITED['operation']}.includes('query') && document.querySelector('.tokens')")
        page.click(button("Show Examples"))
        page.click(example("Running assignments"))
        page.until(f"{runs_as('caregiver')} && !document.querySelector('.examples')")
        assert is_in_view(page, RUN) and is_in_view(page, token_button("own token"))
        assert is_in_view(page, tab("RunningAssignments"))
        run_tab(page, "RunningAssignments")
        response_data(page, "assignments")
        page.save_screenshot(SCREENSHOTS / f"graphiql-7-narrow-{width}.png")
        result = page.evaluate("document.querySelector('.result-window').getBoundingClientRect().toJSON()")
        assert result["width"] > 280 and min(height, result["bottom"]) - result["top"] > 180

    assert_no_errors_and_no_foreign_requests(served, page)


def test_a_tab_stores_the_kind_of_its_token_but_not_the_token(served: Served, page: Page) -> None:
    page.open(f"{served.url}/graphql")
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions') && {runs_as('client')}")
    for role in ("client", "caregiver"):
        page.click(button("New tab"))
        page.until(f"{EDITED['operation']} === '' && {runs_as('client')}")
        page.click(token_button(role))
        page.until(runs_as(role))
        write_query(page, f"query Mine_{role} {{ viewer {{ role }} }}")
        page.until(f"{tab(f'Mine_{role}')} && {STORED}.includes('Mine_{role}')")
    page.reload()
    for role in ("caregiver", "client"):
        page.click(tab(f"Mine_{role}"))
        page.until(runs_as(role))
        run_tab(page, f"Mine_{role}")
        assert response_data(page, "viewer") == {"viewer": {"role": role.upper()}}

    page.click(token_button("own token"))
    page.until("document.activeElement.closest('.graphiql-editor-tool')")
    page.send("Input.insertText", text="of-my-own")
    page.until(f"{EDITED['request-headers']}.includes('bearer of-my-own') && {runs_as('own token')}")
    page.until(f"{STORED}.includes('own token')")
    page.save_screenshot(SCREENSHOTS / "graphiql-8-own-token.png")
    page.click(token_button("client"))
    page.until(runs_as("client"))
    page.click(token_button("own token"))
    page.until(f"{EDITED['request-headers']}.includes('bearer of-my-own') && {runs_as('own token')}")
    assert "of-my-own" not in page.evaluate(STORED)
    page.reload()
    page.until("document.querySelector('.tokens').innerText.includes('Not signed in')")
    page.until(runs_as("own token"))
    assert page.evaluate(EDITED["request-headers"]) == '{\n  "Authorization": "bearer "\n}'

    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    page.until("document.querySelector('.log [role=status]')?.textContent.startsWith('Waiting')")
    assert not page.evaluate("document.querySelector('.graphiql-spinner')?.checkVisibility() ?? false")
    served.stop(signal.SIGTERM)
    page.until(f"{RESPONSE}.includes('The stream ended')")
    page.save_screenshot(SCREENSHOTS / "graphiql-9-cut-off.png")
    assert_no_errors_and_no_foreign_requests(served, page)
