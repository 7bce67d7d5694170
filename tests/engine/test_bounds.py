"""Promise: the caches of operations are bounded."""

import asyncio
import gc
import json
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import strawberry

import app.engine.operations
from app.engine.operations import (
    MAX_DOCUMENT_LENGTH,
    MAX_TOTAL_LENGTH,
    MAX_VALUE_LENGTH,
    OperationCache,
    PreparedOperation,
)
from tests.engine.library import PLAIN, Library, LibraryContext, a_volume, library, only, outcome_of, run

ROOT = Path(__file__).parent.parent.parent
MAX_OPERATIONS, MAX_COUNTED, MAX_COLLECTED, MAX_COMPILED = 32, 128, 16, 32


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_OPERATIONS", "MAX_COUNTED", "MAX_COLLECTED", "MAX_COMPILED"):
        monkeypatch.setattr(app.engine.operations, name, globals()[name])


class CountingPreparation:
    """Prepares like the schema, and counts."""

    def __init__(self, schema: Library) -> None:
        self.schema = schema
        self.made: Counter[tuple[str, str | None]] = Counter()

    def __call__(self, text: str, name: str | None) -> PreparedOperation | None:
        self.made[text, name] += 1
        return self.schema.prepare_operation(text, name)


@pytest.fixture
def schema(low_limits: None) -> Library:
    return library(prepares=True)


@pytest.fixture
def made(schema: Library) -> Counter[tuple[str, str | None]]:
    """How often each document was prepared by the schema."""
    making = CountingPreparation(schema)
    schema.operations = OperationCache(making)
    return making.made


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
    for other in texts(MAX_COUNTED):
        schema.operations.find(other, None)
    execute(schema, text)
    assert not made
    execute(schema, text)

    assert made == {(text, None): 1}


@pytest.mark.parametrize(
    "text",
    [
        "{ nothing }",
        "{ volume {",
        "subscription { arrivals }",
        "query A { volume { title } } query B { volume { code } }",
        "{ volume " + "{ sequels " * 900 + "{ title }" + " }" * 901,
    ],
    ids=["invalid", "no syntax", "a subscription", "two operations", "too deep"],
)
def test_preparation_of_an_unsupported_document_is_tried_once(
    schema: Library, made: Counter[tuple[str, str | None]], text: str
) -> None:
    for _ in range(5):
        execute(schema, text)

    assert made == {(text, None): 1}
    assert not schema.operations.recent.values


def test_a_schema_without_preparation_caches_nothing() -> None:
    plain = library(prepares=False)

    for _ in range(3):
        execute(plain, "{ volume { title } }")

    assert not plain.operations.use_counts.values
    assert not plain.operations.recent.values


# --- how many, and how long ------------------------------------------------------------------------


def test_the_number_of_cached_operations_is_limited(schema: Library) -> None:
    for text in texts(MAX_OPERATIONS + 50):
        schema.operations.find(text, None)
        schema.operations.find(text, None)

    kept = [text for text, _ in schema.operations.recent.values]
    assert kept == list(texts(MAX_OPERATIONS, start=50))


def test_an_operation_in_use_stays_in_the_cache(
    schema: Library, made: Counter[tuple[str, str | None]]
) -> None:
    text = "{ volume { title } }"

    for other in texts(3 * MAX_OPERATIONS):
        for each in (text, other, other):
            schema.operations.find(each, None)

    assert made[text, None] == 1


def test_an_evicted_operation_is_prepared_again(
    schema: Library, made: Counter[tuple[str, str | None]]
) -> None:
    text = "{ volume { title } }"
    execute(schema, text)
    execute(schema, text)

    for other in texts(MAX_OPERATIONS):
        schema.operations.find(other, None)
        schema.operations.find(other, None)
    assert (text, None) not in schema.operations.recent.values
    execute(schema, text)
    execute(schema, text)

    assert made[text, None] == 2


def test_an_evicted_operation_is_freed_with_everything_made_from_it(schema: Library) -> None:

    schema.operations.prepared_at_use = 1
    text = "query($a: Boolean! = true, $n: Int) { volume { title @include(if: $a) excerpt(length: $n) } }"
    for variables in ({}, {"a": False}, {"n": 2}):
        execute(schema, text, variable_values=variables)
    prepared = weakref.ref(schema.operations.recent.values[text, None])

    for other in texts(MAX_OPERATIONS):
        schema.operations.find(other, None)
    gc.collect()

    assert (text, None) not in schema.operations.recent.values
    assert prepared() is None


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
    for text in texts(2 * MAX_TOTAL_LENGTH // MAX_DOCUMENT_LENGTH):
        for _ in range(2):
            schema.operations.find(padded(text, MAX_DOCUMENT_LENGTH), None)

    kept = [text for text, _ in schema.operations.recent.values]
    assert sum(map(len, kept)) == MAX_TOTAL_LENGTH
    newest = 2 * MAX_TOTAL_LENGTH // MAX_DOCUMENT_LENGTH - 1
    assert kept[-1].startswith(f"{{ volume {{ a{newest}: title")


def test_a_long_document_evicts_as_many_short_ones_as_needed(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    for text in texts(MAX_OPERATIONS):
        schema.operations.find(padded(text, MAX_TOTAL_LENGTH // MAX_OPERATIONS), None)
    assert len(schema.operations.recent.values) == MAX_OPERATIONS

    schema.operations.find(padded("{ volume { title } }", MAX_DOCUMENT_LENGTH), None)

    lengths = [len(text) for text, _ in schema.operations.recent.values]
    assert lengths[-1] == MAX_DOCUMENT_LENGTH
    assert sum(lengths) <= MAX_TOTAL_LENGTH


def test_the_number_of_collected_operations_is_limited(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    names = [f"a{index}" for index in range(10)]
    declared = ", ".join(f"${name}: Boolean!" for name in names)
    fields = " ".join(f"{name}: title @include(if: ${name})" for name in names)
    text = f"query({declared}) {{ volume {{ {fields} }} }}"

    async def all_selections() -> None:
        for number in range(MAX_COLLECTED + 50):
            variables = {name: bool(number >> index & 1) for index, name in enumerate(names)}
            result = await schema.execute(text, variables, LibraryContext({"volume": a_volume}))
            assert list(result.data["volume"]) == [name for name in names if variables[name]]

    asyncio.run(all_selections())

    assert len(schema.operations.collected.values) == MAX_COLLECTED
    assert len(schema.operations.compiled.values) <= MAX_COMPILED


def test_the_number_of_compiled_operations_is_limited(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    text = "query($n: Int!) { volume { opened: openedAt(pages: [1, $n]) } }"

    async def all_arguments() -> None:
        for number in range(MAX_COMPILED + 50):
            result = await schema.execute(text, {"n": number}, LibraryContext({"volume": a_volume}))
            expected = [1, number] if number <= 320 else [1]
            assert result.data == {"volume": {"opened": expected}}

    asyncio.run(all_arguments())

    assert len(schema.operations.collected.values) == 1
    assert len(schema.operations.compiled.values) == MAX_COMPILED


def test_arguments_of_a_root_field_use_no_cache_entries(schema: Library) -> None:
    schema.operations.prepared_at_use = 1
    text = "query($code: ID!) { wanted(code: $code) { title } }"

    for number in range(20):
        execute(schema, text, variable_values={"code": str(number)})

    assert len(schema.operations.compiled.values) == 1


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


# --- the service's own documents -------------------------------------------------------------------


def test_a_pinned_document_is_never_evicted(schema: Library, made: Counter[tuple[str, str | None]]) -> None:
    pinned = padded("{ volume { title code } }", MAX_DOCUMENT_LENGTH + 1000)
    schema.pin(pinned)

    for other in texts(2 * MAX_OPERATIONS):
        schema.operations.find(other, None)
        schema.operations.find(other, None)
    for _ in range(3):
        execute(schema, pinned)

    assert made[pinned, None] == 1
    assert len(schema.operations.recent.values) == MAX_OPERATIONS


def test_pinning_an_invalid_document_fails(schema: Library) -> None:
    with pytest.raises(AssertionError):
        schema.pin("{ nothing }")


# --- memory ----------------------------------------------------------------------------------------

# The number of documents and the allowed MiB.
GROWTH = {"lookup": (100_000, 20), "twice": (300, 20)}


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
