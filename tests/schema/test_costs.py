"""Promise: the cost of an operation follows its page sizes, as literals or variables. The documents of the
service and of common clients are far below every limit."""

import json
from math import ceil
from typing import Any

import pytest
from graphql import get_introspection_query, introspection_from_schema
from hypothesis import given
from hypothesis import strategies as st

from app.dev.graphiql import EXAMPLES
from app.engine.costs import REPEATED_BYTES, introspection_weights
from app.main import schema_of_service
from app.rest_compat import routes
from app.schema.schema import Schema, engine_options_of
from app.schema.weights import WEIGHTS
from app.settings import Environment, Settings

SCHEMA: Schema = schema_of_service(True, engine_options_of(Settings(env=Environment.DEVELOPMENT)))


def cost(text: str, name: str | None = None, **variables: Any) -> int:
    """Checks that the document is valid and within all limits."""
    document = SCHEMA.read(text)
    assert SCHEMA.errors_in(document) == []
    found = document.costs(name)
    assert found is not None
    return found.points(variables)


COSTS = {
    # one point per field
    "{ viewer { role timeZone } }": 3,
    # 10 for a list, plus its rows
    "{ sessions { nodes { id } } }": 10 + 1 + 20,
    "{ sessions(first: 5) { nodes { id title } } }": 10 + 1 + 5 * 2,
    # an average length is no bound where a list leads back to itself
    "{ assignment(id: 1) { answerSets { assignment { answerSets { id } } } } }": 5 + 1 + 2 * (1 + 1 + 100),
    "{ assignment(id: 1) { answerSets { assignment { feedbacks { answerSet { assignment {"
    " answerSets { id } } } } } } } }": 5 + 1 + 2 * (1 + 1 + 2 * (1 + 1 + 1 + 100)),
    "{ sessions(first: 5) { nodes { id description } } }": 10 + 1 + 5 * (1 + 10),
    "{ sessions(first: 5) { edges { cursor node { id } } } }": 10 + 1 + 5 * (1 + 2),
    "{ sessions(first: 5) { totalCount pageInfo { endCursor } } }": 10 + 10 + 2,
    "{ sessions(first: null) { nodes { id } } }": 10 + 1 + 20,
    "{ sessions(first: 100000) { nodes { id } } }": 10 + 1 + 100,
    "{ sessions(first: -1) { nodes { id } } }": 10 + 1 + 1,
    "{ sessions(first: 4) { nodes { assignments(first: 3) { nodes { id } } } } }": 11 + 4 * (11 + 3),
    # lists without pages
    "{ assignment(id: 1) { answerSets { answers { answer } } } }": 5 + 1 + 2 * (1 + 10),
    '{ nodes(ids: ["1", "2", "3"]) { id } }': 10 + 3,
    # a repeated field counts once
    "{ viewer { role role } ...F } fragment F on Query { viewer { role timeZone } }": 3,
    "{ viewer { role } again: viewer { role } }": 4,
    "{ sessions(first: 5) { ...F ...F totalCount } } fragment F on SessionConnection { nodes { id } }": (
        10 + (1 + 5) + 10
    ),
    # a fragment without a type is of the type around it
    "{ ... { sessions(first: 5) { ... { nodes { ... { id description } } } } } }": 10 + 1 + 5 * (1 + 10),
    # a conditional field counts
    "query($a: Boolean!) { viewer { role @include(if: $a) } }": 2,
    # a type name beside other fields is free
    "{ sessions(first: 5) { __typename nodes { __typename id } } }": 10 + 1 + 5,
    "{ node(id: 1) { __typename id ... on Session { __typename } } }": 5 + 1,
    # but not alone, and not under another name
    "{ __typename viewer { __typename } }": 1 + 1,
    "{ sessions(first: 5) { nodes { __typename ... on Session { __typename } } } }": 10 + 1 + 5,
    "{ viewer { role a: __typename b: __typename __typename: role } }": 1 + 4,
    "{ node(id: 1) { ... on Session { title } ... on Book { name } } }": 5 + 2,
    # fields of several types count each, also under one name
    "{ node(id: 1) { ... on Book { text: name } ... on Session { text: description } } }": 5 + 1 + 10,
    "{ node(id: 1) { ... on Session { of: client { id } } ... on Assignment { of: client { id name } } } }": 5
    + (1 + 1)
    + (1 + 2),
    "{ ownData }": 10_000,
    "{ viewer { lastEventId } }": 1 + 5,
    "{ assignment(id: 1) { feedbacks { text } } }": 5 + 1 + 2 * 10,
    "{ assignment(id: 1) { reminders { id } } }": 5 + 1 + 3,
    "{ book(id: 1) { questions { text options } } }": 5 + 1 + 10 * (1 + 5),
    "{ session(id: 1) { scoreHistory(bookId: 1) { score } } }": 5 + 50 + 10,
    "{ clients(first: 1) { nodes { scoreHistory(bookId: 1) { score } } } }": 11 + 50 + 10,
    # reads all homework of each client
    "{ clients { nodes { progress { assignmentCount } } } }": 10 + 1 + 20 * (300 + 1),
    "{ sessions(first: 5) { nodes { progress { completion { week } } } } }": 11 + 5 * (100 + 5 + 25),
    "{ sessions(orderBy: STARTS_SOONEST) { nodes { id } } }": 10 + 1 + 20,
    "mutation { closeSession(input: {sessionId: 1}) { session { id } userErrors { code } } }": 50 + 2 + 2,
    "subscription { assignmentChanged { id } }": 10 + 1,
}


@pytest.mark.parametrize("text", COSTS)
def test_the_cost_of_an_operation(text: str) -> None:
    assert cost(text) == COSTS[text]


sizes = st.one_of(st.none(), st.integers(-5, 150))


@given(outer=sizes, inner=sizes)
def test_page_sizes_cost_the_same_as_literals_and_variables(outer: int | None, inner: int | None) -> None:
    text = "{ sessions(first: %s) { nodes { id assignments(first: %s) { totalCount nodes { id name } } } } }"
    query = "query($outer: Int, $inner: Int) " + text % ("$outer", "$inner")

    assert cost(query, outer=outer, inner=inner) == cost(text % (json.dumps(outer), json.dumps(inner)))
    both = cost("query($n: Int) " + text % ("$n", "$n"), n=outer)
    assert both == cost(text % (json.dumps(outer), json.dumps(outer)))


@given(st.one_of(sizes, st.just("absent")))
def test_a_missing_variable_costs_its_default(size: int | str | None) -> None:
    variables = {} if size == "absent" else {"n": size}
    written = 7 if size == "absent" else size

    assert cost("query($n: Int = 7) { clients(first: $n) { nodes { id } } }", **variables) == cost(
        f"{{ clients(first: {json.dumps(written)}) {{ nodes {{ id }} }} }}"
    )


@pytest.mark.parametrize("number", [0, 1, 3, 100, 101])
def test_ids_cost_the_same_as_literals_and_variables(number: int) -> None:
    ids = [str(each) for each in range(number)]

    assert cost("query($ids: [ID!]!) { nodes(ids: $ids) { id } }", ids=ids) == cost(
        f"{{ nodes(ids: {json.dumps(ids)}) {{ id }} }}"
    )


def test_a_single_value_costs_the_same_as_a_list_of_one() -> None:
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }"

    assert cost(query, ids="1") == cost('{ nodes(ids: "1") { id } }') == cost('{ nodes(ids: ["1"]) { id } }')


def test_a_whole_number_written_with_a_fraction_costs_the_same() -> None:
    query = "query($n: Int, $ids: [ID!]!) { clients(first: $n) { nodes { id } } nodes(ids: $ids) { id } }"

    assert cost(query, n=50.0, ids="1") == cost(query, n=50, ids=["1"]) == 10 + 1 + 50 + 10 + 1


@pytest.mark.parametrize("value", ["20", True, {}, 1e300, float("nan"), [[]]])
def test_a_variable_of_a_wrong_type_has_a_cost(value: Any) -> None:
    """Coercion rejects it later."""
    assert cost("query($n: Int) { clients(first: $n) { nodes { id } } }", n=value) > 10


def test_each_operation_of_a_document_has_its_own_cost() -> None:
    text = "query A { viewer { role } } query B { viewer { role timeZone } }"

    assert [cost(text, "A"), cost(text, "B")] == [2, 3]


def test_every_weight_belongs_to_a_field() -> None:
    types: Any = SCHEMA._schema.type_map

    for name, weight in WEIGHTS.items():
        kind, field = name.split(".")
        assert types[kind].fields[field].extensions["cost"] is weight


def test_lists_of_introspection_cost_their_average_length() -> None:
    schema: Any = introspection_from_schema(SCHEMA._schema)["__schema"]
    types, directives = schema["types"], schema["directives"]
    fields = [field for kind in types for field in kind["fields"] or ()]
    counts = {
        member: sum(len(kind[member] or ()) for kind in types)
        for member in ("fields", "inputFields", "enumValues", "interfaces", "possibleTypes")
    }
    arguments = sum(len(each["args"]) for each in (*fields, *directives))

    assert {name: weight.objects for name, weight in introspection_weights(SCHEMA._schema).items()} == {
        "types": len(types),
        "directives": len(directives),
        "args": arguments / (len(fields) + len(directives)),
        **{member: count / len(types) for member, count in counts.items()},
        "ofType": 0.6,
    }
    assert cost('{ __type(name: "Query") { fields { name } } }') == ceil(1 + 1 + len(fields) / len(types))


def test_progress_is_within_the_limit_for_a_default_page_but_not_for_100_clients() -> None:
    """It reads all homework of a client, which is not limited."""
    progress = "progress { assignmentCount overdueAssignmentCount completion { week assigned completed } }"
    limit = Settings(env=Environment.DEVELOPMENT).cost_limit

    assert cost(f"{{ clients {{ nodes {{ name {progress} }} }} }}") < limit / 1.5
    assert cost(f"{{ clients(first: 100) {{ nodes {{ name {progress} }} }} }}") > 2 * limit
    assert cost("{ clients(first: 100) { nodes { progress { assignmentCount } } } }") > 2 * limit


# --- usual documents -------------------------------------------------------------------------------

OWN = [(each.query, json.loads(each.variables or "{}")) for each in EXAMPLES] + [
    (document, {"first": 100})
    for document in (
        routes.CLIENT_SESSIONS,
        routes.CAREGIVER_ASSIGNMENTS,
        routes.CAREGIVER_ASSIGNMENT,
        routes.ASSIGN_HOMEWORK,
    )
]
OF_TYPES = "{ kind name ofType " * 16 + "{ kind name }" + " }" * 16  # some tools nest more than graphql-js
INTROSPECTION = [
    get_introspection_query(),
    get_introspection_query(descriptions=False),
    f"{{ __schema {{ types {{ fields {{ args {{ type {OF_TYPES} }} type {OF_TYPES} }} }} }} }}",
    get_introspection_query(
        specified_by_url=True,
        directive_is_repeatable=True,
        schema_description=True,
        input_value_deprecation=True,
    ),
]
PARTS = 30
OF_COMPONENTS = (
    "query Page($first: Int) { sessions(first: $first) { edges { cursor node { __typename id "
    + " ".join(f"...Part{number}" for number in range(PARTS))
    + " } } pageInfo { hasNextPage endCursor } } } "
    + " ".join(
        f"fragment Part{number} on Session {{ __typename id title client {{ __typename id name }} }}"
        for number in range(PARTS)
    )
)
COUNTED = " ".join(
    f"c{number}: assignments(clientId: {number}, first: 1) {{ totalCount nodes {{ id name status }} }}"
    for number in range(40)
)
DASHBOARD = f"{{ {COUNTED} }}"


def operation_name(text: str) -> str | None:
    [operation] = [each for each in SCHEMA.read(text).ast.definitions if hasattr(each, "operation")]
    return operation.name.value if operation.name else None


@pytest.mark.parametrize("text", [*INTROSPECTION, OF_COMPONENTS, DASHBOARD, *(text for text, _ in OWN)])
def test_usual_documents_cost_far_less_than_the_limit(text: str) -> None:
    variables = dict(OWN).get(text, {})

    assert cost(text, operation_name(text), **variables) < 10_000


# --- the longest response ---------------------------------------------------------------------------


def length(text: str, **variables: Any) -> int:
    found = SCHEMA.read(text).costs(None)
    assert found is not None
    return found.bytes(variables)


def test_the_expected_length_of_a_response_is_that_of_its_longest_texts() -> None:
    assert length("{ viewer { role } }") == 200
    assert length("{ ownData }") == 16 * 1024 * 1024
    assert length("{ session(id: 1) { title } }") == 100 + 6 * 200
    assert length("{ book(id: 1) { questions { text options } } }") == 100 + 100 + 10 * (2000 + 2000)
    assert length("{ assignment(id: 1) { feedbacks { text } } }") == 100 + 100 + 2 * 60_000
    answers = "{ assignment(id: 1) { answerSets { answers { questionText answer } } } }"
    assert length(answers) == 100 + 100 + 2 * (100 + 10 * (2000 + 26_000))
    assert length("{ session(id: 1) { id description } }") == 100 + 100 + 60_000
    assert length("{ sessions(first: 5) { nodes { description } } }") == 100 + 100 + 5 * 60_000
    paged = "query($n: Int) { sessions(first: $n) { nodes { description } } }"
    assert length(paged, n=7) == 100 + 100 + 7 * 60_000


@pytest.mark.parametrize(
    "text",
    [
        "{ session(id: 1) { description again: description } }",
        "{ session(id: 1) { ...A ...B } } fragment A on Session { description }"
        " fragment B on Session { again: description }",
        "{ a: session(id: 1) { id } b: session(id: 1) { id } }",
    ],
)
def test_a_response_that_repeats_its_data_has_any_length(text: str) -> None:
    assert length(text) >= REPEATED_BYTES


def test_a_field_that_is_merged_or_of_another_type_is_not_repeated() -> None:
    once = length("{ session(id: 1) { description } }")
    on_types = "{ node(id: 1) { ... on Book { module { id } } ... on Assignment { of: module { id } } } }"

    assert length(on_types) == 100 + 2 * (100 + 100)

    assert length("{ session(id: 1) { description } session(id: 1) { description } }") == once
