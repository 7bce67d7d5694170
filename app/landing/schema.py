"""The GraphQL schema as a page to read, made from its descriptions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from graphql import (
    GraphQLArgument,
    GraphQLInputField,
    GraphQLNamedType,
    GraphQLSchema,
    Undefined,
    get_named_type,
    is_enum_type,
    is_input_object_type,
    is_interface_type,
    is_introspection_type,
    is_object_type,
    is_scalar_type,
    print_ast,
)
from graphql.utilities import ast_from_value

from app.landing.markup import Html, document, inline, link, tag, together

INTRODUCTION = (
    "Every type of the GraphQL schema, in the words of its descriptions. `!` means never null, `[]` a list; "
    "an argument or a member without `!`, or with a value behind `=`, may be left out."
)


def schema_page(schema: GraphQLSchema) -> str:
    sections = list(sections_of(schema))
    return document(
        "Care Gateway: the schema",
        tag("a", "To the content", class_="skip", href="#content"),
        tag(
            "header",
            tag("p", link("/", "Care Gateway")),
            tag("h1", "The GraphQL schema"),
            tag("p", inline(INTRODUCTION)),
        ),
        tag(
            "main",
            tag("nav", *(contents(*each) for each in sections), aria_label="Types"),
            *(tag("section", tag("h2", title), *map(of_type, kinds)) for title, kinds in sections),
            id="content",
        ),
    )


def contents(title: str, kinds: Sequence[GraphQLNamedType]) -> Html:
    return tag("p", tag("strong", title), *(together(" ", linked(kind)) for kind in kinds))


def sections_of(schema: GraphQLSchema) -> Iterator[tuple[str, Sequence[GraphQLNamedType]]]:
    """What is asked for first, then what it is made of; each type stands once."""
    roots = [kind for kind in (schema.query_type, schema.mutation_type, schema.subscription_type) if kind]
    others = sorted(
        (kind for kind in schema.type_map.values() if not is_introspection_type(kind) and kind not in roots),
        key=lambda kind: kind.name,
    )
    yield "Where to begin", [*roots]
    objects = [kind for kind in others if is_object_type(kind) or is_interface_type(kind)]
    payloads = [kind for kind in objects if kind.name.endswith(("Payload", "UserError"))]
    pages = [kind for kind in objects if kind.name.endswith(("Connection", "Edge", "PageInfo"))]
    yield "Objects", [kind for kind in objects if kind not in payloads and kind not in pages]
    yield "What changes take", [kind for kind in others if is_input_object_type(kind)]
    yield "What changes answer", payloads
    yield "Pages of lists", pages
    yield "Enums", [kind for kind in others if is_enum_type(kind)]
    yield "Scalars", [kind for kind in others if is_scalar_type(kind)]


def of_type(kind: Any) -> Html:
    interfaces = [together(" is a ", linked(one)) for one in getattr(kind, "interfaces", ())]
    about = tag("small", *interfaces, class_="soft") if interfaces else Html("")
    return together(
        tag("h3", kind.name, about, id=kind.name),
        described(kind),
        *([listed(members_of(kind))] if not is_scalar_type(kind) else []),
    )


def members_of(kind: Any) -> Iterator[Html]:
    if is_enum_type(kind):
        each = ((name, tag("code", name), value) for name, value in kind.values.items())
    else:
        each = ((name, declared(name, field), field) for name, field in sorted(kind.fields.items()))
    for name, said, member in each:
        told = tag("dd", described(member), arguments(member))
        yield together(tag("dt", said, id=f"{kind.name}.{name}"), told)


def arguments(member: Any) -> Html:
    every = sorted(getattr(member, "args", {}).items())
    rows = (together(tag("dt", declared(name, given)), tag("dd", described(given))) for name, given in every)
    return listed(rows) if every else Html("")


def listed(rows: Iterable[Html]) -> Html:
    return tag("dl", *rows, class_="members")


def declared(name: str, member: Any) -> Html:
    """A field, an argument or a member of an input, as SDL declares it."""
    default = ""
    if isinstance(member, GraphQLArgument | GraphQLInputField):
        value = member.default_value
        if value is not Undefined and value is not None:
            default = f" = {print_ast(ast_from_value(value, member.type))}"  # type: ignore[arg-type]
    return tag("code", tag("b", name), ": ", linked(member.type), default)


def linked(kind: Any) -> Html:
    """A type with its brackets; its name leads to it."""
    name = get_named_type(kind).name
    before, _, after = str(kind).partition(name)
    return together(before, link(f"#{name}", name), after)


def described(thing: Any) -> Html:
    away = getattr(thing, "deprecation_reason", None)
    leaving = tag("p", "Deprecated: ", inline(away), class_="bad") if away else Html("")
    return together(tag("div", inline(thing.description or "")), leaving)
