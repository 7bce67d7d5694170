"""Promise: prepared or not, every value is completed the same, wherever it stands."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
import strawberry
from graphql import GraphQLError, Undefined
from graphql.execution.collect_fields import CollectedFields

from app.engine.codegen import CodeGenerator, FunctionGenerator
from tests.engine.library import (
    PLAIN,
    AsyncValue,
    Found,
    Genre,
    PlainObject,
    a_volume,
    an_author,
    execute_both,
    execute_both_with,
    only,
)

Changed = Callable[[], dict[str, Any]]


# Where the object stands that holds the tested value, beside fields that are always correct.
POSITIONS: dict[str, tuple[str, Callable[[Changed], Found]]] = {
    "at an async root": (
        "{{ volume {{ title {0} pages }} }}",
        lambda changed: {"volume": lambda: a_volume(**changed())},
    ),
    "at one of several roots": (
        "{{ volume {{ title {0} pages }} count sure: sureVolume {{ title }} }}",
        lambda changed: {
            "volume": lambda: a_volume(**changed()),
            "count": lambda: 3,
            "sureVolume": a_volume,
        },
    ),
    "below objects that may not be null": (
        "{{ volume {{ title sequels {{ title sequels {{ title {0} pages }} }} pages }} }}",
        lambda changed: {
            "volume": lambda: a_volume(sequels=[a_volume(sequels=[a_volume(**changed())])])
        },
    ),
}  # fmt: skip


class Unprintable(PlainObject):
    def __str__(self) -> str:
        raise ValueError("cannot be printed")


class Number(int):
    pass


class Text(str):
    pass


def generated() -> Iterator[str]:
    yield "old"
    yield "red"


async def generated_later() -> AsyncIterator[str]:
    yield "old"
    await asyncio.sleep(0)
    yield "red"


def breaking_off() -> Iterator[str]:
    yield "old"
    raise RuntimeError("broke off")


LEAF_VALUES: dict[str, Callable[[], Any]] = {
    "null": lambda: None,
    "undefined": lambda: Undefined,
    "unset": lambda: strawberry.UNSET,
    "a text": lambda: "text",
    "an empty text": lambda: "",
    "a text that is a number": lambda: "12",
    "a text of its own class": lambda: Text("own"),
    "a number": lambda: 12,
    "a number of its own class": lambda: Number(12),
    "nought": lambda: 0,
    "one": lambda: 1,
    "a number that is too large": lambda: 2**31,
    "the largest number": lambda: 2**31 - 1,
    "the smallest number": lambda: -(2**31),
    "a number that is too small": lambda: -(2**31) - 1,
    "a huge number": lambda: 10**400,
    "yes": lambda: True,
    "no": lambda: False,
    "a fraction": lambda: 1.5,
    "a whole fraction": lambda: 2.0,
    "not a number": lambda: float("nan"),
    "without end": lambda: float("inf"),
    "a decimal": lambda: Decimal("1.50"),
    "bytes": lambda: b"bytes",
    "a list": lambda: ["text"],
    "a dict": lambda: {"a": 1},
    "a set": lambda: {1},
    "an object": lambda: PlainObject(),
    "an object that cannot be printed": lambda: Unprintable(),
    "a member": lambda: Genre.POEMS,
    "a member's value": lambda: "poems",
    "a member's name": lambda: "POEMS",
    "a member's name in the schema": lambda: "VERSE",
    "another member's value": lambda: 3,
    "a stamp that is torn": lambda: "torn",
    "a stamp that is blank": lambda: "blank",
    "a stamp that is lost": lambda: "lost",
    "an exception": lambda: ValueError("as a value"),
    "an error with extensions": lambda: GraphQLError("rejected", extensions={"code": "REJECTED"}),
    "a later text": lambda: AsyncValue("later"),
    "a later number": lambda: AsyncValue(12, turns=3),
    "a later null": lambda: AsyncValue(None),
    "a later exception": lambda: AsyncValue(ValueError("later")),
    "a class": lambda: int,
    "an exception's class": lambda: ValueError,
}
LEAFS = ["title", "subtitle", "pages", "lent", "price", "code", "genre", "stamp", "seal"]


KINDS = ["String", "Int", "Float", "Boolean", "ID", "Genre", "Stamp"]
END_TO_END = [
    "null",
    "undefined",
    "a text",
    "a number",
    "a whole fraction",
    "yes",
    "a list",
    "an object that cannot be printed",
    "a member",
    "a stamp that is blank",
    "an exception",
    "a later number",
]


@pytest.mark.parametrize("is_required", [True, False], ids=["required", "nullable"])
@pytest.mark.parametrize("name", KINDS)
def test_generated_code_coerces_a_leaf_like_its_type_or_raises(name: str, is_required: bool) -> None:
    """If it raises, graphql-core completes the value."""
    kind: Any = PLAIN._schema.type_map[name]
    for what, value in LEAF_VALUES.items():
        generator = FunctionGenerator(CodeGenerator(lambda *_: CollectedFields({}, [], []), lambda *_: {}))
        complete = generator.compile(generator.leaf_code(kind, "v", is_required))
        leaf = value()
        for _ in range(2):  # the class of the first value is remembered
            try:
                completed = complete(leaf)
            except Exception:
                continue
            if leaf is None:
                assert completed is None and not is_required
            else:
                assert not isinstance(leaf, Exception | AsyncValue), what
                assert repr(completed) == repr(kind.coerce_output_value(leaf)), what


@pytest.mark.parametrize(
    ("name", "leaf"),
    [
        ("String", "a"),
        ("Int", 1),
        ("Float", 1),
        ("Boolean", True),
        ("ID", 7),
        ("Genre", Genre.NOVEL),
        ("Stamp", "1"),
    ],
)
def test_generated_code_coerces_usual_leaves(name: str, leaf: object) -> None:
    kind: Any = PLAIN._schema.type_map[name]
    generator = FunctionGenerator(CodeGenerator(lambda *_: CollectedFields({}, [], []), lambda *_: {}))
    complete = generator.compile(generator.leaf_code(kind, "v", True))

    assert [complete(leaf), complete(leaf)] == [kind.coerce_output_value(leaf)] * 2


@pytest.mark.parametrize("what", END_TO_END)
def test_every_leaf_value_gives_the_same_result(what: str) -> None:
    for leaf in LEAFS:
        compare_leaf(leaf, LEAF_VALUES[what])


def compare_leaf(leaf: str, value: Callable[[], Any]) -> None:
    def changed() -> PlainObject:
        return a_volume(**{leaf: value()})

    execute_both(
        f"{{ pile {{ before: title {leaf} sequels {{ {leaf} }} after: code }} }}",
        {"pile": lambda: [changed(), a_volume(), changed(), a_volume(sequels=[a_volume(), changed()])]},
    )


# The selection, and the changed members of the volume.
VALUES: dict[str, tuple[str, Changed]] = {
    "nothing wrong": ("code author { name born }", lambda: {}),
    "a missing attribute": ("author { name }", lambda: {"author": PlainObject(born=1)}),
    "null in a nullable leaf": ("subtitle", lambda: {"subtitle": None}),
    "null in a leaf": ("code", lambda: {"code": None}),
    "null in a nullable object": ("editor { name }", lambda: {"editor": None}),
    "null in an object": ("author { name }", lambda: {"author": None}),
    "null below an object": ("author { name }", lambda: {"author": an_author(name=None)}),
    "null below a nullable object": (
        "editor { name born rival { name } }",
        lambda: {"editor": an_author(rival=an_author(name=None))},
    ),
    "null far below": (
        "author { rival { rival { rival { name } } } }",
        lambda: {
            "author": an_author(
                rival=an_author(rival=an_author(rival=an_author(name=None), name=None), name=None)
            )
        },
    ),
    "undefined in an object": ("author { name }", lambda: {"author": Undefined}),
    "undefined in a nullable object": ("editor { name }", lambda: {"editor": Undefined}),
    "a text for an object": ("author { name }", lambda: {"author": "Jane"}),
    "a number for a nullable object": ("editor { name }", lambda: {"editor": 1}),
    "a list for an object": ("author { name }", lambda: {"author": [an_author()]}),
    "a dict for an object": ("author { name }", lambda: {"author": {"name": "Jane"}}),
    "a text for an object with only __typename": (
        "author { __typename }",
        lambda: {"author": "Jane"},
    ),
    "an exception for an object": ("author { name }", lambda: {"author": ValueError("no author")}),
    "an exception for an object with only __typename": (
        "author { __typename }",
        lambda: {"author": ValueError("no author")},
    ),
    "an exception for a nullable object": ("editor { name }", lambda: {"editor": ValueError("none")}),
    "an exception's class for an object": ("editor { name }", lambda: {"editor": ValueError}),
    "two exceptions": (
        "editor { name } author { name rival { name } }",
        lambda: {"editor": ValueError("a"), "author": an_author(rival=ValueError("b"))},
    ),
    "one exception in two places": (
        "editor { name } notes",
        lambda: (lambda fault: {"editor": fault, "notes": [fault]})(ValueError("the same")),
    ),
    "a later object": ("author { name born }", lambda: {"author": AsyncValue(an_author())}),
    "a later object with only __typename": (
        "author { __typename }",
        lambda: {"author": AsyncValue(None)},
    ),
    "a later nothing": ("editor { name }", lambda: {"editor": AsyncValue(None)}),
    "a later fault": ("editor { name } author { name }", lambda: {"editor": AsyncValue(ValueError("later"))}),
    "later leafs below": ("author { name born }", lambda: {"author": an_author(name=AsyncValue("J"))}),
    "several later faults, the last first": (
        "editor { name } notes author { born }",
        lambda: {
            "editor": AsyncValue(ValueError("third"), turns=5),
            "notes": [AsyncValue(ValueError("second"), turns=3), "a", AsyncValue("b")],
            "author": an_author(born=AsyncValue(ValueError("first"))),
        },
    ),
    "a later fault beside a fault": (
        "editor { name } code",
        lambda: {"editor": AsyncValue(ValueError("later"), turns=4), "code": ValueError("now")},
    ),
    # lists
    "an empty list": ("tags sequels { title }", lambda: {"tags": [], "sequels": []}),
    "a tuple": ("tags", lambda: {"tags": ("a", "b")}),
    "a set": ("tags", lambda: {"tags": {"a"}}),
    "a dict for a list": ("tags", lambda: {"tags": {"a": 1, "b": 2}}),
    "a generator": ("tags", lambda: {"tags": generated()}),
    "a generator for two fields": ("tags more: tags", lambda: {"tags": generated()}),
    "a generator that breaks off": ("tags", lambda: {"tags": breaking_off()}),
    "an async generator": ("tags", lambda: {"tags": generated_later()}),
    "a range": ("tags", lambda: {"tags": range(2)}),
    "a text for a list": ("tags", lambda: {"tags": "old"}),
    "bytes for a list": ("tags", lambda: {"tags": b"old"}),
    "a number for a list": ("tags", lambda: {"tags": 7}),
    "a number for a nullable list": ("notes", lambda: {"notes": 7}),
    "an object for a list": ("sequels { title }", lambda: {"sequels": a_volume()}),
    "null for a list": ("tags", lambda: {"tags": None}),
    "null for a nullable list": ("notes", lambda: {"notes": None}),
    "undefined for a nullable list": ("notes", lambda: {"notes": Undefined}),
    "an exception for a list": ("tags", lambda: {"tags": ValueError("no tags")}),
    "an exception for a nullable list": ("notes", lambda: {"notes": ValueError("no notes")}),
    "a later list": ("tags", lambda: {"tags": AsyncValue(["a", "b"])}),
    "a later list of later items": (
        "notes",
        lambda: {"notes": AsyncValue([AsyncValue("a", 3), AsyncValue("b")])},
    ),
    "null in a list": ("tags", lambda: {"tags": ["a", None, "b"]}),
    "null in a list of nullable items": ("notes", lambda: {"notes": ["a", None, "b"]}),
    "undefined in a list of nullable items": ("notes", lambda: {"notes": ["a", Undefined, "b"]}),
    "an exception in a list": ("tags", lambda: {"tags": ["a", ValueError("no tag")]}),
    "exceptions in a list of nullable items": (
        "notes",
        lambda: {"notes": [ValueError("a"), "b", ValueError("c")]},
    ),
    "a wrong leaf in a list": ("tags", lambda: {"tags": ["a", ["b"]]}),
    "wrong leafs in a list of nullable items": ("notes", lambda: {"notes": ["a", ["b"], {}, 7, True]}),
    "later items": ("tags notes", lambda: {"tags": ["a", AsyncValue("b")], "notes": [AsyncValue(None), "c"]}),
    "later faults in a list": (
        "notes",
        lambda: {"notes": [AsyncValue(ValueError("x"), 3), AsyncValue(ValueError("y"))]},
    ),
    "a later fault in a list of required items": (
        "tags",
        lambda: {"tags": ["a", AsyncValue(ValueError("x"), 3), AsyncValue(ValueError("y"))]},
    ),
    "nested lists": ("grid", lambda: {"grid": [[1, None], None, [], (2, 3)]}),
    "a wrong nested list": ("grid", lambda: {"grid": [[1], 2, [3]]}),
    "a wrong leaf in a nested list": ("grid", lambda: {"grid": [[1, "one"], [2**40, 4]]}),
    "exceptions in nested lists": ("grid", lambda: {"grid": [[ValueError("a")], ValueError("b")]}),
    "later nested lists": (
        "grid",
        lambda: {"grid": [AsyncValue([1, AsyncValue(2)]), [AsyncValue(ValueError("no"))]]},
    ),
    "members in a list": ("moods", lambda: {"moods": [Genre.NOVEL, "poems", Genre.LETTERS, 3]}),
    "unknown members in a list": ("moods", lambda: {"moods": [Genre.NOVEL, "unknown"]}),
    "unhashable members in a list": ("moods", lambda: {"moods": [Genre.NOVEL, ["poems"]]}),
    "objects in a list": (
        "related { title author { name } }",
        lambda: {"related": [a_volume(), None, a_volume()]},
    ),
    "null in a list of objects": ("sequels { title }", lambda: {"sequels": [a_volume(), None]}),
    "objects that lack something in a list": (
        "related { title author { name } }",
        lambda: {"related": [a_volume(title=None), a_volume(), a_volume(author=an_author(name=None))]},
    ),
    "exceptions among objects": (
        "related { title }",
        lambda: {"related": [a_volume(), ValueError("lost"), None, ValueError("stolen")]},
    ),
    "an exception among objects that may not be null": (
        "sequels { title }",
        lambda: {"sequels": [a_volume(), ValueError("lost")]},
    ),
    "later objects in a list": (
        "related { title code }",
        lambda: {
            "related": [
                AsyncValue(a_volume(), 3),
                a_volume(title=AsyncValue("L")),
                AsyncValue(a_volume(code=None)),
            ]
        },
    ),
    "wrong objects in a list": ("related { title }", lambda: {"related": ["Emma", 7, a_volume()]}),
    # resolvers below the root
    "plain resolvers": ("spine age label", lambda: {"age": 3}),
    "resolvers that find nothing to read": ("age label", lambda: {"title": None}),
    "a plain resolver that raises": ("wrong", lambda: {"fault": ValueError("wrong")}),
    "a plain resolver that returns an exception": ("age", lambda: {"age": ValueError("returned")}),
    "a plain resolver that raises an error with extensions": (
        "wrong",
        lambda: {"fault": GraphQLError("rejected", extensions={"code": "REJECTED"})},
    ),
    "a plain resolver that stops an iteration": ("wrong", lambda: {"fault": StopIteration("stopped")}),
    "a plain resolver of a required field that raises": ("quiteWrong", lambda: {}),
    "several resolvers that raise": (
        "wrong author { rival { name } } slow more: wrong",
        lambda: {"fault": ValueError("wrong"), "author": an_author(rival=ValueError("no rival"))},
    ),
    "an async resolver": ("slow", lambda: {}),
    "an async resolver that raises": ("slow", lambda: {"fault": ValueError("slowly")}),
    "async resolvers of different lengths": (
        "a: slow(turns: 4) b: slow(turns: 2) c: slow",
        lambda: {"fault": ValueError("slowly")},
    ),
    "an async resolver of an object": ("slowAuthor { name initial }", lambda: {}),
    "an async resolver of an object that is null": ("slowAuthor { name }", lambda: {"author": None}),
    "async resolvers below each other": ("slowAuthor { name biography rival { biography } }", lambda: {}),
    "an async resolver beside null in a leaf": ("slow code", lambda: {"code": None}),
    "an async resolver beside a wrong list": ("slow notes tags", lambda: {"tags": [None], "notes": 7}),
    "a resolver with info": ("infoText", lambda: {}),
    "a resolver with info, beside an error": (
        "infoText editor { name }",
        lambda: {"editor": 7},
    ),
    "a permission that is given": ("secret", lambda: {"is_open": True}),
    "a permission that is not given": ("secret", lambda: {}),
    "an async permission that is given": ("deepSecret", lambda: {"is_open": True}),
    "an async permission that is not given": ("deepSecret", lambda: {}),
    "an extension of a field": ("loud loudly: loud(times: 2)", lambda: {}),
    # arguments
    "arguments by default": ("excerpt ofGenre placed stamped nearest", lambda: {}),
    "arguments as literals": (
        """excerpt(length: 3, upper: true, by: "x") ofGenre(genre: VERSE) stamped(stamp: "#5")
           placed(place: { room: "hall", beside: { room: "bay", row: 9, genres: [NOVEL, LETTERS] } })
           openedAt(pages: [1, 900, 3]) nearest(numbers: [[1, null], 2])""",
        lambda: {"genre": Genre.POEMS},
    ),
    "null as an argument": (
        "excerpt(upper: null, by: null) ofGenre(genre: null) placed(place: null) stamped(stamp: null)",
        lambda: {},
    ),
    "a single item as a list": ('openedAt(pages: 5) placed(place: { room: "a", stamps: "7" })', lambda: {}),
    "arguments beside an error": ("excerpt(length: 1) code", lambda: {"code": None}),
    "arguments beside null": ("editor { name } excerpt(length: 4)", lambda: {"title": None}),
    # merged selections
    "aliases": ("a: code b: code c: author { d: name } e: author { f: name } g: __typename", lambda: {}),
    "merged fields": ("author { name } author { born } author { name initial }", lambda: {}),
    "merged fields that lack something": (
        "author { born } editor { born } author { name } editor { name }",
        lambda: {"author": an_author(name=None), "editor": an_author(name=None)},
    ),
    "merged fields in fragments": (
        """... on Volume { author { name } } ... { author { born rival { name } } }
           author { rival { born rival { initial } } }""",
        lambda: {"author": an_author(rival=an_author(rival=an_author(name="")))},
    ),
    "the names of types": (
        "__typename author { __typename rival { __typename } } sequels { __typename }",
        lambda: {"author": an_author(rival=an_author()), "sequels": [a_volume()]},
    ),
    "directives that include": (
        "code @include(if: true) author @skip(if: false) { name @include(if: true) }",
        lambda: {"author": an_author(name=None)},
    ),
    "directives that skip": (
        "code @skip(if: true) author { name @skip(if: true) born } ... @include(if: false) { tags }",
        lambda: {"code": None, "tags": 7},
    ),
    "an empty selection": ("author { name @skip(if: true) } editor @skip(if: true) { name }", lambda: {}),
    "an empty selection on an error": (
        "author { name @skip(if: true) }",
        lambda: {"author": ValueError("no author")},
    ),
    "an empty selection on null": ("author { name @skip(if: true) }", lambda: {"author": None}),
}


@pytest.mark.parametrize("what", VALUES)
def test_every_member_value_gives_the_same_result(what: str) -> None:
    selection, changed = VALUES[what]

    for query, found in POSITIONS.values():
        outcome = execute_both(query.format(selection), found(changed))

        assert outcome.raised is None


def test_every_member_value_in_a_list_gives_the_same_result() -> None:
    """The cases are useful only if generated code both succeeds and falls back in many of them."""
    outcomes = []
    for selection, changed in VALUES.values():

        def pile(changed: Changed = changed) -> tuple[Any, ...]:
            return a_volume(**changed()), None, a_volume(**changed()), a_volume()

        outcomes.append(execute_both(f"{{ pile {{ title {selection} pages }} }}", {"pile": pile}))

    assert not [outcome.raised for outcome in outcomes if outcome.raised]
    assert sum(bool(outcome.errors) for outcome in outcomes) > 50
    assert sum(not outcome.errors for outcome in outcomes) > 30
    assert len({message for outcome in outcomes for message in outcome.messages}) > 40


def test_null_propagates_to_the_nearest_nullable_field() -> None:
    outcome = execute_both(
        "{ volume { title related { title sequels { author { name } } } } }",
        {
            "volume": lambda: a_volume(
                related=[a_volume(sequels=[a_volume(author=an_author(name=None))]), a_volume()]
            )
        },
    )

    assert outcome.data == (
        "{'volume': {'title': 'Emma', 'related': [None, {'title': 'Emma', 'sequels': []}]}}"
    )
    assert outcome.messages == ["Cannot return null for non-nullable field Author.name."]
    assert outcome.paths == [["volume", "related", 0, "sequels", 0, "author", "name"]]


def test_null_propagates_to_data() -> None:
    outcome = execute_both("{ sureVolume { title } }", {"sureVolume": lambda: a_volume(title=None)})

    assert outcome.data == "None"
    assert outcome.paths == [["sureVolume", "title"]]
    assert outcome.calls == {"sureVolume": 1}


def test_objects_of_very_many_classes_give_the_same_result() -> None:
    def found() -> list[Any]:
        classes = [type(f"Volume{number}", (PlainObject,), {}) for number in range(200)]
        objects = [one(**a_volume().__dict__) for one in classes]
        return [*objects, ValueError("lost"), *objects, AsyncValue(None), 7]

    outcome = execute_both("{ pile { title code } }", {"pile": found})

    assert len(outcome.errors) == 2
    assert outcome.paths == [["pile", 200], ["pile", 402, "title"]]


class Writer(tuple[Any, ...]):
    """The part of a StoredBook, a view of its row."""

    name = property(lambda self: self[2])


class StoredBook(tuple[Any, ...]):
    """The title, the id of its writer and the name of its writer, like a row of a reader."""

    __layout__ = SimpleNamespace(
        columns={"title": (0, None)},
        joined={"writer": (1, SimpleNamespace(columns={"name": (2, None)}, joined={}, lists={}))},
        lists={},
    )
    title = property(lambda self: self[0])
    writer = property(lambda self: None if self[1] is None else Writer(self))


@strawberry.type
class Named:
    name: str


@strawberry.type
class WithWriter:
    title: str
    writer: Named


class StoredName(tuple[Any, ...]):
    __layout__ = SimpleNamespace(columns={"name": (1, None)}, joined={}, lists={})
    name = property(lambda self: self[1])


class StoredAlias(tuple[Any, ...]):
    __layout__ = SimpleNamespace(columns={"name": (0, None)}, joined={}, lists={})
    name = property(lambda self: self[0])


@strawberry.type
class Shop:
    @strawberry.field
    def books(self) -> list[WithWriter | None]:
        return [StoredBook(("Emma", 1, "Jane")), StoredBook(("Lost", None, None))]  # type: ignore[list-item]

    @strawberry.field
    def writers(self) -> list[Named]:
        return [StoredName((2, "Jane")), StoredAlias(("Bell", 3)), StoredName((4, "Emily"))]  # type: ignore[list-item]


def test_a_row_without_its_required_object_gives_the_same_result() -> None:
    outcome = execute_both_with(only(Shop), "{ books { title writer { name } } }")

    assert outcome.data == "{'books': [{'title': 'Emma', 'writer': {'name': 'Jane'}}, None]}"
    assert outcome.paths == [["books", 1, "writer"]]


def test_rows_of_several_classes_in_one_list_give_the_same_result() -> None:
    outcome = execute_both_with(only(Shop), "{ writers { name } }", times=2)

    assert outcome.data == "{'writers': [{'name': 'Jane'}, {'name': 'Bell'}, {'name': 'Emily'}]}"
