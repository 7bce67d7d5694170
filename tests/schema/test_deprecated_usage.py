"""Requests that use deprecated parts of the schema are counted by part, application, role and day."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from graphql import OperationDefinitionNode, build_schema, parse

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Steps
from app.db.statements.usage import SERVED
from app.engine.deprecated import deprecated_parts, find_use
from app.main import create_app
from app.settings import Settings
from app.usage.counts import Usage
from tests import keys
from tests.callers import Gateway, opened, schema_of
from tests.db import raw
from tests.factories import DAY, NOW, a_world, starting_with
from tests.rest_compat.legacy import SESSIONS
from tests.schema.deprecating import ARGUMENT, EVENT, FIELD, INPUT_FIELD, ITEM_FIELD, PARTS, VALUE, deprecated
from tests.schema.listening import insert_event, listening, streaming

__all__ = ["deprecated"]
pytestmark = [pytest.mark.usefixtures("deprecated"), starting_with(a_world)]

TODAY = "2026-11-21"
TITLES = "{ sessions(first: 1) { nodes { title } } }"
IN_STATE = "query ($state: TimeState) { sessions(timeState: $state) { totalCount } }"
ASSIGN = "mutation ($input: AssignHomeworkInput!) { assignHomework(input: $input) { userErrors { code } } }"
SAVE = "mutation ($input: SaveAnswersInput!) { saveAnswers(input: $input) { userErrors { code } } }"
CHANGES = "subscription { assignmentChanged(after: 0) { id what } }"
HOMEWORK = {
    "sessionId": "1",
    "bookIds": [],
    "startDate": "2026-11-21T10:00:00Z",
    "endDate": "2026-11-22T10:00:00Z",
}
MINUTE = timedelta(minutes=1)


@contextmanager
def service(settings: Settings, **changed: Any) -> Iterator[Gateway]:
    own = settings.model_copy(update=changed)
    with opened(create_app(own, clock=lambda: NOW)) as client:
        yield Gateway(client, own)


def stored(settings: Settings) -> list[tuple[Any, ...]]:
    return sorted(
        raw.run(settings.database, "SELECT day, path, role, application, requests FROM legacy_usage")
    )


def counted(settings: Settings) -> list[tuple[Any, ...]]:
    return [row for row in stored(settings) if row[2] != SERVED]


def counts(settings: Settings) -> dict[str, int]:
    return {path: requests for _, path, _, _, requests in counted(settings)}


@pytest.mark.parametrize("prepares", [True, False])
def test_each_part_is_counted_once_a_request(settings: Settings, prepares: bool) -> None:
    with service(settings, engine=prepares) as gateway:
        caregiver = gateway.as_caregiver(1)
        for _ in range(3):  # read, then prepared
            caregiver.data("{ a: sessions { nodes { title } } b: sessions { nodes { title name: title } } }")
        caregiver.graphql("{ sessions { nodes { title } } session(id: 99) { id } }")  # with an error
        caregiver.data("{ sessions(timeState: RUNNING) { totalCount } }")
        caregiver.data(IN_STATE, state="FUTURE")
        caregiver.data(IN_STATE, state="RUNNING")
        caregiver.data(IN_STATE.replace("TimeState", "TimeState = FUTURE"))
        caregiver.graphql(ASSIGN, input={**HOMEWORK, "remindDates": []})
        caregiver.graphql(ASSIGN, input=HOMEWORK)
        gateway.as_client(1).data(
            "{ ...All } fragment All on Query { sessions { nodes { ...One } } }"
            " fragment One on Session { title }"
        )

    assert counted(settings) == [
        (TODAY, INPUT_FIELD, "CAREGIVER", "tests", 1),
        (TODAY, ARGUMENT, "CAREGIVER", "tests", 4),
        (TODAY, FIELD, "CAREGIVER", "tests", 4),
        (TODAY, FIELD, "CLIENT", "tests", 1),
        (TODAY, VALUE, "CAREGIVER", "tests", 2),
    ]


def test_a_single_value_for_a_list_is_counted(settings: Settings) -> None:
    with service(settings) as gateway:
        answer = {"questionId": "1", "answer": "Well."}
        gateway.as_client(1).graphql(SAVE, input={"assignmentId": "1", "answers": answer})
        gateway.as_client(1).graphql(SAVE, input={"assignmentId": "1", "answers": []})
        literal = '{ assignmentId: "1", answers: { questionId: "1", answer: "Well." } }'
        gateway.as_client(1).graphql(
            f"mutation {{ saveAnswers(input: {literal}) {{ userErrors {{ code }} }} }}"
        )

    assert counts(settings) == {ITEM_FIELD: 2}


def test_the_token_or_else_the_user_agent_names_the_application(settings: Settings) -> None:
    with service(settings) as gateway:
        for claims in ({"client_id": "web-app"}, {"client_id": None}):
            caller = gateway.with_token(keys.token("CAREGIVER", "caregiver-1", **claims))
            query = {"query": TITLES}
            caller.request("POST", "/graphql", json=query, headers={"user-agent": "okhttp/4.9"})

    assert [row[3] for row in counted(settings)] == ["okhttp", "web-app"]


@pytest.mark.sqlite_only
def test_other_requests_are_not_counted(settings: Settings) -> None:
    with service(settings) as gateway:
        caregiver = gateway.as_caregiver(1)
        caregiver.data("{ sessions { totalCount } }")
        caregiver.graphql("{ sessions { nodes { title unknown } } }")
        gateway.as_client(1).get(f"{SESSIONS}?time-state=FUTURE")  # whose document selects the title

    assert counts(settings) == {f"GET {SESSIONS}": 1}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("prepares", [True, False])
def test_a_request_over_the_rate_limit_is_not_counted(settings: Settings, prepares: bool) -> None:
    with service(settings, engine=prepares, rate_limit=24) as gateway:  # TITLES costs 12 points
        responses = [gateway.as_caregiver(1).post_graphql(TITLES) for _ in range(3)]

    assert [each.status_code for each in responses] == [200, 200, 429]
    assert counts(settings) == {FIELD: 2}


@pytest.mark.sqlite_only
def test_each_operation_of_a_document_has_its_own_count(settings: Settings) -> None:
    two = "query Old { sessions { nodes { title } } } query New { viewer { role } }"
    with service(settings) as gateway:
        for name in ("New", "Old", "New", "Old", "New"):
            gateway.as_caregiver(1).request("POST", "/graphql", json={"query": two, "operationName": name})

    assert counts(settings) == {FIELD: 2}


@pytest.mark.sqlite_only
def test_parts_of_every_kind_can_be_deprecated() -> None:
    """A part of an interface counts where a query selects it on the interface."""
    schema = build_schema(
        """interface Named { name(short: Boolean @deprecated(reason: "1")): Int @deprecated(reason: "2") }
        enum Kind { A @deprecated(reason: "3") B }
        input Filter { kind: Kind @deprecated(reason: "4") and: Filter }
        type Book implements Named { name(short: Boolean): Int }
        type Query {
          named(filter: Filter @deprecated(reason: "5")): Named
          book(filters: [[Filter]]): Book @deprecated(reason: "6")
        }"""
    )
    parts = deprecated_parts(schema)
    document = parse(
        """query ($filters: [[Filter]], $filter: Filter) {
          named { name } ... { book(filters: $filters) { name } other: book(filters: [[$filter]]) { name } }
        }"""
    )
    [operation] = document.definitions
    assert isinstance(operation, OperationDefinitionNode)
    use = find_use(schema, parts, operation, {})

    assert parts == {
        "Named.name": "2",
        "Named.name(short:)": "1",
        "Kind.A": "3",
        "Filter.kind": "4",
        "Query.named(filter:)": "5",
        "Query.book": "6",
    }
    assert use is not None
    assert use.with_values(None) == ("Named.name", "Query.book")
    values = {"filters": [None, [{"kind": "B"}, {"and": {"kind": "A"}}]]}
    used = ("Filter.kind", "Kind.A", "Named.name", "Query.book")
    assert use.with_values(values) == use.with_values({"filter": {"kind": "A"}}) == used


@pytest.mark.sqlite_only
def test_websockets_and_event_streams_are_counted_at_their_beginning(settings: Settings) -> None:
    insert_event(settings.database, "ASSIGNED", number=1)
    with service(settings) as gateway:
        caregiver = gateway.as_caregiver(1)
        with listening(caregiver) as listener:
            listener.query(TITLES)
            listener.subscribe(CHANGES)
            listener.receive_change()
        with streaming(caregiver, CHANGES) as stream:
            stream.receive()

    assert counts(settings) == {FIELD: 1, EVENT: 2}


@pytest.mark.sqlite_only
def test_an_operation_without_deprecated_parts_is_prepared_without_a_count(settings: Settings) -> None:
    with service(settings) as gateway:
        gateway.as_caregiver(1).data("query ($id: ID!) { session(id: $id) { id } }", id="1")
        operations = schema_of(gateway.client.app).operations.recent.values

    assert [each.deprecated for each in operations.values()] == [None]


def test_each_day_on_which_a_part_is_deprecated_is_recorded(settings: Settings) -> None:
    async def write() -> None:
        db = await open_database(settings.database)
        for day in range(2):
            clock = iter(NOW + day * DAY + minutes * MINUTE for minutes in range(4))
            usage = Usage(db, lambda times=clock: next(times), PARTS)
            for _ in range(3):
                await usage.write()
        await db.close()

    asyncio.run(write())

    assert stored(settings) == sorted(
        (day, part, SERVED, "", 0) for day in (TODAY, "2026-11-22") for part in PARTS
    )


def test_a_day_is_recorded_with_calls_of_its_first_minute(settings: Settings) -> None:
    with service(settings) as gateway:
        gateway.as_client(1).data(TITLES)

    marks = [(TODAY, part, SERVED, "", 0) for part in PARTS]
    assert stored(settings) == sorted([*marks, (TODAY, FIELD, "CLIENT", "tests", 1)])


def test_a_day_whose_first_write_is_not_committed_is_recorded_by_the_next_one(settings: Settings) -> None:
    clock = iter(NOW + minutes * MINUTE for minutes in range(3))
    usage = Usage(cast(Database, None), lambda: next(clock), PARTS)

    def without_commit(steps: Steps[None]) -> Steps[None]:
        yield from steps
        raise DatabaseUnavailable

    async def write(is_committed: bool) -> None:
        db = await open_database(settings.database)
        failing = SimpleNamespace(write=lambda steps: db.write(without_commit(steps)))
        usage.db = db if is_committed else cast(Database, failing)
        await usage.write()
        await db.close()

    asyncio.run(write(is_committed=False))
    assert stored(settings) == []

    asyncio.run(write(is_committed=True))
    assert stored(settings) == sorted((TODAY, part, SERVED, "", 0) for part in PARTS)
