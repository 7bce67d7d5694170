"""Promise: every access to answers and every change is recorded before the response is sent."""

import asyncio
from math import inf
from typing import Any

import pytest
from graphql import GraphQLInterfaceType, GraphQLObjectType, get_named_type

from app.care.budgets import Budget
from app.care.context import Context, Role, Viewer
from app.care.subscriptions import get_my_reminders
from app.db.audit.recorder import GATHER_SECONDS, MAX_GROUP, NOT_RECORDED, AuditRecorder
from app.db.audit.records import Record
from app.db.drivers.factory import open_database
from app.db.drivers.fair_turns import CALLER
from app.db.drivers.interface import DatabaseUnavailable
from app.db.reader.selection import Link, Selection
from app.db.tables import AuditActor, Contract
from app.main import create_app, schema_of_service
from app.server.turns import Turns
from app.settings import Environment, Settings, SettingsError
from tests import keys
from tests.answers import submit
from tests.audit.audit_log import audit_rows, audited
from tests.audit.operations import ANSWERS, CHANGES, IDS, OF_1, OF_2, READS, SCORES
from tests.callers import Caller, Gateway, opened
from tests.concurrency import ApiCall, send_together
from tests.db import raw
from tests.factories import NOW, a_client, a_world_with_other_clients, an_assignment, starting_with
from tests.fault_injection import Failing
from tests.patience import PATIENCE
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework

pytestmark = starting_with(a_world_with_other_clients)

ANSWER = "über Nacht"  # in every answer of the world
ANSWERS_OF_IT = Selection(frozenset(), (Link("answer_sets", Selection(frozenset({"answers"}))),))


def caller_of(gateway: Gateway, role: Role) -> Caller:
    return gateway.as_caregiver(1) if role is Role.CAREGIVER else gateway.as_client(1)


def leads_to_answers(kind: Any, seen: set[str]) -> bool:
    kind = get_named_type(kind)
    if kind.name in seen or not isinstance(kind, GraphQLObjectType | GraphQLInterfaceType):
        return False
    if kind.name == "Answer":
        return True
    seen.add(kind.name)
    further = [field.type for field in kind.fields.values()]
    if isinstance(kind, GraphQLInterfaceType):
        further += schema_of_service(True)._schema.get_possible_types(kind)
    return any(leads_to_answers(each, seen) for each in further)


# --- reading ----------------------------------------------------------------------------------------


def test_these_tests_cover_every_field_that_leads_to_answers() -> None:
    schema = schema_of_service(True)._schema
    roots = [schema.query_type, schema.mutation_type]

    leading = {
        name
        for root in roots
        if root
        for name, field in root.fields.items()
        if leads_to_answers(field.type, set())
    }

    assert leading == READS.keys() | CHANGES.keys()


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("field", READS)
def test_a_read_of_answers_is_recorded(gateway: Gateway, field: str) -> None:
    question, role, what, about = READS[field]

    answer = caller_of(gateway, role).post_graphql(question)

    assert ANSWER in answer.text
    [one] = audit_rows(gateway.settings.database)
    assert one == (role, IDS[role], "GRAPHQL", what, "DONE", about, answer.headers["x-request-id"])


@pytest.mark.sqlite_only
def test_a_read_without_answers_is_not_recorded(gateway: Gateway) -> None:

    gateway.as_caregiver(1).data(
        "{ assignments { nodes { score answerSets { score } client { progress { assignmentCount } } } } }"
    )
    gateway.as_client(1).get(SESSIONS, params={"time-state": "RUNNING"})

    assert audit_rows(gateway.settings.database) == []


@pytest.mark.sqlite_only
def test_requests_of_the_legacy_paths_are_recorded(gateway: Gateway) -> None:
    caregiver = gateway.as_caregiver(1)

    one = caregiver.get(f"{ASSIGNMENTS}/1", headers={"x-request-id": "one"})
    several = caregiver.get(
        ASSIGNMENTS, params={"time-state": "RUNNING"}, headers={"x-request-id": "several"}
    )
    assigned = caregiver.put(ASSIGNMENTS, json=homework(), headers={"x-request-id": "put"})

    assert (one.status_code, several.status_code, assigned.status_code) == (200, 200, 200)
    assert audit_rows(gateway.settings.database) == [
        ("CAREGIVER", 1, "LEGACY", "assignment", "DONE", OF_1, "one"),
        ("CAREGIVER", 1, "LEGACY", "assignments", "DONE", OF_1, "several"),
        ("CAREGIVER", 1, "LEGACY", "assignHomework", "DONE", [[1, 101, {"assignments": [6, 7]}]], "put"),
    ]


def test_a_record_contains_only_the_answer_sets_of_the_viewer(gateway: Gateway) -> None:

    gateway.as_client(2).data(f"{{ assignments {{ nodes {{ {ANSWERS} }} }} }}")

    assert audited(gateway.settings.database) == [
        ("CLIENT", 102, "assignments", "DONE", [[2, 102, {"answerSets": [3]}]])
    ]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("question", "about"),
    [
        (f"{{ assignments(first: 1) {{ nodes {{ {ANSWERS} }} }} }}", []),
        (f"{{ sessions {{ nodes {{ assignments(first: 1) {{ nodes {{ {ANSWERS} }} }} }} }} }}", [OF_2]),
        (f"{{ clients(first: 1) {{ nodes {{ {SCORES} }} }} }}", []),
        ("{ submissions(first: 1) { nodes { answers { answer } } } }", [OF_2]),
    ],
)
def test_only_rows_of_the_page_are_recorded(gateway: Gateway, question: str, about: list[Any]) -> None:
    """A page reads one row more than it returns, to know whether there are further rows."""

    gateway.as_caregiver(1).data(question)

    assert [one.about for one in audit_rows(gateway.settings.database)] == about


def test_answers_read_through_a_link_to_their_answer_set_are_recorded_once(gateway: Gateway) -> None:
    """PostgreSQL and SQLite join the answer set of a feedback. The same set is also read from its list."""
    raw.run(
        gateway.settings.database,
        "INSERT INTO feedback (caregiver_id, client_id, assignment_id, answer_set_id, text, submit_date)"
        " SELECT caregiver_id, client_id, assignment_id, id, 'Good', submit_date FROM answer_set WHERE id=1",
    )
    caregiver = gateway.as_caregiver(1)
    linked = "feedbacks { answerSet { answers { __typename } } }"

    caregiver.data(f"{{ assignment(id: 1) {{ {linked} }} }}")
    caregiver.data(f"{{ assignment(id: 1) {{ {linked} answerSets {{ answers {{ answer }} }} }} }}")
    caregiver.data("{ assignment(id: 1) { feedbacks { answerSet { score } } } }")

    assert [one.about for one in audit_rows(gateway.settings.database)] == [OF_1, OF_1]


@pytest.mark.sqlite_only
def test_a_data_export_is_recorded_by_relationship(gateway: Gateway) -> None:

    gateway.as_client(2).data("{ ownData }")

    assert audited(gateway.settings.database) == [
        ("CLIENT", 102, "ownData", "DONE", [[1, 102, {}], [2, 102, {}]])
    ]


@pytest.mark.sqlite_only
def test_a_data_export_of_a_client_without_sessions_is_recorded(gateway: Gateway) -> None:
    gateway.import_records([a_client(3)])

    gateway.as_client(3).data("{ ownData }")

    assert audited(gateway.settings.database) == [("CLIENT", 3, "ownData", "DONE", [])]


@pytest.mark.sqlite_only
def test_answers_that_a_subscription_sends_with_a_reminder_are_recorded(database_url: str) -> None:
    raw.run(database_url, "UPDATE reminder SET assignment_id = 1")

    async def read() -> None:
        db = await open_database(database_url)
        viewer = Viewer(Role.CLIENT, 101)
        ctx = Context(viewer, db, NOW, "request", "UTC", recorder=AuditRecorder(db))
        assert await get_my_reminders(ctx, [1], Selection(frozenset(), (Link("assignment", ANSWERS_OF_IT),)))
        await db.close()

    asyncio.run(read())
    assert audited(database_url) == [("CLIENT", 101, "reminder", "DONE", OF_1)]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("contract", ["GraphQL", "legacy"])
def test_answers_whose_record_cannot_be_stored_are_not_sent(gateway: Gateway, contract: str) -> None:
    raw.run(gateway.settings.database, "ALTER TABLE audit_record RENAME TO gone")
    caregiver = gateway.as_caregiver(1)

    if contract == "legacy":
        answer = caregiver.get(f"{ASSIGNMENTS}/1")
        assert answer.status_code == 500
    else:
        answer = caregiver.post_graphql(f"{{ assignment(id: 1) {{ {ANSWERS} }} }}")
        assert answer.json()["data"] == {"assignment": None}

    assert "Internal error" in answer.text
    assert ANSWER not in answer.text


# --- changing ---------------------------------------------------------------------------------------


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("verb", CHANGES)
def test_a_change_and_the_answers_in_its_payload_are_recorded(gateway: Gateway, verb: str) -> None:
    role, given, selection, changed, what, shown = CHANGES[verb]
    name = verb[0].upper() + verb[1:]
    payload = f"{selection} userErrors {{ message }}"
    document = f"mutation ($input: {name}Input!) {{ {verb}(input: $input) {{ {payload} }} }}"

    answer = caller_of(gateway, role).data(document, input=given)

    assert answer[verb]["userErrors"] == []
    assert audited(gateway.settings.database) == [
        (role, IDS[role], verb, "DONE", changed),
        (role, IDS[role], what, "DONE", shown),
    ]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("verb", CHANGES)
def test_a_replayed_response_with_answers_is_recorded_again(gateway: Gateway, verb: str) -> None:
    """The response bytes are not stored: a replay reads the answers again."""
    role, given, selection, changed, what, shown = CHANGES[verb]
    payload = f"{selection} userErrors {{ message }}"
    name = verb[0].upper() + verb[1:]
    document = f"mutation ($input: {name}Input!) {{ {verb}(input: $input) {{ {payload} }} }}"
    asked = {"json": {"query": document, "variables": {"input": given}}, "headers": {"idempotency-key": "k"}}

    first, second, third = (caller_of(gateway, role).request("POST", "/graphql", **asked) for _ in range(3))

    assert first.json()["data"][verb]["userErrors"] == []
    assert [each.content for each in (second, third)] == [first.content] * 2
    assert [each.headers.get("idempotency-replayed") for each in (first, second, third)] == [
        None,
        "true",
        "true",
    ]
    assert audited(gateway.settings.database) == [
        (role, IDS[role], verb, "DONE", changed),
        *[(role, IDS[role], what, "DONE", shown)] * 3,
    ]
    assert raw.run(gateway.settings.database, "SELECT status, body FROM idempotency_key") == [(None, None)]


CLOSE = "mutation ($id: ID!) { closeSession(input: { sessionId: $id }) { userErrors { code } } }"


@pytest.mark.sqlite_only
def test_a_rejected_change_is_recorded_with_its_code(gateway: Gateway) -> None:

    gateway.as_caregiver(1).data(CLOSE, id=3)
    gateway.as_caregiver(2).data(CLOSE, id=1)

    assert audited(gateway.settings.database) == [
        ("CAREGIVER", 1, "closeSession", "NOT_RUNNING", []),
        ("CAREGIVER", 2, "closeSession", "NOT_FOUND", []),
    ]


def test_a_rejected_submission_is_recorded_with_the_code_of_its_first_wrong_answer(gateway: Gateway) -> None:
    """An answer to a question of another book, none to the required one, and one that is too long."""
    client, submitted = gateway.as_client(1), [{1: "x", 2: "y"}, {2: ""}, {2: "y" * 10_001}]

    codes = [[error["code"] for error in submit(client, 2, each)["userErrors"]] for each in submitted]

    assert codes == [["NOT_FOUND"], ["INCOMPLETE"], ["UNREADABLE"]]
    assert audited(gateway.settings.database) == [
        ("CLIENT", 101, "submitAnswers", "NOT_FOUND", []),
        ("CLIENT", 101, "submitAnswers", "INCOMPLETE", []),
        ("CLIENT", 101, "submitAnswers", "UNREADABLE", []),
    ]


def test_every_save_of_a_draft_is_recorded_with_its_id(gateway: Gateway) -> None:
    save = "mutation ($to: SaveAnswersInput!) { saveAnswers(input: $to) { userErrors { code } } }"

    for revision in range(3):
        given = {"assignmentId": 2, "answers": [], "revision": revision, "autoSave": revision == 1}
        assert gateway.as_client(1).data(save, to=given) == {"saveAnswers": {"userErrors": []}}

    row = ("CLIENT", 101, "saveAnswers", "DONE", [[1, 101, {"drafts": [4]}]])
    assert audited(gateway.settings.database) == [row] * 3


def test_a_new_start_of_a_session_is_recorded_with_the_homework_that_it_moves(gateway: Gateway) -> None:
    """A change of the title moves no homework. PostgreSQL stores a changed row behind the others."""
    gateway.import_records([an_assignment(6, session=2), an_assignment(7, session=2, endDate=None)])
    raw.run(gateway.settings.database, "UPDATE assignment SET score = 0 WHERE id = 6", "ANALYZE")
    update = "mutation ($to: UpdateSessionInput!) { updateSession(input: $to) { userErrors { code } } }"

    gateway.as_caregiver(1).data(update, to={"sessionId": 2, "startDate": "2026-12-01T09:00:00Z"})
    gateway.as_caregiver(1).data(update, to={"sessionId": 2, "title": "In winter"})

    assert audited(gateway.settings.database) == [
        ("CAREGIVER", 1, "updateSession", "DONE", [[1, 101, {"sessions": [2], "assignments": [6, 7]}]]),
        ("CAREGIVER", 1, "updateSession", "DONE", [[1, 101, {"sessions": [2]}]]),
    ]


CONFLICT = (
    "CREATE SEQUENCE tries",
    """CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('tries') = 1 THEN RAISE SQLSTATE '40001'; END IF;
        RETURN new;
    END $$""",
    "CREATE TRIGGER conflict BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION conflict()",
)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "once"}], ids=["without a key", "with a key"])
def test_a_change_that_is_run_again_after_a_conflict_is_recorded_once(
    gateway: Gateway, key: dict[str, str]
) -> None:
    raw.run(gateway.settings.database, *CONFLICT)

    answer = gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework(), headers=key)

    [(tries,)] = raw.run(gateway.settings.database, "SELECT last_value FROM tries")
    assert (answer.status_code, tries > 1) == (200, True)
    assert [record[2:4] for record in audited(gateway.settings.database)] == [("assignHomework", "DONE")]


@pytest.mark.sqlite_only
def test_a_mutation_that_changes_nothing_is_not_recorded(gateway: Gateway) -> None:
    same = 'mutation { updateSession(input: { sessionId: 1, title: "Session 1" }) { userErrors { code } } }'

    gateway.as_caregiver(1).data(same)

    assert audit_rows(gateway.settings.database) == []


def test_a_repeated_request_is_not_recorded_as_a_second_change(gateway: Gateway) -> None:
    caregiver = gateway.as_caregiver(1)

    for _ in range(2):
        assert (
            caregiver.put(ASSIGNMENTS, json=homework(), headers={"idempotency-key": "k"}).status_code == 200
        )

    assert [one.operation for one in audit_rows(gateway.settings.database)] == ["assignHomework"]


@pytest.mark.sqlite_only
def test_reopening_again_with_the_same_key_records_the_read_again(gateway: Gateway) -> None:
    """A response with answers is not stored under the key."""
    document = (
        f"mutation {{ reopenAssignment(input: {{ assignmentId: 1 }}) {{ assignment {{ {ANSWERS} }} }} }}"
    )

    caller, key = gateway.as_caregiver(1), {"idempotency-key": "k"}

    answers = [caller.request("POST", "/graphql", json={"query": document}, headers=key) for _ in range(2)]

    assert ANSWER in answers[0].text
    assert answers[1].text == answers[0].text
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert audited(gateway.settings.database) == [
        ("CAREGIVER", 1, "reopenAssignment", "DONE", [[1, 101, {"assignments": [1]}]]),
        ("CAREGIVER", 1, "assignment", "DONE", OF_1),
        ("CAREGIVER", 1, "assignment", "DONE", OF_1),
    ]
    assert raw.run(gateway.settings.database, "SELECT body FROM idempotency_key") == [(None,)]


def test_a_change_whose_record_cannot_be_stored_is_not_made(gateway: Gateway) -> None:
    database = gateway.settings.database
    raw.run(database, "ALTER TABLE audit_record RENAME TO gone")

    assert gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework()).status_code == 500

    assert raw.run(database, "SELECT count(*) FROM assignment") == [(5,)]
    assert raw.run(database, "SELECT count(*) FROM event") == [(0,)]


# --- concurrency ------------------------------------------------------------------------------------


def a_record(number: int) -> Record:
    return Record(NOW, AuditActor.CLIENT, number, Contract.GRAPHQL, "ownData", "DONE", "[]", "request")


def test_concurrent_reads_are_all_recorded(gateway: Gateway) -> None:
    caller = gateway.as_caregiver(1)
    asked = [
        ApiCall(caller, "GET", f"{ASSIGNMENTS}/1", None, {"x-request-id": f"request-{number}"})
        for number in range(40)
    ]

    assert {one.status for one in send_together(asked)} == {200}

    assert sorted(one.request_id for one in audit_rows(gateway.settings.database)) == sorted(
        f"request-{number}" for number in range(40)
    )


@pytest.mark.sqlite_only
def test_a_cancelled_caller_does_not_cancel_the_records_of_others(database_url: str) -> None:
    async def keep() -> list[Any]:
        db = await open_database(database_url)
        recorder = AuditRecorder(db)
        waiting = [asyncio.create_task(recorder.keep(a_record(number))) for number in range(20)]
        await asyncio.sleep(0)
        for each in waiting[::2]:
            each.cancel()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        await db.close()
        return outcomes

    outcomes = asyncio.run(keep())

    assert outcomes[1::2] == [None] * 10
    assert {one.actor_id for one in audit_rows(database_url)} >= set(range(1, 20, 2))


@pytest.mark.sqlite_only
def test_the_records_of_others_do_not_wait_for_the_turn_of_the_first_caller(database_url: str) -> None:
    async def keep() -> None:
        db = await open_database(database_url)
        recorder = AuditRecorder(db)
        asyncio.get_running_loop().set_task_factory(Turns().create_task)
        busy = Budget()
        busy.seconds_owed = inf  # it has no turn

        first = asyncio.Task(recorder.keep(a_record(0)))  # outside of turns
        CALLER.state = {"budget": busy}
        await asyncio.sleep(0)
        CALLER.state = None
        async with asyncio.timeout(PATIENCE):
            await recorder.keep(a_record(1))
        await first
        await db.close()

    asyncio.run(keep())

    assert [one.actor_id for one in audit_rows(database_url)] == [0, 1]


@pytest.mark.sqlite_only
def test_a_full_group_is_written_without_waiting_for_further_records(database_url: str) -> None:
    async def keep() -> list[int]:
        db = await open_database(database_url)
        recorder = AuditRecorder(db)
        kept, waiting = [], []
        for number in range(MAX_GROUP + 3):
            kept.append(asyncio.create_task(recorder.keep(a_record(number))))
            await asyncio.sleep(0)
            waiting.append(len(recorder.waiting))
        await asyncio.gather(*kept)
        await db.close()
        return waiting

    waiting = asyncio.run(keep())

    assert waiting[-1] < MAX_GROUP  # the first ones are being written
    assert [one.actor_id for one in audit_rows(database_url)] == list(range(MAX_GROUP + 3))


@pytest.mark.sqlite_only
def test_callers_of_a_stopped_recorder_get_an_error(database_url: str) -> None:
    async def keep() -> list[Any]:
        db = await open_database(database_url)
        recorder = AuditRecorder(db)
        waiting = [asyncio.create_task(recorder.keep(a_record(number))) for number in range(2)]
        await asyncio.sleep(0)
        while recorder.waiting:
            await asyncio.sleep(0)
        late = asyncio.create_task(recorder.keep(a_record(2)))
        await asyncio.sleep(0)  # the others are being written, it is not
        assert recorder.work
        recorder.work.cancel()
        done, _ = await asyncio.wait([*waiting, late], timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            await recorder.keep(a_record(3))  # begins again
        await db.close()
        return [each.exception() for each in done]

    outcomes = asyncio.run(keep())

    assert [type(one) for one in outcomes] == [DatabaseUnavailable] * 3


def test_all_callers_of_a_group_that_cannot_be_stored_get_an_error(database_url: str) -> None:
    raw.run(database_url, "ALTER TABLE audit_record RENAME TO gone")

    async def keep() -> list[Any]:
        db = await open_database(database_url)
        recorder = AuditRecorder(db)
        outcomes = await asyncio.gather(
            *(recorder.keep(a_record(1)) for _ in range(3)), return_exceptions=True
        )
        raw_again = recorder.work
        await db.close()
        return [*outcomes, raw_again]

    *outcomes, work = asyncio.run(keep())

    assert all(isinstance(outcome, Exception) for outcome in outcomes)
    assert work is None  # the next record starts a new task


@pytest.mark.sqlite_only
def test_each_caller_of_a_group_gets_an_error_of_its_own(database_url: str) -> None:
    """A shared one would collect the tracebacks of all callers."""
    fault = DatabaseUnavailable("the disk is full")
    fault.__cause__ = OSError("no space")

    async def keep() -> list[Any]:
        db = await open_database(database_url)
        recorder = AuditRecorder(Failing(db, [fault]))
        outcomes = await asyncio.gather(
            *(recorder.keep(a_record(number)) for number in range(3)), return_exceptions=True
        )
        await db.close()
        return outcomes

    outcomes = asyncio.run(keep())

    assert len({id(one) for one in (*outcomes, fault)}) == 4
    assert [(type(one), str(one), one.__cause__) for one in outcomes] == [
        (DatabaseUnavailable, NOT_RECORDED, fault.__cause__)
    ] * 3


@pytest.mark.sqlite_only
def test_only_the_group_after_one_of_several_records_waits_for_more(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep, waits = asyncio.sleep, []

    async def observed_sleep(seconds: float) -> None:
        if seconds:
            waits.append((len(groups), seconds))
        await sleep(0)

    async def keep() -> None:
        db = await open_database(database_url)
        recorder = AuditRecorder(db)
        for count in (1, 1, 2, 1, 1):
            await asyncio.gather(*(recorder.keep(a_record(number)) for number in range(count)))
            groups.append(count)
        await db.close()

    groups: list[int] = []
    monkeypatch.setattr(asyncio, "sleep", observed_sleep)
    asyncio.run(keep())

    assert waits == [(3, GATHER_SECONDS)]


# --- without an audit log ---------------------------------------------------------------------------


@pytest.mark.sqlite_only
def test_only_development_may_turn_the_audit_log_off(settings: Settings) -> None:
    unaudited = settings.model_copy(update={"audit": False})
    assert create_app(unaudited)

    with pytest.raises(SettingsError) as refused:
        create_app(
            unaudited.model_copy(update={"env": Environment.PRODUCTION, "token_key": keys.public_pem()})
        )

    assert str(refused.value) == "CARE_AUDIT=off is for development only: every access to answers is recorded"


@pytest.mark.sqlite_only
@pytest.mark.parametrize("recent", [0, 50])
def test_nothing_is_recorded_while_the_audit_log_is_off(
    database_url: str, settings: Settings, recent: int
) -> None:
    """Also while development measures and lists requests."""
    changed = {"audit": False, "recent_requests": recent}
    with opened(create_app(settings.model_copy(update=changed), clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        assert gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1").status_code == 200
        assert gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework()).status_code == 200

    assert audit_rows(database_url) == []
