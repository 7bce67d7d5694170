"""The schema as a page to read, made from its descriptions: one file, without scripts."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
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

STYLE = """
:root { color-scheme: light dark; --ink: #1c2523; --soft: #586662; --edge: #d5dbd8; --accent: #146c63;
  font: 16px/1.5 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e2e8e6; --soft: #9dada8; --edge: #35403d; --accent: #5cc4b5; }
}
body { max-width: 60rem; margin: 0 auto; padding: 1.5rem; color: var(--ink); background: Canvas; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
code { font: .92em/1.45 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
nav p { margin: .3rem 0; } nav a { margin-right: .6rem; }
h2 { margin-top: 3rem; border-bottom: 2px solid var(--edge); }
h3 { margin: 2rem 0 .2rem; } h3 small { font-weight: normal; color: var(--soft); }
dl { margin: .4rem 0 .4rem 1rem; padding-left: .8rem; border-left: 2px solid var(--edge); }
dt { margin-top: .6rem; } dd { margin: 0 0 0 1rem; } .away { color: #a5281f; }
:target { background: Mark; color: MarkText; }
"""
HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
INTRODUCTION = (
    "Every type of the GraphQL schema, in the words of its descriptions. `!` means never null, `[]` a list; "
    "an argument or a member without `!`, or with a value behind `=`, may be left out."
)


def reference(schema: GraphQLSchema) -> str:
    sections = list(sections_of(schema))
    contents = "".join(f"<p><b>{title}</b> {''.join(map(entry, kinds))}</p>" for title, kinds in sections)
    written = "".join(f"<h2>{title}</h2>{''.join(map(of_type, kinds))}" for title, kinds in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Care Gateway · schema</title><style>{STYLE}</style></head><body>"
        f"<h1>Care Gateway: the schema</h1><p>{prose(INTRODUCTION)}</p><nav>{contents}</nav>{written}"
        "</body></html>\n"
    )


def entry(kind: GraphQLNamedType) -> str:
    return f'<a href="#{kind.name}">{kind.name}</a> '


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


def of_type(kind: Any) -> str:
    interfaces = [linked(one) for one in getattr(kind, "interfaces", ())]
    about = f" <small>is a {', '.join(interfaces)}</small>" if interfaces else ""
    members: Iterable[tuple[str, str, Any]] = ()
    if is_enum_type(kind):
        members = ((name, f"<code>{name}</code>", value) for name, value in kind.values.items())
    elif not is_scalar_type(kind):
        members = ((name, declared(name, field), field) for name, field in sorted(kind.fields.items()))
    rows = "".join(
        f'<dt id="{kind.name}.{name}">{said}</dt><dd>{described(member)}{arguments(member)}</dd>'
        for name, said, member in members
    )
    return (
        f'<h3 id="{kind.name}">{kind.name}{about}</h3>{described(kind)}{f"<dl>{rows}</dl>" if rows else ""}'
    )


def arguments(member: Any) -> str:
    rows = "".join(
        f"<dt>{declared(name, given)}</dt><dd>{described(given)}</dd>"
        for name, given in sorted(getattr(member, "args", {}).items())
    )
    return f"<dl>{rows}</dl>" if rows else ""


def declared(name: str, member: Any) -> str:
    """A field, an argument or a member of an input, as SDL declares it."""
    default = ""
    if isinstance(member, GraphQLArgument | GraphQLInputField):
        value = member.default_value
        if value is not Undefined and value is not None:
            default = f" = {escape(print_ast(ast_from_value(value, member.type)))}"  # type: ignore[arg-type]
    return f"<code><b>{name}</b>: {linked(member.type)}{default}</code>"


def linked(kind: Any) -> str:
    name = get_named_type(kind).name
    return str(kind).replace(name, f'<a href="#{name}">{name}</a>')


def described(thing: Any) -> str:
    away = getattr(thing, "deprecation_reason", None)
    leaving = f'<p class="away">Deprecated: {prose(away)}</p>' if away else ""
    return f"<div>{prose(thing.description or '')}</div>{leaving}"


def prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
