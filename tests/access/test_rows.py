"""Every field, query, mutation, subscription, id and legacy path has a row in the access table."""

import dataclasses

import pytest
from graphql import GraphQLSchema, build_schema, print_schema

from tests.access.documents import SCHEMA, ids, leaves, links, roots
from tests.access.table import (
    ASSIGNMENTS,
    IDS,
    LEAVES,
    LINKS,
    MUTATIONS,
    PATHS,
    QUERIES,
    SESSIONS,
    SUBSCRIPTIONS,
)
from tests.callers import Gateway


def without_a_row(schema: GraphQLSchema) -> set[str]:
    """Elements of the schema without a row, and rows without an element."""
    fields = leaves(schema)
    named = {kind: set(names.split()) for kind, names in LEAVES.items()}
    return (
        {
            f"{kind}.{name}"
            for kind in fields | named
            for name in fields.get(kind, set()) ^ named.get(kind, set())
        }
        | (links(schema) ^ LINKS.keys())
        | (ids(schema) ^ IDS.keys())
        | (roots(schema, "query") ^ QUERIES.keys())
        | (roots(schema, "mutation") ^ MUTATIONS.keys())
        | (roots(schema, "subscription") ^ SUBSCRIPTIONS.keys())
    )


def test_everything_in_the_schema_has_a_row() -> None:
    assert without_a_row(SCHEMA) == set()


@pytest.mark.parametrize(
    ("name", "field", "missing"),
    [
        ("Session", "notes: String", {"Session.notes"}),
        ("Client", "sessions: SessionConnection!", {"Client.sessions"}),
        (
            "Caregiver",
            "clients(clientId: ID): [Client!]!",
            {"Caregiver.clients", "Caregiver.clients(clientId)"},
        ),
        ("Query", "drafts: [AnswerSet!]!", {"drafts"}),
        ("Query", "draft(id: ID!): AnswerSet", {"draft", "Query.draft(id)"}),
        ("Mutation", "eraseClient: String", {"eraseClient"}),
        ("Subscription", "draftSaved: AnswerSet", {"draftSaved"}),
        ("CloseSessionInput", "clientId: ID", {"CloseSessionInput.clientId"}),
    ],
)
def test_a_new_element_without_a_row_is_found(name: str, field: str, missing: set[str]) -> None:
    text = print_schema(SCHEMA)
    heads = [f"{word} {name}{end} {{" for word in ("type", "input") for end in ("", " implements Node")]
    [head] = [head for head in heads if head in text]

    changed = build_schema(text.replace(head, f"{head}\n  {field}\n"))

    assert without_a_row(changed) == missing


def test_every_legacy_path_has_a_row(world: Gateway) -> None:
    """Each path of the table supports exactly the methods of its rows."""
    methods: dict[str, set[str]] = {}
    for row in PATHS.values():
        methods.setdefault(row.path.partition("?")[0], set()).add(row.method)

    for path, named in methods.items():
        response = world.as_nobody().request("PATCH", path.replace("{1.reviewed}", "1"))
        assert set(response.headers["allow"].split(", ")) - {"HEAD"} == named
    assert methods.keys() == {SESSIONS, ASSIGNMENTS, f"{ASSIGNMENTS}/{{1.reviewed}}"}


def test_every_row_has_a_text_that_proves_it() -> None:
    """Without one, the row would pass for an empty response."""
    for row in (*LINKS.values(), *MUTATIONS.values(), *PATHS.values()):
        assert dataclasses.asdict(row)["shows"]
