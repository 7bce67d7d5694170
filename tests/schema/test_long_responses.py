"""Promise: no response is longer than the limit. A longer one is not written, however little of the data it
repeats, and its error says what to select less of; on every way out of GraphQL."""

import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

import app.care.own_data
from app.care.context import Context
from app.care.errors import ResponseTooLong
from app.db.reader.document import MAX_DOCUMENT
from app.main import create_app
from app.schema.transport.responses import measure, write_response
from app.schema.types.scalars import global_id
from app.settings import Settings
from tests.callers import Caller, Gateway, opened, schema_of
from tests.db import raw
from tests.factories import NOW, Record, a_book, a_session, a_world, an_assignment
from tests.rest_compat.legacy import ASSIGNMENTS, rejection_of
from tests.schema.keyed import KEY, keys, post
from tests.schema.listening import insert_event, listening, streaming

LIMIT = 65_536
EMOJI = "\N{GRINNING FACE}"  # four bytes
LONG = EMOJI * 1000  # a description of 4,000 bytes


def a_talkative_world() -> list[Record]:
    """With long descriptions of session 1 and of the four newest ones."""
    first = ("session", 1)
    changed = (
        {**each, "description": LONG} if (each["kind"], each["id"]) == first else each for each in a_world()
    )
    return [*changed, *(a_session(number, description=LONG) for number in (11, 12, 13, 14))]


def aliases(count: int, field: str = "description") -> str:
    return " ".join(f"a{n}: {field}" for n in range(count))


def sessions(count: int) -> str:
    """Selects a description so many times: each adds 16,000 bytes to the response."""
    return f"{{ sessions(first: 4) {{ nodes {{ {aliases(count)} }} }} }}"


def refused(part: str, made: str = "the") -> dict[str, Any]:
    fewer = f"select fewer fields of `{part}`" if part else "select fewer fields"
    message = f"{made} response would have more than {LIMIT} bytes: {fewer}, or request less at once"
    return {"message": message, "extensions": {"code": "TOO_COSTLY"}}


FITTING, TOO_LONG = sessions(4), sessions(5)
REFUSED = refused("sessions.nodes")
UPDATE = (
    "mutation($title: String) { updateSession(input: {sessionId: 11, title: $title})"
    f" {{ session {{ title {aliases(20)} }} }} }}"
)
CHANGES = "subscription($after: ID) { assignmentChanged(after: $after) { id session { %s } } }"


@pytest.fixture
def talkative(settings: Settings) -> Iterator[Gateway]:
    settings = settings.model_copy(update={"response_limit": LIMIT, "rate_limit": 1_000_000})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        gateway.import_records(a_talkative_world())
        yield gateway


@pytest.fixture
def caregiver(talkative: Gateway) -> Caller:
    return talkative.as_caregiver(1)


# --- HTTP -----------------------------------------------------------------------------------------


def test_a_response_up_to_the_limit_is_sent(
    talkative: Gateway, caregiver: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = caregiver.post_graphql(FITTING)

    assert response.json() == {"data": {"sessions": {"nodes": [{f"a{n}": LONG for n in range(4)}] * 4}}}
    assert LIMIT * 0.95 < len(response.content) <= LIMIT

    schema = schema_of(talkative.client.app)
    limits = schema.engine_options.limits
    assert limits is not None
    for limit, status in [(len(response.content), 200), (len(response.content) - 1, 400)]:
        options = replace(schema.engine_options, limits=replace(limits, response=limit))
        monkeypatch.setattr(schema, "engine_options", options)
        assert caregiver.post_graphql(FITTING).status_code == status


@pytest.mark.parametrize(
    "accept, status", [("application/json", 400), ("application/graphql-response+json", 422)]
)
def test_a_longer_response_is_an_error_that_names_its_longest_part(
    caregiver: Caller, accept: str, status: int
) -> None:
    for _ in range(3):
        response = caregiver.request("POST", "/graphql", json={"query": TOO_LONG}, headers={"accept": accept})
        assert response.status_code == status
        assert response.json()["errors"][0]["extensions"]["code"] == "TOO_COSTLY"
    assert caregiver.graphql(TOO_LONG) == {"data": None, "errors": [REFUSED]}


@pytest.mark.sqlite_only
def test_on_the_plain_engine_too(talkative: Gateway) -> None:
    settings = talkative.settings.model_copy(update={"engine": False})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        assert Gateway(client, settings).as_caregiver(1).graphql(TOO_LONG) == {
            "data": None,
            "errors": [REFUSED],
        }


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "query, part",
    [
        (f"{{ session(id: 1) {{ {aliases(20)} }} }}", "session"),
        (f"{{ session(id: 1) {{ client {{ id }} {'b' * LIMIT}: id }} }}", "session"),
        (f"{{ {'a' * LIMIT}: sessions(first: 4) {{ nodes {{ {'b' * LIMIT}: id }} }} }}", ""),
        (f"{{ data: sessions {{ data: nodes {{ {aliases(9)} }} }} }}", "data.data"),
        (f"{{ a: sessions {{ nodes {{ id }} }} b: sessions {{ nodes {{ {aliases(9)} }} }} }}", "b.nodes"),
        (
            f"{{ sessions {{ nodes {{ assignments {{ nodes {{ session {{ {aliases(20)} }} }} }} }} }} }}",
            "sessions.nodes.assignments.nodes.session",
        ),
    ],
)
def test_the_error_names_the_objects_with_most_of_the_bytes(caregiver: Caller, query: str, part: str) -> None:
    assert caregiver.graphql(query) == {"data": None, "errors": [refused(part)]}


@pytest.mark.sqlite_only
def test_escapes_count(talkative: Gateway, caregiver: Caller) -> None:
    """A control character has six bytes in JSON."""
    change = "updateSession(input: {sessionId: 1, description: $text}) { userErrors { code } }"
    caregiver.data(f"mutation($text: String!) {{ {change} }}", text="\x01" * 10_000)

    assert caregiver.data("{ session(id: 1) { description } }")["session"] == {"description": "\x01" * 10_000}
    assert caregiver.graphql("{ session(id: 1) { description a: description } }") == {
        "data": None,
        "errors": [refused("session")],
    }


# --- other ways out -------------------------------------------------------------------------------


def test_a_stream_of_a_query_has_the_limit(caregiver: Caller) -> None:
    with streaming(caregiver, FITTING) as stream:
        (kind, result), end = stream.events
    headers = {"accept": "text/event-stream"}
    response = caregiver.request("POST", "/graphql", json={"query": TOO_LONG}, headers=headers)

    assert (kind, set(result), end) == ("next", {"data"}, ("complete", None))
    assert (response.status_code, response.json()["errors"][0]["message"]) == (400, REFUSED["message"])


def test_an_event_of_a_stream_has_the_limit_and_a_longer_one_ends_it(
    talkative: Gateway, caregiver: Caller
) -> None:
    for number in (1, 2, 3):
        insert_event(talkative.settings.database, "EXTENDED", number=number)

    with streaming(caregiver, CHANGES % aliases(20), after="1") as stream:
        [(kind, body), end] = list(stream.events)

    assert body["errors"][0]["extensions"].pop("requestId")
    assert (kind, end) == ("next", ("complete", None))
    assert body == {"data": None, "errors": [refused("assignmentChanged.session")]}


def test_a_websocket_message_has_the_limit(caregiver: Caller) -> None:
    with listening(caregiver) as listener:
        assert set(listener.query(FITTING)) == {"sessions"}
        listener.subscribe(TOO_LONG)

        assert listener.receive() == {"type": "error", "id": "1", "payload": [REFUSED]}
        assert listener.query("{ viewer { role } }") == {"viewer": {"role": "CAREGIVER"}}


def test_an_event_of_a_websocket_has_the_limit_and_a_longer_one_ends_the_subscription(
    talkative: Gateway, caregiver: Caller
) -> None:
    for number in (1, 2, 3):
        insert_event(talkative.settings.database, "EXTENDED", number=number)

    with listening(caregiver) as listener:
        listener.subscribe(CHANGES % aliases(20), after="1")

        error = {"type": "error", "id": "1", "payload": [refused("assignmentChanged.session")]}
        assert listener.receive() == error
        assert listener.query("{ viewer { role } }") == {"viewer": {"role": "CAREGIVER"}}


# --- changes --------------------------------------------------------------------------------------


def test_a_change_is_made_even_if_its_response_is_too_long(talkative: Gateway, caregiver: Caller) -> None:
    error = refused("updateSession.session", "the change was made, but its")

    assert caregiver.graphql(UPDATE, title="New") == {"data": None, "errors": [error]}
    assert caregiver.data("{ session(id: 11) { title } }") == {"session": {"title": "New"}}


def test_a_repetition_of_such_a_change_gets_the_same_error(talkative: Gateway, caregiver: Caller) -> None:
    first, again = (post(caregiver, {"query": UPDATE, "variables": {"title": "New"}}) for _ in range(2))

    assert (first.status_code, again.status_code) == (400, 400)
    assert first.json()["errors"][0]["message"] == again.json()["errors"][0]["message"]
    assert again.headers["idempotency-replayed"] == "true"
    assert keys(talkative) == [("CAREGIVER", 1, "graphql", KEY, "11", None)]


# --- own data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["JSON", "CSV"])
def test_own_data_may_be_longer_than_other_responses(talkative: Gateway, format: str) -> None:
    """The escapes of its line breaks alone are longer."""
    own = f"ownData(format: {format})"
    query = f"{{ first: {own} sessions {{ nodes {{ id }} }} second: {own} }}"
    for number in range(15, 40):
        talkative.import_records([a_session(number, title=LONG[:200], description="\n" * (LIMIT // 16))])

    found = talkative.as_client(1).post_graphql(query)

    assert found.status_code == 200
    assert len(found.content) > (LIMIT if format == "JSON" else 0)


@pytest.mark.sqlite_only
def test_beside_own_data_other_fields_have_the_limit(talkative: Gateway) -> None:
    query = f"{{ ownData {TOO_LONG.strip('{}')} }}"

    error = talkative.as_client(1).graphql(query)["errors"][0]

    assert error["extensions"]["code"] == "TOO_COSTLY"


@pytest.mark.sqlite_only
def test_own_data_above_its_own_limit_is_an_error(
    talkative: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.care.own_data, "MAX_OWN_DATA", 1000)

    assert talkative.as_client(1).graphql("{ ownData }") == {
        "data": None,
        "errors": [
            {
                "message": "the data have more than 1000 bytes: the operator exports them with"
                " `care-gateway export`",
                "path": ["ownData"],
                "locations": [{"line": 1, "column": 3}],
                "extensions": {"code": "TOO_COSTLY"},
            }
        ],
    }


@pytest.mark.parametrize(
    ("parts", "is_longer"), [(["éé"], False), (["é", "é", "é"], True), (["éx", "é"], True)]
)
def test_the_limit_of_own_data_is_in_bytes(
    monkeypatch: pytest.MonkeyPatch, parts: list[str], is_longer: bool
) -> None:
    monkeypatch.setattr(app.care.own_data, "MAX_OWN_DATA", 4)
    written: list[bytes] = []
    write = app.care.own_data.bounded(written)

    with pytest.raises(ResponseTooLong) if is_longer else nullcontext():
        for part in parts:
            write(part)

    assert b"".join(written) == "".join(parts).encode()


# --- what it takes --------------------------------------------------------------------------------


def test_a_column_under_many_aliases_is_read_once(talkative: Gateway, caregiver: Caller) -> None:
    with talkative.watched() as once:
        caregiver.data(sessions(1))
    with talkative.watched() as often:
        caregiver.data(FITTING)

    assert [step[0] for step in often] == [step[0] for step in once]  # the same statements


@pytest.mark.sqlite_only
def test_the_length_of_a_response_is_expected_at_every_use_of_its_document(talkative: Gateway) -> None:
    """A response that may be too long is measured before it is written."""
    schema, text = schema_of(talkative.client.app), sessions(10)
    costs = schema.read(text).costs(None)
    assert costs is not None and talkative.client.portal is not None
    contexts = [Context(None, talkative.database, NOW, "test", "UTC") for _ in range(3)]

    for ctx in contexts:
        talkative.client.portal.call(schema.execute, text, None, ctx)

    assert [ctx.expected_length for ctx in contexts] == [costs.bytes(None)] * 3


@pytest.mark.sqlite_only
def test_a_refused_response_is_not_written(talkative: Gateway) -> None:
    """A text of 40,000 bytes, 9,900 times, would have 396 MB."""
    schema = schema_of(talkative.client.app)
    response = {"data": {"sessions": {"nodes": [dict.fromkeys(map(str, range(99)), EMOJI * 10_000)] * 100}}}
    tracemalloc.start()
    try:
        with pytest.raises(ResponseTooLong):
            write_response(schema, response, Context(None, talkative.database, NOW, "test", "UTC"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * LIMIT


@pytest.mark.sqlite_only
def test_a_measured_response_counts_names_and_texts_in_the_objects_under_each_path() -> None:
    rows = [{"id": "1", "ü": EMOJI}, {"id": "22", "of": {"name": "a"}}]
    response: dict[str, Any] = {"data": {"rows": rows, "n": 12345}, "errors": [{"message": "no"}, ["x"]]}

    assert measure(response) == {
        (): len("dataerrors"),
        ("data",): len("rowsn"),
        ("data", "rows"): len("id1??????id22of"),
        ("data", "rows", "of"): len("namea"),
        ("errors",): len("messagenox"),
    }
    assert measure(response, 9).total() == 10 < measure(response, 10).total()


# --- what PostgreSQL sends ------------------------------------------------------------------------


@pytest.fixture
def repeating(gateway: Gateway) -> Gateway:
    """A hundred assignments of one session, whose title has 200,000 bytes."""
    gateway.import_records([*a_world(), *(an_assignment(number, book=2) for number in range(10, 110))])
    raw.run(gateway.settings.database, f"UPDATE session SET title = '{'x' * 200_000}' WHERE id = 1")
    return gateway


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_document_of_postgresql_has_a_limit(repeating: Gateway) -> None:
    caregiver = repeating.as_caregiver(1)
    query = "query($n: Int) { assignments(first: $n) { nodes { session { title } } } }"
    message = f"the response would have more than {MAX_DOCUMENT} bytes: request less at once"

    found = caregiver.graphql(query, n=100)
    legacy = caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING&size=100")

    assert [(each["message"], each["extensions"]["code"]) for each in found["errors"]] == [
        (message, "TOO_COSTLY")
    ]
    assert rejection_of(legacy) == (400, message)
    assert len(caregiver.data(query, n=20)["assignments"]["nodes"]) == 20
    assert caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING&size=20").status_code == 200


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_change_whose_document_is_too_long_is_made(repeating: Gateway) -> None:
    caregiver = repeating.as_caregiver(1)
    titles = "session { assignments(first: 100) { nodes { session { title } } } }"
    end = "2026-12-24T17:00:00Z"
    extend = f'extendAssignment(input: {{assignmentId: 2, endDate: "{end}"}}) {{ assignment {{ {titles} }} }}'

    [error] = caregiver.graphql(f"mutation {{ {extend} }}")["errors"]

    limit = f"response would have more than {MAX_DOCUMENT} bytes: request less at once"
    assert error["message"] == f"the change was made, but its {limit}"
    assert caregiver.data("{ assignment(id: 2) { endDate } }") == {"assignment": {"endDate": end}}


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_document_of_books_has_the_same_limit(gateway: Gateway) -> None:
    """Their module has a name of 200,000 bytes."""
    gateway.import_records([*a_world(), *(a_book(number) for number in range(1000, 1100))])
    raw.run(gateway.settings.database, f"UPDATE module SET name = '{'x' * 200_000}' WHERE id = 1")
    caregiver = gateway.as_caregiver(1)
    module = "{ ... on Book { module { name } } }"
    ids = [global_id("Book", number) for number in range(1000, 1100)]

    responses = [
        caregiver.graphql(f"query($n: Int) {{ books(first: $n) {{ nodes {module} }} }}", n=100),
        caregiver.graphql(f"query($ids: [ID!]!) {{ nodes(ids: $ids) {module} }}", ids=ids),
    ]

    message = f"the response would have more than {MAX_DOCUMENT} bytes: request less at once"
    assert [
        (each["message"], each["extensions"]["code"]) for body in responses for each in body["errors"]
    ] == [(message, "TOO_COSTLY")] * 2
