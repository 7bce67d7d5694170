"""Promise: a document is counted in one pass, each fragment once, and rejected above a limit."""

from dataclasses import replace
from typing import Any

import pytest
from graphql import FieldNode, FragmentSpreadNode, InlineFragmentNode, SelectionSetNode, parse
from hypothesis import given
from hypothesis import strategies as st

from app.engine.arguments import count_values
from app.engine.limits import DocumentCounter, Limits, TooCostly, count_within, parse_within

NO_LIMITS = Limits(*[10**9] * 11)


def refused(text: str, **limits: int) -> str:
    with pytest.raises(TooCostly) as refusal:
        count_within(parse_within(text, replace(NO_LIMITS, **limits)), replace(NO_LIMITS, **limits))
    return refusal.value.message


def is_taken(text: str, **limits: int) -> bool:
    count_within(parse_within(text, replace(NO_LIMITS, **limits)), replace(NO_LIMITS, **limits))
    return True


CASES: dict[str, tuple[str, dict[str, int], str]] = {
    "tokens": ("{ a b c }", {"tokens": 4}, "more than 4 tokens"),
    "comments": ("#\n#\n#\n{ a }", {"tokens": 2}, "more than 2 comments"),
    "fragments": (
        "{ ...F ...G } fragment F on Q { a } fragment G on Q { a }",
        {"fragments": 1},
        "2 fragments",
    ),
    "levels": ("{ a { ... { ... { b } } } }", {"levels": 3}, "more than 3 levels"),
    "levels of a fragment that is used again": (
        "{ a { ...F } a { a { a { ...F } } } } fragment F on Q { b { c } }",
        {"levels": 5},
        "6 levels",
    ),
    "depth": ("{ a { b { c } } }", {"depth": 2}, "3 levels of fields"),
    "depth in fragments": (
        "{ a { ...F } } fragment F on Q { b { ...G } } fragment G on Q { c }",
        {"depth": 2},
        "3 levels of fields",
    ),
    "selections": ("{ a b ... { c } }", {"selections": 3}, "4 selections"),
    "aliases": ("{ x: a y: a ... { z: a } }", {"aliases": 2}, "3 aliases"),
    "selections of the document": ("query A { a } query B { a b }", {"selections": 2}, "3 selections"),
    "aliases of the document": (
        "query A { x: a } query B { x: a } fragment F on Q { x: a }",
        {"aliases": 2},
        "3 aliases",
    ),
    "selections of fragments with one name": (
        "{ ...F } fragment F on Q { a b } fragment F on Q { a b c } fragment F on Q { a }",
        {"selections": 6},
        "7 selections",
    ),
    "comparisons of fragments with one name": (
        "{ ...F } fragment F on Q { a a } fragment F on Q { a }",
        {"comparisons": 1},
        "2 comparisons",
    ),
    "directives of the document": ("query A { a @b } query B { a @b }", {"directives": 1}, "2 directives"),
    "root fields": (
        "{ a ...F ... { b } } fragment F on Q { c { d e } }",
        {"root_fields": 2},
        "3 root fields",
    ),
    "root fields of one operation": (
        "query A { a b } query B { a b c }",
        {"root_fields": 2},
        "3 root fields",
    ),
    "depth of one operation": (
        "query A { a { b } } query B { a { b { c } } }",
        {"depth": 2},
        "3 levels of fields",
    ),
    "directives": (
        "query($v: Int @a) @b { c @d ...F @e } fragment F on Q @f { g }",
        {"directives": 4},
        "5 directives",
    ),
    "comparisons": ("{ a(b: 1) a(b: 1) a(b: 1) }", {"comparisons": 23}, "24 comparisons"),
    "comparisons of the document": (
        "query A { a a } query B { a a } fragment F on Q { a a }",
        {"comparisons": 5},
        "6 comparisons",
    ),
    "comparisons after a fragment that is spread twice": (
        "{ ...F ...F a a } fragment F on Q { b }",
        {"comparisons": 1},
        "2 comparisons",
    ),
    "comparisons below": ("{ a { b b } ... { a { b } } }", {"comparisons": 7}, "8 comparisons"),
}
PLURAL = {"comparisons": " of fields under one name"}


@pytest.mark.parametrize("name", CASES)
def test_a_document_above_a_limit_is_rejected_and_one_at_the_limit_accepted(name: str) -> None:
    text, limits, counted = CASES[name]
    [(limit, allowed)] = limits.items()

    message = refused(text, **limits)

    assert message == f"Too costly: {counted}{PLURAL.get(limit, '')}, and {allowed} are allowed."
    assert is_taken(text, **{limit: allowed + 1})


def fanning_out(number: int) -> str:
    fragments = [f"fragment F{n} on Q {{ ...F{n + 1} ...F{n + 1} }}" for n in range(number)]
    return f"{{ ...F0 }} {' '.join(fragments)} fragment F{number} on Q {{ a }}"


def test_fragments_that_expand_exponentially_are_counted_without_expansion() -> None:
    # 1 spread, then 2, 4, ... and as many fields as there are spreads at last
    assert refused(fanning_out(60), selections=1000) == (
        f"Too costly: {2**61 - 1 + 2**60} selections, and 1000 are allowed."
    )


ROUND = [
    "{ ...A } fragment A on Q { a ...A }",
    "{ ...A } fragment A on Q { a { ...B } } fragment B on Q { b { ...A } }",
    "{ a } fragment A on Q { a ...B ...B } fragment B on Q { ...A b }",
]


@pytest.mark.parametrize("text", ROUND)
def test_circular_fragments_are_counted_once(text: str) -> None:
    counter = count_within(parse(text), NO_LIMITS)

    assert counter.is_circular
    assert sum(counts.selections for _, counts in counter.roots) <= 8
    assert "selections" in refused(text, selections=1)


def test_circular_fragments_that_expand_exponentially_are_rejected() -> None:
    every = " ".join(f"...F{n}" for n in range(20))
    fragments = " ".join(f"fragment F{n} on Q {{ {every} }}" for n in range(20))

    assert "selections, and 1000 are allowed." in refused(f"{{ {every} }} {fragments}", selections=1000)


def test_unused_fragments_are_counted() -> None:
    assert refused("{ a } fragment F on Q { b { c { d } } }", depth=2) == (
        "Too costly: 3 levels of fields, and 2 are allowed."
    )


@pytest.mark.parametrize("nested", ["{a" * 900 + "}" * 900, "{a(b:" + "[" * 900 + "]" * 900 + ")}"])
def test_a_document_nested_too_deeply_for_the_parser_is_rejected(nested: str) -> None:
    assert refused(nested, levels=64) == "Too costly: more than 64 levels, and 64 are allowed."


@pytest.mark.parametrize(
    ("variables", "counted"),
    [({}, 0), ({"a": 1, "b": None}, 2), ({"a": [1, 2]}, 3), ({"a": {"b": [{"c": 1}, {"c": 2}]}}, 6)],
)
def test_values_in_variables_are_counted_at_every_level(variables: dict[str, Any], counted: int) -> None:
    assert count_values(variables) == counted


# --- the count of each fragment once is that of everything spread out ------------------------------

NAMES = ["F0", "F1", "F2", "F3"]
FIELDS = ["a", "x: a", "a @d", "b @d @d"]
OPENINGS = ["a", "x: b @d", "...", "... on Q"]


@st.composite
def selections(draw: st.DrawFn, later: list[str], nesting: int = 2) -> str:
    """Documents with nested fields and fragments; a fragment spreads only later ones."""
    spreads = [f"...{name}" for name in later] + [f"...{name} @d" for name in later]
    parts = draw(st.lists(st.sampled_from(FIELDS + spreads), min_size=1, max_size=3))
    if nesting and draw(st.booleans()):
        inner = draw(selections(later, nesting - 1))
        parts.append(f"{draw(st.sampled_from(OPENINGS))} {{ {inner} }}")
    return " ".join(parts)


@st.composite
def documents(draw: st.DrawFn) -> str:
    parts = [f"{{ {draw(selections(NAMES))} }}"]
    for number, name in enumerate(NAMES):
        parts.append(f"fragment {name} on Q {{ {draw(selections(NAMES[number + 1 :]))} }}")
    return " ".join(parts)


def naive(selection_set: SelectionSetNode, fragments: dict[str, SelectionSetNode]) -> tuple[int, ...]:
    """Levels, depth, selections, aliases, root fields and directives, by walking every path."""
    levels = depth = number = aliases = roots = directives = 0
    for each in selection_set.selections:
        below = (0, 0, 0, 0, 0, 0)
        if isinstance(each, FragmentSpreadNode):
            below = naive(fragments[each.name.value], fragments)  # type: ignore[assignment]
        elif isinstance(each, FieldNode | InlineFragmentNode) and each.selection_set:
            below = naive(each.selection_set, fragments)  # type: ignore[assignment]
        is_field = isinstance(each, FieldNode)
        levels = max(levels, below[0])
        depth = max(depth, below[1] + is_field)
        number += 1 + below[2]
        aliases += below[3] + (isinstance(each, FieldNode) and each.alias is not None)
        roots += 1 if is_field else below[4]
        directives += len(each.directives or ()) + below[5]
    return levels + 1, depth, number, aliases, roots, directives


@given(documents())
def test_the_counts_equal_those_of_the_expanded_document(text: str) -> None:
    document = parse(text)
    counter = DocumentCounter(document, 10**9)
    fragments = {name: each.selection_set for name, each in counter.fragments.items()}

    assert not counter.is_circular
    for root, counts in counter.roots:
        assert tuple(counts) == naive(root.selection_set, fragments)
