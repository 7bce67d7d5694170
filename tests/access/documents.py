"""Reads the schema: the rows that the access table needs, and documents that select everything."""

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
from tests.access.table import ARGUMENTS, MUTATIONS, OBJECTS, QUERIES

SCHEMA: GraphQLSchema = schema_of_service(True)._schema
CONNECTIONS = ("Connection", "Edge")  # types between a field and its objects
VARIABLES = {root: "$id: ID!" for root in QUERIES} | {"nodes": "$ids: [ID!]!"}
RANDOM_PATH_COUNT = 24
STEPS = 5


# --- rows -------------------------------------------------------------------------------------------


def roots(schema: GraphQLSchema, operation: str) -> set[str]:
    kind: Any = getattr(schema, f"{operation}_type")
    return set(kind.fields)


def kinds(schema: GraphQLSchema) -> Iterator[GraphQLObjectType]:
    """The types of objects: without root types, connections and payloads."""
    operations = (schema.query_type, schema.mutation_type, schema.subscription_type)
    for name, kind in schema.type_map.items():
        is_other = name.startswith("__") or name.endswith((*CONNECTIONS, "Payload"))
        if isinstance(kind, GraphQLObjectType) and kind not in operations and not is_other:
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
    """Every argument and input member that is an id or a list of ids."""
    found = set()
    for kind in schema.type_map.values():
        if isinstance(kind, GraphQLObjectType) and not kind.name.startswith("__"):
            for name, field in kind.fields.items():
                found |= {
                    f"{kind.name}.{name}({each})" for each, argument in field.args.items() if is_id(argument)
                }
        elif isinstance(kind, GraphQLInputObjectType):
            found |= {f"{kind.name}.{each}" for each, member in kind.fields.items() if is_id(member)}
    return found


def is_id(argument: Any) -> bool:
    return get_named_type(argument.type).name == "ID"


# --- documents --------------------------------------------------------------------------------------


def reads() -> Iterator[tuple[str, str, str]]:
    """Every query with each type of its objects and each of their links."""
    for root, query in QUERIES.items():
        found = target(SCHEMA.query_type, root)
        if query.shows:
            yield root, "", ""
            continue
        for kind in [found.name] if not is_interface_type(found) else OBJECTS:
            for link in links_of(SCHEMA.type_map[kind]) or [""]:
                yield root, kind, link


def target(kind: Any, name: str) -> Any:
    """The type of the objects of a field, also below a connection."""
    found: Any = get_named_type(kind.fields[name].type)
    return get_named_type(found.fields["nodes"].type.of_type) if found.name.endswith(CONNECTIONS) else found


def document(root: str, kind: str, link: str) -> str:
    """A query with all fields of the objects, of those of the link, and of those one level below."""
    arguments = QUERIES[root].arguments
    head = f"query({VARIABLES[root]}) " if QUERIES[root].ids else ""
    if not kind:
        return f"{{ {root}{arguments} }}"
    found = SCHEMA.type_map[kind]
    below = f"{scalars(found)} {link_fields(found, link, fields_and_links) if link else ''}"
    if is_interface_type(target(SCHEMA.query_type, root)):
        below = f"__typename ... on {kind} {{ {below} }}"
    return f"{head}{{ {root}{arguments} {{ {in_connection(SCHEMA.query_type, root, below)} }} }}"


def link_fields(kind: Any, link: str, below: Any) -> str:
    arguments = ARGUMENTS.get(f"{kind.name}.{link}", "")
    return f"{link}{arguments} {{ {in_connection(kind, link, below(target(kind, link)))} }}"


def in_connection(kind: Any, name: str, below: str) -> str:
    found: Any = get_named_type(kind.fields[name].type)
    if not found.name.endswith(CONNECTIONS):
        return below
    info = "pageInfo { endCursor startCursor hasNextPage } totalCount edges { cursor node { id } }"
    return f"{info} nodes {{ {below} }}"


def scalars(kind: Any) -> str:
    return " ".join(["__typename", *leaves_of(kind)])


def fields_and_links(kind: Any) -> str:
    return " ".join([scalars(kind), *(link_fields(kind, link, scalars) for link in links_of(kind))])


def mutation_document(name: str) -> str:
    """A mutation with all fields of its payload and of the objects below."""
    kind: Any = SCHEMA.mutation_type
    payload = get_named_type(kind.fields[name].type)
    assert name in MUTATIONS
    below = " ".join(
        [scalars(payload), *(link_fields(payload, link, fields_and_links) for link in links_of(payload))]
    )
    return f"mutation($input: {name[0].upper()}{name[1:]}Input!) {{ {name}(input: $input) {{ {below} }} }}"


def random_paths() -> Iterator[tuple[str, str]]:
    """Random deep selections: the type of an object, and the fields below it."""
    rng = Random(7)
    types = [name for name in OBJECTS if links_of(SCHEMA.type_map[name])]
    for _ in range(RANDOM_PATH_COUNT):
        kind = rng.choice(types)
        yield kind, random_path(rng, SCHEMA.type_map[kind], STEPS)


def random_path(rng: Random, kind: Any, steps: int) -> str:
    if not steps or not links_of(kind):
        return scalars(kind)
    link = rng.choice(links_of(kind))
    return f"{scalars(kind)} {link_fields(kind, link, lambda found: random_path(rng, found, steps - 1))}"
