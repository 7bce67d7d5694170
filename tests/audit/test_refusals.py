"""Promise: a rejected read or change of an authenticated viewer is recorded before the response. Of very many
only the number is recorded, so that an account cannot fill the disk."""

import asyncio
import re
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from app.care.budgets import Budget
from app.db.audit.recorder import MAX_REJECTIONS, MORE_REFUSALS, AuditRecorder, Rejections
from app.db.audit.records import Record
from app.db.drivers.fair_turns import CALLER
from app.db.drivers.interface import DatabaseUnavailable
from app.db.tables import AuditActor, Contract
from app.main import create_app, schema_of_service
from app.schema.types.scalars import global_id
from app.server.turns import Turns
from app.settings import Settings
from tests.audit.audit_log import audit_rows, audited
from tests.audit.test_chain import seal_all, verified
from tests.callers import Caller, Gateway, opened
from tests.concurrency import ApiCall, InterruptedDatabase, send_call
from tests.db import raw
from tests.factories import NOW, a_world, starting_with
from tests.patience import PATIENCE
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework
from tests.schema.listening import wait_for

pytestmark = starting_with(a_world)

PAGE = Path(__file__).parent.parent.parent / "docs/audit.md"


def named(**ids: list[int]) -> list[Any]:
    return [[None, None, ids]]


def send(caller: Caller, question: str) -> None:
    accept = "text/event-stream" if question.startswith("subscription") else "application/json"
    answer = caller.request("POST", "/graphql", json={"query": question}, headers={"accept": accept})
    assert answer.status_code in (200, 403), answer.text


SEVERAL = [("Session", 1), ("Session", 5), ("Session", 1), ("Session", 7), ("Assignment", 1), ("Client", 5)]
SOME = ", ".join(f'"{global_id(*one)}"' for one in [*SEVERAL, ("Book", 99), ("Event", 1)])

# The role (caregiver 2 or client 1), the field, the query, and the outcome and content of its record.
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
        named(sessions=[1, 7], assignments=[1], clients=[5]),
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
    ("client", "auditEvents", '{ auditEvents(clientId: "x") { totalCount } }', "FORBIDDEN", []),
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
# Fields that reject no viewer, or whose data has no owner.
NEVER = {"viewer", "sessions", "assignments", "submissions", "books", "book"}


def test_these_tests_cover_every_field_that_can_be_rejected() -> None:
    schema = schema_of_service(True)._schema
    assert schema.query_type and schema.subscription_type

    fields = {*schema.query_type.fields, *schema.subscription_type.fields}

    assert fields - NEVER <= {field for _, field, *_ in BY_GRAPHQL}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("role", "field", "question", "outcome", "about"),
    BY_GRAPHQL,
    ids=[f"{role}-{question}" for role, _, question, *_ in BY_GRAPHQL],
)
def test_a_rejected_graphql_read_is_recorded(
    gateway: Gateway, role: str, field: str, question: str, outcome: str, about: list[Any]
) -> None:
    caller, number = (gateway.as_caregiver(2), 2) if role == "caregiver" else (gateway.as_client(1), 1)

    send(caller, question)

    assert audited(gateway.settings.database) == [(role.upper(), number, field, outcome, about)]


FAILS_FIRST = "sessions(first: 0) { totalCount }"  # without a statement; its error leaves no data


@pytest.mark.parametrize(
    "question", [each for each in BY_GRAPHQL if each[2].startswith("{")], ids=itemgetter(2)
)
def test_a_rejected_read_beside_a_field_that_fails_is_recorded(
    gateway: Gateway, question: tuple[str, str, str, str, list[Any]]
) -> None:
    """A field that fails cancels those beside it, whose statements may still run."""
    role, field, query, outcome, about = question
    caller, number = (gateway.as_caregiver(2), 2) if role == "caregiver" else (gateway.as_client(1), 1)

    for together in (
        f"{{ {FAILS_FIRST} {query[1:]}",
        f"{{ ...of {query[1:]} fragment of on Query {{ {FAILS_FIRST} }}",
        f"query {{ ... @include(if: true) {{ {FAILS_FIRST} {query[1:]} }}",
    ):
        response = caller.graphql(together)
        assert response["data"] is None
        assert "UNREADABLE" in [error["extensions"]["code"] for error in response["errors"]]

    assert audited(gateway.settings.database) == [(role.upper(), number, field, outcome, about)] * 3


@pytest.mark.sqlite_only
@pytest.mark.parametrize("rejected", ["session(id: 999) { title }", "clients { totalCount }"])
def test_a_response_waits_for_the_record_of_a_rejected_field_beside_one_that_fails(
    gateway: Gateway, rejected: str
) -> None:
    """The record is stored slowly, and the field that fails cancels the rejected one meanwhile."""
    recorder: AuditRecorder = gateway.client.app_state["authenticator"].recorder
    query = {"query": f"{{ {FAILS_FIRST} {rejected} }}"}
    order: list[str] = []

    async def store() -> None:
        for _ in range(100):  # turns of the event loop, in which the response could be sent
            await asyncio.sleep(0)
        order.append("record")

    async def respond() -> None:
        await send_call(gateway.client, ApiCall(gateway.as_client(1), "POST", "/graphql", query))
        order.append("response")

    recorder.db = InterruptedDatabase(recorder.db, [], [store])
    assert gateway.client.portal is not None
    gateway.client.portal.call(respond)

    assert order == ["record", "response"]


def test_a_rejected_legacy_request_is_recorded(gateway: Gateway) -> None:
    caregiver, client = gateway.as_caregiver(2), gateway.as_client(1)
    running = {"time-state": "RUNNING"}

    asked = [
        caregiver.get(f"{ASSIGNMENTS}/1", headers={"x-request-id": "foreign"}),
        caregiver.get(f"{ASSIGNMENTS}/999", headers={"x-request-id": "missing"}),
        caregiver.request("HEAD", f"{ASSIGNMENTS}/2", headers={"x-request-id": "head"}),
        caregiver.get(SESSIONS, params=running, headers={"x-request-id": "sessions"}),
        client.get(f"{ASSIGNMENTS}/4", headers={"x-request-id": "one"}),
        client.get(f"{ASSIGNMENTS}/{9**30}", headers={"x-request-id": "none"}),
        client.get(ASSIGNMENTS, params=running, headers={"x-request-id": "list"}),
        client.put(ASSIGNMENTS, json=homework(), headers={"x-request-id": "put"}),
    ]

    assert [answer.status_code for answer in asked] == [404, 404, 404, 403, 403, 403, 403, 403]
    assert audit_rows(gateway.settings.database) == [
        ("CAREGIVER", 2, "LEGACY", "assignment", "NOT_FOUND", named(assignments=[1]), "foreign"),
        ("CAREGIVER", 2, "LEGACY", "assignment", "NOT_FOUND", named(assignments=[999]), "missing"),
        ("CAREGIVER", 2, "LEGACY", "assignment", "NOT_FOUND", named(assignments=[2]), "head"),
        ("CAREGIVER", 2, "LEGACY", "sessions", "FORBIDDEN", [], "sessions"),
        ("CLIENT", 1, "LEGACY", "assignment", "FORBIDDEN", named(assignments=[4]), "one"),
        ("CLIENT", 1, "LEGACY", "assignment", "FORBIDDEN", [], "none"),
        ("CLIENT", 1, "LEGACY", "assignments", "FORBIDDEN", [], "list"),
        ("CLIENT", 1, "LEGACY", "assignHomework", "FORBIDDEN", [], "put"),
    ]


@pytest.mark.sqlite_only
def test_a_permitted_read_without_answers_is_not_recorded(gateway: Gateway) -> None:
    caller = gateway.as_caregiver(1)

    for question in (
        "{ session(id: 1) { title } assignment(id: 1) { name } clients { totalCount } book(id: 9) { id } }",
        f'{{ nodes(ids: ["{global_id("Session", 1)}", "{global_id("Book", 9)}"]) {{ id }} }}',
        "{ assignments(sessionId: 5) { totalCount } auditEvents(clientId: 1) { totalCount } }",
    ):
        send(caller, question)
    assert caller.get(f"{ASSIGNMENTS}/none").status_code == 400
    send(gateway.as_anonymous(), "{ __typename }")

    assert audit_rows(gateway.settings.database) == []


@pytest.mark.sqlite_only
def test_a_rejection_whose_record_cannot_be_stored_is_an_internal_error(gateway: Gateway) -> None:
    raw.run(gateway.settings.database, "ALTER TABLE audit_record RENAME TO gone")

    assert gateway.as_caregiver(2).get(f"{ASSIGNMENTS}/1").status_code == 500
    assert gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/2").status_code == 200


# --- the limit --------------------------------------------------------------------------------------


def probe(caller: Caller, count: int) -> None:
    for number in range(count):
        assert caller.get(f"{ASSIGNMENTS}/{1000 + number}").status_code == 404


def end_window(gateway: Gateway) -> None:
    recorder: AuditRecorder | None = gateway.client.app_state["authenticator"].recorder
    assert recorder is not None and gateway.client.portal is not None
    gateway.client.portal.call(recorder.rejections.record_counts)


def more(viewer: int, count: int) -> tuple[Any, ...]:
    return ("CAREGIVER", viewer, "moreRefusals", "REFUSED", named(count=[count]))


@pytest.mark.sqlite_only
def test_beyond_the_limit_only_the_number_of_rejections_is_recorded(gateway: Gateway) -> None:
    database = gateway.settings.database
    each = [
        ("CAREGIVER", 2, "assignment", "NOT_FOUND", named(assignments=[1000 + number]))
        for number in range(MAX_REJECTIONS)
    ]

    probe(gateway.as_caregiver(2), MAX_REJECTIONS + 15)
    assert audited(database) == each

    probe(gateway.as_caregiver(1), 1)
    end_window(gateway)
    others = [("CAREGIVER", 1, "assignment", "NOT_FOUND", named(assignments=[1000]))]
    assert audited(database) == [*each, *others, more(2, 15)]

    probe(gateway.as_caregiver(2), 1)
    probe(gateway.as_caregiver(1), MAX_REJECTIONS)
    end_window(gateway)
    new = [("CAREGIVER", 1, *rest) for _, _, *rest in each]
    assert audited(database) == [*each, *others, more(2, 15), each[0], *new]


@pytest.mark.sqlite_only
def test_rejections_of_a_caregiver_hide_none_of_a_client_with_the_same_id(gateway: Gateway) -> None:
    """Those of one viewer count together on both contracts."""
    caregiver, client = gateway.as_caregiver(1), gateway.as_client(1)
    probe(caregiver, MAX_REJECTIONS + 1)
    for caller in (caregiver, client):
        send(caller, "{ session(id: 999) { title } }")
    client.get(f"{ASSIGNMENTS}/1")

    assert audited(gateway.settings.database)[MAX_REJECTIONS:] == [
        ("CLIENT", 1, "session", "NOT_FOUND", named(sessions=[999])),
        ("CLIENT", 1, "assignment", "FORBIDDEN", named(assignments=[1])),
    ]


CLOSE = "mutation { closeSession(input: { sessionId: 1 }) { userErrors { code } } }"


def test_of_many_rejected_changes_only_the_number_is_recorded(gateway: Gateway) -> None:
    """Rejected reads count separately: rejected changes do not hide which identifiers an account tries."""
    database, caregiver = gateway.settings.database, gateway.as_caregiver(2)

    for _ in range(MAX_REJECTIONS + 15):
        assert caregiver.data(CLOSE) == {"closeSession": {"userErrors": [{"code": "NOT_FOUND"}]}}
    probe(caregiver, 1)
    end_window(gateway)
    caregiver.data(CLOSE)

    rejected = ("CAREGIVER", 2, "closeSession", "NOT_FOUND", [])
    assert audited(database) == [
        *[rejected] * MAX_REJECTIONS,
        ("CAREGIVER", 2, "assignment", "NOT_FOUND", named(assignments=[1000])),
        ("CAREGIVER", 2, "moreRejectedChanges", "REFUSED", named(count=[15])),
        rejected,
    ]


@pytest.mark.sqlite_only
def test_the_number_is_recorded_when_the_process_ends(database_url: str, settings: Settings) -> None:
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        probe(Gateway(client, settings).as_caregiver(2), MAX_REJECTIONS + 3)

    assert audited(database_url)[MAX_REJECTIONS:] == [more(2, 3)]


@pytest.mark.sqlite_only
def test_the_number_is_recorded_when_the_window_ends(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.audit.recorder.WINDOW_SECONDS", 0)
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        one = " ".join(f"a{number}: assignment(id: {1000 + number}) {{ id }}" for number in range(30))
        send(gateway.as_caregiver(2), f"{{ {one} }}")

        wait_for(lambda: sum(one[4][0][2].get("count", [1])[0] for one in audited(database_url)) == 30)


@pytest.mark.sqlite_only
def test_a_rejection_while_the_last_number_is_recorded_is_counted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.db.audit.recorder.WINDOW_SECONDS", 0)
    kept: list[Record] = []
    one = Record(NOW, AuditActor.CAREGIVER, 1, Contract.GRAPHQL, "session", "NOT_FOUND", "[]", "request")

    async def keep(record: Record) -> None:
        kept.append(record)
        if record.operation == MORE_REFUSALS and counted() == 1:
            await reject(MAX_REJECTIONS + 2)

    def counted() -> int:
        return sum(record.operation == MORE_REFUSALS for record in kept)

    async def reject(times: int) -> None:
        for _ in range(times):
            await rejections.keep(one)

    async def work() -> None:
        await reject(MAX_REJECTIONS + 1)
        async with asyncio.timeout(PATIENCE):
            while counted() < 2:
                await asyncio.sleep(0)

    rejections = Rejections(keep)
    asyncio.run(work())

    numbers = [record.about for record in kept if record.operation == MORE_REFUSALS]
    assert numbers == ['[[null,null,{"count":[1]}]]', '[[null,null,{"count":[2]}]]']


REJECTED = Record(NOW, AuditActor.CAREGIVER, 1, Contract.GRAPHQL, "session", "NOT_FOUND", "[]", "request")


def test_rejections_at_once_have_the_same_limit_as_one_after_another() -> None:
    kept = []

    async def keep(record: Record) -> None:
        await asyncio.sleep(0)
        kept.append((record.operation, record.about))

    async def work() -> None:
        rejections = Rejections(keep)
        await asyncio.gather(*(rejections.keep(REJECTED) for _ in range(MAX_REJECTIONS + 3)))
        await rejections.close()

    asyncio.run(work())

    assert kept == [("session", "[]")] * MAX_REJECTIONS + [(MORE_REFUSALS, '[[null,null,{"count":[3]}]]')]


@pytest.mark.parametrize("fault", [DatabaseUnavailable, MemoryError])
def test_a_number_that_cannot_be_recorded_hides_no_other(
    fault: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    numbers = []

    async def keep(record: Record) -> None:
        if record.operation == MORE_REFUSALS:
            if record.actor_id == 1:
                raise fault
            numbers.append((record.actor_id, record.about))

    async def work() -> set[asyncio.Task[Any]]:
        rejections = Rejections(keep)
        for viewer in (1, 2):
            for _ in range(MAX_REJECTIONS + 2):
                await rejections.keep(REJECTED._replace(actor_id=viewer))
        await rejections.close()
        await asyncio.sleep(0)
        return asyncio.all_tasks()

    left = asyncio.run(work())

    assert numbers == [(2, '[[null,null,{"count":[2]}]]')]
    assert caplog.messages == [f"2 refusals could not be recorded: {fault.__name__}"]
    assert len(left) == 1  # the one that runs this


def test_a_database_that_does_not_answer_delays_the_shutdown_for_a_short_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.db.audit.recorder.SHUTDOWN_SECONDS", 0)

    async def keep(record: Record) -> None:
        if record.operation == MORE_REFUSALS:
            await asyncio.Event().wait()

    async def work() -> None:
        rejections = Rejections(keep)
        for _ in range(MAX_REJECTIONS + 1):
            await rejections.keep(REJECTED)
        async with asyncio.timeout(PATIENCE):
            await rejections.close()

    asyncio.run(work())


def test_the_last_number_does_not_wait_for_the_turn_of_the_first_viewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.db.audit.recorder.WINDOW_SECONDS", 0)
    recorded = asyncio.Event()

    async def keep(record: Record) -> None:
        if record.operation == MORE_REFUSALS:
            recorded.set()

    async def work() -> None:
        asyncio.get_running_loop().set_task_factory(Turns().create_task)
        busy = Budget()
        busy.seconds_owed = inf  # it has no turn
        rejections = Rejections(keep)
        CALLER.state = {"budget": busy}
        for _ in range(MAX_REJECTIONS + 1):
            await rejections.keep(REJECTED)
        CALLER.state = None
        async with asyncio.timeout(PATIENCE):
            await recorded.wait()

    asyncio.run(work())


# --- finding attempts -------------------------------------------------------------------------------


def test_rejections_are_hidden_from_caregivers_and_the_chain_verifies(gateway: Gateway) -> None:
    database = gateway.settings.database

    probe(gateway.as_caregiver(2), MAX_REJECTIONS + 1)
    end_window(gateway)
    seal_all(database)

    assert gateway.as_caregiver(1).data("{ auditEvents(clientId: 1) { totalCount } }") == {
        "auditEvents": {"totalCount": 0}
    }
    verdict = verified(database)
    assert (verdict.records, verdict.faults) == (MAX_REJECTIONS + 1, [])


def test_the_documented_statement_finds_viewers_with_rejections(gateway: Gateway) -> None:
    statement = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    send(gateway.as_caregiver(1), "{ assignments { nodes { answerSets { answers { answer } } } } }")

    probe(gateway.as_caregiver(2), 3)
    probe(gateway.as_caregiver(1), 1)

    found = raw.run(gateway.settings.database, statement)
    assert [(actor, number, count) for actor, number, count, *_ in found] == [
        ("CAREGIVER", 2, 3),
        ("CAREGIVER", 1, 1),
    ]
