"""Trusted documents: enforcement rejects every other document on every transport; audit mode executes
everything and logs each untrusted document once."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response

import app.schema.transport.trusted_documents
from app.settings import Trust
from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import a_world
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.rest_compat.legacy import homework as legacy_homework
from tests.schema.listening import listening, streaming
from tests.schema.manifest_service import (
    A_CLIENT,
    CHANGES,
    NOT_FOUND,
    NOT_KNOWN,
    NOT_SUPPORTED,
    NOT_TRUSTED,
    OTHER,
    ROLE,
    get,
    hashed,
    post,
    rejection,
    service_with_manifest,
    sha256,
)
from tests.schema.test_assign_homework import ASSIGN, homework

pytestmark = pytest.mark.sqlite_only


@pytest.fixture(scope="module")
def enforcing(standing: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with service_with_manifest(
        standing.settings, Trust.ENFORCE, tmp_path_factory.mktemp("manifest")
    ) as gateway:
        yield gateway


@pytest.fixture
def auditing(standing: Gateway, tmp_path: Path) -> Iterator[Gateway]:
    with service_with_manifest(standing.settings, Trust.AUDIT, tmp_path) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def off(standing: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with service_with_manifest(standing.settings, Trust.OFF, tmp_path_factory.mktemp("manifest")) as gateway:
        yield gateway


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="care"):
        yield caplog


TRUSTED: dict[str, dict[str, Any]] = {
    "its text": {"query": ROLE},
    "its id": {"documentId": "role-1"},
    "its hash, with the prefix": {"documentId": f"sha256:{sha256(ROLE)}"},
    "its hash": {"documentId": sha256(ROLE)},
    "its id, as Apollo's clients send it": {"extensions": hashed("role-1")},
    "its hash, as Apollo's clients send it": {"extensions": hashed(sha256(ROLE))},
    "its hash and its text": {"query": ROLE, "extensions": hashed(sha256(ROLE))},
    "its id and its text": {"query": ROLE, "extensions": hashed("role-1")},
    "its id and a name": {"documentId": "role-1", "operationName": "Role", "variables": {}},
}


@pytest.mark.parametrize("name", TRUSTED)
@pytest.mark.parametrize("send", [post, get])
def test_a_trusted_document_may_be_named_in_every_way(
    enforcing: Gateway, off: Gateway, send: Any, name: str
) -> None:
    for gateway in (enforcing, off):
        response = send(gateway.as_client(1), **TRUSTED[name])

        assert (response.status_code, response.json()) == (200, A_CLIENT)


UNTRUSTED: dict[str, tuple[dict[str, Any], tuple[int, str, str]]] = {
    "another document": ({"query": OTHER}, NOT_TRUSTED),
    "one with a blank more": ({"query": f"{ROLE} "}, NOT_TRUSTED),
    "one more operation": ({"query": f"{ROLE} {OTHER}", "operationName": "Role"}, NOT_TRUSTED),
    "introspection": ({"query": "{ __schema { queryType { name } } }"}, NOT_TRUSTED),
    "the shortest": ({"query": "{ __typename }"}, NOT_TRUSTED),
    "what cannot be read": ({"query": "{ nope"}, NOT_TRUSTED),
    "a mutation": ({"query": ASSIGN}, NOT_TRUSTED),
    "another with its hash": ({"query": OTHER, "extensions": hashed(sha256(OTHER))}, NOT_TRUSTED),
    "another with a trusted hash": ({"query": OTHER, "extensions": hashed(sha256(ROLE))}, NOT_TRUSTED),
    "another with a trusted id": ({"query": OTHER, "extensions": hashed("role-1")}, NOT_TRUSTED),
    "an unknown hash": ({"extensions": hashed(sha256(OTHER))}, NOT_SUPPORTED),
    "an unknown id": ({"documentId": "role-2"}, NOT_KNOWN),
    "no document": ({"variables": {}}, (400, "BAD_REQUEST", "No GraphQL query found in the request")),
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_every_other_document_is_rejected(enforcing: Gateway, name: str) -> None:
    members, expected = UNTRUSTED[name]
    client = enforcing.as_client(1)
    kinds: list[dict[str, str]] = [
        {"accept": "text/event-stream, */*"},
        {"idempotency-key": "k"},
        {"content-type": "application/json; charset=utf-8"},
    ]

    for _ in range(2):  # also when it comes again
        responses = [
            post(client, **members),
            get(client, **members),
            *(client.request("POST", "/graphql", json=members, headers=headers) for headers in kinds),
        ]
        assert [rejection(one) for one in responses] == [expected] * 5


def test_only_a_trusted_mutation_is_executed(gateway: Gateway, tmp_path: Path) -> None:
    gateway.import_records(a_world())
    variables = {"input": homework()}
    with service_with_manifest(gateway.settings, Trust.ENFORCE, tmp_path, {"assign": ASSIGN}) as enforcing:
        caregiver, before = enforcing.as_caregiver(1), stored(enforcing)

        refused = post(caregiver, query=f"{ASSIGN}#", variables=variables)
        by_get = get(caregiver, documentId="assign", variables=variables)
        unchanged = stored(enforcing) == before
        executed = post(caregiver, documentId="assign", variables=variables)

        assert (rejection(refused), by_get.status_code, unchanged) == (NOT_TRUSTED, 400, True)
        assert executed.json()["data"]["assignHomework"]["userErrors"] == []
        assert stored(enforcing) != before


def test_the_documents_of_the_legacy_paths_are_always_trusted(gateway: Gateway, tmp_path: Path) -> None:
    gateway.import_records(a_world())
    with service_with_manifest(gateway.settings, Trust.ENFORCE, tmp_path) as enforcing:
        caregiver = enforcing.as_caregiver(1)

        responses = [
            enforcing.as_client(1).get("/gateway/profile/client/session?time-state=RUNNING"),
            caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING"),
            caregiver.get(f"{ASSIGNMENTS}/1"),
            caregiver.put(ASSIGNMENTS, json=legacy_homework()),
        ]

    assert [one.status_code for one in responses] == [200] * 4


def test_an_unauthenticated_caller_does_not_learn_what_is_trusted(enforcing: Gateway) -> None:
    for members in ({"query": ROLE}, {"query": OTHER}, {"documentId": "role-1"}, {"documentId": "x"}):
        response = post(enforcing.with_token("x"), **members)
        assert (response.status_code, rejection(response)[1]) == (401, "UNAUTHENTICATED")


def test_a_websocket_executes_only_trusted_documents(enforcing: Gateway) -> None:
    with listening(enforcing.as_client(1)) as listener:

        def send(**payload: Any) -> Any:
            listener.send(type="subscribe", id="1", payload=payload)
            message = listener.receive()
            if message["type"] == "next":
                assert listener.receive() == {"id": "1", "type": "complete"}
                return message["payload"]
            [error] = message["payload"]
            return message["type"], error["extensions"]["code"], error["message"]

        executed = [send(**members) for members in TRUSTED.values()]
        rejected = [send(**members) for members, _ in UNTRUSTED.values() if members != {"variables": {}}]
        subscription = send(query="subscription { assignmentChanged { id } }")

    assert executed == [A_CLIENT] * len(TRUSTED)
    assert rejected == [
        ("error", *expected[1:]) for members, expected in UNTRUSTED.values() if members != {"variables": {}}
    ]
    assert subscription == ("error", *NOT_TRUSTED[1:])


def test_an_event_stream_executes_only_trusted_documents(enforcing: Gateway) -> None:
    """The position does not exist, so the stream ends at once with an error."""
    client = enforcing.as_client(1)

    def listen(**members: Any) -> Response:
        headers = {"accept": "text/event-stream"}
        return client.request("POST", "/graphql", json=members, headers=headers)

    by_id, by_text = (listen(variables={"after": "77"}, **members) for members in SUBSCRIPTIONS)
    refused = listen(query=f"{CHANGES}#", variables={"after": "77"})

    assert by_id.headers["content-type"] == by_text.headers["content-type"] == "text/event-stream"
    assert "NOT_FOUND" in by_id.text and "NOT_FOUND" in by_text.text
    assert rejection(refused) == NOT_TRUSTED


SUBSCRIPTIONS: list[dict[str, Any]] = [{"documentId": "changes-1"}, {"query": CHANGES}]


# --- audit -----------------------------------------------------------------------------------------


def log_lines(logged: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in logged.records if "trusted" in record.getMessage()]


def test_audit_mode_executes_everything_and_logs_an_untrusted_document_once(
    auditing: Gateway, logged: pytest.LogCaptureFixture
) -> None:
    client = auditing.as_client(1)
    headers = {"x-request-id": "first"}
    query = 'query Mine { session(id: "query-7") { title } }'

    first_response = client.request(
        "POST", "/graphql", json={"query": query, "variables": {}}, headers=headers
    )
    for send in (post, get):
        for _ in range(2):
            assert "errors" in send(client, query=query).json()
            assert send(client, **TRUSTED["its text"]).json() == A_CLIENT
            assert send(client, **TRUSTED["its id"]).json() == A_CLIENT
    with listening(client) as listener:
        listener.query("{ viewer { role } }")
    with streaming(client, "{ viewer { id } }"):
        pass

    assert first_response.status_code == 200
    others = [sha256(text) for text in ("{ viewer { role } }", "{ viewer { id } }")]
    first, *more = log_lines(logged)
    assert first == f"request first: document {sha256(query)} (Mine) is not trusted"
    assert [line.partition(": ")[2] for line in more] == [
        f"document {each} (-) is not trusted" for each in others
    ]
    assert "query-7" not in logged.text


@pytest.mark.parametrize(
    ("name", "logged_name"),
    [("Mine", "Mine"), ("x" * 64, "x" * 64), ("B\nforged", "-"), ("", "-"), ("x" * 65, "-"), ("ü", "-")],
)
def test_only_a_valid_operation_name_is_logged(
    auditing: Gateway, logged: pytest.LogCaptureFixture, name: str, logged_name: str
) -> None:
    post(auditing.as_client(1), query="query Mine { __typename }", operationName=name)

    assert [line.partition(": ")[2] for line in log_lines(logged)] == [
        f"document {sha256('query Mine { __typename }')} ({logged_name}) is not trusted"
    ]


def test_audit_mode_stores_and_logs_persisted_queries(
    auditing: Gateway, logged: pytest.LogCaptureFixture
) -> None:
    client, extensions = auditing.as_client(1), hashed(sha256(OTHER))

    before = post(client, extensions=extensions)
    responses = [post(client, query=OTHER, extensions=extensions), post(client, extensions=extensions)]

    assert rejection(before) == NOT_FOUND
    assert [one.status_code for one in responses] == [200, 200]
    assert len(log_lines(logged)) == 1


def test_the_number_of_logged_documents_is_limited(
    auditing: Gateway, logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.schema.transport.trusted_documents, "MAX_LOGGED", 3)

    for number in range(6):
        post(auditing.as_client(1), query=f"{{ a{number}: __typename }}")

    assert len(log_lines(logged)) == 4
    assert log_lines(logged)[-1] == "more documents are not trusted; they are not logged any more"


def test_nothing_is_logged_if_trust_is_off(off: Gateway, logged: pytest.LogCaptureFixture) -> None:
    assert post(off.as_client(1), query=OTHER).status_code == 200
    assert log_lines(logged) == []
