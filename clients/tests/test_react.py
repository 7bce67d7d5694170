"""The pages of clients/react in a headless Chromium, as the demo client and the demo caregiver use them."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import time
from typing import Any

import httpx2
import jwt
import pytest

from app.dev.building import NotBuilt
from clients.service import HERE
from tests.browser.browsers import NoBrowser, find_browser
from tests.browser.chrome import Page, opened_browser, opened_tab
from tests.live.processes import free_port

URL = os.environ["SERVICE_URL"] + "/graphql"
CAREGIVER, CLIENT = os.environ["CAREGIVER_TOKEN"], os.environ["CLIENT_TOKEN"]
VITE = ["node", str(HERE / "node_modules/vite/bin/vite.js")]
VARIABLES = os.environ | {"VITE_GRAPHQL_URL": URL, "VITE_TOKEN": CLIENT}
FIRST, SECOND = "Three good things", "Sleep diary"  # the first that is due, and a submitted one
BOTH = ["Name three things that went well.", "Mine: The rain", "The other one: The walk"]

ASSIGN = "mutation ($input: AssignHomeworkInput!) { assignHomework(input: $input) { userErrors { code } } }"
SUBMITTED = "{ assignments(status: COMPLETE) { nodes { name answerSets { id } } } }"
LATEST = "{ assignments(first: 1) { nodes { id } } }"
SUBMIT = "mutation ($input: SubmitAnswersInput!) { submitAnswers(input: $input) { userErrors { code } } }"
QUESTION = "query ($id: ID!) { assignment(id: $id) { book { questions { id } } } }"
REOPEN = (
    "mutation ($input: ReopenAssignmentInput!) { reopenAssignment(input: $input) { userErrors { code } } }"
)
WITHDRAW = (
    "mutation ($input: WithdrawAssignmentInput!) {"
    " withdrawAssignment(input: $input) { userErrors { code } } }"
)
FEEDBACK = "mutation ($input: GiveFeedbackInput!) { giveFeedback(input: $input) { userErrors { code } } }"


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return find_browser()
    except (NoBrowser, NotBuilt) as error:
        pytest.skip(str(error))


@pytest.fixture
def page(program: Path) -> Iterator[Page]:
    with opened_browser(program) as one:
        yield one


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the build of a copy, on another origin than the service."""
    copy, folder = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("built")
    for name in ("react", "setups", "made"):
        shutil.copytree(HERE / name, copy / name)
    (copy / "node_modules").symlink_to(HERE / "node_modules")
    build = [*VITE, "build", "--logLevel", "warn", "--outDir", str(folder), str(copy / "react")]
    subprocess.run(build, env=VARIABLES, check=True, timeout=60)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def development_server() -> Iterator[str]:
    command = [*VITE, str(HERE / "react"), "--port", str(free_port()), "--strictPort"]
    variables = VARIABLES | {"NO_COLOR": "1"}
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as one:
        assert one.stdout is not None
        yield next(found[0] for line in one.stdout if (found := re.search(r"http://\S+", line)))
        os.killpg(one.pid, signal.SIGKILL)


def send(query: str, variables: dict[str, Any] | None = None, token: str = CAREGIVER) -> Any:
    body, headers = {"query": query, "variables": variables}, {"authorization": f"bearer {token}"}
    return httpx2.post(URL, json=body, headers=headers, verify=False).json()["data"]


def assign(*books: str) -> None:
    now = datetime.now(UTC)
    window = {"startDate": now.isoformat(), "endDate": (now + timedelta(days=7)).isoformat()}
    sent = send(ASSIGN, {"input": {"sessionId": "1", "bookIds": books, **window}})
    assert sent == {"assignHomework": {"userErrors": []}}


def submit(id: str, text: str, revision: int = 0) -> None:
    """Answers the only question."""
    [question] = send(QUESTION, {"id": id})["assignment"]["book"]["questions"]
    answers = [{"questionId": question["id"], "answer": text}]
    sent = send(SUBMIT, {"input": {"assignmentId": id, "answers": answers, "revision": revision}}, CLIENT)
    assert sent == {"submitAnswers": {"userErrors": []}}


def reopen(id: str) -> None:
    sent = send(REOPEN, {"input": {"assignmentId": id}})
    assert sent == {"reopenAssignment": {"userErrors": []}}


def ending_soon(token: str, seconds: int) -> str:
    return with_claims(token, exp=int(time()) + seconds)


def with_claims(token: str, **changed: Any) -> str:
    key = Path(os.environ["SERVICE_PID"]).with_name("development-key.pem").read_bytes()
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims | changed, key, "RS256", jwt.get_unverified_header(token))


def button(text: str) -> str:
    """The first button whose text begins so."""
    return f"[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('{text}'))"


def field(label: str) -> str:
    labels = "[...document.querySelectorAll('label')]"
    return f"{labels}.find((one) => one.innerText.trim().startsWith('{label}')).control"


def role(name: str) -> str:
    """The texts with this role."""
    return f"[...document.querySelectorAll('[role={name}]')].map((one) => one.innerText).join()"


def faults(page: Page) -> list[str]:
    """Errors in the console, except the 422 for the hash of a document that the service does not know yet."""
    return [error for error in page.errors if "status of 422" not in error]


def write(page: Page, element: str, text: str) -> None:
    page.click(element)
    page.evaluate(f"({element}).select()")
    page.send("Input.insertText", text=text)


def sign_in(page: Page, url: str, token: str = CLIENT) -> None:
    page.open(url)
    write(page, field("Access token"), token)
    page.click(button("Sign in"))


def open_first(page: Page) -> str:
    """Opens the assignment that is due first; its only question has a text."""
    page.click(button(FIRST))
    page.until("document.querySelector('article textarea')")
    return "document.querySelector('article textarea')"


def test_the_list_is_paged_and_keeps_its_pages_when_events_change_it(built: str, page: Page) -> None:
    assign("1", "2", "3", "4")
    assign("1", "2", "3", "4")
    submitted = {one["name"]: one["answerSets"][0]["id"] for one in send(SUBMITTED)["assignments"]["nodes"]}

    sign_in(page, built)
    page.until(f"{role('status')} === '10 of 12'")
    page.click(button("Show more"))
    page.until(f"{role('status')} === '12 of 12' && !{button('Show more')}")
    assert page.evaluate(f"!!{button(SECOND + ' Submitted')}")

    given = send(FEEDBACK, {"input": {"answerSetId": submitted[SECOND], "text": "Well done."}})
    assert given == {"giveFeedback": {"userErrors": []}}
    page.until(button(f"{SECOND} Feedback received"))
    assign("2", "4")
    page.until(f"{role('status')} === '12 of 14' && !!{button('Show more')}")
    assert faults(page) == []


def test_a_caregiver_assigns_homework_and_gives_feedback(built: str, page: Page) -> None:
    with opened_tab(page) as other:
        sign_in(other, built)
        other.until(f"{role('status')}.includes(' of ')")
        before = int(other.evaluate(role("status")).split(" of ")[1])
        sign_in(page, built, CAREGIVER)
        page.until(f"{role('status')}.includes(' of ')")

        page.click("document.querySelector('summary')")
        page.until("document.querySelector('select')")
        page.click(button("Assign"))
        page.until(f"{role('alert')} === 'Not assigned. Choose at least one book.'")
        options = "[...document.querySelectorAll('option')]"
        page.evaluate(f"{options}.find((one) => one.text.startsWith('Jonas')).selected = true")
        page.click(field("Evening routine"))
        page.click(button("Assign"))
        page.until(f"{role('status')}.includes('Assigned')")
        page.until(button("Evening routine, Jonas Berg Due"))
        other.until(f"{role('status')}.endsWith(' of {before + 1}')")

        page.click(button("Show more"))
        text = "document.querySelector('article textarea')"
        for name, shown in (
            ("Mood check, Ravi Anand", f"{role('alert')} === 'Not saved. The session is closed.'"),
            ("Mood check, Jonas Berg", button("Mood check, Jonas Berg Feedback given")),
        ):
            page.click(button(f"{name} Submitted"))
            page.until(f"document.querySelector('article').innerText.includes('{name.split(', ')[1]}')")
            write(page, text, "Keep going.")
            page.click(button("Give feedback"))
            page.until(shown)
            assert page.evaluate(f"{text}.value") == "Keep going."
        assert (faults(page), faults(other)) == ([], [])


def test_the_second_of_two_tabs_gets_both_texts_and_a_choice(built: str, page: Page) -> None:
    with opened_tab(page) as other:
        for one in (page, other):
            sign_in(one, built)
            one.until(f"{role('status')}.includes(' of ')")
            text = open_first(one)
        write(other, text, "The rain")
        other.until(f"{role('status')}.endsWith('Not saved yet')")

        write(page, text, "The walk")
        page.click(button("Save draft"))
        page.until(f"{role('status')}.endsWith('Saved')")
        other.until(button(f"{FIRST} Draft saved"))  # by an event
        assert other.evaluate(f"{text}.value") == "The rain"

        other.click(button("Save draft"))
        other.until(button("Save mine"))
        assert [line for line in other.evaluate(role("alert")).splitlines() if line][1:4] == BOTH
        other.click(button("Save mine"))
        other.until(f"{role('status')}.endsWith('Saved') && !{role('alert')}")
        page.until(f"{text}.value === 'The rain'")  # by an event, because nothing was typed since the save

        write(page, text, "The sun")
        write(other, text, "The snow")
        other.click(button("Save draft"))
        other.until(f"{role('status')}.endsWith('Saved')")
        page.click(button("Save draft"))
        page.click(button("Use the other one"))
        page.until(f"{text}.value === 'The snow' && !{role('alert')}")
        assert (faults(page), faults(other)) == ([], [])


def test_a_submission_names_a_missing_answer_and_a_draft_of_another_tab(built: str, page: Page) -> None:
    def choose(one: Page, answer: str) -> None:
        changed = "dispatchEvent(new Event('change', { bubbles: true }))"
        one.evaluate(f"{choice}.value = '{answer}'; {choice}.{changed}")
        one.until(f"{role('status')}.endsWith('Not saved yet')")

    choice = field("Did you put screens away")
    with opened_tab(page) as other:
        for one in (page, other):
            sign_in(one, built)
            one.click(button("Evening routine"))
            one.until(choice)
        required = "This question must be answered."
        page.click(button("Submit"))
        page.until(f"document.querySelector('fieldset em').innerText === '{required}'")
        page.click(field("music"))
        page.click(button("Submit"))
        page.until("!document.querySelector('fieldset em').innerText")
        page.until(f"{role('alert')} === 'Not saved. {required}'")
        assert page.evaluate(f"{choice}.nextSibling.innerText") == required

        choose(other, "false")
        other.click(button("Save draft"))
        other.until(f"{role('status')}.endsWith('Saved')")
        choose(page, "true")
        page.click(button("Submit"))
        page.until(button("Save mine"))
        page.click(button("Save mine"))
        page.until(f"{role('status')}.endsWith('Saved') && !{role('alert')}")

        page.click(button("Submit"))
        for one in (page, other):  # the other by an event
            one.until("document.querySelector('article').innerText.endsWith('Submitted')")
            assert not one.evaluate(f"!!{button('Submit')} || !!{button('Save draft')}")
        assert (faults(page), faults(other)) == ([], [])


def test_what_was_typed_stays_while_another_row_is_open_and_after_the_token_expires(
    built: str, page: Page
) -> None:
    sign_in(page, built, ending_soon(CLIENT, 15))
    text = open_first(page)
    write(page, text, "The wind")
    page.click(button("Evening routine"))
    page.until("!document.querySelector('article textarea')")
    may_leave = "dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    assert page.evaluate(may_leave) is False
    open_first(page)
    assert page.evaluate(f"{text}.value") == "The wind"
    page.until(f"{role('alert')}.includes('Sign in again')")

    write(page, field("Access token"), CLIENT)
    page.click(button("Sign in"))
    open_first(page)
    assert page.evaluate(f"{text}.value") == "The wind"
    page.click(button("Save draft"))
    page.until(f"{role('status')}.endsWith('Saved')")
    page.click(button("Evening routine"))
    open_first(page)
    assert page.evaluate(f"{role('status')}.includes('Not saved yet')") is False
    assert page.evaluate(may_leave) is True


def test_an_open_submission_shows_each_attempt_when_it_arrives(built: str, page: Page) -> None:
    assign("4")
    [assignment] = send(LATEST)["assignments"]["nodes"]
    sign_in(page, built, CAREGIVER)
    page.click(button(f"{FIRST}, Jonas Berg Due"))
    page.until("document.querySelector('article').innerText.includes('Not submitted yet.')")

    submit(assignment["id"], "The moon")
    page.until("document.querySelector('article dd').innerText === 'The moon'")
    reopen(assignment["id"])
    page.until("document.querySelector('article').innerText.includes('Not submitted yet.')")
    submit(assignment["id"], "The stars")
    page.until("document.querySelector('article dd').innerText === 'The stars'")

    page.evaluate("""
      const real = window.fetch;
      const released = new Promise((release) => (window.release = release));
      window.fetch = async (...request) => {
        const response = await real(...request);
        await released;
        return response;
      };
    """)
    text = "document.querySelector('article textarea')"
    write(page, text, "Well done.")
    page.click(button("Give feedback"))
    page.until(f"{button('Give feedback')}.disabled")
    write(page, text, "Well done. Keep going.")
    page.evaluate("release()")
    page.until(f"{role('status')}.endsWith('Saved')")
    assert page.evaluate(f"{text}.value") == "Well done. Keep going."
    assert faults(page) == []


def test_feedback_that_was_typed_stays_while_another_row_is_open(built: str, page: Page) -> None:
    assign("4", "2")
    [newest] = send(LATEST)["assignments"]["nodes"]
    send(WITHDRAW, {"input": {"assignmentId": newest["id"]}})
    [assignment] = send(LATEST)["assignments"]["nodes"]
    submit(assignment["id"], "The sea")
    text = "document.querySelector('article textarea')"
    may_leave = "dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    sign_in(page, built, CAREGIVER)

    page.click(button(f"{FIRST}, Jonas Berg Submitted"))
    page.until("document.querySelector('article dd').innerText === 'The sea'")
    write(page, text, "Well done.")
    page.click(button("Evening routine, Jonas Berg Due"))
    page.until("document.querySelector('article').innerText.includes('Not submitted yet.')")
    page.click(button(f"{FIRST}, Jonas Berg Submitted"))
    page.until(f"{text}.value === 'Well done.'")
    assert page.evaluate(may_leave) is False

    page.click(button("Give feedback"))
    page.until(f"{role('status')}.endsWith('Saved')")
    assert page.evaluate(may_leave) is True
    reopen(assignment["id"])
    submit(assignment["id"], "The lake")
    page.until("document.querySelector('article dd')?.innerText === 'The lake'")
    assert page.evaluate(f"{role('status')}.endsWith('Saved') || {text}.value") == ""
    assert faults(page) == []


def test_what_was_typed_is_shown_when_the_homework_was_submitted_elsewhere(built: str, page: Page) -> None:
    assign("4")
    [assignment] = send(LATEST)["assignments"]["nodes"]
    sign_in(page, built)
    page.until(button("Show more"))
    page.evaluate(f"{button('Show more')}.click()")
    page.until(f"!{button('Show more')}")
    rows = "[...document.querySelectorAll('li button')]"
    page.click(f"{rows}.findLast((one) => one.textContent.startsWith('{FIRST} Not started'))")
    page.until("document.querySelector('article textarea')")
    text = "document.querySelector('article textarea')"
    write(page, text, "The hill")
    page.click(button("Save draft"))
    page.until(f"{role('status')}.endsWith('Saved')")
    write(page, text, "The valley")

    submit(assignment["id"], "The tree", revision=1)
    page.until(f"{role('alert')}.includes('This was typed here and not sent')")
    assert page.evaluate(f"{role('alert')}.includes('The valley')")
    reopen(assignment["id"])
    page.until(f"{text}.value === 'The valley'")
    page.click(button("Save draft"))
    page.until(f"{role('alert')}.includes('The saved draft no longer exists')")
    page.click(button("Save mine"))
    page.until(f"{role('status')}.endsWith('Saved') && !{role('alert')}")

    sent = send(WITHDRAW, {"input": {"assignmentId": assignment["id"]}})
    assert sent == {"withdrawAssignment": {"userErrors": []}}
    page.until("!document.querySelector('article')")
    assert faults(page) == []


def test_a_person_without_an_account_learns_why(built: str, page: Page) -> None:
    sign_in(page, built, with_claims(CLIENT, user_name="new"))

    page.until(f"{role('alert')} === 'There is no enabled account for this token.'")


def test_a_rejected_token_asks_the_person_to_sign_in_again(built: str, page: Page) -> None:
    sign_in(page, built, "expired")
    page.until(f"{role('alert')}.includes('Sign in again')")

    write(page, field("Access token"), CLIENT)
    page.click(button("Sign in"))
    page.until(button(FIRST))


def test_in_development_the_token_comes_from_the_environment(development_server: str, page: Page) -> None:
    page.open(development_server)

    page.until(button(FIRST))
    assert faults(page) == []
