"""Promise: prepared or not, mutations run once and in order."""

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import strawberry

from tests.engine.library import (
    a_volume,
    execute_both,
    execute_both_with,
    only,
    raising,
)
from tests.engine.test_roots import ROOT_VALUES


def test_mutations_run_one_after_the_other() -> None:
    query = (
        'mutation { a: lend(code: "a") { title } b: write(code: "b") { title } c: bind(code: "c") { code } }'
    )

    outcome = execute_both(query, dict.fromkeys("abc", a_volume))

    assert outcome.effects == ["lend a begins", "lend a ends", "write b", "bind c begins", "bind c ends"]
    assert list(outcome.calls) == ["a", "b", "c"]


def test_mutations_continue_after_a_failed_nullable_one() -> None:
    query = 'mutation { a: lend(code: "a") { title } b: bind(code: "b") { title } }'

    outcome = execute_both(query, {"a": raising(ValueError("lent out")), "b": a_volume})

    assert outcome.data == "{'a': None, 'b': {'title': 'Emma'}}"
    assert outcome.effects[-1] == "bind b ends"


@pytest.mark.parametrize("first", ["bind", "write"])
def test_a_failed_non_null_mutation_stops_the_rest(first: str) -> None:
    query = f'mutation {{ a: {first}(code: "a") {{ title }} b: lend(code: "b") {{ title }} }}'

    for value in (raising(ValueError("torn")), lambda: None, lambda: a_volume(title=None)):
        outcome = execute_both(query, {"a": value, "b": a_volume})

        assert outcome.data == "None"
        assert outcome.calls == {"a": 1}


@pytest.mark.parametrize("value", ROOT_VALUES.values(), ids=ROOT_VALUES.keys())
@pytest.mark.parametrize("name", ["lend", "bind", "write"])
def test_a_mutation_runs_once_whatever_it_returns(name: str, value: Callable[[], Any]) -> None:
    query = f"mutation($code: String!) {{ {name}(code: $code) {{ title author {{ name }} }} }}"

    outcome = execute_both(query, {"a": value}, variable_values={"code": "a"})

    assert outcome.calls == {"a": 1}
    assert len(outcome.effects) == (1 if name == "write" else 2)


def test_a_resolver_below_the_root_runs_once() -> None:
    """Even if another field fails."""
    calls: list[str] = []

    @strawberry.type
    class Child:
        wrong: str | None = None

        @strawberry.field
        def counted(self) -> int:
            calls.append("counted")
            return len(calls)

    @strawberry.type
    class Root:
        @strawberry.field
        def child(self) -> Child:
            calls.clear()
            return Child(wrong=ValueError("wrong"))  # type: ignore[arg-type]

    parts = only(Root)

    outcome = execute_both_with(parts, "{ child { counted wrong } }")

    assert outcome.data == "{'child': {'counted': 1, 'wrong': None}}"


def test_a_sync_resolver_below_the_root_may_return_an_awaitable() -> None:
    """It is called once, and its awaitable is awaited, without a warning."""

    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    @strawberry.type
    class Child:
        @strawberry.field(graphql_type=str)
        def later(self) -> Any:
            return later()

    @strawberry.type
    class Root:
        @strawberry.field
        def child(self) -> Child:
            return Child()

    parts = only(Root)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = execute_both_with(parts, "{ child { later } }")

    assert outcome.data == "{'child': {'later': 'later'}}"
    assert [str(warning.message) for warning in caught] == []
