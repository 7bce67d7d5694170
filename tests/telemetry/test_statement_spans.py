"""Each statement has a span with its text and its tables; a failed one has the code of the database."""

import pytest

from app.db.drivers.interface import DatabaseUnavailable
from app.db.sql import Bulk, Steps, Together, repeatable
from app.events.outbox import remind
from app.main import create_app
from app.settings import Settings
from app.telemetry import counters
from app.telemetry.tracing.database import attributes_of, batch_of, connection_attributes, summary_of
from tests.callers import Gateway, opened
from tests.db import raw
from tests.db.small_steps import add_module, sql
from tests.factories import DAY, NOW, a_world, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.schema.listening import wait_for
from tests.telemetry.conftest import ON_SQLITE
from tests.telemetry.spans import (
    EXPORTER,
    TRACING,
    a_request,
    a_span,
    database_of,
    finished,
    without_texts,
)

pytestmark = starting_with(a_world)

SESSIONS = "query Mine { sessions { nodes { id title } } }"
WITHDRAW = """mutation ($input: WithdrawAssignmentInput!) {
    withdrawAssignment(input: $input) { userErrors { code } }
}"""
SAVE = "mutation ($input: SaveAnswersInput!) { saveAnswers(input: $input) { userErrors { code } } }"


def test_the_span_of_a_failed_statement_has_the_code_of_the_database(traced: Gateway, kind: str) -> None:
    raw.run(traced.settings.database, "ALTER TABLE session RENAME COLUMN title TO heading")

    body = traced.as_caregiver(1).graphql(SESSIONS)

    _, statement, operation, request = without_texts(finished())
    code = {"sqlite": "SQLITE_ERROR", "postgresql": "42703"}[kind]
    summary = {"sqlite": "SELECT session", "postgresql": "SELECT SELECT SELECT session"}[kind]
    assert body["errors"][0]["extensions"]["code"] == "INTERNAL"
    attributes = {
        **database_of(traced.settings),
        "db.operation.name": "SELECT",
        "db.query.summary": summary,
        "db.response.status_code": code,
        "error.type": code,
    }
    assert statement == a_span(summary, "CLIENT", "query", attributes, "ERROR")
    assert operation["status"] == ("ERROR", None)
    assert operation["attributes"]["error.type"] == "INTERNAL"
    request_id = request["attributes"]["care.request_id"]
    expected = a_request("POST", "/graphql", 200, request_id)
    assert request == a_span("POST /graphql", "SERVER", None, expected)


def test_an_unavailable_database_is_an_error_of_the_request(traced: Gateway, kind: str) -> None:
    raw.run(traced.settings.database, "ALTER TABLE caregiver RENAME COLUMN user_name TO login")

    response = traced.as_caregiver(1).post_graphql(SESSIONS)

    request = finished()[-1]
    assert response.status_code == 500
    expected = a_request("POST", "/graphql", 500, response.headers["x-request-id"]) | {"error.type": "500"}
    assert request == a_span("POST /graphql", "SERVER", None, expected, "ERROR")


def filling_the_disk(kind: str) -> Steps[None]:
    if kind == "sqlite":
        yield sql("PRAGMA max_page_count = 1"), {}  # as many as there are
        yield sql("CREATE TABLE large AS SELECT zeroblob(1000000) AS content"), {}
    yield sql("DO $$ BEGIN RAISE SQLSTATE '53100'; END $$"), {}


def test_a_statement_on_a_full_disk_has_the_code_of_the_database(traced: Gateway, kind: str) -> None:
    assert traced.client.portal is not None
    with pytest.raises(DatabaseUnavailable):
        traced.client.portal.call(traced.database.write, filling_the_disk(kind))

    *_, statement, change = without_texts(finished())
    code = {"sqlite": "SQLITE_FULL", "postgresql": "53100"}[kind]
    assert statement["status"] == ("ERROR", None)
    assert statement["attributes"]["db.response.status_code"] == code
    assert statement["attributes"]["error.type"] == code
    assert change["status"] == ("ERROR", None)


def test_a_statement_that_only_postgresql_runs_has_no_span_on_sqlite(traced: Gateway, kind: str) -> None:
    """PostgreSQL first tries to save answers without a transaction. Here the assignment is not open."""
    answers = [{"questionId": "1", "answer": "Well."}]
    traced.as_client(1).data(SAVE, input={"assignmentId": "1", "answers": answers})

    statements = [span for span in finished() if span["kind"] == "CLIENT"]
    rows = [span["attributes"]["db.response.returned_rows"] for span in statements]
    assert rows == {"sqlite": [1, 1], "postgresql": [1, 1, 1]}[kind]


def test_statements_of_one_step_are_a_batch(traced: Gateway) -> None:
    traced.as_caregiver(1).data(WITHDRAW, input={"assignmentId": 2})

    batch, _ = [span for span in without_texts(finished()) if "db.operation.batch.size" in span["attributes"]]
    assert batch == a_span(
        "BATCH",
        "CLIENT",
        "mutation",
        {
            **database_of(traced.settings),
            "db.operation.batch.size": 2,
            "db.operation.name": "BATCH UPDATE",
            "db.query.summary": "BATCH",
        },
    )


@ON_SQLITE
def test_a_change_of_the_dispatcher_has_a_span_and_its_search_has_none(traced: Gateway) -> None:
    assert traced.client.portal is not None
    for _ in range(2):
        traced.client.portal.call(remind, traced.database, NOW + 2 * DAY)

    *statements, change = finished()
    assert change == a_span("dispatcher reminding", "INTERNAL", None, {})
    assert [(span["name"], span["kind"], span["parent"]) for span in statements] == [
        ("SELECT session assignment reminder SELECT", "CLIENT", "dispatcher reminding"),
        ("UPDATE reminder SELECT", "CLIENT", "dispatcher reminding"),
        ("INSERT event SELECT reminder assignment SELECT", "CLIENT", "dispatcher reminding"),
    ]


@ON_SQLITE
def test_the_changes_of_the_dispatcher_of_a_service_have_spans(settings: Settings) -> None:
    EXPORTER.clear()
    counters.last_runs.clear()
    serving = settings.model_copy(update={"dispatcher": True})
    with opened(create_app(serving, clock=lambda: NOW + 2 * DAY, tracing=TRACING)):
        wait_for(lambda: "outbox" in counters.last_runs)

    assert a_span("dispatcher reminding", "INTERNAL", None, {}) in finished()


@ON_SQLITE
def test_what_is_counted_and_recorded_for_requests_has_no_spans(settings: Settings) -> None:
    """Several requests share its transactions."""
    EXPORTER.clear()
    with opened(create_app(settings, clock=lambda: NOW, tracing=TRACING)) as client:
        assert Gateway(client, settings).as_caregiver(1).get(f"{ASSIGNMENTS}/1").status_code == 200

    written = raw.run(
        settings.database, "SELECT (SELECT count(*) FROM audit_record), requests FROM legacy_usage"
    )
    assert written == [(1, 1)]
    assert finished()[-1]["name"] == f"GET {ASSIGNMENTS}/{{id}}"
    assert [span["name"] for span in finished() if span["parent"] is None] == [finished()[-1]["name"]]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_change_is_made_again_after_a_conflict(traced: Gateway) -> None:
    began = []

    @repeatable
    def conflicting_once() -> Steps[str]:
        began.append(1)
        yield add_module("new"), {}
        if len(began) == 1:
            yield sql("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"), {}
        return "done"

    assert traced.client.portal is not None
    assert traced.client.portal.call(traced.database.write, conflicting_once()) == "done"

    assert [span["name"] for span in finished()] == [
        "INSERT module",
        "DO",
        "INSERT module",
        "dispatcher conflicting_once",
    ]


def test_a_failed_change_of_the_dispatcher_has_the_exception_type(traced: Gateway, kind: str) -> None:
    raw.run(traced.settings.database, "ALTER TABLE event RENAME COLUMN actor TO author")

    assert traced.client.portal is not None
    traced.client.portal.call(remind, traced.database, NOW + 2 * DAY)

    expected = {"sqlite": "sqlite3.OperationalError (SQLITE_ERROR)",
                "postgresql": "asyncpg.exceptions.UndefinedColumnError (42703)"}  # fmt: skip
    attributes = {"error.type": expected[kind]}
    assert finished()[-1] == a_span("dispatcher reminding", "INTERNAL", None, attributes, "ERROR")


@pytest.mark.parametrize(
    ("url", "attributes"),
    [
        ("sqlite:////srv/care/care.db", {"db.system.name": "sqlite", "db.namespace": "care.db"}),
        (
            "postgresql://care@db.example.test/care",
            {"db.system.name": "postgresql", "db.namespace": "care", "server.address": "db.example.test"},
        ),
        (
            "postgresql://care@db.example.test:6432/care",
            {
                "db.system.name": "postgresql",
                "db.namespace": "care",
                "server.address": "db.example.test",
                "server.port": 6432,
            },
        ),
        (
            "postgresql://care@one:5432,two:5432/care",
            {"db.system.name": "postgresql", "db.namespace": "care"},
        ),
        ("postgresql:///?host=/run/postgresql", {"db.system.name": "postgresql"}),
        (
            "postgresql://care@db.example.test:5432/care%20home",
            {
                "db.system.name": "postgresql",
                "db.namespace": "care home",
                "server.address": "db.example.test",
            },
        ),
    ],
)
def test_the_database_is_named_by_its_url(url: str, attributes: dict[str, object]) -> None:
    assert connection_attributes(url) == attributes


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("SELECT a FROM client WHERE b IS DISTINCT FROM c", "SELECT client"),
        ("SELECT a FROM (SELECT b FROM book JOIN module ON 1 = 1) AS x", "SELECT SELECT book module"),
        ("INSERT INTO event (a) SELECT value FROM json_each(?)", "INSERT event SELECT"),
        ("INSERT INTO event (a) VALUES (?) ON CONFLICT DO UPDATE SET a = 1", "INSERT event"),
        ("UPDATE book SET a = 1 WHERE id IN (SELECT id FROM book FOR UPDATE)", "UPDATE book SELECT book"),
        ("SELECT a FROM session AS s FOR NO KEY UPDATE OF s", "SELECT session"),
        ("DELETE FROM draft", "DELETE draft"),
        ("LOCK TABLE audit_record IN SHARE MODE", "LOCK"),
        ("SELECT 1 FROM " + " JOIN ".join(["assignment"] * 40), "SELECT" + " assignment" * 22),
    ],
)
def test_a_summary_has_the_operations_and_tables(text: str, summary: str) -> None:
    assert summary_of(text) == summary


def test_a_summary_of_any_length_ends_with_a_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = {}
    for limit in range(6, 20):
        monkeypatch.setattr("app.telemetry.tracing.database.MAX_SUMMARY", limit)
        lengths[limit] = len(summary_of("SELECT 1 FROM book JOIN module ON 1 = 1"))

    of_names = {6: len("SELECT"), 11: len("SELECT book"), 18: len("SELECT book module")}
    assert lengths == {limit: of_names[max(end for end in of_names if end <= limit)] for limit in lengths}


def test_inserted_rows_are_described_by_their_table() -> None:
    assert attributes_of(Bulk("book_word", ("word",), []), "sqlite") == {
        "db.collection.name": "book_word",
        "db.operation.name": "INSERT",
        "db.query.summary": "INSERT book_word",
    }


SLEEP, REST = (f"INSERT INTO module (name) VALUES ('{name}')" for name in ("Sleep", "Rest"))


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (["INSERT event"] * 2, "BATCH INSERT event"),
        (["INSERT event", "UPDATE event"], "BATCH"),
        (["INSERT event", "UPDATE event", "INSERT event"], "BATCH"),
        (["", ""], "BATCH"),
    ],
)
def test_a_batch_has_the_name_that_all_its_statements_have(names: list[str], name: str) -> None:
    assert batch_of(names) == name


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("Sleep", "Sleep"), SLEEP),
        (("Sleep", "Rest"), f"{SLEEP}; {REST}"),
        (("x" * 3000, "Rest"), SLEEP.replace("Sleep", "x" * 3000)[:2000]),
    ],
)
def test_a_batch_has_the_texts_of_its_statements(names: tuple[str, str], text: str) -> None:
    attributes = attributes_of(Together(tuple((add_module(name), {}) for name in names)), "sqlite")

    assert attributes == {
        "db.operation.batch.size": 2,
        "db.operation.name": "BATCH",
        "db.query.summary": "BATCH INSERT module",
        "db.query.text": text,
    }
    long = attributes_of((add_module("x" * 3000), {}), "sqlite")
    assert len(str(long["db.query.text"])) == 2000
