"""The id of a foreign object is answered like a missing one: with the same bytes, by the same statements and
therefore in the same time. This holds for every id argument, in both forms of an id."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from httpx2 import Response

from app.db.sql import Step
from app.schema.types.node import global_id
from tests.access.documents import SCHEMA, in_connection, leaves_of, mutation_document, scalars, target
from tests.access.table import CATALOGUE, HOMEWORK, IDS, MUTATIONS, SUBSCRIPTIONS
from tests.access.viewers import OWN_PAIR, REQUEST_ID, caller_of, fill_for, post, role_of
from tests.access.world import MISSING, OF, PEOPLE, SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored
from tests.rest_compat.legacy import ASSIGNMENTS, TIMESTAMP

# The pairs that each viewer does not know.
FOREIGN = {"A": ("BX", "BY", "DW"), "B": ("AX", "AZ", "DW"), "X": ("BY", "AZ", "DW"), "Y": ("AX", "BX", "DW")}
NUMBERS: dict[str, Callable[[str], int]] = {
    "Session": lambda shared: OF[shared].main,
    "Assignment": lambda shared: OF[shared].reviewed,
    "AnswerSet": lambda shared: OF[shared].reviewed_set,
    "Event": lambda shared: OF[shared].due_event,
    "Client": lambda shared: PEOPLE[shared[1]],
    "Caregiver": lambda shared: PEOPLE[shared[0]],
    # These occur below other objects only.
    "Feedback": lambda shared: OF[shared].feedback,
    "Reminder": lambda shared: OF[shared].reminder,
}
Send = Callable[[Caller, str], Response]


def foreign(viewer: str, kind: str) -> Iterator[tuple[int, int]]:
    """Foreign numbers, each with a missing one of the same length."""
    for shared in FOREIGN[viewer]:
        number = NUMBERS[kind](shared)
        if kind not in ("Client", "Caregiver") or not is_acquainted(viewer, shared, kind):
            yield number, MISSING + number % 1000
    if viewer in "AB":  # drafts and reminders of the client are foreign to the caregiver, too
        mine = OF[OWN_PAIR[viewer]]
        if hidden := {"AnswerSet": mine.draft, "Event": mine.due_event}.get(kind):
            yield hidden, MISSING + hidden % 1000


def is_acquainted(viewer: str, shared: str, kind: str) -> bool:
    person = shared[1] if kind == "Client" else shared[0]
    return any(viewer in pair and person in pair for pair in OF)


def request_with_id(row: str) -> tuple[Send, bool]:
    """Returns a function that sends an id as this argument, and whether it is a mutation."""
    if "(" not in row:
        return mutation_with_id(*row.split(".")), True
    kind_name, name, argument = re.split(r"[.(]", row.rstrip(")"))
    kind: Any = SCHEMA.type_map[kind_name]
    declared = kind.fields[name].args[argument].type
    found = target(kind, name)
    fields = "__typename ... on Node { id legacyId }" if not leaves_of(found)[2:] else scalars(found)
    value = "[$id]" if str(declared).startswith("[") else "$id"
    word = "subscription" if kind_name == "Subscription" else "query"
    query = (
        f"{word}($id: {'ID!' if str(declared).endswith('!') else 'ID'}) "
        f"{{ {name}({argument}: {value}) {{ {in_connection(kind, name, fields)} }} }}"
    )
    send = subscribe if kind_name == "Subscription" else post
    return lambda caller, text: send(caller, query, {"id": text}), False


def mutation_with_id(kind: str, member: str) -> Send:
    name = f"{kind[0].lower()}{kind[1:]}".removesuffix("Input")

    def send(caller: Caller, text: str) -> Response:
        values = fill_for(MUTATIONS[name].input, "AX") | {member: text}
        return post(caller, mutation_document(name), {"input": values})

    return send


def subscribe(caller: Caller, query: str, variables: dict[str, Any]) -> Response:
    """Subscribes by an event stream, which ends because it is rejected."""
    headers = {**REQUEST_ID, "accept": "text/event-stream"}
    body = {"query": query, "variables": variables}
    return caller.request("POST", "/graphql", json=body, headers=headers)


def response_and_statements(gateway: Gateway, send: Send, caller: Caller, text: str) -> tuple[Any, ...]:
    """The whole response, and the statements that ran for it."""
    with gateway.watched() as steps:
        response = send(caller, text)
    body = TIMESTAMP.sub("now", response.text.replace(text, "id"))
    return response.status_code, sorted(response.headers.items()), body, [as_text(step) for step in steps]


def as_text(step: Step) -> str:
    return step[0].for_("sqlite").sql if isinstance(step, tuple) else step.table


ROWS = [
    (row, kind)
    for row, named in IDS.items()
    if named != CATALOGUE
    for kind in (NUMBERS if named == "every type" else [named])
]


@pytest.mark.parametrize(("row", "named"), ROWS, ids=[f"{row} {kind}" for row, kind in ROWS])
def test_a_foreign_id_is_answered_like_a_missing_one(world: Gateway, row: str, named: str) -> None:
    send, is_mutation = request_with_id(row)
    before = stored(world) if is_mutation else None
    compared = 0
    for viewer in OWN_PAIR:
        caller = caller_of(world, viewer)
        response_and_statements(world, send, caller, str(MISSING))  # prepares the document
        for number, missing in foreign(viewer, named):
            forms = [(global_id(named, number), global_id(named, missing)), (str(number), str(missing))]
            for foreign_id, missing_id in forms if number // 1000 != SHARED["DW"] // 1000 else forms[:1]:
                foreign_response = response_and_statements(world, send, caller, foreign_id)

                assert foreign_response == response_and_statements(world, send, caller, missing_id), (
                    viewer,
                    number,
                )
                compared += 1
    assert compared >= 8
    assert not is_mutation or stored(world) == before


def test_every_subscription_and_mutation_is_tested() -> None:
    kinds = {re.split(r"[.(]", row)[0] for row, kind in IDS.items() if kind != CATALOGUE}
    inputs = {f"{name[0].upper()}{name[1:]}Input" for name in MUTATIONS}

    assert kinds >= inputs | {"Query", "Subscription"}
    assert {f"Subscription.{name}(after)" for name in SUBSCRIPTIONS} <= IDS.keys()


# --- the legacy paths -------------------------------------------------------------------------------


def get(caller: Caller, text: str) -> Response:
    return caller.get(f"{ASSIGNMENTS}/{text}", headers=REQUEST_ID)


def put(caller: Caller, text: str) -> Response:
    return caller.put(ASSIGNMENTS, json=HOMEWORK | {"sessionId": int(text)}, headers=REQUEST_ID)


@pytest.mark.parametrize(("send", "named"), [(get, "Assignment"), (put, "Session")])
def test_a_foreign_id_is_answered_like_a_missing_one_on_the_legacy_paths(
    world: Gateway, send: Send, named: str
) -> None:
    before = stored(world)
    for viewer in OWN_PAIR:
        caller = caller_of(world, viewer)
        for number, missing in foreign(viewer, named):
            response = response_and_statements(world, send, caller, str(number))

            assert response == response_and_statements(world, send, caller, str(missing)), (viewer, number)
            assert response[0] == (404 if role_of(viewer) == "CAREGIVER" else 403)
    assert stored(world) == before
