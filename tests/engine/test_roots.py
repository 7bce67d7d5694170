"""Promise: a root resolver runs once, and prepared operations return the same result."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import strawberry
from graphql import GraphQLError, Undefined

from tests.engine.library import (
    Author,
    Found,
    Genre,
    Later,
    Thing,
    a_volume,
    asked,
    asked_of,
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
    "an error": raising(GraphQLError("told", extensions={"code": "TOLD"})),
    "an error with a place": raising(GraphQLError("placed", path=["elsewhere", 1])),
    "the end of an iteration": raising(StopIteration("stopped")),
    "the end of an async iteration": raising(StopAsyncIteration("stopped")),
    "an assertion": raising(AssertionError()),
    "a failed recursion": raising(RecursionError("too deep")),
    "items that fail": lambda: [a_volume(), ValueError("lost"), None],
    "later items": lambda: [Later(a_volume()), Later(ValueError("lost"))],
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
def test_a_root_is_asked_once_whatever_it_finds(root: str) -> None:
    for name, value in ROOT_VALUES.items():
        answer = asked(ROOTS[root], {root: value})

        assert answer.calls == ({} if root == "cabinet" else {root: 1}), name


@pytest.mark.parametrize("root", ["volume", "sureVolume", "pile", "count", "items"])
def test_several_roots_fail_each_for_itself(root: str) -> None:
    query = ROOTS[root].removesuffix("}") + " motto other: handed { title author { name } } }"
    found: Found = {"motto": raising(ValueError("no motto")), "handed": lambda: a_volume(author=None)}

    for value in ROOT_VALUES.values():
        asked(query, {root: value, **found} if root not in found else {**found, root: value})


def test_several_roots_that_all_fail_tell_all_their_errors() -> None:
    fault = raising(ValueError("a fault"))
    query = "{ a: volume { title } b: handed { title } c: motto d: pile { title } e: genres }"

    answer = asked(query, dict.fromkeys(("volume", "handed", "motto", "pile", "genres"), fault))

    assert answer.data == "{'a': None, 'b': None, 'c': None, 'd': None, 'e': None}"
    assert sorted(str(path[0]) for path in answer.paths) == ["a", "b", "c", "d", "e"]


def test_one_root_that_may_not_be_null_takes_the_others_along() -> None:
    query = "{ volume { title } sureVolume { title } count }"

    answer = asked(query, {"volume": a_volume, "sureVolume": lambda: None, "count": lambda: 3})

    assert answer.data == "None"


def test_one_field_under_two_names_is_asked_twice() -> None:
    answer = asked("{ a: volume { title } b: volume { title pages } }", {"volume": a_volume})

    assert answer.calls == {"volume": 2}


def test_one_root_in_several_selections_is_asked_once() -> None:
    query = """
        query { volume { title } ...f volume { author { born } } }
        fragment f on Query { volume { author { name } } }
    """

    answer = asked(query, {"volume": a_volume})

    assert answer.data == "{'volume': {'title': 'Emma', 'author': {'name': 'Jane', 'born': 1775}}}"
    assert answer.calls == {"volume": 1}


@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
def test_a_root_that_waits_for_something_it_should_wait_for_again() -> None:
    """An async resolver that forgets to await: what it returned is not awaited for it."""

    async def forgotten() -> str:
        return "forgotten"

    asked("{ motto }", {"motto": forgotten})
    asked("{ motto }", {"motto": lambda: Later("forgotten")})
    asked("{ volume { title } }", {"volume": lambda: Later(a_volume())})
    gc.collect()  # what was forgotten is left over here, and not in another test


def test_a_plain_root_may_return_what_is_to_be_awaited() -> None:
    async def later() -> Thing:
        return a_volume()

    async def never() -> Thing:
        raise ValueError("never")

    assert asked("{ handed { title } }", {"handed": later}).data == "{'handed': {'title': 'Emma'}}"
    assert asked("{ handed { title } }", {"handed": never}).messages == ["never"]


def test_what_a_root_is_told() -> None:
    query = "query Q($a: Int = 2) { told motto @include(if: true) volume { excerpt(length: $a) } }"

    asked(query, {"volume": a_volume}, operation_extensions={"trace": 1})
    answer = asked(
        """query Q($a: Int = 2) {
            told @skip(if: false) ... @skip(if: true) { volume { excerpt(length: $a) } }
        }"""
    )
    alone = asked("{ named: told }", operation_extensions={"trace": 1}, variable_values={"extra": 1})

    assert "told" in answer.data
    assert "query None" in alone.data and "trace" in alone.data


RAW = [
    "field_name", "field_nodes", "return_type", "parent_type", "path", "fragments", "root_value",
    "variable_values", "context", "is_awaitable", "abort_signal", "async_helpers", "operation_extensions",
]  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_what_graphql_core_tells_a_root_is_told(name: str) -> None:
    """Whether there is something, and of which kind: the things themselves belong to each request."""

    @strawberry.type
    class Asking:
        @strawberry.field
        async def raw(self, info: strawberry.Info) -> str:
            value = getattr(info._raw_info, name)
            return type(value).__name__ if name in ("async_helpers", "context") else str(value)

    asked_of(only(Asking), "{ raw }")
