"""Promise: a document has the errors that graphql-core finds in it, and validation leaves nothing behind."""

import gc

import graphql
import pytest
from graphql import GraphQLError, parse, specified_rules

from app.engine.documents import validate
from tests.engine.library import PLAIN

DOCUMENTS = {
    "valid": "query ($n: Int) { volume { title excerpt(length: $n) ...F } } fragment F on Volume { code }",
    "an unknown field": "{ volume { titel } }",
    "wrong variables": "query ($n: String, $m: Int) { volume { excerpt(length: $n) ...F } }"
    " fragment F on Volume { part: excerpt(length: $missing) }",
    "a description": '"text" query { nothing }',
    "a circle": "{ volume { ...F } } fragment F on Volume { author { ...G } } fragment G on Author { ...G }",
    "conflicts": "{ volume { a: title a: code } }",
    "nested fragments": "{ volume { ...F0 } } fragment F1000 on Volume { title } "
    + " ".join(f"fragment F{n} on Volume {{ ...F{n + 1} }}" for n in range(1000)),
    "too many errors": "{ " + " ".join(f"nothing{number}" for number in range(20)) + " }",
}


def written(errors: list[GraphQLError]) -> list[object]:
    return [(type(error), error.formatted) for error in errors]


@pytest.mark.parametrize("hides_suggestions", [False, True])
@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_the_errors_are_those_of_graphql_core(text: str, hides_suggestions: bool) -> None:
    schema, document = PLAIN._schema, parse(text)

    found = validate(schema, document, specified_rules, 10, hides_suggestions)

    assert written(found) == written(
        graphql.validate(schema, document, specified_rules, 10, hide_suggestions=hides_suggestions)
    )


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_validation_leaves_no_reference_cycles(text: str) -> None:
    document = parse(text)
    validate(PLAIN._schema, document, specified_rules, 10, False)
    gc.collect()
    gc.disable()
    try:
        validate(PLAIN._schema, document, specified_rules, 10, False)
        assert gc.collect() == 0
    finally:
        gc.enable()
