"""GraphiQL shares operations without tokens, lists the events of a subscription, and measures responses."""

import json
import shlex
import signal
import subprocess
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from app.dev.graphiql import HOMEWORK, OPERATIONS
from tests.browser.chrome import Page
from tests.browser.conftest import (
    SCREENSHOTS,
    STORED,
    allow_clipboard,
    assert_no_errors_and_no_foreign_requests,
)
from tests.browser.test_pages import (
    EDITED,
    HINT,
    RESPONSE,
    RUN,
    button,
    example,
    response_data,
    run_tab,
    runs_as,
    send_graphql,
    tab,
    token_button,
    write_query,
)
from tests.live.processes import Served

pytestmark = pytest.mark.browser

FACTS = """Object.fromEntries([...document.querySelectorAll(".facts div")].map(({ firstChild, lastChild }) =>
  [firstChild.textContent, lastChild.textContent]))"""
EVENTS = "[...document.querySelectorAll('.log li')]"
LOG_STATUS = "document.querySelector('.log [role=status]').textContent"


def opened_graphiql(served: Served, page: Page, width: int = 1280, height: int = 800) -> None:
    page.open(f"{served.url}/graphql", width, height)
    page.until(f"{EDITED['operation']}.includes('MyRunningSessions') && {tab('RunningAssignments')}")


def copied(page: Page, label: str) -> str:
    page.click(button(label))
    page.until(button("Copied"))
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_link_opens_the_operation_with_its_variables_and_role_but_without_a_token(
    served: Served, page: Page
) -> None:
    allow_clipboard(served, page)
    opened_graphiql(served, page)
    page.click(example("One assignment in detail"))
    page.until(f"{EDITED['operation']}.includes('OneAssignment') && {runs_as('caregiver')}")
    operation = page.evaluate(EDITED["operation"])

    link = copied(page, "Copy link (without the token)")
    assert link.startswith(f"{served.url}/graphql#query=") and link.endswith("&role=caregiver")
    assert "bearer" not in link.lower() and "eyJ" not in link

    page.evaluate("sessionStorage.clear()")
    page.open("about:blank")
    page.open(link, 1280, 800)
    page.until(f"{EDITED['operation']}.includes('OneAssignment') && {runs_as('caregiver')}")
    assert page.evaluate(EDITED["operation"]) == operation
    assert json.loads(page.evaluate(EDITED["variables"])) == {"id": "1"}
    assert page.evaluate("location.hash") == ""
    assert page.evaluate(RESPONSE) == ""  # it is not run
    run_tab(page, "OneAssignment")
    assert response_data(page, "assignment")["assignment"]
    assert_no_errors_and_no_foreign_requests(served, page)


def test_a_link_with_an_unknown_role_signs_nobody_in(served: Served, page: Page) -> None:
    page.open(f"{served.url}/graphql#query={quote('{ viewer { role } }')}&role=__proto__")
    page.until(f"{EDITED['operation']} === '{{ viewer {{ role }} }}'")
    assert page.evaluate(EDITED["request-headers"]) == ""


def test_a_copied_curl_command_runs_with_the_variable_of_the_role(served: Served, page: Page) -> None:
    allow_clipboard(served, page)
    opened_graphiql(served, page)
    page.click(example("One assignment in detail"))
    run_tab(page, "OneAssignment")
    shown = response_data(page, "assignment")

    command = copied(page, "Copy as curl (without the token)")
    assert '-H "Authorization: bearer $CAREGIVER"' in command and "eyJ" not in command
    token = json.loads(page.evaluate("document.getElementById('config').textContent"))["tokens"]["caregiver"]
    run: Any = subprocess.run(
        ["sh", "-c", command], env={"CAREGIVER": token, "PATH": "/usr/bin:/bin"}, capture_output=True
    )
    assert json.loads(run.stdout)["data"] == shown

    page.click(example("Watch my reminders"))
    page.until(f"{EDITED['operation']}.includes('WatchReminders')")
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    words = shlex.split(copied(page, "Copy as curl (without the token)"))
    assert words[:2] == ["curl", "-sSN"] and "Accept: text/event-stream" in words
    assert "Authorization: bearer $CLIENT" in words
    assert_no_errors_and_no_foreign_requests(served, page)


@pytest.mark.parametrize(
    ("path", "within", "query"),
    [
        ("/", "#getCaregiverAssignment", "CaregiverAssignment"),
        ("/docs/cookbook", ".prose", "WhoAmI"),
        ("/schema", "[id='Query.assignment']", "query Assignment"),
    ],
)
def test_an_operation_of_another_page_opens_in_graphiql(
    served: Served, page: Page, path: str, within: str, query: str
) -> None:
    page.open(f"{served.url}{path}", 1280, 900)
    page.until("document.readyState === 'complete' && document.querySelector('.copy, [data-text]')")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.click(
        f"[...document.querySelector(\"{within}\").querySelectorAll('a')]"
        ".find((one) => one.textContent === 'Open in GraphiQL')"
    )
    run_tab(page, query)
    page.until(f"JSON.parse({RESPONSE}).data")
    assert "errors" not in json.loads(page.evaluate(RESPONSE))
    assert_no_errors_and_no_foreign_requests(served, page)


def test_a_response_shows_status_time_size_cost_and_the_time_of_the_server(
    served: Served, page: Page
) -> None:
    opened_graphiql(served, page)
    page.click(RUN)
    response_data(page, "sessions")
    page.until("document.querySelector('.facts')")
    facts = page.evaluate(FACTS)
    assert list(facts) == ["Status", "Time", "Size", "Cost", "Server"]
    assert facts["Status"] == "200 OK" and facts["Time"].endswith(" ms") and facts["Size"].endswith("B")
    cost = json.loads(page.evaluate(RESPONSE))["extensions"]["cost"]
    assert facts["Cost"] == f"{cost['cost']} of {cost['limit']}"
    assert "database" in facts["Server"] and "parse" in facts["Server"]
    page.click(tab("RunningAssignments"))
    page.until("!document.querySelector('.facts')")  # each tab has its own
    assert_no_errors_and_no_foreign_requests(served, page)


def test_an_empty_query_is_not_sent(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    page.click(RUN)
    page.until("document.querySelector('.facts')")
    write_query(page, "# nothing\n")
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    sent = page.requests.count(f"{served.url}/graphql")
    page.click(RUN)
    page.until(f"{RESPONSE}.includes('The query is empty')")
    assert page.evaluate("document.querySelector('.facts')") is None  # those of the response before
    assert page.requests.count(f"{served.url}/graphql") == sent
    assert_no_errors_and_no_foreign_requests(served, page)


def test_a_new_tab_has_the_focus_and_the_role_of_the_tab_before(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    page.click(tab("RunningAssignments"))
    page.until(runs_as("caregiver"))
    page.click(button("New tab"))
    page.until(f"{EDITED['operation']} === '' && {runs_as('caregiver')}")
    page.until("document.activeElement.closest('.graphiql-query-editor')")
    assert_no_errors_and_no_foreign_requests(served, page)


def test_after_a_choice_of_example_or_role_the_query_has_the_focus(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    for choice in (example("Who am I"), token_button("caregiver")):
        page.click(choice)
        page.until(f"{EDITED['operation']}.includes('WhoAmI')")
        page.until("document.activeElement.closest('.graphiql-query-editor .graphiql-editor')")
    assert_no_errors_and_no_foreign_requests(served, page)


def test_the_page_says_which_token_the_service_rejected(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    status = "document.querySelector('.tokens [role=status]').textContent"
    page.click(token_button("own token"))
    page.until("document.activeElement.closest('.graphiql-editor-tool')")
    page.send("Input.insertText", text="of-my-own")
    run_tab(page, "of-my-own", "request-headers")
    page.until(f"{status}.startsWith('The service rejected the token in Headers')")
    page.save_screenshot(SCREENSHOTS / "graphiql-17-rejected.png")
    page.click(token_button("client"))
    page.until(f"{status} === ''")

    rejection = '{"errors": [{"message": "", "extensions": {"code": "UNAUTHENTICATED"}}]}'
    page.evaluate(f"globalThis.kept = fetch; fetch = async () => new Response('{rejection}')")
    page.click(RUN)
    page.until(f"{status}.startsWith('The service rejected the token of the client')")
    page.evaluate("fetch = kept")
    page.click(RUN)
    page.until(f"{status} === ''")

    page.evaluate(EDITED["request-headers"].replace("getValue()", "setValue('eyJhbGciOi')"))
    page.until(f"{status}.startsWith('Headers must be JSON')")


def test_the_documentation_begins_at_its_title(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    page.evaluate("document.querySelector('.graphiql-plugin').scrollTop = 1000")
    page.click(button("Show Documentation Explorer"))
    page.until("document.querySelector('.graphiql-doc-explorer-title')")
    page.until("document.querySelector('.graphiql-plugin').scrollTop === 0")


def test_the_query_editor_shows_a_nested_line_unwrapped(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    page.click(example("Watch my assignments"))
    page.until(f"{EDITED['operation']}.includes('WatchAssignments')")
    lines = (
        "[...document.querySelectorAll('.graphiql-query-editor .view-line')].map((one) => one.textContent)"
    )
    page.until(f"{lines}.some((one) => /assignment.{{1,3}}{{.*}}.*}}/.test(one))")


def test_an_event_may_have_a_line_separator(served: Served, page: Page) -> None:
    """It ends no line of an event stream, although it does in JavaScript."""
    opened_graphiql(served, page)
    renaming = "mutation ($input: UpdateSessionInput!) { updateSession(input: $input) { session { title } } }"
    title = "Sleep\u2028and rest"
    renamed = send_graphql(served, page, "caregiver", renaming, {"input": {"sessionId": "1", "title": title}})
    assert renamed == {"updateSession": {"session": {"title": title}}}
    write_query(page, "subscription { assignmentChanged { session { title } } }")
    run_tab(page, "assignmentChanged")
    page.until(f"{LOG_STATUS}.startsWith('Waiting, no event since ')")

    send_graphql(served, page, "caregiver", OPERATIONS["AssignHomework"], {"input": HOMEWORK})

    page.until(f"{RESPONSE}.includes('and rest')")


def test_the_events_of_a_subscription_are_listed_and_can_be_held_back(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    page.until(f"{LOG_STATUS}.startsWith('Waiting, no event since ')")
    page.save_screenshot(SCREENSHOTS / "graphiql-13-waiting.png")

    def assign() -> None:
        data = send_graphql(served, page, "caregiver", OPERATIONS["AssignHomework"], {"input": HOMEWORK})
        assert len(data["assignHomework"]["assignments"]) == 2

    assign()
    page.until(f"{EVENTS}.length === 2 && {LOG_STATUS} === 'Listening'")
    assert page.evaluate(f"{EVENTS}[0].querySelector('time').textContent.length") == len("17:00:00.000")
    page.save_screenshot(SCREENSHOTS / "graphiql-14-events.png")
    last = page.evaluate(RESPONSE)
    page.click(f"{EVENTS}[0].firstChild")
    page.until(f"{RESPONSE} !== {json.dumps(last)}")
    page.click(f"{EVENTS}[1].firstChild")
    page.until(f"{RESPONSE} === {json.dumps(last)}")

    page.click("[...document.querySelectorAll('.log button')].find((one) => one.textContent === 'Pause')")
    page.until(f"{LOG_STATUS} === 'Paused'")
    assign()
    page.until(f"{LOG_STATUS} === 'Paused, 2 more'")
    assert page.evaluate(RESPONSE) == last and page.evaluate(f"{EVENTS}.length") == 2
    page.click("[...document.querySelectorAll('.log button')].find((one) => one.textContent === 'Resume')")
    page.until(f"{EVENTS}.length === 4 && {RESPONSE} !== {json.dumps(last)}")

    page.click("[...document.querySelectorAll('.log button')].find((one) => one.textContent === 'Clear')")
    page.until(f"{EVENTS}.length === 0 && {RESPONSE} === ''")
    assert page.evaluate(LOG_STATUS).startswith("Waiting, no event since ") and not page.evaluate(HINT)
    assign()
    page.until(f"{EVENTS}.length === 2")
    page.click(RUN)  # stops it
    page.until(f"{LOG_STATUS} === 'Ended'")
    assert page.evaluate(f"{EVENTS}.length") == 2
    assert_no_errors_and_no_foreign_requests(served, page)


def test_a_cleared_event_does_not_come_back_when_the_stream_ends(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    page.click(example("Watch my assignments"))
    run_tab(page, "assignmentChanged")
    page.until(f"{LOG_STATUS}.startsWith('Waiting, no event since ')")
    send_graphql(served, page, "caregiver", OPERATIONS["AssignHomework"], {"input": HOMEWORK})
    page.until(f"{EVENTS}.length === 2")
    page.click("[...document.querySelectorAll('.log button')].find((one) => one.textContent === 'Clear')")
    page.until(f"{EVENTS}.length === 0")
    served.stop(signal.SIGTERM)
    page.until(f"{RESPONSE}.includes('The stream ended')")
    assert "data" not in json.loads(page.evaluate(RESPONSE))
    assert page.evaluate("document.querySelector('.log header span').textContent") == "0 events"
    assert page.evaluate(f"{EVENTS}.map((one) => one.querySelector('span').textContent)") == ["end"]


def test_a_legacy_call_in_the_list_of_requests_opens_as_its_operation(served: Served, page: Page) -> None:
    opened_graphiql(served, page)
    token = json.loads(page.evaluate("document.getElementById('config').textContent"))["tokens"]["caregiver"]
    path = "/gateway/profile/caregiver/session/assignment/1"
    headers = {"authorization": f"bearer {token}", "x-request-id": "from-a-test"}
    legacy = httpx2.get(f"{served.url}{path}", headers=headers).json()

    page.open(f"{served.url}/requests", 1280, 800)
    page.until("document.querySelector('.requests a')")
    assert page.evaluate("document.querySelector('.requests tbody tr').innerText").endswith("from-a-test")
    assert token not in page.evaluate("document.documentElement.outerHTML")
    page.click("document.querySelector('.requests a')")
    run_tab(page, "CaregiverAssignment")
    assert response_data(page, "assignment")["assignment"]["name"] == legacy["name"]
    assert_no_errors_and_no_foreign_requests(served, page)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_long_path_wraps_in_the_list_of_requests(served: Served, page: Page, width: int) -> None:
    httpx2.get(f"{served.url}/gateway/{'a' * 300}")
    page.open(f"{served.url}/requests", width, 800)
    page.until("document.readyState === 'complete' && document.querySelector('.requests tbody code')")
    page.save_screenshot(SCREENSHOTS / f"requests-{width}.png")
    table = "document.querySelector('.wide')"
    assert page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")


def test_a_phone_shows_a_long_query_all_tools_and_no_key_that_it_lacks(served: Served, page: Page) -> None:
    page.send("Emulation.setTouchEmulationEnabled", enabled=True)
    page.send(
        "Emulation.setEmulatedMedia",
        features=[{"name": "pointer", "value": "coarse"}, {"name": "hover", "value": "none"}],
    )
    allow_clipboard(served, page)
    opened_graphiql(served, page, 390, 844)
    page.until(f"{HINT}.textContent === 'Run the operation with ▶'")
    page.save_screenshot(SCREENSHOTS / "graphiql-15-phone.png")
    assert page.evaluate("document.querySelector('.graphiql-query-editor').clientHeight") > 300
    assert page.evaluate("document.querySelectorAll('.graphiql-query-editor .view-line').length") > 12
    page.click(button("Show Examples"))
    page.click(example("Assign homework"))
    page.until("document.querySelector('[aria-label=Variables]').offsetHeight > 50")
    active = "document.querySelector('.graphiql-tab-active')"
    page.until(f"{active}.querySelector('.graphiql-tab-button').textContent === 'AssignHomework'")
    assert page.evaluate(f"{active}.getBoundingClientRect().right <= innerWidth")
    page.save_screenshot(SCREENSHOTS / "graphiql-16-phone-variables.png")
    tools = (
        "[...document.querySelectorAll('.graphiql-toolbar button')].map((one) => one.getBoundingClientRect())"
    )
    editor = "document.querySelector('.graphiql-query-editor .graphiql-editor').getBoundingClientRect()"
    assert page.evaluate(
        f"{tools}.every(({{width, right, bottom}}) => width && right <= innerWidth && bottom <= {editor}.top)"
    )
    assert copied(page, "Copy link (without the token)").startswith(f"{served.url}/graphql#query=")
    page.until(f"!{button('Copied')}")
    assert copied(page, "Copy as curl (without the token)").startswith("curl ")
    assert STORED and page.errors == []
