"""Promise: a read that is refused to somebody who is signed in is on record before it is answered: who, what,
and the id that was named. Many of them leave their number, so nobody fills the disk by trying."""

import re
from pathlib import Path
from typing import Any

import pytest

from app.db.audit.records import MAX_REFUSALS, Recorder
from app.main import create_app, schema_of_service
from app.schema.types.node import global_id
from app.settings import Settings
from tests.audit.test_chain import seal_all, verified
from tests.audit.trail import told, trail
from tests.callers import Caller, Gateway, load, opened
from tests.db import raw
from tests.factories import NOW, a_world
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework
from tests.schema.listening import wait_for

PAGE = Path(__file__).parent.parent.parent / "docs/audit.md"


def named(**ids: list[int]) -> list[Any]:
    return [[None, None, ids]]


def ask(caller: Caller, question: str) -> None:
    """Over HTTP, whatever kind of operation it is."""
    accept = "text/event-stream" if question.startswith("subscription") else "application/json"
    answer = caller.request("POST", "/graphql", json={"query": question}, headers={"accept": accept})
    assert answer.status_code in (200, 403), answer.text


SEVERAL = [("Session", 1), ("Session", 5), ("Session", 1), ("Session", 7), ("Assignment", 1), ("Book", 99)]
SOME = ", ".join(f'"{global_id(*one)}"' for one in [*SEVERAL, ("Event", 1)])

# By the field: the role of caregiver 2 or client 1, the question, and what is on record of it.
BY_GRAPHQL: list[tuple[str, str, str, str, list[Any]]] = [
    ("caregiver", "session", "{ session(id: 1) { title } }", "NOT_FOUND", named(sessions=[1])),
    ("caregiver", "session", "{ session(id: 999) { title } }", "NOT_FOUND", named(sessions=[999])),
    ("caregiver", "session", '{ session(id: "x") { title } }', "NOT_FOUND", []),
    ("client", "session", "{ session(id: 5) { title } }", "NOT_FOUND", named(sessions=[5])),
    ("caregiver", "assignment", "{ x: assignment(id: 1) { name } }", "NOT_FOUND", named(assignments=[1])),
    (
        "client",
        "assignment",
        f'{{ assignment(id: "{global_id("Assignment", 5)}") {{ name }} }}',
        "NOT_FOUND",
        named(assignments=[5]),
    ),
    *(
        ("caregiver", "node", f'{{ node(id: "{global_id(kind, 1)}") {{ id }} }}', "NOT_FOUND", named(**ids))
        for kind, ids in {
            "Session": {"sessions": [1]},
            "Assignment": {"assignments": [1]},
            "AnswerSet": {"answerSets": [1]},
            "Client": {"clients": [1]},
            "Caregiver": {"caregivers": [1]},
        }.items()
    ),
    (
        "caregiver",
        "nodes",
        f"{{ nodes(ids: [{SOME}]) {{ id }} }}",
        "NOT_FOUND",
        named(sessions=[1, 7], assignments=[1]),
    ),
    (
        "caregiver",
        "assignmentChanged",
        "subscription { assignmentChanged(sessionId: 1) { id } }",
        "NOT_FOUND",
        named(sessions=[1]),
    ),
    (
        "caregiver",
        "event",
        "subscription { assignmentChanged(after: 77) { id } }",
        "NOT_FOUND",
        named(events=[77]),
    ),
    ("caregiver", "reminderDue", "subscription { reminderDue { id } }", "FORBIDDEN", []),
    ("caregiver", "ownData", "{ ownData }", "FORBIDDEN", []),
    ("client", "clients", "{ clients { nodes { name } } }", "FORBIDDEN", []),
    ("client", "auditEvents", "{ auditEvents(clientId: 2) { totalCount } }", "FORBIDDEN", named(clients=[2])),
    (
        "client",
        "closeSession",
        "mutation { closeSession(input: {sessionId: 1}) { userErrors { code } } }",
        "FORBIDDEN",
        [],
    ),
    (
        "caregiver",
        "submitAnswers",
        "mutation { submitAnswers(input: {assignmentId: 1, answers: []}) { userErrors { code } } }",
        "FORBIDDEN",
        [],
    ),
]
# What cannot be refused to a viewer, or belongs to nobody.
NEVER = {"viewer", "sessions", "assignments", "submissions", "books", "book"}


def test_every_read_that_can_be_refused_is_tried_here() -> None:
    schema = schema_of_service(True)._schema
    assert schema.query_type and schema.subscription_type

    fields = {*schema.query_type.fields, *schema.subscription_type.fields}

    assert fields - NEVER <= {field for _, field, *_ in BY_GRAPHQL}


@pytest.mark.parametrize(
    ("role", "field", "question", "outcome", "about"),
    BY_GRAPHQL,
    ids=[f"{role}-{question}" for role, _, question, *_ in BY_GRAPHQL],
)
def test_what_is_refused_by_graphql_is_on_record(
    gateway: Gateway, role: str, field: str, question: str, outcome: str, about: list[Any]
) -> None:
    gateway.given(a_world())
    caller, number = (gateway.as_caregiver(2), 2) if role == "caregiver" else (gateway.as_client(1), 1)

    ask(caller, question)

    assert told(gateway.settings.database) == [(role.upper(), number, field, outcome, about)]


def test_what_is_refused_on_the_legacy_paths_is_on_record(gateway: Gateway) -> None:
    gateway.given(a_world())
    caregiver, client = gateway.as_caregiver(2), gateway.as_client(1)
    running = {"time-state": "RUNNING"}

    asked = [
        caregiver.get(f"{ASSIGNMENTS}/1", headers={"x-request-id": "foreign"}),
        caregiver.get(f"{ASSIGNMENTS}/999", headers={"x-request-id": "missing"}),
        caregiver.request("HEAD", f"{ASSIGNMENTS}/2", headers={"x-request-id": "head"}),
        caregiver.get(SESSIONS, params=running, headers={"x-request-id": "sessions"}),
        client.get(f"{ASSIGNMENTS}/1", headers={"x-request-id": "one"}),
        client.get(f"{ASSIGNMENTS}/{9**30}", headers={"x-request-id": "none"}),
        client.get(ASSIGNMENTS, params=running, headers={"x-request-id": "list"}),
        client.put(ASSIGNMENTS, json=homework(), headers={"x-request-id": "put"}),
    ]

    assert [answer.status_code for answer in asked] == [404, 404, 404, 403, 403, 403, 403, 403]
    assert trail(gateway.settings.database) == [
        ("CAREGIVER", 2, "LEGACY", "assignment", "NOT_FOUND", named(assignments=[1]), "foreign"),
        ("CAREGIVER", 2, "LEGACY", "assignment", "NOT_FOUND", named(assignments=[999]), "missing"),
        ("CAREGIVER", 2, "LEGACY", "assignment", "NOT_FOUND", named(assignments=[2]), "head"),
        ("CAREGIVER", 2, "LEGACY", "sessions", "FORBIDDEN", [], "sessions"),
        ("CLIENT", 1, "LEGACY", "assignment", "FORBIDDEN", named(assignments=[1]), "one"),
        ("CLIENT", 1, "LEGACY", "assignment", "FORBIDDEN", [], "none"),
        ("CLIENT", 1, "LEGACY", "assignments", "FORBIDDEN", [], "list"),
        ("CLIENT", 1, "LEGACY", "assignHomework", "FORBIDDEN", [], "put"),
    ]


def test_what_is_granted_or_belongs_to_nobody_leaves_no_record(gateway: Gateway) -> None:
    gateway.given(a_world())
    caller = gateway.as_caregiver(1)

    for question in (
        "{ session(id: 1) { title } assignment(id: 1) { name } clients { totalCount } book(id: 9) { id } }",
        f'{{ nodes(ids: ["{global_id("Session", 1)}", "{global_id("Book", 9)}"]) {{ id }} }}',
        "{ assignments(sessionId: 5) { totalCount } auditEvents(clientId: 1) { totalCount } }",
    ):
        ask(caller, question)
    assert caller.get(f"{ASSIGNMENTS}/none").status_code == 400
    ask(gateway.as_nobody(), "{ __typename }")

    assert trail(gateway.settings.database) == []


def test_a_refusal_that_cannot_be_recorded_is_not_answered(gateway: Gateway) -> None:
    gateway.given(a_world())
    raw.run(gateway.settings.database, "ALTER TABLE audit_record RENAME TO gone")

    assert gateway.as_caregiver(2).get(f"{ASSIGNMENTS}/1").status_code == 500
    assert gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/2").status_code == 200


# --- bounded --------------------------------------------------------------------------------------


def probe(caller: Caller, count: int) -> None:
    for number in range(count):
        assert caller.get(f"{ASSIGNMENTS}/{1000 + number}").status_code == 404


def end_window(gateway: Gateway) -> None:
    recorder: Recorder | None = gateway.client.app_state["authenticator"].recorder
    assert recorder is not None and gateway.client.portal is not None
    gateway.client.portal.call(recorder.refusals.record_counts)


def more(viewer: int, count: int) -> tuple[Any, ...]:
    return ("CAREGIVER", viewer, "moreRefusals", "REFUSED", named(count=[count]))


def test_many_refusals_of_a_viewer_leave_some_records_and_a_number(gateway: Gateway) -> None:
    gateway.given(a_world())
    database = gateway.settings.database
    each = [
        ("CAREGIVER", 2, "assignment", "NOT_FOUND", named(assignments=[1000 + number]))
        for number in range(MAX_REFUSALS)
    ]

    probe(gateway.as_caregiver(2), MAX_REFUSALS + 15)
    assert told(database) == each

    probe(gateway.as_caregiver(1), 1)
    end_window(gateway)
    others = [("CAREGIVER", 1, "assignment", "NOT_FOUND", named(assignments=[1000]))]
    assert told(database) == [*each, *others, more(2, 15)]

    probe(gateway.as_caregiver(2), 1)
    end_window(gateway)
    assert told(database) == [*each, *others, more(2, 15), each[0]]


def test_the_number_is_recorded_when_the_process_ends(database_url: str, settings: Settings) -> None:
    load(database_url, a_world())
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        probe(Gateway(client, settings).as_caregiver(2), MAX_REFUSALS + 3)

    assert told(database_url)[MAX_REFUSALS:] == [more(2, 3)]


def test_the_number_is_recorded_when_the_window_ends(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.audit.records.WINDOW_SECONDS", 0)
    load(database_url, a_world())
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        one = " ".join(f"a{number}: assignment(id: {1000 + number}) {{ id }}" for number in range(30))
        ask(gateway.as_caregiver(2), f"{{ {one} }}")

        wait_for(lambda: sum(one[4][0][2].get("count", [1])[0] for one in told(database_url)) == 30)


# --- what it is for -------------------------------------------------------------------------------


def test_caregivers_do_not_see_who_tries_and_the_trail_stays_whole(gateway: Gateway) -> None:
    gateway.given(a_world())
    database = gateway.settings.database

    probe(gateway.as_caregiver(2), MAX_REFUSALS + 1)
    end_window(gateway)
    seal_all(database)

    assert gateway.as_caregiver(1).data("{ auditEvents(clientId: 1) { totalCount } }") == {
        "auditEvents": {"totalCount": 0}
    }
    verdict = verified(database)
    assert (verdict.records, verdict.faults) == (MAX_REFUSALS + 1, [])


def test_the_statement_of_the_documentation_finds_who_tries(gateway: Gateway) -> None:
    gateway.given(a_world())
    statement = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    ask(gateway.as_caregiver(1), "{ assignments { nodes { answerSets { answers { answer } } } } }")

    probe(gateway.as_caregiver(2), 3)
    probe(gateway.as_caregiver(1), 1)

    found = raw.run(gateway.settings.database, statement)
    assert [(actor, number, count) for actor, number, count, *_ in found] == [
        ("CAREGIVER", 2, 3),
        ("CAREGIVER", 1, 1),
    ]
