"""A foreign id is answered like a missing id: with the same bytes and by the same statements, so that timing
shows no difference. This holds for every id that the service accepts, in both forms."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from httpx2 import Response

from app.db.sql import Bulk, DatabaseKind, Step, changes_of
from app.schema.types.scalars import global_id
from tests.access.documents import SCHEMA, leaves_of, mutation_document, scalars_of, target, through
from tests.access.table import CATALOGUE, CHANGES, HOMEWORK, IDS, SUBSCRIPTIONS
from tests.access.viewers import MINE, REQUEST_ID, post, role_of, sign_in, write_in
from tests.access.world import MISSING, OF, PEOPLE, SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored
from tests.rest_compat.legacy import ASSIGNMENTS, TIMESTAMP

# The relationships that each of the four does not know.
FOREIGN = {"A": ("BX", "BY", "DW"), "B": ("AX", "AZ", "DW"), "X": ("BY", "AZ", "DW"), "Y": ("AX", "BX", "DW")}
NUMBERS: dict[str, Callable[[str], int]] = {
    "Session": lambda shared: OF[shared].main,
    "Assignment": lambda shared: OF[shared].judged,
    "AnswerSet": lambda shared: OF[shared].judged_set,
    "Event": lambda shared: OF[shared].due_event,
    "Client": lambda shared: PEOPLE[shared[1]],
    "Caregiver": lambda shared: PEOPLE[shared[0]],
    # These are found below others alone.
    "Feedback": lambda shared: OF[shared].feedback,
    "Reminder": lambda shared: OF[shared].reminder,
}
Send = Callable[[Caller, str], Response]


def foreign(viewer: str, kind: str) -> Iterator[tuple[int, int]]:
    """Foreign numbers, each with a missing number of the same length."""
    for shared in FOREIGN[viewer]:
        number = NUMBERS[kind](shared)
        if kind not in ("Client", "Caregiver") or not is_acquainted(viewer, shared, kind):
            yield number, MISSING + number % 1000
    if viewer in "AB":  # the client's own, which their caregiver does not see either
        mine = OF[MINE[viewer]]
        if hidden := {"AnswerSet": mine.draft, "Event": mine.due_event}.get(kind):
            yield hidden, MISSING + hidden % 1000


def is_acquainted(viewer: str, shared: str, kind: str) -> bool:
    person = shared[1] if kind == "Client" else shared[0]
    return any(viewer in pair and person in pair for pair in OF)


def request_for(row: str) -> tuple[Send, bool]:
    """How the id is sent, and whether that would change something."""
    if "(" not in row:
        return mutation_for(*row.split(".")), True
    kind_name, name, argument = re.split(r"[.(]", row.rstrip(")"))
    kind: Any = SCHEMA.type_map[kind_name]
    declared = kind.fields[name].args[argument].type
    found = target(kind, name)
    fields = "__typename ... on Node { id legacyId }" if not leaves_of(found)[2:] else scalars_of(found)
    value = "[$id]" if str(declared).startswith("[") else "$id"
    word = "subscription" if kind_name == "Subscription" else "query"
    query = (
        f"{word}($id: {'ID!' if str(declared).endswith('!') else 'ID'}) "
        f"{{ {name}({argument}: {value}) {{ {through(kind, name, fields)} }} }}"
    )
    send = listen if kind_name == "Subscription" else post
    return lambda caller, text: send(caller, query, {"id": text}), False


def mutation_for(kind: str, member: str) -> Send:
    change = f"{kind[0].lower()}{kind[1:]}".removesuffix("Input")

    def send(caller: Caller, text: str) -> Response:
        given = write_in(CHANGES[change].given, "AX") | {member: text}
        return post(caller, mutation_document(change), {"input": given})

    return send


def listen(caller: Caller, query: str, variables: dict[str, Any]) -> Response:
    """Opens a stream that ends because it is rejected."""
    headers = {**REQUEST_ID, "accept": "text/event-stream"}
    body = {"query": query, "variables": variables}
    return caller.request("POST", "/graphql", json=body, headers=headers)


def trace(gateway: Gateway, kind: DatabaseKind, send: Send, caller: Caller, text: str) -> tuple[Any, ...]:
    """The whole response, and the statements that ran for it."""
    with gateway.watched() as steps:
        answer = send(caller, text)
    body = TIMESTAMP.sub("now", answer.text.replace(text, "id"))
    statements = [as_text(step, kind) for step in steps]
    return answer.status_code, sorted(answer.headers.items()), body, statements


def as_text(step: Step, kind: DatabaseKind) -> str:
    if isinstance(step, Bulk):
        return step.table
    return "; ".join(statement.for_(kind).sql for statement, _ in changes_of(step))


ROWS = [
    (row, kind)
    for row, named in IDS.items()
    if named != CATALOGUE
    for kind in (NUMBERS if named == "every kind" else [named])
]


@pytest.mark.parametrize(("row", "named"), ROWS, ids=[f"{row} {kind}" for row, kind in ROWS])
def test_a_foreign_id_is_answered_like_a_missing_id(
    world: Gateway, kind: DatabaseKind, row: str, named: str
) -> None:
    send, is_change = request_for(row)
    before = stored(world) if is_change else None
    checked = 0
    for viewer in MINE:
        caller = sign_in(world, viewer)
        trace(world, kind, send, caller, str(MISSING))  # warms every cache
        for number, missing in foreign(viewer, named):
            forms = [(global_id(named, number), global_id(named, missing)), (str(number), str(missing))]
            for theirs, nobodys in forms if number // 1000 != SHARED["DW"] // 1000 else forms[:1]:
                found = trace(world, kind, send, caller, theirs)

                assert found == trace(world, kind, send, caller, nobodys), (viewer, number)
                checked += 1
    assert checked >= 8
    assert not is_change or stored(world) == before


def test_every_subscription_and_mutation_is_tested() -> None:
    kinds = {re.split(r"[.(]", row)[0] for row, kind in IDS.items() if kind != CATALOGUE}
    changes = {f"{name[0].upper()}{name[1:]}Input" for name in CHANGES}

    assert kinds >= changes | {"Query", "Subscription"}
    assert {f"Subscription.{name}(after)" for name in SUBSCRIPTIONS} <= IDS.keys()


# --- the legacy paths -------------------------------------------------------------------------------


def get(caller: Caller, text: str) -> Response:
    return caller.get(f"{ASSIGNMENTS}/{text}", headers=REQUEST_ID)


def put(caller: Caller, text: str) -> Response:
    return caller.put(ASSIGNMENTS, json=HOMEWORK | {"sessionId": int(text)}, headers=REQUEST_ID)


@pytest.mark.parametrize(("send", "named"), [(get, "Assignment"), (put, "Session")])
def test_a_foreign_id_is_answered_like_a_missing_id_on_the_legacy_paths(
    world: Gateway, kind: DatabaseKind, send: Send, named: str
) -> None:
    before = stored(world)
    for viewer in MINE:
        caller = sign_in(world, viewer)
        for number, missing in foreign(viewer, named):
            found = trace(world, kind, send, caller, str(number))

            assert found == trace(world, kind, send, caller, str(missing)), (viewer, number)
            assert found[0] == (404 if role_of(viewer) == "CAREGIVER" else 403)
    assert stored(world) == before
