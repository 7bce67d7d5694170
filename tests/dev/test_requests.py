"""Development measures the parts of each response in `Server-Timing`, and lists the last requests at
`/requests`.

Production does neither. The list is for visitors on the same machine, and contains no token.
"""

import asyncio
import html
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import pytest
from httpx2 import Response
from starlette.types import Message, Receive, Scope, Send

from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
from app.db.interchange.load import importing
from app.dev import requests
from app.dev.requests import (
    CURRENT,
    MAX_DOCUMENT,
    SHOWN,
    RecentRequest,
    RecentRequests,
    finish,
    measured,
    measured_call,
)
from app.main import create_app
from app.rest_compat.routes import CAREGIVER_ASSIGNMENT
from app.schema.transport.request_parsing import GraphQLRequest
from app.settings import Environment, Settings
from tests import keys
from tests.callers import Caller, Gateway, opened, run_write
from tests.dev.conftest import BROWSER
from tests.factories import HOUR, NOW, a_world
from tests.schema.listening import listening, streaming

pytestmark = pytest.mark.sqlite_only

LOCAL = BROWSER | {"host": "localhost:8000"}
ONE = "query One($id: ID!) { assignment(id: $id) { name answerSets { answers { questionId } } } }"
SESSIONS = "/gateway/profile/client/session"
ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
INTROSPECTION = "query IntrospectionQuery { __schema { queryType { name } } }"
TIMING = re.compile(r"(\w+);dur=(\d+\.\d\d)")


@pytest.fixture
def demo(folder: object, settings: Settings) -> Iterator[Gateway]:
    run_write(settings.database, importing(demo_lines(NOW)))
    with opened(create_app(settings, clock=lambda: NOW), reports_cost=True) as client:
        yield Gateway(client, settings)


def caregiver(gateway: Gateway) -> Caller:
    return gateway.with_token(keys.token("CAREGIVER", CAREGIVER))


def rows(gateway: Gateway, **headers: str) -> list[list[str]]:
    """The cells of the page as text, without the time and the milliseconds."""
    page = gateway.as_anonymous().get("/requests", headers=LOCAL | headers).text
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    cells = [re.findall(r"<td.*?>(.*?)</td>", line) for line in re.findall(r"<tr>(.*?)</tr>", body)]
    texts = [[html.unescape(re.sub(r"<.*?>", "", cell)) for cell in line] for line in cells]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", line[0]) and line[4] for line in texts if len(line) > 1)
    return [[line[1], *line[2:4], *line[5:]] if len(line) > 1 else line for line in texts]


def links(gateway: Gateway) -> list[dict[str, str]]:
    """The state in the fragment of each link to GraphiQL."""
    page = gateway.as_anonymous().get("/requests", headers=LOCAL).text
    fragments = re.findall(r'href="/graphql#([^"]+)"', page)
    return [
        {name: value for name, (value,) in parse_qs(html.unescape(each), strict_parsing=True).items()}
        for each in fragments
    ]


def parts(response: Response) -> list[str]:
    found = TIMING.findall(response.headers["server-timing"])
    assert ", ".join(f"{name};dur={spent}" for name, spent in found) == response.headers["server-timing"]
    *measured, total = [float(spent) for _, spent in found]
    assert sum(measured) <= total + 0.05
    return [name for name, _ in found]


def test_a_response_says_where_its_time_went(demo: Gateway) -> None:
    """Documents and operations are cached, so these are new, and the legacy call is repeated."""
    answers = caregiver(demo).post_graphql(ONE.replace("One", "Timed"), id="1")
    book = caregiver(demo).post_graphql("query Timed { books(first: 1) { nodes { name } } }")
    invalid = caregiver(demo).post_graphql("{ nothing }")
    _, legacy = (caregiver(demo).get(f"{ASSIGNMENTS}/1") for _ in range(2))
    unknown = demo.as_anonymous().get("/gateway/nowhere")

    assert "errors" not in answers.json()
    assert parts(answers) == ["parse", "plan", "database", "audit", "total"]
    assert parts(book) == ["parse", "plan", "database", "total"]
    assert parts(invalid) == ["parse", "total"]
    assert parts(legacy) == ["database", "audit", "total"]
    assert parts(unknown) == ["total"]


def test_a_part_that_fails_is_measured_and_so_are_the_parts_after_it() -> None:
    request = RecentRequest(NOW, "GET", "/")
    token = CURRENT.set(request)
    with suppress(ValueError), measured("database"):
        raise ValueError
    with measured("audit"):
        pass
    CURRENT.reset(token)

    assert list(request.parts) == ["database", "audit"]


def test_a_part_inside_of_another_counts_once() -> None:
    request = RecentRequest(NOW, "GET", "/")
    token = CURRENT.set(request)
    with measured("audit"), measured("database"):
        pass
    CURRENT.reset(token)

    assert list(request.parts) == ["audit"]


def test_the_introspection_of_tools_is_not_listed(demo: Gateway) -> None:
    body = {"query": INTROSPECTION, "operationName": "IntrospectionQuery"}
    assert "data" in caregiver(demo).request("POST", "/graphql", json=body).json()
    assert rows(demo) == [["No request yet."]]


def test_a_displaced_introspection_gets_its_response() -> None:
    """Later requests can take its place in the list before its response begins."""
    sent: list[Message] = []

    async def contract(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["request"] = GraphQLRequest(INTROSPECTION, None, "IntrospectionQuery", None)
        recent.requests.clear()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def note(message: Message) -> None:
        sent.append(message)

    recent = RecentRequests(lambda: NOW, most=50)
    scope = {"type": "http", "method": "POST", "path": "/graphql", "query_string": b"", "headers": []}
    asyncio.run(recent.recorded(contract)({**scope, "state": {}}, None, note))  # type: ignore[arg-type]
    assert [message["status"] for message in sent] == [200]


def test_each_request_is_listed_with_the_operation_that_it_ran(demo: Gateway) -> None:
    assert rows(demo) == [["No request yet."]]
    headers = {"x-request-id": "mine"}
    body = {"query": ONE, "variables": {"id": "1"}, "operationName": "One"}
    cost = (
        caregiver(demo)
        .request("POST", "/graphql", json=body, headers=headers)
        .json()["extensions"]["cost"]["cost"]
    )
    caregiver(demo).get(f"{ASSIGNMENTS}/1", headers=headers)
    demo.as_anonymous().get(f"{SESSIONS}?time-state=RUNNING", headers=headers)
    with streaming(
        demo.with_token(keys.token("CLIENT", CLIENT)), "subscription { reminderDue { id } }"
    ) as stream:
        stream_id = stream.response.headers["x-request-id"]
        listed = rows(demo)

    one = " ".join(CAREGIVER_ASSIGNMENT.split())[:80] + "…"
    assert [line[:-1] for line in listed[:1]] == [
        ["POST /graphql", "subscription { reminderDue { id } }", "200", listed[0][3]]
    ]
    assert listed[0][-1] == stream_id
    assert listed[1:] == [
        [f"GET {SESSIONS}?time-state=RUNNING", "", "401", "", "mine"],
        [f"GET {ASSIGNMENTS}/1", one, "200", listed[2][3], "mine"],
        ["POST /graphql", ONE[:80] + "…", "200", str(cost), "mine"],
    ]
    assert listed[2][3].isdigit()


def test_a_request_that_the_rate_limit_rejects_is_listed_with_its_cost(demo: Gateway) -> None:
    limited = demo.settings.model_copy(update={"rate_limit": 1})
    with opened(create_app(limited, clock=lambda: NOW)) as client:
        gateway = Gateway(client, limited)
        for _ in range(2):
            caregiver(gateway).post_graphql("{ viewer { role } }")
        rejected, accepted = (line[2:4] for line in rows(gateway))

    assert (accepted[0], rejected[0]) == ("200", "429")
    assert rejected[1] == accepted[1] != ""


def test_the_cost_of_a_document_of_the_service_has_no_limit(demo: Gateway) -> None:
    """The documents of legacy paths open in GraphiQL, as links of the list."""
    limited = demo.settings.model_copy(update={"cost_limit": 1})
    with opened(create_app(limited, clock=lambda: NOW)) as client:
        caller = caregiver(Gateway(client, limited))
        own, other = (caller.post_graphql(each, id="1").json() for each in (CAREGIVER_ASSIGNMENT, ONE))

    assert ("errors" in own, "errors" in other) == (False, True)


def test_a_list_of_a_legacy_path_costs_as_much_as_its_page_is_long(demo: Gateway) -> None:
    for size in (1, 20, 100):
        caregiver(demo).get(f"{ASSIGNMENTS}?time-state=RUNNING&size={size}")

    long, usual, short = (int(line[3]) for line in rows(demo))
    assert 0 < short < usual < long


def test_a_listed_operation_opens_in_graphiql_with_its_variables_and_role_but_no_token(demo: Gateway) -> None:
    caregiver(demo).post_graphql(ONE, id="<&ü>")
    caregiver(demo).get(f"{ASSIGNMENTS}/1")
    demo.with_token(keys.token("CLIENT", CLIENT)).post_graphql("{ viewer { role } }")

    page = demo.as_anonymous().get("/requests", headers=LOCAL).text
    assert "<p>The last 50 requests" in page
    assert links(demo) == [
        {"query": "{ viewer { role } }", "role": "client"},
        {"query": CAREGIVER_ASSIGNMENT, "variables": '{\n  "id": "1"\n}', "role": "caregiver"},
        {"query": ONE, "variables": '{\n  "id": "<&ü>"\n}', "role": "caregiver"},
    ]
    assert "bearer" not in page.lower() and "eyJ" not in page


def test_a_listed_request_shows_no_element_of_the_caller(demo: Gateway) -> None:
    caregiver(demo).post_graphql('{ node(id: "<i>") { id } }')
    demo.as_anonymous().get("/gateway/<i>")

    assert "<i>" not in demo.as_anonymous().get("/requests", headers=LOCAL).text


def test_a_listed_document_is_shown_without_its_comments(demo: Gateway) -> None:
    caregiver(demo).post_graphql("# The first\nquery Mine {\n# The second\nviewer { role } }")

    assert rows(demo)[0][1] == "query Mine { viewer { role } }"


def test_a_listed_request_shows_braces_as_they_are(demo: Gateway) -> None:
    demo.as_anonymous().get("/gateway/{{kept}}?{{rows}}")

    assert rows(demo)[0][0] == "GET /gateway/{{kept}}?{{rows}}"


def test_a_request_without_a_response_yet_is_listed_without_a_status_and_time() -> None:
    recent = RecentRequests(lambda: NOW, most=2)
    moments = [NOW + hours * HOUR for hours in (4, 5, 12)]
    recent.requests.extend(RecentRequest(at, "GET", f"/{at.hour}") for at in moments)

    page = recent.page()

    assert re.findall(r"<tr>(<td>.*)</tr>", page) == [
        "".join(
            f"<td>{cell}</td>" for cell in (f"{hour}:00:00", f"<code>GET /{hour}</code>", "", "…", "", "")
        )
        + "<td><code></code></td>"
        for hour in (21, 14)
    ]
    assert "<p>The last 2 requests" in page


@pytest.mark.parametrize("more", [0, 1])
def test_a_listed_document_is_shown_up_to_a_limit_and_kept_up_to_another(more: int) -> None:
    """Without its comments; of a document that is not kept only the beginning is shown, and no link."""
    short, variables = "# a\n" + "&" * (SHOWN + more), {"id": "1"}
    long = "c" * (MAX_DOCUMENT - len(str(variables)) + more)
    recent, scope = RecentRequests(lambda: NOW, most=2), {"path": "/graphql"}
    for query in (short, long):
        request = RecentRequest(NOW, "POST", "/graphql", role="client")
        sent = GraphQLRequest(query, variables, None, None)
        finish(request, {**scope, "state": {"request": sent}}, 200)
        recent.requests.append(request)

    cells = re.findall(r"<td><code>(?:<a href[^>]*>)?((?:c|&amp;)+)(…?)(</a>)?</code></td>", recent.page())

    begin = ("c" * SHOWN, "") if more else ("c" * SHOWN, "…")
    assert cells == [(*begin, "" if more else "</a>"), ("&amp;" * SHOWN, "…" * more, "</a>")]


def test_the_document_of_a_request_with_long_variables_is_shown_without_a_link() -> None:
    recent, request = RecentRequests(lambda: NOW, most=1), RecentRequest(NOW, "POST", "/", role="client")
    sent = GraphQLRequest("{ viewer { role } }", {"text": "x" * MAX_DOCUMENT}, None, None)
    finish(request, {"path": "/", "state": {"request": sent}}, 200)
    recent.requests.append(request)

    assert "<td><code>{ viewer { role } }</code></td>" in recent.page()


def test_a_page_and_the_document_in_a_query_string_are_not_listed(demo: Gateway) -> None:
    caregiver(demo).get("/graphql", headers=BROWSER)
    caregiver(demo).get("/graphql", params={"query": "{ viewer { role } }"})

    assert [line[:2] for line in rows(demo)] == [["GET /graphql", "{ viewer { role } }"]]


def test_websockets_work_and_are_not_listed(demo: Gateway) -> None:
    with listening(caregiver(demo)) as listener:
        assert listener.query("{ viewer { role } }") == {"viewer": {"role": "CAREGIVER"}}

    assert rows(demo) == [["No request yet."]]


def test_homework_of_a_legacy_call_opens_in_graphiql_with_its_moments(demo: Gateway) -> None:
    start, end = (
        {"startDate": "2026/11/27", "startTime": "08:00"},
        {"endDate": "2026/12/04", "endTime": "20:00"},
    )
    assigned = caregiver(demo).put(ASSIGNMENTS, json={"bookIds": [1], "sessionId": 1, **start, **end})
    assert assigned.status_code == 200, assigned.text

    [link] = links(demo)

    given = json.loads(link["variables"])["input"]
    assert (given["startDate"], given["endDate"]) == ("2026-11-27T08:00:00Z", "2026-12-04T20:00:00Z")


def test_the_list_is_bounded_in_requests_and_in_their_length(demo: Gateway) -> None:
    long = "# " + "x" * 30_000
    caregiver(demo).post_graphql(f"{long}\n{{ viewer {{ role }} }}")
    assert [line[1] for line in rows(demo)] == [""]
    assert links(demo) == []
    caregiver(demo).post_graphql(ONE, id="x" * 30_000)
    assert links(demo) == []

    for number in range(50):
        demo.as_anonymous().get(f"/gateway/{number}")
    assert [line[0] for line in rows(demo)] == [f"GET /gateway/{number}" for number in reversed(range(50))]


@pytest.mark.parametrize(
    "headers", [{"host": "care.example.test"}, {"host": "localhost:8000", "x-forwarded-for": "127.0.0.1"}]
)
def test_other_visitors_see_no_requests(demo: Gateway, headers: dict[str, str]) -> None:
    caregiver(demo).post_graphql(ONE, id="1")

    page = demo.as_anonymous().get("/requests", headers=BROWSER | headers).text

    assert "They are shown only to a browser on the same machine" in page
    assert "assignment" not in page.split('<div id="page"')[1]


@pytest.mark.parametrize("changed", [{"env": Environment.PRODUCTION}, {"recent_requests": 0}])
def test_production_neither_measures_nor_keeps_requests(
    folder: object, settings: Settings, changed: dict[str, Any]
) -> None:
    """Nor does development without the list: contracts, database and schema are not wrapped."""
    own = settings.model_copy(update=changed)
    app = create_app(own, clock=lambda: NOW)
    wrapped = [part for part in (app.graphql, app.legacy) if hasattr(part, "__wrapped__")]
    schema: Any = app.graphql.schema  # type: ignore[attr-defined]
    with opened(app) as client:
        gateway = Gateway(client, own)
        gateway.import_records(a_world())
        responses = [
            gateway.as_caregiver(1).post_graphql("{ viewer { role } }"),
            gateway.as_caregiver(1).get(ASSIGNMENTS, params={"time-state": "RUNNING"}),
        ]
        replaced = {name for name in ("read", "write") if name in vars(gateway.database)}

    assert [response.status_code for response in responses] == [200, 200]
    assert [name for response in responses for name in response.headers if name == "server-timing"] == []
    assert wrapped == []
    assert {"admit", "compile", "resolve", "rejection_of"} & set(vars(schema)) == set()
    assert replaced == set()
    assert json.loads(responses[0].text) == {"data": {"viewer": {"role": "CAREGIVER"}}}


def test_the_times_of_one_part_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits is measured to its end."""
    request = RecentRequest(NOW, "GET", "/graphql")
    ticks = iter([1.0, 2.0, 10.0, 11.0, 13.0])
    monkeypatch.setattr(requests, "perf_counter", lambda: next(ticks))

    async def read() -> None:
        assert requests.perf_counter() == 11.0

    token = CURRENT.set(request)
    with measured("database"):
        pass
    asyncio.run(measured_call(read, "database")())
    CURRENT.reset(token)

    assert request.parts == {"database": 4.0}
