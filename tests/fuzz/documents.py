"""Valid and invalid GraphQL documents for the schema, with existing ids."""

import json
from collections.abc import Sequence
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLSchema,
    StringValueNode,
    get_named_type,
    get_nullable_type,
    is_list_type,
)
from hypothesis import strategies as st
from hypothesis_graphql import Mode, from_schema
from hypothesis_graphql import queries as queries_of

from app.main import schema_of_service
from tests.engine.queries import operations
from tests.fuzz.world import SESSIONS
from tests.schema.worlds import global_id, in_base64

SCHEMA = schema_of_service(True)._schema
KINDS = ("Session", "Assignment", "AnswerSet", "Book", "Question", "Client", "Caregiver")
NUMBERS = st.one_of(st.integers(1, 3 * SESSIONS), st.integers(1, 8))
BAD_IDS = [
    *("", "0", "-1", "01", "1.0", " 1", "1\n", "١", "abc", "9" * 18, "9" * 19, "9" * 40, str(2**63), "\x00"),
    *(global_id("Assignment", -1), global_id("Nothing", 1), in_base64("Session"), in_base64("Session:x")),
    *(in_base64(f"Session:{2**63}"), in_base64("Session:1:1"), "U2Vzc2lvbjox=", "====", "é", "\ud7ff"),
]
IDS = st.one_of(
    NUMBERS.map(str), st.builds(global_id, st.sampled_from(KINDS), NUMBERS), st.sampled_from(BAD_IDS)
)
MOMENTS = st.sampled_from(
    [
        *(
            "2026-11-21T09:00:00Z",
            "2026-11-22T09:00:00+01:00",
            "2026-11-23T08:00:00.123456Z",
            "2026-11-25T00:00:00Z",
        ),
        *(
            "1900-01-01T00:00:00Z",
            "2999-12-31T23:59:59Z",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-12:00",
        ),
        *(
            "2026-W01",
            "2026-11-21",
            "2026-11-21T09:00:00",
            "2026-02-30T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "",
            "\x00",
        ),
        *(
            "2026-11-21T09:00:00+99:99",
            "2026-11-21T23:59:60Z",
            "२०२६-११-२१T०९:००:००Z",
            "-2026-11-21T09:00:00Z",
        ),
    ]
)
SCALARS = {
    "ID": IDS.map(lambda value: StringValueNode(value=value)),
    "DateTime": MOMENTS.map(lambda value: StringValueNode(value=value)),
    "Date": st.just(StringValueNode(value="2026-11-21")),
}
TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "\x00", "true", "7.5", "1", "1\n2", "x" * 10_001, "Zoë 😀", "\u202e", "'; --", '"*']
    ),
    st.text(max_size=20),
)
INTS = st.one_of(st.integers(-2, 60), st.sampled_from([2**31 - 1, -(2**31), 10**6]))
JSON = st.recursive(
    st.one_of(
        *(
            st.none(),
            st.booleans(),
            TEXTS,
            IDS,
            INTS,
            st.sampled_from([2**31, 2**53 + 1, 2**63, 2**64 - 1, 0.1, 1e308, -0.0]),
        )
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "input", "", "__proto__", "answers", "$"]), inner, max_size=3),
    ),
    max_leaves=6,
)

# --- documents by hypothesis-graphql ---------------------------------------------------------------


def listening() -> GraphQLSchema:
    """The schema with subscriptions as queries: hypothesis-graphql generates only queries."""
    config = SCHEMA.to_kwargs()
    config["query"], config["mutation"], config["subscription"] = SCHEMA.subscription_type, None, None
    return GraphQLSchema(**config)


# Made when the first is drawn: that takes longer than collecting a hundred tests.
VALID = st.deferred(lambda: from_schema(SCHEMA, custom_scalars=SCALARS))
WRONG = st.deferred(lambda: from_schema(SCHEMA, custom_scalars=SCALARS, mode=Mode.NEGATIVE))
SUBSCRIPTIONS = st.deferred(lambda: queries_of(listening(), custom_scalars=SCALARS)).map(
    lambda text: f"subscription {text}"
)

# --- documents with variables ----------------------------------------------------------------------

POOL: dict[str, Sequence[Any]] = {
    "ID": [str(number) for number in range(1, 9)]
    + [global_id(kind, number) for kind in KINDS for number in (1, 2, 11)]
    + BAD_IDS[:6],
    "DateTime": ["2026-11-01T00:00:00Z", "2026-11-21T09:00:00+01:00"],
    "Boolean": [True, False],
    "first": [0, 1, 2, 5, 100, 101, -1],
    "offset": [0, 1, 149, 10**6, 2**31 - 1],
    "after": [in_base64("Session:3"), in_base64("Assignment:100"), "", "x", in_base64("Session")],
    "search": ["Book", "", "%", '"', "\x00", "b*"],
}
QUERIES = operations(SCHEMA, POOL)


def given_for(kind: Any) -> st.SearchStrategy[Any]:
    """A value for an input type, nearly always of the right type."""
    bare = get_nullable_type(kind)
    if is_list_type(bare):
        inner = st.lists(given_for(bare.of_type), max_size=4)
        return inner if bare is not kind else st.one_of(inner, st.none())
    named = get_named_type(bare)
    if isinstance(named, GraphQLInputObjectType):
        return given_object(named)
    if isinstance(named, GraphQLEnumType):
        return st.sampled_from(sorted(named.values))
    return {"ID": IDS, "DateTime": MOMENTS, "Int": INTS, "Boolean": st.booleans()}.get(named.name, TEXTS)


def given_object(kind: GraphQLInputObjectType) -> st.SearchStrategy[dict[str, Any]]:
    value = {name: given_for(field.type) for name, field in kind.fields.items()}
    optional = {name for name, field in kind.fields.items() if get_nullable_type(field.type) is field.type}
    return st.fixed_dictionaries(
        {name: value for name, value in value.items() if name not in optional},
        optional={name: st.one_of(value[name], st.none()) for name in sorted(optional)},
    )


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A mutation with its input as a variable, sometimes with another value inside."""
    assert SCHEMA.mutation_type is not None
    name = draw(st.sampled_from(sorted(SCHEMA.mutation_type.fields)))
    kind = get_named_type(SCHEMA.mutation_type.fields[name].args["input"].type)
    value = draw(given_object(kind))
    if draw(st.integers(0, 3)) == 0:
        value[draw(st.sampled_from(sorted(kind.fields)))] = draw(JSON)
    text = f"($input: {kind.name}!) {{ {name}(input: $input) {{ userErrors {{ code field message }} }} }}"
    return f"mutation{text}", {"input": value}


@st.composite
def with_variables(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    request = draw(QUERIES)
    variables = dict(request.variables)
    for name in draw(st.lists(st.sampled_from([*variables, "other"]), max_size=2)):
        variables[name] = draw(JSON)
    return request.text, variables


# --- documents that are none -----------------------------------------------------------------------

PIECES = [
    *(
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "...",
        "@skip(if: true)",
        "@include",
        "$x",
        ":",
        "!",
        "|",
        "&",
        "=",
        '"',
        '"""',
        "#",
        ",",
    ),
    *(
        "fragment a on Query { ...a }",
        "...a",
        "query Q { viewer { role } }",
        "subscription",
        "mutation",
        "on",
        "null",
    ),
    *(
        "__typename",
        "__schema { types { name } }",
        '__type(name: "Query") { name }',
        "\ufeff",
        "\x00",
        "\ud7ff",
        "é",
    ),
    *(
        '"\\ud800"',
        '"\\u{110000}"',
        '"\\u{D83D}"',
        "1e999",
        "-0",
        "0x1",
        "9" * 5000,
        "{ " * 300,
        "@a" * 50,
        "type A { b: C }",
    ),
]


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A valid document with a part removed, inserted or repeated."""
    text = draw(st.one_of(VALID, QUERIES.map(lambda request: request.text)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 3, 20])))
        put = draw(st.one_of(st.sampled_from([*PIECES, text[start : start + 30]]), st.text(max_size=3)))
        text = text[:start] + put + text[end:]
    return text


# --- requests --------------------------------------------------------------------------------------


def posted(query: Any, variables: Any = None, **more: Any) -> bytes:
    return json.dumps({"query": query, "variables": variables, **more}).encode()


MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "query": st.one_of(
            JSON,
            st.just("{ viewer { role } }"),
            st.just("query A { viewer { role } } query B { books { totalCount } }"),
        ),
        "variables": JSON,
        "operationName": st.one_of(JSON, st.sampled_from(["A", "B", "C", ""])),
        "extensions": JSON,
        "documentId": JSON,
    },
)
BODIES = st.one_of(
    *[VALID.map(posted)] * 4,
    WRONG.map(posted),
    SUBSCRIPTIONS.map(posted),
    *[changes().map(lambda value: posted(*value))] * 3,
    *[with_variables().map(lambda value: posted(*value))] * 3,
    broken().map(posted),
    MEMBERS.map(lambda value: json.dumps(value).encode()),
    st.one_of(JSON.map(lambda value: json.dumps(value).encode()), st.binary(max_size=40)),
    st.tuples(VALID.map(posted), st.integers(0, 400), st.binary(max_size=3)).map(
        lambda value: value[0][: value[1]] + value[2] + value[0][value[1] :]
    ),
)
