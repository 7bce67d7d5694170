"""Promise: the caches of operations are bounded."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import strawberry

import app.engine.prepared
from app.engine.codegen import MAX_ROW_CLASSES, MAX_SOURCE_LENGTH, MAX_SOURCES, cached_code
from app.engine.documents import MIN_WEIGHT, Document
from app.engine.prepared import MAX_DOCUMENT_LENGTH, MAX_VALUE_LENGTH, PreparedOperation
from tests.engine.library import (
    PLAIN,
    Library,
    LibraryContext,
    PlainObject,
    a_volume,
    library,
    only,
    outcome_of,
    run,
)

ROOT = Path(__file__).parent.parent.parent
MAX_OPERATIONS, MAX_COMPILED = 32, 48  # of short documents
LIMITS = {
    "MAX_WEIGHT": MAX_OPERATIONS * MIN_WEIGHT,
    "MAX_COMPILED_WEIGHT": MAX_COMPILED * MIN_WEIGHT,
    "MAX_COUNTED": 128,
}


class Counting(Library):
    """Counts how often it prepares each operation."""

    made: Counter[tuple[str, str | None]]

    def prepare_operation(self, document: Document, name: str | None) -> PreparedOperation | None:
        assert document.ast.loc is not None
        self.made[document.ast.loc.source.body, name] += 1
        return super().prepare_operation(document, name)


@pytest.fixture
def schema(monkeypatch: pytest.MonkeyPatch) -> Library:
    for name, limit in LIMITS.items():
        monkeypatch.setattr(app.engine.prepared, name, limit)
    schema = library(True, Counting)
    schema.made = Counter()
    return schema


@pytest.fixture
def made(schema: Counting) -> Counter[tuple[str, str | None]]:
    return schema.made


def texts(number: int, start: int = 0) -> Iterator[str]:
    return (f"{{ volume {{ a{index}: title }} }}" for index in range(start, start + number))


def padded(text: str, length: int) -> str:
    return text + " " * (length - len(text))


async def check_outcome(schema: Library, text: str, **options: Any) -> None:
    """Checks that the outcome is that of a schema without preparation."""
    found = {"volume": a_volume}
    assert await outcome_of(schema, text, LibraryContext(found), **options) == await outcome_of(
        PLAIN, text, LibraryContext(found), **options
    )


def use(schema: Library, *texts: str) -> None:
    async def use_all() -> None:
        for text in texts:
            await schema.execute(text, None, LibraryContext({"volume": a_volume}))

    asyncio.run(use_all())


def execute(schema: Library, text: str, **options: Any) -> None:
    run(check_outcome(schema, text, **options))


# --- when a document is prepared -------------------------------------------------------------------


def test_a_document_is_prepared_at_its_second_use(
    schema: Library, made: Counter[tuple[str, str | None]]
) -> None:
    text = "{ volume { title } }"

    execute(schema, text)
    assert not made
    execute(schema, text)
    execute(schema, text)
    execute(schema, text)

    assert made == {(text, None): 1}


def test_each_operation_of_a_document_is_prepared_separately(
    schema: Library, made: Counter[tuple[str, str | None]]
) -> None:
    text = "query A { volume { title } } query B { volume { code } }"

    for name in ("A", "B", "A", "B", "A", "B"):
        execute(schema, text, operation_name=name)

    assert made == {(text, "A"): 1, (text, "B"): 1}


def test_a_use_is_forgotten_after_many_other_documents(
    schema: Library, made: Counter[tuple[str, str | None]]
) -> None:
    text = "{ volume { title } }"

    execute(schema, text)
    use(schema, *texts(LIMITS["MAX_COUNTED"]))
    execute(schema, text)
    assert not made
    execute(schema, text)

    assert made == {(text, None): 1}


@pytest.mark.parametrize(
    "text",
    [
        "{ nothing }",
        "{ volume {",
        "{ volume " + "{ sequels " * 900 + "{ title }" + " }" * 901,
    ],
    ids=["invalid", "no syntax", "too deep"],
)
def test_an_unsupported_document_is_not_prepared(
    schema: Library, made: Counter[tuple[str, str | None]], text: str
) -> None:
    for _ in range(3):
        execute(schema, text)

    assert not made
    assert not schema.operations.use_counts.values


def test_a_schema_without_preparation_caches_nothing() -> None:
    plain = library(prepares=False)

    for _ in range(3):
        execute(plain, "{ volume { title } }")

    assert not plain.operations.use_counts.values
    assert not plain.operations.recent.values


# --- how many, and how long ------------------------------------------------------------------------


def test_the_number_of_cached_operations_is_limited(schema: Library) -> None:
    for text in texts(MAX_OPERATIONS + 50):
        use(schema, text, text)

    kept = [text for text, _ in schema.operations.recent.values]
    assert kept == list(texts(MAX_OPERATIONS, start=50))


def test_an_operation_in_use_stays_in_the_cache(
    schema: Library, made: Counter[tuple[str, str | None]]
) -> None:
    text = "{ volume { title } }"

    for other in texts(3 * MAX_OPERATIONS):
        use(schema, text, other, other)

    assert made[text, None] == 1


def test_an_evicted_operation_is_prepared_again(
    schema: Library, made: Counter[tuple[str, str | None]]
) -> None:
    text = "{ volume { title } }"
    execute(schema, text)
    execute(schema, text)

    for other in texts(MAX_OPERATIONS):
        use(schema, other, other)
    assert (text, None) not in schema.operations.recent.values
    execute(schema, text)
    execute(schema, text)

    assert made[text, None] == 2


def test_what_was_compiled_from_an_evicted_operation_is_removed(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    text = "query($a: Boolean! = true, $n: Int) { volume { title @include(if: $a) excerpt(length: $n) } }"
    for variables in ({}, {"a": False}, {"n": 2}):
        execute(schema, text, variable_values=variables)
    assert len(schema.operations.compiled.values) == 3

    use(schema, *texts(MAX_OPERATIONS))

    assert (text, None) not in schema.operations.recent.values
    assert not schema.operations.compiled.values
    assert schema.operations.compiled.weight == 0


@pytest.mark.parametrize(
    ("length", "is_kept"), [(MAX_DOCUMENT_LENGTH, True), (MAX_DOCUMENT_LENGTH + 1, False)]
)
def test_a_long_document_is_not_prepared(schema: Library, length: int, is_kept: bool) -> None:
    text = padded("{ volume { title } }", length)

    for _ in range(3):
        execute(schema, text)

    assert ((text, None) in schema.operations.recent.values) is is_kept
    assert bool(schema.operations.use_counts.values) is is_kept


def test_the_total_length_of_cached_documents_is_limited(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    length = LIMITS["MAX_WEIGHT"] // 4
    long = [padded(text, length) for text in texts(10)]

    use(schema, *long)

    assert [text for text, _ in schema.operations.recent.values] == long[-4:]


def test_a_long_document_evicts_as_many_short_ones_as_needed(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    use(schema, *texts(MAX_OPERATIONS))
    assert len(schema.operations.recent.values) == MAX_OPERATIONS

    use(schema, padded("{ volume { title } }", 4 * MIN_WEIGHT))

    assert len(schema.operations.recent.values) == MAX_OPERATIONS - 3


def test_the_number_of_compiled_selections_is_limited(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    names = [f"a{index}" for index in range(7)]
    declared = ", ".join(f"${name}: Boolean!" for name in names)
    fields = " ".join(f"{name}: title @include(if: ${name})" for name in names)
    text = f"query({declared}) {{ volume {{ {fields} }} }}"

    async def all_selections() -> None:
        for number in range(MAX_COMPILED + 50):
            variables = {name: bool(number >> index & 1) for index, name in enumerate(names)}
            result = await schema.execute(text, variables, LibraryContext({"volume": a_volume}))
            assert list(result.data["volume"]) == [name for name in names if variables[name]]

    asyncio.run(all_selections())

    assert len(schema.operations.compiled.values) == MAX_COMPILED


@pytest.mark.parametrize(
    ("length", "kept"), [(MIN_WEIGHT, MAX_COMPILED), (4 * MIN_WEIGHT, MAX_COMPILED // 4)]
)
def test_operations_compiled_for_arguments_count_as_much_as_their_document(
    schema: Library, length: int, kept: int
) -> None:
    schema.operations.prepared_at_use = 1
    text = padded("query($n: Int!) { volume { opened: openedAt(pages: [1, $n]) } }", length)

    async def all_arguments() -> None:
        for number in range(MAX_COMPILED + 50):
            result = await schema.execute(text, {"n": number}, LibraryContext({"volume": a_volume}))
            expected = [1, number] if number <= 320 else [1]
            assert result.data == {"volume": {"opened": expected}}

    asyncio.run(all_arguments())

    assert len(schema.operations.compiled.values) == kept


def test_texts_in_arguments_count_too(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    text = "query($v: String) { volume { part: excerpt(by: $v) } }"

    for letter in "abc":
        execute(schema, text, variable_values={"v": letter * MAX_VALUE_LENGTH})

    assert schema.operations.compiled.weight == 3 * (MIN_WEIGHT + MAX_VALUE_LENGTH)


def test_arguments_of_a_root_field_use_no_cache_entries(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    text = "query($code: ID!) { wanted(code: $code) { title } }"

    for number in range(20):
        execute(schema, text, variable_values={"code": str(number)})

    assert not schema.operations.compiled.values


LONG: dict[str, tuple[str, Any]] = {
    "a text": ("query($v: String) { volume { part: excerpt(by: $v) } }", "x" * (MAX_VALUE_LENGTH + 1)),
    "a long text of signs": ("query($v: String) { volume { part: excerpt(by: $v) } }", "ü" * 10_000),
    "a list": ("query($v: [Int!]!) { volume { openedAt(pages: $v) } }", list(range(500))),
    "a short list": ("query($v: [Int!]!) { volume { openedAt(pages: $v) } }", [1]),
    "a nested list": ("query($v: [[Int]!]) { volume { nearest(numbers: $v) } }", [[1]] * 300),
    "an input": ("query($v: Place) { volume { placed(place: $v) } }", {"room": "x" * 1000}),
    "a long text in an input": (
        "query($v: String!) { volume { placed(place: { room: $v }) } }",
        "x" * 1000,
    ),
    "a stamp": ("query($v: Stamp) { volume { stamped(stamp: $v) } }", "#" + "7" * 1000),
}


@pytest.mark.parametrize(("text", "value"), LONG.values(), ids=LONG.keys())
def test_an_operation_compiled_for_a_long_value_is_not_cached(schema: Library, text: str, value: Any) -> None:
    schema.operations.prepared_at_use = 1

    for _ in range(3):
        execute(schema, text, variable_values={"v": value})

    assert not schema.operations.compiled.values


def test_an_operation_compiled_for_a_value_of_maximum_length_is_cached(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    text = "query($v: String) { volume { part: excerpt(by: $v) } }"

    for _ in range(3):
        execute(schema, text, variable_values={"v": "x" * MAX_VALUE_LENGTH})

    assert len(schema.operations.compiled.values) == 1


def test_an_operation_compiled_for_a_value_of_another_class_is_not_cached() -> None:
    @strawberry.type
    class Child:
        @strawberry.field
        def digits(self, of: Decimal) -> int:
            return len(str(of))

    @strawberry.type
    class Query:
        @strawberry.field
        def child(self) -> Child:
            return Child()

    schema = library(True, **only(Query))
    schema.operations.prepared_at_use = 1
    text = "query($of: Decimal!) { child { digits(of: $of) } }"

    result = run(schema.execute(text, {"of": "7" * 10_000}))

    assert result.data == {"child": {"digits": 10_000}}
    assert not schema.operations.compiled.values


def test_the_functions_for_classes_of_values_are_limited(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    text = "{ volume { title } }"

    def of_new_class() -> PlainObject:
        found = a_volume()
        found.__class__ = type("Made", (PlainObject,), {})
        return found

    for _ in range(3 * MAX_ROW_CLASSES):
        result = run(schema.execute(text, None, LibraryContext({"volume": of_new_class})))
        assert result.data == {"volume": {"title": "Emma"}}

    prepared = schema.operations.find(text, None)
    assert prepared is not None and prepared.compiled is not None
    [completer] = prepared.compiled.generator.objects.values()
    assert 0 < len(completer.known) <= MAX_ROW_CLASSES


def test_code_is_cached_by_its_source_up_to_a_length() -> None:
    """So the sources that one caller chooses take a megabyte at most."""
    cached_code.cache_clear()
    schema = library(prepares=True)
    schema.operations.prepared_at_use = 1
    aliases = " ".join(f"a{number}: title" for number in range(200))

    use(schema, "{ volume { title } }", f"{{ volume {{ {aliases} }} }}")

    assert cached_code.cache_info().currsize > 0
    assert cached_code.cache_info().maxsize == MAX_SOURCES
    assert MAX_SOURCES * MAX_SOURCE_LENGTH <= 2**20
    cached_code.cache_clear()
    use(schema, f"{{ volume {{ b: code {aliases} }} }}")
    assert cached_code.cache_info().currsize == 1  # the function of the root, which calls the long one


# --- the service's own documents -------------------------------------------------------------------


def test_a_pinned_document_is_never_evicted(schema: Library, made: Counter[tuple[str, str | None]]) -> None:
    pinned = padded("{ volume { title code } }", MAX_DOCUMENT_LENGTH + 1000)
    schema.pin(pinned)

    for other in texts(2 * MAX_OPERATIONS):
        use(schema, other, other)
    for _ in range(3):
        execute(schema, pinned)

    assert made[pinned, None] == 1
    assert len(schema.operations.recent.values) == MAX_OPERATIONS


def test_pinning_an_invalid_document_fails(schema: Library) -> None:
    with pytest.raises(AssertionError):
        schema.pin("{ nothing }")


# --- memory ----------------------------------------------------------------------------------------

# The number of documents and the allowed MiB.
GROWTH = {"once": (1000, 20), "twice": (300, 20)}


@pytest.mark.parametrize(("how", "number", "most"), [(how, *given) for how, given in GROWTH.items()])
def test_memory_does_not_grow_with_the_number_of_documents(how: str, number: int, most: int) -> None:
    """`python -m tests.engine.memory once 100000` runs longer."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.memory", how, str(number)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["grown_mib"] < most
