"""Promise: changes happen in the same order, and once, whether an operation is prepared or not."""

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import strawberry

from tests.engine.library import (
    a_volume,
    asked,
    asked_of,
    only,
    raising,
)
from tests.engine.test_roots import ROOT_VALUES


def test_changes_happen_one_after_the_other() -> None:
    query = (
        'mutation { a: lend(code: "a") { title } b: write(code: "b") { title } c: bind(code: "c") { code } }'
    )

    answer = asked(query, dict.fromkeys("abc", a_volume))

    assert answer.effects == ["lend a begins", "lend a ends", "write b", "bind c begins", "bind c ends"]
    assert list(answer.calls) == ["a", "b", "c"]


def test_a_change_that_fails_lets_the_next_one_happen() -> None:
    query = 'mutation { a: lend(code: "a") { title } b: bind(code: "b") { title } }'

    answer = asked(query, {"a": raising(ValueError("lent out")), "b": a_volume})

    assert answer.data == "{'a': None, 'b': {'title': 'Emma'}}"
    assert answer.effects[-1] == "bind b ends"


@pytest.mark.parametrize("first", ["bind", "write"])
def test_a_change_that_may_not_be_null_and_fails_stops_the_rest(first: str) -> None:
    query = f'mutation {{ a: {first}(code: "a") {{ title }} b: lend(code: "b") {{ title }} }}'

    for value in (raising(ValueError("torn")), lambda: None, lambda: a_volume(title=None)):
        answer = asked(query, {"a": value, "b": a_volume})

        assert answer.data == "None"
        assert answer.calls == {"a": 1}


@pytest.mark.parametrize("value", ROOT_VALUES.values(), ids=ROOT_VALUES.keys())
@pytest.mark.parametrize("name", ["lend", "bind", "write"])
def test_a_change_happens_once_whatever_comes_of_it(name: str, value: Callable[[], Any]) -> None:
    query = f"mutation($code: String!) {{ {name}(code: $code) {{ title author {{ name }} }} }}"

    answer = asked(query, {"a": value}, variable_values={"code": "a"})

    assert answer.calls == {"a": 1}
    assert len(answer.effects) == (1 if name == "write" else 2)


def test_below_the_root_a_resolver_runs_once_as_well() -> None:
    """What a resolver does is done once, even where something beside it goes wrong."""
    calls: list[str] = []

    @strawberry.type
    class Saying:
        wrong: str | None = None

        @strawberry.field
        def counted(self) -> int:
            calls.append("counted")
            return len(calls)

    @strawberry.type
    class Asking:
        @strawberry.field
        def saying(self) -> Saying:
            calls.clear()
            return Saying(wrong=ValueError("wrong"))  # type: ignore[arg-type]

    parts = only(Asking)

    answer = asked_of(parts, "{ saying { counted wrong } }")

    assert answer.data == "{'saying': {'counted': 1, 'wrong': None}}"


def test_a_plain_resolver_below_the_root_may_return_what_is_to_be_awaited() -> None:
    """It is called once, and what it returned is awaited: nothing is left over with a warning."""

    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    @strawberry.type
    class Saying:
        @strawberry.field(graphql_type=str)
        def later(self) -> Any:
            return later()

    @strawberry.type
    class Asking:
        @strawberry.field
        def saying(self) -> Saying:
            return Saying()

    parts = only(Asking)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = asked_of(parts, "{ saying { later } }")

    assert answer.data == "{'saying': {'later': 'later'}}"
    assert [str(warning.message) for warning in caught] == []
