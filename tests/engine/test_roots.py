"""Promise: a root resolver runs once, and prepared operations return the same result."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import strawberry
from graphql import GraphQLError, Undefined

from tests.engine.library import (
    AsyncValue,
    Author,
    Found,
    Genre,
    PlainObject,
    a_volume,
    execute_both,
    execute_both_with,
    only,
    raising,
)

ROOT_VALUES: dict[str, Callable[[], Any]] = {
    "null": lambda: None,
    "undefined": lambda: Undefined,
    "a volume": a_volume,
    "a volume that lacks something": lambda: a_volume(title=None),
    "volumes": lambda: [a_volume(), a_volume()],
    "a text": lambda: "text",
    "a number": lambda: 7,
    "too large a number": lambda: 2**40,
    "an exception": lambda: ValueError("returned"),
    "a fault": raising(ValueError("raised")),
    "an error": raising(GraphQLError("rejected", extensions={"code": "REJECTED"})),
    "an error with a place": raising(GraphQLError("placed", path=["elsewhere", 1])),
    "the end of an iteration": raising(StopIteration("stopped")),
    "the end of an async iteration": raising(StopAsyncIteration("stopped")),
    "an assertion": raising(AssertionError()),
    "a failed recursion": raising(RecursionError("too deep")),
    "items that fail": lambda: [a_volume(), ValueError("lost"), None],
    "later items": lambda: [AsyncValue(a_volume()), AsyncValue(ValueError("lost"))],
    "a generator": lambda: iter([a_volume(), a_volume()]),
    "members": lambda: [Genre.NOVEL, "poems", 3],
    "unknown members": lambda: [Genre.NOVEL, "unknown"],
    "an author": lambda: Author(name="Jane"),
}
ROOTS = {
    "volume": "{ volume { title pages } }",
    "sureVolume": "{ sureVolume { title pages } }",
    "handed": "{ handed { title pages } }",
    "volumes": "{ volumes { title pages } }",
    "pile": "{ pile { title pages } }",
    "motto": "{ motto }",
    "count": "{ count }",
    "genres": "{ genres }",
    "item": "{ item { mark } }",
    "items": "{ items { mark } }",
    "findings": "{ findings { ... on Author { name } } }",
    "map": "{ map { mark scale } }",
    "globe": "{ globe { radius } }",
    "cabinet": "{ cabinet { title } }",
}


@pytest.mark.parametrize("root", ROOTS)
def test_a_root_resolver_runs_once_whatever_it_returns(root: str) -> None:
    for name, value in ROOT_VALUES.items():
        outcome = execute_both(ROOTS[root], {root: value})

        assert outcome.calls == ({} if root == "cabinet" else {root: 1}), name


@pytest.mark.parametrize("root", ["sureVolume", "pile", "items"])
def test_root_fields_fail_independently(root: str) -> None:
    query = ROOTS[root].removesuffix("}") + " motto other: handed { title author { name } } }"
    found: Found = {"motto": raising(ValueError("no motto")), "handed": lambda: a_volume(author=None)}

    for value in ROOT_VALUES.values():
        execute_both(query, {root: value, **found} if root not in found else {**found, root: value})


def test_all_errors_of_several_root_fields_are_reported() -> None:
    fault = raising(ValueError("a fault"))
    query = "{ a: volume { title } b: handed { title } c: motto d: pile { title } e: genres }"

    outcome = execute_both(query, dict.fromkeys(("volume", "handed", "motto", "pile", "genres"), fault))

    assert outcome.data == "{'a': None, 'b': None, 'c': None, 'd': None, 'e': None}"
    assert sorted(str(path[0]) for path in outcome.paths) == ["a", "b", "c", "d", "e"]


def test_an_error_in_a_non_null_root_field_nulls_the_data() -> None:
    query = "{ volume { title } sureVolume { title } count }"

    outcome = execute_both(query, {"volume": a_volume, "sureVolume": lambda: None, "count": lambda: 3})

    assert outcome.data == "None"


def test_a_root_field_with_two_aliases_runs_twice() -> None:
    outcome = execute_both("{ a: volume { title } b: volume { title pages } }", {"volume": a_volume})

    assert outcome.calls == {"volume": 2}


def test_a_root_field_in_several_selections_runs_once() -> None:
    query = """
        query { volume { title } ...f volume { author { born } } }
        fragment f on Query { volume { author { name } } }
    """

    outcome = execute_both(query, {"volume": a_volume})

    assert outcome.data == "{'volume': {'title': 'Emma', 'author': {'name': 'Jane', 'born': 1775}}}"
    assert outcome.calls == {"volume": 1}


def test_an_awaitable_from_an_async_root_is_not_awaited_again() -> None:
    """A resolver that forgets to await."""

    forgotten: list[Coroutine[Any, Any, str]] = []

    async def motto() -> str:
        return "forgotten"

    def forgets() -> Coroutine[Any, Any, str]:
        forgotten.append(motto())
        return forgotten[-1]

    execute_both("{ motto }", {"motto": forgets})
    execute_both("{ motto }", {"motto": lambda: AsyncValue("forgotten")})
    execute_both("{ volume { title } }", {"volume": lambda: AsyncValue(a_volume())})

    assert {inspect.getcoroutinestate(each) for each in forgotten} == {inspect.CORO_CREATED}
    for each in forgotten:
        each.close()  # or Python warns in a later test that nothing awaited it


def test_a_sync_root_may_return_an_awaitable() -> None:
    async def later() -> PlainObject:
        return a_volume()

    async def never() -> PlainObject:
        raise ValueError("never")

    assert execute_both("{ handed { title } }", {"handed": later}).data == "{'handed': {'title': 'Emma'}}"
    assert execute_both("{ handed { title } }", {"handed": never}).messages == ["never"]


def test_a_root_resolver_receives_the_same_info() -> None:
    query = "query Q($a: Int = 2) { infoText motto @include(if: true) volume { excerpt(length: $a) } }"

    execute_both(query, {"volume": a_volume}, operation_extensions={"trace": 1})
    outcome = execute_both(
        """query Q($a: Int = 2) {
            infoText @skip(if: false) ... @skip(if: true) { volume { excerpt(length: $a) } }
        }"""
    )
    alone = execute_both(
        "{ named: infoText }", operation_extensions={"trace": 1}, variable_values={"extra": 1}
    )

    assert "infoText" in outcome.data
    assert "query None" in alone.data and "trace" in alone.data


RAW = [
    "field_name", "field_nodes", "return_type", "parent_type", "path", "fragments", "root_value",
    "variable_values", "context", "is_awaitable", "abort_signal", "operation_extensions",
]  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_the_raw_info_of_a_root_resolver_is_the_same(name: str) -> None:
    """Compares the type of the context, which belongs to one request."""

    @strawberry.type
    class Root:
        @strawberry.field
        async def raw(self, info: strawberry.Info) -> str:
            value = getattr(info._raw_info, name)
            return type(value).__name__ if name == "context" else str(value)

    execute_both_with(only(Root), "{ raw }")
