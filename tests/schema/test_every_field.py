"""Every field of every type can be selected: documents generated from the schema.

Contract: every field returns a value without errors, for both roles, two levels deep below every root
field, with and without every optional argument.
"""

from typing import Any

import pytest
from graphql import GraphQLField, GraphQLObjectType, get_named_type, is_composite_type, is_interface_type

from app.engine.schema import PreparingSchema
from app.main import schema_of_service
from tests.callers import Gateway
from tests.schema.worlds import global_id

SCHEMA = schema_of_service(True)._schema
LEVELS = 2
KINDS = ["AnswerSet", "Assignment", "Book", "Caregiver", "Client", "Session"]
ROOTS = {
    "viewer": "",
    "sessions": "",
    "session": "(id: 1)",
    "assignments": "",
    "assignment": "(id: 7)",
    "submissions": "",
    "clients": "",
    "auditEvents": "(clientId: 1)",
    "books": "",
    "book": "(id: 4)",
    "node": f'(id: "{global_id("Assignment", 7)}")',
    "nodes": "(ids: [" + ", ".join(f'"{global_id(kind, 1)}"' for kind in KINDS) + "])",
}
ASKED = [
    (root, role)
    for root in ROOTS
    for role in ("caregiver", "client")
    if role == "caregiver" or root not in ("clients", "auditEvents")
]
REQUIRED = {"scoreHistory": "(bookId: 1)"}
# Fields with the same name and different types in a list of nodes: one of them needs an alias.
RENAMED = {("AnswerSet", "score"): "scoreOfSet"}


def selection(kind: Any, levels: int) -> str:
    """All fields; on the last level only scalars and enums."""
    if is_interface_type(kind):
        spreads = (f"... on {name} {{ {selection(SCHEMA.type_map[name], levels)} }}" for name in KINDS)
        return f"__typename id legacyId {' '.join(spreads)}"
    parts = ["__typename"]
    for name, field in kind.fields.items():
        below = get_named_type(field.type)
        if not is_composite_type(below):
            parts.append(leaf(kind, name))
        elif levels or is_part(below):
            given = REQUIRED.get(name, "")
            parts.append(f"{name}{given} {{ {selection(below, levels - (not is_part(below)))} }}")
    return " ".join(parts)


def leaf(kind: Any, name: str) -> str:
    renamed = RENAMED.get((kind.name, name))
    return name if renamed is None else f"{renamed}: {name}"


def is_part(kind: Any) -> bool:
    """Connections and edges are not counted as levels."""
    return kind.name.endswith(("Connection", "Edge")) or kind.name == "PageInfo"


def test_every_root_field_is_covered() -> None:
    assert SCHEMA.query_type is not None
    assert (
        ROOTS.keys() | {"ownData"} == SCHEMA.query_type.fields.keys()
    )  # not an object: see test_own_data.py


@pytest.mark.parametrize(("root", "role"), ASKED)
def test_every_field_below_a_root_field_returns_a_value(standing: Gateway, root: str, role: str) -> None:
    assert SCHEMA.query_type is not None
    caller = standing.as_caregiver(1) if role == "caregiver" else standing.as_client(1)
    kind = get_named_type(SCHEMA.query_type.fields[root].type)

    response = caller.data(f"{{ {root}{ROOTS[root]} {{ {selection(kind, LEVELS)} }} }}")

    assert response[root] is not None
    check(response[root], kind, LEVELS)


@pytest.mark.parametrize("root", [root for root in ROOTS if root not in ("viewer", "node", "nodes")])
def test_generated_code_completes_every_field(
    standing: Gateway, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """graphql-core, which completes what generated code cannot, takes twice as long."""
    assert SCHEMA.query_type is not None
    kind = get_named_type(SCHEMA.query_type.fields[root].type)
    query = f"{{ {root}{ROOTS[root]} {{ {selection(kind, LEVELS)} }} }}"
    expected = standing.as_caregiver(1).data(query)
    monkeypatch.setattr(PreparingSchema, "execute_by_core", None)  # a repeated operation is prepared

    assert standing.as_caregiver(1).data(query) == expected


def check(found: Any, kind: Any, levels: int) -> None:
    """Every selected field is present and has its declared type."""
    if found is None:
        return
    if isinstance(found, list):
        for each in found:
            check(each, kind, levels)
        return
    if is_interface_type(kind):
        kind = SCHEMA.type_map[found["__typename"]]
    assert found["__typename"] == kind.name
    for name, field in kind.fields.items():
        below = get_named_type(field.type)
        if not is_composite_type(below):
            assert RENAMED.get((kind.name, name), name) in found
        elif levels or is_part(below):
            check(found[name], below, levels - (not is_part(below)))


@pytest.mark.sqlite_only
@pytest.mark.parametrize("role", ["caregiver", "client"])
def test_every_field_of_a_type_can_be_selected_alone(standing: Gateway, role: str) -> None:
    """No field depends on the columns of another."""
    caller = standing.as_caregiver(1) if role == "caregiver" else standing.as_client(1)
    ids = {"Assignment": 7, "AnswerSet": 5, "Book": 4}
    selected = 0

    for kind_name in KINDS:
        kind = SCHEMA.type_map[kind_name]
        assert isinstance(kind, GraphQLObjectType)
        of_kind = global_id(kind_name, ids.get(kind_name, 1))
        whole = send(caller, kind_name, of_kind, selection(kind, 1))
        for name, field in kind.fields.items():
            for part in alone(kind, name, field):
                response = send(caller, kind_name, of_kind, part)
                assert within(response, whole), (kind_name, part)
                selected += 1

    assert selected > 100


def alone(kind: GraphQLObjectType, name: str, field: GraphQLField) -> list[str]:
    below: Any = get_named_type(field.type)
    if not is_composite_type(below):
        return [leaf(kind, name)]
    given = REQUIRED.get(name, "")
    return [f"{name}{given} {{ {part} }}" for part in ("__typename", *simple(below))]


def simple(kind: Any) -> list[str]:
    return [
        leaf(kind, name)
        for name, field in kind.fields.items()
        if not is_composite_type(get_named_type(field.type))
    ]


def send(caller: Any, kind: str, of_kind: str, part: str) -> Any:
    query = f"query($id: ID!) {{ node(id: $id) {{ ... on {kind} {{ {part} }} }} }}"
    return caller.data(query, id=of_kind)["node"]


def within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


@pytest.mark.sqlite_only
def test_every_argument_is_accepted(standing: Gateway) -> None:
    """All optional arguments together, and each as null."""
    query = """query($state: TimeState, $status: AssignmentStatus, $id: ID, $after: String, $offset: Int,
            $search: String, $test: Boolean, $since: DateTime, $overdue: Boolean) {
        sessions(timeState: $state, first: 5, after: $after, offset: $offset) { totalCount }
        assignments(timeState: $state, status: $status, sessionId: $id, clientId: $id, first: 5,
            after: $after, offset: $offset) { totalCount }
        came: assignments(isOverdue: $overdue, submittedSince: $since) { totalCount }
        submissions(since: $since, clientId: $id, first: 5, after: $after) { totalCount }
        clients(first: 5, after: $after) { totalCount }
        books(search: $search, moduleId: $id, isTest: $test, first: 5, after: $after) { totalCount }
        session(id: 1) { assignments(status: $status, first: 5, after: $after) { totalCount } } }"""
    given = {
        "state": "RUNNING",
        "status": "PENDING",
        "id": "1",
        "offset": 1,
        "search": "sleep",
        "test": False,
        "since": "2026-11-20T09:00:00Z",
        "overdue": False,
    }

    with_all = standing.as_caregiver(1).data(query, **given)
    with_null = standing.as_caregiver(1).data(query, **dict.fromkeys(given), after=None)
    with_none = standing.as_caregiver(1).data(query)

    assert with_all == {
        "sessions": {"totalCount": 2},
        "assignments": {"totalCount": 1},
        "came": {"totalCount": 1},
        "submissions": {"totalCount": 1},
        "clients": {"totalCount": 2},
        "books": {"totalCount": 1},
        "session": {"assignments": {"totalCount": 1}},
    }
    assert with_null == with_none
    assert with_none == {
        "sessions": {"totalCount": 4},
        "assignments": {"totalCount": 6},
        "came": {"totalCount": 6},
        "submissions": {"totalCount": 4},
        "clients": {"totalCount": 2},
        "books": {"totalCount": 4},
        "session": {"assignments": {"totalCount": 3}},
    }
