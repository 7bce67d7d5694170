"""Documents generated from the schema, and the rows that the table must have for it."""

from collections.abc import Iterator
from random import Random
from typing import Any

from graphql import (
    GraphQLInputObjectType,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    is_composite_type,
    is_interface_type,
)

from app.main import schema_of_service
from tests.access.table import CHANGES, GIVEN, OBJECTS, QUESTIONS

SCHEMA: GraphQLSchema = schema_of_service(True)._schema
PARTS = ("Connection", "Edge")  # of the way to an object, and none themselves
SAID = {root: "$id: ID!" for root in QUESTIONS} | {"nodes": "$ids: [ID!]!"}
WALKS = 24
STEPS = 5


# --- rows -------------------------------------------------------------------------------------------


def roots(schema: GraphQLSchema, operation: str) -> set[str]:
    kind: Any = getattr(schema, f"{operation}_type")
    return set(kind.fields)


def kinds(schema: GraphQLSchema) -> Iterator[GraphQLObjectType]:
    """The object types that a person reads, without roots, parts and payloads."""
    operations = (schema.query_type, schema.mutation_type, schema.subscription_type)
    for name, kind in schema.type_map.items():
        is_part = name.startswith("__") or name.endswith((*PARTS, "Payload"))
        if isinstance(kind, GraphQLObjectType) and kind not in operations and not is_part:
            yield kind


def leaves(schema: GraphQLSchema) -> dict[str, set[str]]:
    return {kind.name: set(leaves_of(kind)) for kind in kinds(schema)}


def links(schema: GraphQLSchema) -> set[str]:
    return {f"{kind.name}.{name}" for kind in kinds(schema) for name in links_of(kind)}


def leaves_of(kind: Any) -> list[str]:
    return [name for name, field in kind.fields.items() if not is_composite_type(get_named_type(field.type))]


def links_of(kind: Any) -> list[str]:
    return [name for name, field in kind.fields.items() if is_composite_type(get_named_type(field.type))]


def ids(schema: GraphQLSchema) -> set[str]:
    """Every argument and every input member that takes one or several ids."""
    found = set()
    for kind in schema.type_map.values():
        if isinstance(kind, GraphQLObjectType) and not kind.name.startswith("__"):
            for name, field in kind.fields.items():
                found |= {f"{kind.name}.{name}({each})" for each, given in field.args.items() if is_id(given)}
        elif isinstance(kind, GraphQLInputObjectType):
            found |= {f"{kind.name}.{each}" for each, given in kind.fields.items() if is_id(given)}
    return found


def is_id(given: Any) -> bool:
    return get_named_type(given.type).name == "ID"


# --- documents --------------------------------------------------------------------------------------


def links_from_roots() -> Iterator[tuple[str, str, str]]:
    """Root, kind of object and link: every link of every object that a root leads to."""
    for root, question in QUESTIONS.items():
        found = target(SCHEMA.query_type, root)
        if question.shows:
            yield root, "", ""
            continue
        for kind in [found.name] if not is_interface_type(found) else OBJECTS:
            for link in links_of(SCHEMA.type_map[kind]) or [""]:
                yield root, kind, link


def target(kind: Any, name: str) -> Any:
    """The object types that a field leads to through any parts."""
    found: Any = get_named_type(kind.fields[name].type)
    return get_named_type(found.fields["nodes"].type.of_type) if found.name.endswith(PARTS) else found


def document(root: str, kind: str, link: str) -> str:
    """All members of the objects at the root, of the linked objects, and one step further."""
    question = QUESTIONS[root]
    head = f"query({SAID[root]}) " if question.ids else ""
    if not kind:
        return f"{{ {root}{question.given} }}"
    found = SCHEMA.type_map[kind]
    below = f"{scalars_of(found)} {step(found, link, members_of) if link else ''}"
    if is_interface_type(target(SCHEMA.query_type, root)):
        below = f"__typename ... on {kind} {{ {below} }}"
    return f"{head}{{ {root}{question.given} {{ {through(SCHEMA.query_type, root, below)} }} }}"


def step(kind: Any, link: str, below: Any) -> str:
    given = GIVEN.get(f"{kind.name}.{link}", "")
    return f"{link}{given} {{ {through(kind, link, below(target(kind, link)))} }}"


def through(kind: Any, name: str, below: str) -> str:
    found: Any = get_named_type(kind.fields[name].type)
    if not found.name.endswith(PARTS):
        return below
    info = "pageInfo { endCursor startCursor hasNextPage } totalCount edges { cursor node { id } }"
    return f"{info} nodes {{ {below} }}"


def scalars_of(kind: Any) -> str:
    return " ".join(["__typename", *leaves_of(kind)])


def members_of(kind: Any) -> str:
    return " ".join([scalars_of(kind), *(step(kind, link, scalars_of) for link in links_of(kind))])


def mutation_document(change: str) -> str:
    """A mutation with every member of its payload."""
    kind: Any = SCHEMA.mutation_type
    payload = get_named_type(kind.fields[change].type)
    assert change in CHANGES
    below = " ".join([scalars_of(payload), *(step(payload, link, members_of) for link in links_of(payload))])
    return (
        f"mutation($input: {change[0].upper()}{change[1:]}Input!) {{ {change}(input: $input) {{ {below} }} }}"
    )


def walks() -> Iterator[tuple[str, str]]:
    """Random paths through the links of an object: a kind, and the selection below it."""
    rng = Random(7)
    ways = [name for name in OBJECTS if links_of(SCHEMA.type_map[name])]
    for _ in range(WALKS):
        kind = rng.choice(ways)
        yield kind, walk(rng, SCHEMA.type_map[kind], STEPS)


def walk(rng: Random, kind: Any, steps: int) -> str:
    if not steps or not links_of(kind):
        return scalars_of(kind)
    link = rng.choice(links_of(kind))
    return f"{scalars_of(kind)} {step(kind, link, lambda found: walk(rng, found, steps - 1))}"
