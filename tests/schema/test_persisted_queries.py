"""Automatic persisted queries of Apollo clients: a document may be named by its hash after it was sent once.

An unknown hash gets the 200 that Apollo clients expect, a wrong hash is rejected, the number of stored
documents is limited, and an unauthenticated caller cannot store any.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import app.schema.transport.trusted_documents
from app.main import create_app
from app.schema.transport.request_parsing import GraphQLRequest
from app.schema.transport.trusted_documents import Documents
from app.settings import Trust
from tests.callers import Gateway, opened
from tests.database_rows import stored
from tests.factories import NOW, a_world
from tests.schema.keyed import again, whole
from tests.schema.listening import connected, listening, streaming
from tests.schema.manifest_service import (
    A_CLIENT,
    BOTH,
    NOT_FOUND,
    NOT_KNOWN,
    OTHER,
    ROLE,
    WRONG_FORM,
    WRONG_HASH,
    get,
    hashed,
    post,
    rejection,
    sha256,
)
from tests.schema.test_assign_homework import ASSIGN, homework

pytestmark = pytest.mark.sqlite_only


@pytest.fixture
def fresh(standing: Gateway) -> Iterator[Gateway]:
    """A service without stored documents."""
    with opened(create_app(standing.settings, clock=lambda: NOW)) as client:
        yield Gateway(client, standing.settings)


@pytest.mark.parametrize("send", [post, get])
def test_a_hash_is_unknown_until_its_document_is_sent(fresh: Gateway, send: Any) -> None:
    client, extensions = fresh.as_client(1), hashed(sha256(ROLE))

    before = send(client, extensions=extensions)
    stored_now = send(client, query=ROLE, extensions=extensions)
    after = [one(client, extensions=extensions) for one in (post, get)]
    by_hash = [post(client, documentId=f"{prefix}{sha256(ROLE)}") for prefix in ("sha256:", "")]

    assert rejection(before) == NOT_FOUND
    assert [(one.status_code, one.json()) for one in (stored_now, *after, *by_hash)] == [(200, A_CLIENT)] * 5


def test_variables_and_operation_name_apply_to_a_persisted_query(fresh: Gateway) -> None:
    client = fresh.as_client(1)
    extensions = {**hashed(sha256(OTHER)), "clientLibrary": {"name": "x"}}

    post(client, query=OTHER, extensions=extensions)
    answers = [
        post(client, extensions=extensions, variables={"n": n}, operationName=name).json()
        for n, name in ((1, "Other"), (1, None), ("x", "Other"), (1, "Nope"))
    ]

    data = {"viewer": {"role": "CLIENT"}, "sessions": answers[0]["data"]["sessions"]}
    assert answers[:2] == [{"data": data}] * 2
    assert [one["errors"][0]["message"][:8] for one in answers[2:]] == ["Variable", "Unknown "]


@pytest.mark.parametrize("send", [post, get])
def test_a_persisted_mutation_needs_a_post(gateway: Gateway, send: Any) -> None:
    gateway.import_records(a_world())
    caregiver, before = gateway.as_caregiver(1), stored(gateway)
    extensions, variables = hashed(sha256(ASSIGN)), {"input": homework(sessionId="77")}
    post(caregiver, query=ASSIGN, extensions=extensions, variables=variables)

    response = send(caregiver, extensions=extensions, variables={"input": homework()})

    by_get = "mutations are not allowed when using GET"
    assert (response.status_code, stored(gateway) == before) == (
        (200, False) if send is post else (400, True)
    )
    assert send is post or rejection(response) == (400, "BAD_REQUEST", by_get)


def test_hash_and_text_of_a_document_have_the_same_idempotency_fingerprint(gateway: Gateway) -> None:
    gateway.import_records(a_world())
    request = {"variables": {"input": homework()}, "extensions": hashed(sha256(ASSIGN))}
    key = {"idempotency-key": "k"}

    first, second = (
        gateway.as_caregiver(1).request("POST", "/graphql", json={**request, **more}, headers=key)
        for more in ({"query": ASSIGN}, {})
    )

    assert whole(second) == again(first)


NO_QUERY = (400, "BAD_REQUEST", "No GraphQL query found in the request")
INVALID: dict[str, tuple[dict[str, Any], tuple[int, str, str]]] = {
    "another hash": ({"query": ROLE, "extensions": hashed(sha256(OTHER))}, WRONG_HASH),
    "half a hash": ({"query": ROLE, "extensions": hashed(sha256(ROLE)[:32])}, WRONG_HASH),
    "in capitals": ({"query": ROLE, "extensions": hashed(sha256(ROLE).upper())}, WRONG_HASH),
    "another version": ({"query": ROLE, "extensions": hashed(sha256(ROLE), 2)}, WRONG_FORM),
    "another version, alone": ({"extensions": hashed(sha256(ROLE), 2)}, WRONG_FORM),
    "no version": ({"extensions": {"persistedQuery": {"sha256Hash": sha256(ROLE)}}}, WRONG_FORM),
    "no hash": ({"extensions": {"persistedQuery": {"version": 1}}}, WRONG_FORM),
    "a number for a hash": ({"extensions": {"persistedQuery": {"version": 1, "sha256Hash": 1}}}, WRONG_FORM),
    "a list": ({"extensions": {"persistedQuery": []}}, WRONG_FORM),
    "a text": ({"extensions": {"persistedQuery": "x"}}, WRONG_FORM),
    "a hash of nothing": ({"extensions": hashed("")}, NOT_FOUND),
    "an unknown id": ({"documentId": "x"}, NOT_KNOWN),
    "an unknown hash as id": ({"documentId": f"sha256:{sha256(ROLE)}"}, NOT_KNOWN),
    "an id and a document": ({"documentId": f"sha256:{sha256(ROLE)}", "query": ROLE}, BOTH),
    "nothing at all": ({"extensions": {"persistedQuery": None}}, NO_QUERY),
}


@pytest.mark.parametrize("send", [post, get])
def test_an_invalid_reference_is_rejected_and_not_stored(fresh: Gateway, send: Any) -> None:
    for name, (members, expected) in INVALID.items():
        assert rejection(send(fresh.as_client(1), **members)) == expected, name

    assert rejection(post(fresh.as_client(1), extensions=hashed(sha256(ROLE)))) == NOT_FOUND


def test_the_hash_of_another_stored_document_is_wrong(fresh: Gateway) -> None:
    caller = fresh.as_client(1)
    post(caller, query=OTHER, extensions=hashed(sha256(OTHER)))

    assert rejection(post(caller, query=ROLE, extensions=hashed(sha256(OTHER)))) == WRONG_HASH


def test_an_empty_id_is_unknown_in_a_body_and_none_in_a_query_string(fresh: Gateway) -> None:
    caller = fresh.as_client(1)

    assert rejection(post(caller, documentId="")) == NOT_KNOWN
    assert rejection(get(caller, documentId="")) == NO_QUERY


def test_an_invalid_reference_is_rejected_if_events_are_accepted(fresh: Gateway) -> None:
    for name, (members, expected) in INVALID.items():
        response = fresh.as_client(1).request(
            "POST", "/graphql", json=members, headers={"accept": "text/event-stream, application/json"}
        )
        assert rejection(response) == expected, name


def test_an_unauthenticated_document_is_not_stored(fresh: Gateway) -> None:
    extensions = hashed(sha256(ROLE))
    nobody, stranger = fresh.with_token("x"), fresh.as_client(77)

    for caller, status in ((nobody, 401), (stranger, 403)):
        for send in (post, get):
            assert send(caller, query=ROLE, extensions=extensions).status_code == status
            assert send(caller, extensions=extensions).status_code == status

    assert rejection(post(fresh.as_client(1), extensions=extensions)) == NOT_FOUND


def test_a_subscription_may_be_a_persisted_query(fresh: Gateway) -> None:
    """The position does not exist, so the stream ends at once with an error."""
    text = 'subscription { assignmentChanged(after: "77") { what } }'
    caller, extensions = fresh.as_client(1), hashed(sha256(text))
    takes_events = {"accept": "text/event-stream"}

    unknown = caller.request("POST", "/graphql", json={"extensions": extensions}, headers=takes_events)
    with streaming(caller, text) as stream:
        expected = [kind for kind, _ in stream.events]
    request = {"query": text, "extensions": extensions}
    kinds = []
    for members in (request, {"extensions": extensions}):
        answer = caller.request("POST", "/graphql", json=members, headers=takes_events)
        kinds.append([line for line in answer.text.splitlines() if line.startswith("event: ")])

    assert unknown.headers["content-type"] == "text/event-stream"
    assert NOT_FOUND[2] in unknown.text
    assert kinds == [[f"event: {kind}" for kind in expected]] * 2


def test_persisted_queries_work_at_a_websocket(fresh: Gateway) -> None:
    def send(**payload: Any) -> list[Any]:
        listener.send(type="subscribe", id="1", payload=payload)
        first = listener.receive()
        return (
            [first["payload"]] if first["type"] == "error" else [first["payload"], listener.receive()["type"]]
        )

    extensions, sha = hashed(sha256(ROLE)), sha256(ROLE)
    with listening(fresh.as_client(1)) as listener:
        unknown = send(extensions=extensions)
        wrong = send(query=OTHER, extensions=extensions)
        both = send(query=ROLE, documentId="x")
        empty = send(documentId="")
        answers = [
            send(query=ROLE, extensions=extensions),
            send(extensions=extensions),
            send(documentId=f"sha256:{sha}"),
            send(query=None, documentId=f"sha256:{sha}"),
            send(documentId=sha, variables={}, operationName="Role"),
        ]

    errors = [(one["extensions"]["code"], one["message"]) for [[one]] in (unknown, wrong, both, empty)]
    assert errors == [NOT_FOUND[1:], WRONG_HASH[1:], BOTH[1:], NOT_KNOWN[1:]]
    assert answers == [[A_CLIENT, "complete"]] * 5


@pytest.mark.parametrize("payload", ['{"documentId": 1}', '{"extensions": []}', '{"documentId": {}}'])
def test_a_malformed_reference_closes_the_websocket(fresh: Gateway, payload: str) -> None:
    with listening(fresh.as_client(1)) as listener:
        listener.session.send_text(f'{{"type": "subscribe", "id": "1", "payload": {payload}}}')

        assert listener.receive_close() == (4400, "The message does not follow the protocol")


def test_an_unauthenticated_websocket_stores_no_document(fresh: Gateway) -> None:
    with connected(fresh.as_client(1)) as listener:
        listener.send(type="subscribe", id="1", payload={"query": ROLE, "extensions": hashed(sha256(ROLE))})
        assert listener.receive_close() == (4401, "Unauthorized")

    assert rejection(post(fresh.as_client(1), extensions=hashed(sha256(ROLE)))) == NOT_FOUND


# --- bounds ----------------------------------------------------------------------------------------


def test_the_least_recently_used_documents_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short document counts as one of 2048 characters."""
    monkeypatch.setattr(app.schema.transport.trusted_documents, "MAX_PERSISTED_TEXT", 3 * 2048)
    monkeypatch.setattr(app.schema.transport.trusted_documents, "MAX_PERSISTED", 3)
    documents = Documents(Trust.OFF, {})
    texts = [f"{{ a{number} }}" for number in range(4)]

    for text in texts[:3]:
        send_text(documents, text)
    documents.admit(by_hash(texts[0]), "r")
    send_text(documents, texts[3])

    assert list(documents.persisted.values.values()) == [texts[2], texts[0], texts[3]]


def test_the_length_of_all_stored_documents_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.schema.transport.trusted_documents, "MAX_PERSISTED_TEXT", 100)
    documents = Documents(Trust.OFF, {})

    for number in range(50):
        send_text(documents, f"{{ a{number} }}" + " " * 20)
        send_text(documents, f"{{ a{number} }}" + " " * 20)  # twice is once
        assert documents.persisted.weight == sum(map(len, documents.persisted.values.values())) <= 100
    assert len(documents.persisted.values) == 3
    send_text(documents, "{ a }" + " " * 90)
    assert len(documents.persisted.values) == 1


def send_text(documents: Documents, text: str) -> None:
    documents.admit(GraphQLRequest(text, None, None, hashed(sha256(text))), "r")


def by_hash(text: str) -> GraphQLRequest:
    return GraphQLRequest("", None, None, hashed(sha256(text)))
