"""Every part of the service has a row in the table; an added field, link, query, mutation, subscription or
path without a row is reported."""

import dataclasses

import pytest
from graphql import GraphQLSchema, build_schema, print_schema

from tests.access.documents import SCHEMA, ids, leaves, links, roots
from tests.access.table import (
    ASSIGNMENTS,
    CHANGES,
    IDS,
    LEAVES,
    LINKS,
    PATHS,
    QUESTIONS,
    SESSIONS,
    SUBSCRIPTIONS,
)
from tests.callers import Gateway


def without_a_row(schema: GraphQLSchema) -> set[str]:
    """The parts that only the schema or only the table has."""
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
        | (roots(schema, "query") ^ QUESTIONS.keys())
        | (roots(schema, "mutation") ^ CHANGES.keys())
        | (roots(schema, "subscription") ^ SUBSCRIPTIONS.keys())
    )


def test_every_part_of_the_schema_has_a_row() -> None:
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
def test_a_new_part_without_a_row_is_reported(name: str, field: str, missing: set[str]) -> None:
    text = print_schema(SCHEMA)
    heads = [f"{word} {name}{end} {{" for word in ("type", "input") for end in ("", " implements Node")]
    [head] = [head for head in heads if head in text]

    planted = build_schema(text.replace(head, f"{head}\n  {field}\n"))

    assert without_a_row(planted) == missing


def test_every_legacy_path_has_a_row(world: Gateway) -> None:
    """Each path of the table accepts exactly the methods of its rows."""
    methods: dict[str, set[str]] = {}
    for row in PATHS.values():
        methods.setdefault(row.path.partition("?")[0], set()).add(row.method)

    for path, named in methods.items():
        answer = world.as_anonymous().request("PATCH", path.replace("{1.judged}", "1"))
        assert set(answer.headers["allow"].split(", ")) - {"HEAD"} == named
    assert methods.keys() == {SESSIONS, ASSIGNMENTS, f"{ASSIGNMENTS}/{{1.judged}}"}


def test_rows_have_distinct_names() -> None:
    """A value that appears everywhere proves nothing."""
    for row in (*LINKS.values(), *CHANGES.values(), *PATHS.values()):
        assert dataclasses.asdict(row)["shows"]
