"""Promise: fragments, directives and abstract types select the same whether prepared or not."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.library import (
    AsyncValue,
    Author,
    Found,
    PlainObject,
    a_volume,
    an_author,
    execute_both,
    execute_both_in_turn,
)


def some_items() -> list[Any]:
    return [
        PlainObject(kind="Map", mark="m-1", scale=100, of=PlainObject(mark="m-2", scale=1, of=None)),
        PlainObject(kind="Record", mark="r-1", minutes=45),
        None,
        PlainObject(kind="Map", mark=None, scale=100),
        PlainObject(kind="Record", mark="r-2", minutes=1, is_round=False),
        PlainObject(kind="Nothing"),
        PlainObject(kind="Volume", mark="v"),
        PlainObject(kind=None),
        ValueError("lost"),
        AsyncValue(PlainObject(kind="Map", mark="m-3", scale="large")),
        PlainObject(kind=AsyncValue("Map"), mark="m-4", scale=4),
        PlainObject(kind=7),
    ]


def some_findings() -> list[Any]:
    return [
        Author(name="Jane", born=1775, rival=Author(name="Walter")),
        Author(name="Nobody", born="long ago"),  # type: ignore[arg-type]
        PlainObject(is_round=True, radius=3),
        PlainObject(is_round=False, radius=3),
        None,
        7,
        ValueError("lost"),
        AsyncValue(Author(name="Late")),
    ]


ABSTRACT = {
    "common fields": "{ items { __typename mark shelf } }",
    "arguments of common fields": "{ items { mark a: shelf(row: 2) } }",
    "fields of some types": """
        { items { mark ... on Map { scale of { mark scale } } ... on Record { minutes } } }""",
    "named fragments": """
        { items { ...common ...some } }
        fragment common on Item { __typename mark }
        fragment some on Map { scale ...common of { ...common ...some2 } }
        fragment some2 on Map { scale }""",
    "fragments on the interface below an object": "{ map { ... on Item { mark ... on Map { scale } } } }",
    "a fragment that never fits": "{ map { mark ... on Item { ... on Record { minutes } } } }",
    "one item": "{ item { __typename mark } }",
    "a union": """
        { findings { __typename ... on Author { name born rival { name } } ... on Globe { radius } } }""",
    "a union by interface": "{ findings { ... on Item { mark } ... on Author { initial biography } } }",
    "a union with merged fields": """
        { findings { ... on Author { rival { name } } ... on Author { rival { born } name } } }""",
    "an object that checks its type": "{ globe { radius } }",
    "several roots": """
        { item { mark } items { mark } findings { __typename } globe { radius } map { scale } }""",
}


@pytest.mark.parametrize("query", ABSTRACT.values(), ids=ABSTRACT.keys())
def test_abstract_types_give_the_same_result(query: str) -> None:
    one_map = PlainObject(kind="Map", mark="m", scale=3, of=None)
    for found in (
        {
            "items": some_items,
            "findings": some_findings,
            "globe": lambda: PlainObject(is_round=True, radius=1),
        },
        {"item": lambda: one_map, "map": lambda: one_map, "items": lambda: [one_map]},
        {
            "item": lambda: PlainObject(kind="Record", mark=None),
            "globe": lambda: PlainObject(is_round=False, radius=1),
        },
    ):
        execute_both(query, found)


@pytest.mark.parametrize("beside", ["", "motto"])
def test_one_field_may_return_objects_of_several_types(beside: str) -> None:
    """In turn, to an operation that is prepared once."""
    one_map, record = PlainObject(kind="Map", mark="m", scale=3), PlainObject(kind="Record", mark="r")
    items = iter([each for each in (one_map, record, one_map) for _ in range(3)])

    outcomes = execute_both_in_turn(
        f"{{ item {{ __typename mark }} {beside} }}", None, None, None, found={"item": lambda: next(items)}
    )

    beginnings = [f"{{'item': {{'__typename': '{kind}'" for kind in ("Map", "Record", "Map")]
    assert [outcome.data.partition(",")[0] for outcome in outcomes] == beginnings


FRAGMENTS = {
    "named": "{ volume { ...a } } fragment a on Volume { title pages }",
    "nested": """
        { volume { ...a code ...b } } fragment a on Volume { title ...b }
        fragment b on Volume { author { ...c } } fragment c on Author { name rival { ...d } }
        fragment d on Author { born }""",
    "inline": "{ volume { ... { title } ... on Volume { pages ... on Volume { code } } } }",
    "used twice": "{ volume { ...a sequels { ...a } ...a } } fragment a on Volume { title sequels { code } }",
    "the order of first mention": """
        { volume { pages ...a title } }
        fragment a on Volume { title author { born } pages code author { name } }""",
    "one name in two fragments": """
        { volume { ...a ...b } }
        fragment a on Volume { x: author { name } } fragment b on Volume { x: author { born n: name } }""",
    "at the root": """
        { ...a ...b }
        fragment a on Query { volume { title } } fragment b on Query { volume { code } }""",
}


@pytest.mark.parametrize("query", FRAGMENTS.values(), ids=FRAGMENTS.keys())
def test_fragments_give_the_same_result(query: str) -> None:
    def whole() -> PlainObject:
        return a_volume(author=an_author(rival=an_author()), sequels=[a_volume(), a_volume()])

    assert not execute_both(query, {"volume": whole}).errors
    assert execute_both(
        query, {"volume": lambda: a_volume(author=None, pages=None, code=None, title=7, sequels=[None])}
    )


VARIANTS = """
    query($a: Boolean! = true, $b: Boolean! = false, $n: Int) {
        volume {
            title @include(if: $a)
            code @skip(if: $b) @include(if: $a)
            author @skip(if: $a) { name }
            ... @include(if: $b) { editor { name @skip(if: $a) born } }
            ...f @skip(if: $b)
            excerpt(length: $n) @include(if: $a)
        }
        motto @include(if: $b)
    }
    fragment f on Volume { author { born @include(if: $a) initial @skip(if: $b) } tags @include(if: $b) }
"""


@pytest.mark.parametrize(
    "volume",
    [
        lambda: a_volume(editor=an_author()),
        lambda: a_volume(title=None),
        lambda: a_volume(author=an_author(name=""), editor=an_author(name=None)),
        lambda: a_volume(code=None, tags=7),
    ],
    ids=["whole", "without a title", "with odd people", "without a code"],
)
def test_all_variants_of_directive_conditions_give_the_same_result(volume: Callable[[], PlainObject]) -> None:
    given = [{"a": a, "b": b, "n": n} for n in (1, 2) for a in (True, False) for b in (True, False)]

    outcomes = execute_both_in_turn(
        VARIANTS, *given, {}, *reversed(given), {"a": 1}, {"b": None}, found={"volume": volume}
    )

    assert len({outcome.data for outcome in outcomes[:4]}) > 1


NULL_CONDITIONS = {
    "at the root": "query($x: Boolean = true) { volume @include(if: $x) { title } }",
    "at one of several roots": "query($x: Boolean = true) { count motto @skip(if: $x) }",
    "below the root": "query($x: Boolean = true) { volume { title pages @include(if: $x) } }",
    "in a fragment": """
        query($x: Boolean = true) { volume { ...f } }
        fragment f on Volume { author { name @skip(if: $x) } }""",
    "in a list": "query($x: Boolean = true) { pile { title @skip(if: $x) } }",
}


@pytest.mark.parametrize("query", NULL_CONDITIONS.values(), ids=NULL_CONDITIONS.keys())
def test_null_for_a_directive_condition_gives_the_same_result(query: str) -> None:
    """A variable with a default fits a condition, and may then be given as null."""
    found: Found = {"volume": a_volume, "count": lambda: 3, "pile": lambda: [a_volume(), None, a_volume()]}

    outcomes = execute_both_in_turn(query, {"x": None}, {}, {"x": False}, {"x": None}, found=found)

    assert outcomes[0].errors and not outcomes[1].errors
