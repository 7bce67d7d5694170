"""Promise: prepared or not, arguments and variables give the same result."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
import strawberry
from strawberry.scalars import JSON
from strawberry.schema.config import StrawberryConfig

from tests.engine.library import (
    COMPUTES,
    Info,
    LibraryContext,
    Stamp,
    a_volume,
    execute_both,
    execute_both_in_turn,
    execute_both_with,
    library,
    only,
    outcome_of,
    run,
)

VARIABLES = """
    query Q(
        $length: Int = 3, $upper: Boolean, $by: String, $genre: Genre, $place: Place, $stamp: Stamp,
        $pages: [Int!]! = [1, 900], $numbers: [[Int]!], $beside: Place, $room: String = "hall"
    ) {
        volume {
            title
            excerpt(length: $length, upper: $upper, by: $by)
            ofGenre(genre: $genre)
            placed(place: $place)
            inner: placed(place: { room: $room, beside: $beside })
            stamped(stamp: $stamp)
            openedAt(pages: $pages)
            nearest(numbers: $numbers)
        }
    }
"""
VARIABLE_CASES: dict[str, dict[str, Any] | None] = {
    "nothing": {},
    "no variables at all": None,
    "everything": {
        "length": 5,
        "upper": True,
        "by": "x",
        "genre": "VERSE",
        "place": {
            "room": "bay",
            "row": 2,
            "beside": {"room": "b"},
            "genres": ["NOVEL"],
            "stamps": ["#1", "2"],
        },
        "stamp": "#9",
        "pages": [3, 4],
        "numbers": [[1, None], [2]],
        "beside": {"room": "attic", "stamps": None},
        "room": "cellar",
    },
    "everything as null": {
        "length": None,
        "upper": None,
        "by": None,
        "genre": None,
        "place": None,
        "stamp": None,
        "numbers": None,
        "beside": None,
    },
    "null for a required value": {"pages": None, "room": None},
    "null for a text in an input": {"room": None},
    "a single item for a list": {"pages": 3, "numbers": 4},
    "a list of single items": {"numbers": [1, 2]},
    "a wrong number": {"length": "three"},
    "yes for a number": {"length": True},
    "a fraction for a number": {"length": 1.5},
    "a whole fraction for a number": {"length": 2.0},
    "a number that is too large": {"length": 2**31},
    "a number for a text": {"by": 7},
    "an unknown member": {"genre": "NOTHING"},
    "a member's value": {"genre": "poems"},
    "a wrong item": {"pages": [1, "two"]},
    "null as an item": {"pages": [1, None]},
    "an input that lacks something": {"place": {"row": 2}},
    "an input with something more": {"place": {"room": "a", "colour": "red"}},
    "a text for an input": {"place": "hall"},
    "a wrong input far below": {"place": {"room": "a", "beside": {"room": "b", "beside": {"room": 1}}}},
    "a stamp that is refused": {"stamp": "refused"},
    "a stamp that is no text": {"stamp": 7},
    "a stamp at which reading fails": {"stamp": "fault"},
    "a stamp in an input at which reading fails": {"place": {"room": "a", "stamps": ["fault"]}},
    "many wrong variables": {"length": "a", "upper": "b", "by": 3, "genre": 4, "place": 5, "pages": "x"},
    "something more": {"length": 1, "colour": "red"},
    "equal texts": {"by": "1", "room": "1"},
    "a long text": {"by": "x" * 2000},
}


@pytest.mark.parametrize("given", VARIABLE_CASES.values(), ids=VARIABLE_CASES.keys())
def test_variables_give_the_same_result(given: dict[str, Any] | None) -> None:
    outcome = execute_both(VARIABLES, {"volume": a_volume}, variable_values=given)

    assert outcome.raised is None


def test_the_order_of_requests_does_not_matter() -> None:
    execute_both_in_turn(
        VARIABLES, *VARIABLE_CASES.values(), *reversed(VARIABLE_CASES.values()), found={"volume": a_volume}
    )


def test_variables_give_the_same_result_beside_an_error() -> None:
    execute_both_in_turn(VARIABLES, *VARIABLE_CASES.values(), found={"volume": lambda: a_volume(title=None)})


ROOT_ARGUMENTS = """
    query($code: ID!, $genre: Genre! = VERSE, $place: Place, $stamp: Stamp, $pages: [Int!]) {
        wanted(code: $code, genre: $genre, place: $place, stamp: $stamp, pages: $pages) { title code }
    }
"""
ROOT_VARIABLE_CASES: dict[str, dict[str, Any]] = {
    "the least": {"code": "7"},
    "a number as an id": {"code": 7},
    "a missing variable": {},
    "null for a required value": {"code": None},
    "null for a member with a default": {"code": "7", "genre": None},
    "all of it": {
        "code": "7",
        "genre": "LETTERS",
        "place": {"room": "a", "stamps": ["1"]},
        "stamp": "5",
        "pages": [1],
    },
    "a stamp at which reading fails": {"code": "7", "stamp": "fault"},
    "a stamp that is refused": {"code": "7", "stamp": "refused"},
    "a fraction as an id": {"code": 1.5},
}


@pytest.mark.parametrize("given", ROOT_VARIABLE_CASES.values(), ids=ROOT_VARIABLE_CASES.keys())
def test_variables_of_a_root_field_give_the_same_result(given: dict[str, Any]) -> None:
    execute_both(ROOT_ARGUMENTS, variable_values=given)


def test_the_order_of_requests_does_not_matter_for_a_root_field() -> None:
    outcomes = execute_both_in_turn(
        ROOT_ARGUMENTS, *ROOT_VARIABLE_CASES.values(), *reversed(ROOT_VARIABLE_CASES.values())
    )

    assert len({outcome.data for outcome in outcomes}) == 3


def test_literals_of_a_root_field_give_the_same_result() -> None:
    outcome = execute_both(
        '{ wanted(code: 12, genre: VERSE, place: { room: "a" }, stamp: "#1", pages: 3) { title } }'
    )

    assert "12 Genre.POEMS a/1/None/unset beside nowhere '1' [3]" in outcome.data


def test_null_for_a_required_argument_is_an_error_in_every_request() -> None:
    query = "query($times: Int = 2) { noted(times: $times) }"

    outcomes = execute_both_in_turn(query, {"times": 1}, {"times": None}, {}, {"times": None})

    assert [bool(each.errors) for each in outcomes] == [False, True, False, True]


LEAF_ARGUMENTS = """
    query(
        $code: ID = "given", $genre: Genre, $stamp: Stamp, $loud: Boolean, $times: Int! = 2, $price: Float,
        $more: JSON
    ) {
        noted(
            code: $code, genre: $genre, stamp: $stamp, loud: $loud, times: $times, price: $price, more: $more
        )
    }
"""
LEAF_VARIABLE_CASES: list[dict[str, Any] | None] = [
    {},
    None,
    {"code": None},
    {"code": 7, "genre": "VERSE", "stamp": "#7", "loud": True, "times": 3, "price": 2, "more": {"a": [1]}},
    {"genre": None, "stamp": None, "loud": None, "price": None, "more": None},
    {"times": None},
    {"genre": "poems"},
    {"loud": "yes"},
    {"times": 1.0, "price": -0.0},
    {"times": 2**31},
    {"stamp": "refused"},
    {"stamp": "fault"},
    {"more": [1, {"b": 2}]},
    {"more": "text", "code": "other", "nothing": 1},
]


def test_scalar_variables_of_a_root_field_give_the_same_result_in_any_order() -> None:
    outcomes = execute_both_in_turn(
        LEAF_ARGUMENTS, *LEAF_VARIABLE_CASES, *reversed(LEAF_VARIABLE_CASES), *LEAF_VARIABLE_CASES
    )

    assert len({outcome.data for outcome in outcomes}) > 6


LEAF_LITERALS = {
    "none": "{ noted }",
    "all": """{ noted(
        code: 5, genre: LETTERS, stamp: "#1", loud: true, times: 4, price: 1, more: {a: [1, {b: null}]}
    ) }""",
    "a list": "{ noted(more: [1, 2]) }",
    "null": "{ noted(genre: null, stamp: null, loud: null, price: null, more: null) }",
    "some beside variables": """
        query($times: Int!, $loud: Boolean) { noted(code: 5, times: $times, loud: $loud, more: [1]) }""",
    "with variables inside": "query($times: Int) { noted(more: { a: $times, b: [$times, 1] }) }",
}


@pytest.mark.parametrize("query", LEAF_LITERALS.values(), ids=LEAF_LITERALS.keys())
def test_scalar_literals_of_a_root_field_give_the_same_result_in_every_request(query: str) -> None:
    execute_both_in_turn(
        query, {"times": 1}, {"times": 2, "loud": False}, {}, {"times": 3, "loud": None}, {"times": 1}
    )


def test_a_missing_variable_leaves_the_default_of_its_argument() -> None:
    query = "query($n: Int, $g: Genre) { volume { excerpt(length: $n) ofGenre(genre: $g) } }"

    outcomes = execute_both_in_turn(query, {}, {"n": 1}, {}, {"n": None}, found={"volume": a_volume})

    assert [outcome.data for outcome in outcomes[:3]] == [
        "{'volume': {'excerpt': 'Em', 'ofGenre': True}}",
        "{'volume': {'excerpt': 'E', 'ofGenre': True}}",
        "{'volume': {'excerpt': 'Em', 'ofGenre': True}}",
    ]
    assert outcomes[3].errors


def test_a_fragment_gives_the_same_result_at_the_root_and_below_it() -> None:
    query = """
        query($loud: Boolean) { ...f again { ...f again { ...f } } }
        fragment f on Query { greeting(loud: $loud) }
    """

    outcomes = execute_both_in_turn(query, {"loud": True}, {"loud": False}, {"loud": True}, {})

    assert outcomes[0].data == (
        "{'greeting': 'HELLO', 'again': {'greeting': 'HELLO', 'again': {'greeting': 'HELLO'}}}"
    )


@strawberry.input
class Shelf:
    """Not recursive, unlike Place."""

    room: str
    next_room: str | None
    row: int = 1
    numbers: list[list[int | None]] | None = None
    stamps: list[Stamp] | None = strawberry.UNSET


@strawberry.type
class Shelving:
    @strawberry.field
    def shelved(self, on: Shelf | None = None, beside: Shelf | None = None) -> str:
        return repr((on, beside))

    @strawberry.field
    def noted(self, request: Info, on: Shelf | None = None, beside: Shelf | None = None) -> str:
        return repr((request.field_name, on, beside))


SHELVES: dict[str, Any] = {
    "the least": {"room": "a"},
    "all of it": {"room": "a", "row": 2, "numbers": [[1, None], []], "stamps": ["#1", "2"]},
    "a member without a default": {"room": "a", "nextRoom": "b"},
    "null for nullable members": {"room": "a", "nextRoom": None, "numbers": None, "stamps": None},
    "null for a required value": {"room": "a", "row": None},
    "null for a required member": {"room": None},
    "a missing required member": {"row": 1},
    "something more": {"room": "a", "colour": "red"},
    "a single item for a list": {"room": "a", "numbers": 7, "stamps": "3"},
    "a single text for a list": {"room": "a", "stamps": "34"},
    "null in a list": {"room": "a", "numbers": [None]},
    "a wrong item": {"room": "a", "numbers": [["x"]]},
    "a stamp that is refused": {"room": "a", "stamps": ["refused"]},
    "a stamp at which reading fails": {"room": "a", "stamps": ["fault"]},
    "a list of one": [{"room": "a"}],
    "a text": "a",
    "null": None,
}


@pytest.mark.parametrize("field", ["shelved", "noted"])
@pytest.mark.parametrize("given", SHELVES.values(), ids=SHELVES.keys())
def test_an_input_object_gives_the_same_result(given: Any, field: str) -> None:
    query = f"query($on: Shelf, $beside: Shelf) {{ {field}(on: $on, beside: $beside) }}"
    variables = {"on": given, "beside": {"room": "z", "row": 3}}

    outcome = execute_both_with(only(Shelving), query, variable_values=variables)

    assert outcome.raised is None


@strawberry.input(one_of=True)
class Whom:
    code: strawberry.Maybe[str]
    number: strawberry.Maybe[int]


@strawberry.input
class Change:
    name: strawberry.Maybe[str | None]
    whom: Whom | None = None


@strawberry.type
class Changing:
    @strawberry.field
    def changed(self, by: Change | None = None, pages: strawberry.Maybe[int | None] = None) -> str:
        return repr((by, pages))


CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, True),
    "no members": ({"by": {}}, True),
    "null": ({"by": {"name": None}, "pages": None}, True),
    "values": ({"by": {"name": "a", "whom": {"code": "x"}}, "pages": 3}, True),
    "the other of two": ({"by": {"whom": {"number": 1}}}, True),
    "both of two": ({"by": {"whom": {"number": 1, "code": "x"}}}, False),
    "none of two": ({"by": {"whom": {}}}, False),
    "null for one of two": ({"by": {"whom": {"code": None}}}, False),
}


@pytest.mark.parametrize(("given", "is_valid"), CHANGES.values(), ids=CHANGES.keys())
def test_an_input_with_one_of_several_members_gives_the_same_result(
    given: dict[str, Any], is_valid: bool
) -> None:
    """So does one that distinguishes null from a missing member."""
    query = "query($by: Change, $pages: Int) { changed(by: $by, pages: $pages) }"

    outcome = execute_both_with(only(Changing), query, variable_values=given)

    assert (outcome.raised, not outcome.errors) == (None, is_valid)


EQUAL_VALUES: dict[str, tuple[str, type, list[Any]]] = {
    "numbers that are equal": ("Float", float, [0.0, -0.0, 1.0]),
    "a number that is equal to true": ("JSON", JSON, [True, 1, False, 0]),
    "decimals that are equal": ("Decimal", Decimal, ["1.0", "1.00", "1"]),
    "moments that are equal": (
        "DateTime",
        datetime,
        ["2026-11-21T10:00:00+01:00", "2026-11-21T09:00:00+00:00", "2026-11-21T04:00:00-05:00"],
    ),
}


@pytest.mark.parametrize(("name", "kind", "given"), EQUAL_VALUES.values(), ids=EQUAL_VALUES.keys())
def test_values_that_are_equal_but_not_identical_are_not_confused(
    name: str, kind: type, given: list[Any]
) -> None:
    def representation(value: Any) -> str:
        return repr(value)

    representation.__annotations__["value"] = kind

    @strawberry.type
    class Child:
        text: str = strawberry.field(resolver=representation, metadata=COMPUTES)

    @strawberry.type
    class Root:
        @strawberry.field
        def child(self) -> Child:
            return Child()

    preparing, plain = (library(prepares, **only(Root)) for prepares in (True, False))
    preparing.operations.prepared_at_use = 1
    query = f"query($value: {name}!) {{ child {{ text(value: $value) }} }}"

    for value in given:
        options = {"variable_values": {"value": value}}
        expected = run(outcome_of(plain, query, LibraryContext(), **options))
        assert run(outcome_of(preparing, query, LibraryContext(), **options)) == expected


@pytest.mark.parametrize("given", [({}, {"value": None}, {}), ({"value": None}, {}, {"value": None})])
def test_null_is_not_confused_with_a_missing_variable(given: tuple[dict[str, Any], ...]) -> None:
    def representation(value: str | None = "the default") -> str:
        return repr(value)

    @strawberry.type
    class Child:
        text: str = strawberry.field(resolver=representation, metadata=COMPUTES)

    @strawberry.type
    class Root:
        @strawberry.field
        def child(self) -> Child:
            return Child()

    preparing = library(True, **only(Root))
    preparing.operations.prepared_at_use = 1
    query = "query($value: String) { child { text(value: $value) } }"

    outcomes = [
        run(outcome_of(preparing, query, LibraryContext(), variable_values=variables)) for variables in given
    ]

    texts = ["None" if "value" in variables else "'the default'" for variables in given]
    assert [outcome.data for outcome in outcomes] == [repr({"child": {"text": text}}) for text in texts]


class Box:
    """Not hashable, as it defines `__eq__`."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.value == other.value


@pytest.mark.parametrize(
    "given", ["text", 7, 10**5000, [1], {"a": 1}], ids=["text", "number", "huge", "list", "dict"]
)
@pytest.mark.parametrize("read", [Box, lambda value: value], ids=["unhashable", "as it is"])
def test_a_scalar_may_be_parsed_to_any_object(read: Callable[[Any], Any], given: Any) -> None:
    Anything = strawberry.scalar(name="Anything", serialize=str, parse_value=read)

    @strawberry.type
    class Child:
        @strawberry.field
        def kind(self, of: object) -> str:
            return type(of).__name__

    @strawberry.type
    class Root:
        @strawberry.field
        def child(self) -> Child:
            return Child()

    parts = only(Root) | {"config": StrawberryConfig(scalar_map={object: Anything})}
    query = "query($of: Anything!) { child { kind(of: $of) } }"

    outcome = execute_both_with(parts, query, variable_values={"of": given})

    assert outcome.raised is None


@pytest.mark.parametrize("metadata", [{}, COMPUTES], ids=["", "computes"])
def test_a_resolver_may_change_its_list_arguments(metadata: dict[str, Any]) -> None:
    """Every call has its own lists."""

    @strawberry.type
    class Child:
        @strawberry.field(metadata=metadata)
        def with_end(self, pages: list[int], end: int) -> list[int]:
            pages.append(end)
            return pages

    @strawberry.type
    class Root:
        @strawberry.field
        def children(self) -> list[Child]:
            return [Child(), Child()]

    parts = only(Root)

    outcome = execute_both_with(parts, "{ children { withEnd(pages: [1], end: 9) } }", times=2)

    assert outcome.data == "{'children': [{'withEnd': [1, 9]}, {'withEnd': [1, 9]}]}"


@pytest.mark.parametrize("metadata", [{}, COMPUTES], ids=["", "computes"])
@pytest.mark.parametrize("below", [False, True], ids=["at the root", "below it"])
def test_a_resolver_may_change_its_json_arguments(below: bool, metadata: dict[str, Any]) -> None:
    def change(more: JSON) -> JSON:
        assert isinstance(more, list)
        more.append(9)
        return more

    @strawberry.type
    class Child:
        changed: JSON = strawberry.field(resolver=change, metadata=metadata)

    @strawberry.type
    class Root:
        changed: JSON = strawberry.field(resolver=change, metadata=metadata)

        @strawberry.field
        def child(self) -> Child:
            return Child()

    parts = only(Root)
    query = "{ child { changed(more: [1]) } }" if below else "{ changed(more: [1]) }"

    outcome = execute_both_with(parts, query, times=2)

    assert "'changed': [1, 9]}" in outcome.data


@pytest.mark.parametrize("metadata", [{}, COMPUTES], ids=["", "computes"])
def test_a_resolver_may_change_its_input_objects(metadata: dict[str, Any]) -> None:
    @strawberry.input
    class Crate:
        room: str

    @strawberry.type
    class Child:
        @strawberry.field(metadata=metadata)
        def moved(self, crate: Crate) -> str:
            crate.room += "!"
            return crate.room

    @strawberry.type
    class Root:
        @strawberry.field
        def children(self) -> list[Child]:
            return [Child(), Child()]

    parts = only(Root)

    outcome = execute_both_with(parts, '{ children { moved(crate: { room: "hall" }) } }', times=2)

    assert outcome.data == "{'children': [{'moved': 'hall!'}, {'moved': 'hall!'}]}"
