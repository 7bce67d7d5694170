"""Promise: prepared or not, the same operations are found and rejected."""

from typing import Any

import pytest
from graphql import get_introspection_query
from strawberry.types.graphql import OperationType

from tests.engine.library import (
    PLAIN,
    PREPARING,
    LibraryContext,
    PlainObject,
    a_volume,
    an_author,
    execute_both,
    outcome_of,
    ready,
    run,
)

TWO = 'query A { volume { title } } query B { volume { code } } mutation C { lend(code: "a") { title } }'


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_the_named_operation_is_executed(name: str) -> None:
    outcome = execute_both(TWO, {"volume": a_volume, "a": a_volume}, operation_name=name)

    assert not outcome.errors


@pytest.mark.parametrize("name", [None, "D", ""])
def test_an_ambiguous_operation_gives_the_same_result(name: str | None) -> None:
    execute_both(TWO, {"volume": a_volume}, is_prepared=False, operation_name=name)


def test_an_anonymous_operation_cannot_be_named() -> None:
    execute_both("{ volume { title } }", {"volume": a_volume}, is_prepared=False, operation_name="A")


def test_a_single_operation_need_not_be_named() -> None:
    query = "query A { volume { title } }"

    assert execute_both(query, {"volume": a_volume}) == execute_both(
        query, {"volume": a_volume}, operation_name="A"
    )


NOT_PREPARABLE = {
    "no syntax": "{ volume {",
    "no field": "{ nothing }",
    "no selection": "{ volume }",
    "a variable that is not used": "query($a: Int) { motto }",
    "a fragment that is not there": "{ ...nothing }",
    "only a fragment": "fragment a on Volume { title }",
    "a definition": "type Query { a: Int }",
    "fields that cannot be merged": "{ volume { a: title a: code } }",
    "a wrong literal": '{ volume { excerpt(length: "x") } }',
    "a literal that is refused": '{ volume { stamped(stamp: "refused") } }',
    "a literal at which reading fails": '{ volume { stamped(stamp: "fault") } }',
    "a number with too many digits": "{ volume { excerpt(length: %s) } }" % ("9" * 5000),
    "a fragment in a circle": "{ volume { ...a } } fragment a on Volume { ...a }",
    "too deep a selection": "{ volume " + "{ sequels " * 1000 + "{ title }" + " }" * 1001,
    "a subscription": "subscription { arrivals }",
    "blank": "   ",
    "empty": "",
    "half a character": '{ volume { excerpt(by: "\\uD800") } }',
}


@pytest.mark.parametrize("query", NOT_PREPARABLE.values(), ids=NOT_PREPARABLE.keys())
def test_an_operation_that_cannot_be_prepared_gives_the_same_result(query: str) -> None:
    execute_both(query, {"volume": a_volume}, is_prepared=False)


def test_a_missing_document_gives_the_same_result() -> None:
    execute_both(None, is_prepared=False)


@pytest.mark.parametrize("depth", [20, 50, 130, 400])
@pytest.mark.parametrize("field", ["related", "rival"])
def test_a_deep_selection_gives_the_same_result(field: str, depth: int) -> None:
    """graphql-core fails at some depth with an error; generated code supports a little more."""
    start, end = ("volume { ", "title") if field == "related" else ("volume { author { ", "name")
    query = "{ " + start + f"{field} {{ " * depth + end + " }" * (depth + query_depth(start))

    def deep() -> PlainObject:
        author, volume = an_author(), a_volume()
        author.__dict__["rival"] = author
        volume.__dict__.update(related=[volume], author=author)
        return volume

    ready(PREPARING)
    plain = run(outcome_of(PLAIN, query, LibraryContext({"volume": deep})))

    assert run(outcome_of(PREPARING, query, LibraryContext({"volume": deep}))) == plain


def query_depth(start: str) -> int:
    return start.count("{") + 1


def test_introspection_gives_the_same_result() -> None:
    execute_both(get_introspection_query(input_value_deprecation=True))
    execute_both(
        '{ __typename __type(name: "Volume") { name fields { name type { kind ofType { name } } } } }'
    )
    execute_both("{ __typename }")
    execute_both('{ __type(name: "Nothing") { name } }')
    execute_both("{ __schema { queryType { name } } volume { __typename } }", {"volume": a_volume})


@pytest.mark.parametrize(
    "allowed",
    [None, [OperationType.QUERY], [OperationType.MUTATION], [], list(OperationType)],
    ids=["all by default", "queries", "mutations", "none", "all"],
)
@pytest.mark.parametrize("query", ["{ volume { title } }", 'mutation { lend(code: "a") { title } }'])
def test_only_allowed_operations_run(query: str, allowed: list[OperationType] | None) -> None:
    kind = OperationType.MUTATION if "mutation" in query else OperationType.QUERY
    is_allowed = allowed is None or kind in allowed

    outcome = execute_both(
        query, {"volume": a_volume, "a": a_volume}, is_allowed, allowed_operation_types=allowed
    )

    assert (outcome.raised is None) is is_allowed


@pytest.mark.parametrize(
    "root", [0, False, "root", PlainObject(volume="x")], ids=["0", "no", "text", "object"]
)
def test_a_root_value_is_passed_to_resolvers(root: Any) -> None:
    outcome = execute_both("{ infoText }", is_prepared=False, root_value=root)

    assert str(root).split(" at ")[0] in outcome.data


def test_operation_extensions_are_passed_to_resolvers() -> None:
    outcome = execute_both("{ infoText }", operation_extensions={"trace": "t"})

    assert "trace" in outcome.data


def test_an_error_that_is_its_own_cause_gives_the_same_result() -> None:
    def circular() -> PlainObject:
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    outcome = execute_both("{ volume { title } }", {"volume": circular})

    assert len(outcome.errors) == 1
