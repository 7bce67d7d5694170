"""Promise: operations are found, named and refused the same whether they are prepared or not."""

from typing import Any

import pytest
from graphql import get_introspection_query
from strawberry.types.graphql import OperationType

from tests.engine.library import (
    PLAIN,
    PREPARING,
    Desk,
    Thing,
    a_volume,
    an_author,
    answer_of,
    asked,
    ready,
    run,
)

TWO = 'query A { volume { title } } query B { volume { code } } mutation C { lend(code: "a") { title } }'


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_the_named_operation_is_the_one(name: str) -> None:
    answer = asked(TWO, {"volume": a_volume, "a": a_volume}, operation_name=name)

    assert not answer.errors


@pytest.mark.parametrize("name", [None, "D", ""])
def test_an_operation_that_is_not_clear_is_answered_as_ever(name: str | None) -> None:
    asked(TWO, {"volume": a_volume}, is_prepared=False, operation_name=name)


def test_an_operation_without_a_name_cannot_be_named() -> None:
    asked("{ volume { title } }", {"volume": a_volume}, is_prepared=False, operation_name="A")


def test_one_operation_with_a_name_need_not_be_named() -> None:
    query = "query A { volume { title } }"

    assert asked(query, {"volume": a_volume}) == asked(query, {"volume": a_volume}, operation_name="A")


NOT_PREPARED = {
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


@pytest.mark.parametrize("query", NOT_PREPARED.values(), ids=NOT_PREPARED.keys())
def test_what_cannot_be_prepared_is_answered_as_ever(query: str) -> None:
    asked(query, {"volume": a_volume}, is_prepared=False)


def test_no_document_is_answered_as_ever() -> None:
    asked(None, is_prepared=False)


@pytest.mark.parametrize("depth", [20, 50, 400])
@pytest.mark.parametrize("field", ["related", "rival"])
def test_a_deep_selection_is_answered_the_same(field: str, depth: int) -> None:
    """graphql-core fails at some depth with an error; generated code supports a little more."""
    start, end = ("volume { ", "title") if field == "related" else ("volume { author { ", "name")
    query = "{ " + start + f"{field} {{ " * depth + end + " }" * (depth + query_depth(start))

    def deep() -> Thing:
        author, volume = an_author(), a_volume()
        author.__dict__["rival"] = author
        volume.__dict__.update(related=[volume], author=author)
        return volume

    ready(PREPARING)
    plain = run(answer_of(PLAIN, query, Desk({"volume": deep})))

    assert run(answer_of(PREPARING, query, Desk({"volume": deep}))) == plain


def query_depth(start: str) -> int:
    return start.count("{") + 1


def test_introspection_is_answered_the_same() -> None:
    asked(get_introspection_query(input_value_deprecation=True))
    asked('{ __typename __type(name: "Volume") { name fields { name type { kind ofType { name } } } } }')
    asked("{ __typename }")
    asked('{ __type(name: "Nothing") { name } }')
    asked("{ __schema { queryType { name } } volume { __typename } }", {"volume": a_volume})


@pytest.mark.parametrize(
    "allowed",
    [None, [OperationType.QUERY], [OperationType.MUTATION], [], list(OperationType)],
    ids=["all by default", "queries", "mutations", "none", "all"],
)
@pytest.mark.parametrize("query", ["{ volume { title } }", 'mutation { lend(code: "a") { title } }'])
def test_only_allowed_operations_run(query: str, allowed: list[OperationType] | None) -> None:
    answer = asked(query, {"volume": a_volume, "a": a_volume}, allowed_operation_types=allowed)

    kind = OperationType.MUTATION if "mutation" in query else OperationType.QUERY
    assert (answer.raised is None) is (allowed is None or kind in allowed)


@pytest.mark.parametrize("root", [0, False, "root", Thing(volume="x")], ids=["0", "no", "text", "object"])
def test_a_root_value_is_handed_on(root: Any) -> None:
    answer = asked("{ told }", root_value=root)

    assert str(root).split(" at ")[0] in answer.data


def test_the_operation_that_is_asked_has_extensions() -> None:
    answer = asked("{ told }", operation_extensions={"trace": "t"})

    assert "trace" in answer.data
