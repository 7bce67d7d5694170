"""Promise: long documents are prepared in a thread, costly ones at their first use; new ones are charged."""

import asyncio
from dataclasses import dataclass, field
from threading import Event, current_thread
from typing import Any

import pytest

from app.engine.documents import Document
from app.engine.prepared import PreparedOperation
from app.engine.schema import (
    CHARACTERS_PER_POINT,
    FREE_LENGTH,
    MAX_INLINE_LENGTH,
    PREPARED_FROM,
    EngineOptions,
)
from tests.engine.library import (
    PLAIN,
    Library,
    LibraryContext,
    PlainObject,
    a_volume,
    execute_both_with,
    library,
    outcome_of,
    run,
)
from tests.engine.test_limits import NO_LIMITS
from tests.patience import PATIENCE

LIMITED = {"engine_options": EngineOptions(NO_LIMITS)}
MAIN, THREAD = "MainThread", "prepare_0"


def padded(text: str, length: int) -> str:
    return text + " " * (length - len(text))


LONG = padded("{ volume { title } }", MAX_INLINE_LENGTH + 1)


class NoMore(Exception):
    """The caller has no points left."""


@dataclass
class Charged(LibraryContext):
    charged: list[int] = field(default_factory=list)
    allowance: int = 0

    def charge(self, points: int) -> None:
        self.charged.append(points)
        if sum(self.charged) > self.allowance:
            raise NoMore("no more")


class Watched(Library):
    """Records the threads in which it reads and prepares, and the points that its contexts are charged."""

    rejection = NoMore
    threads: list[str]
    charged: list[int]
    allowance = 10**9
    proceed: Event

    def read_completely(self, text: str) -> Document:
        self.threads.append(current_thread().name)
        self.proceed.wait(PATIENCE)
        return super().read_completely(text)

    def prepare_operation(self, document: Document, name: str | None) -> PreparedOperation | None:
        self.threads.append(current_thread().name)
        return super().prepare_operation(document, name)

    def context(self) -> Charged:
        return Charged({"volume": a_volume}, charged=self.charged, allowance=self.allowance)


@pytest.fixture
def schema() -> Watched:
    schema: Watched = library(True, Watched, **LIMITED)
    schema.threads, schema.charged, schema.proceed = [], [], Event()
    schema.proceed.set()
    return schema


def use(schema: Watched, text: str) -> tuple[Any, list[str]]:
    result = run(schema.execute(text, context_value=schema.context()))
    return result.data, [each.message for each in result.errors or ()]


DONE = ({"volume": {"title": "Emma"}}, [])


# --- in a thread -----------------------------------------------------------------------------------


def test_a_long_document_is_read_and_prepared_in_a_thread(schema: Watched) -> None:
    assert [use(schema, LONG) for _ in range(3)] == [DONE] * 3

    assert schema.threads == [THREAD, THREAD]


def test_a_short_document_is_not(schema: Watched) -> None:
    assert [use(schema, LONG[:-1]) for _ in range(3)] == [DONE] * 3

    assert schema.threads == [MAIN]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ volume {", "Syntax Error: Expected Name, found <EOF>."),
        ("{ nothing }", "Cannot query field 'nothing' on type 'Query'."),
    ],
)
def test_the_errors_of_a_long_document_are_the_same(schema: Watched, text: str, message: str) -> None:
    text = padded(text, len(LONG))

    for _ in range(2):
        assert use(schema, text) == (None, [message])


@pytest.mark.parametrize(
    "text",
    [
        "{ volume { title author { name } sequels { title } } }",
        "{ volume { title } motto }",
        'mutation { lend(code: "a") { title } }',
        "query ($n: Int = 3) { volume { excerpt(length: $n) } }",
        "query ($n: Int!) { volume { excerpt(length: $n) } }",
    ],
)
@pytest.mark.parametrize("title", ["Emma", None, ValueError("lost")], ids=["a title", "null", "an error"])
def test_the_results_of_a_long_document_are_the_same(text: str, title: object) -> None:
    """Nulls and errors leave generated code, which runs in the thread, for graphql-core."""

    def changed() -> PlainObject:
        volume = a_volume()
        volume.__dict__["title"] = title
        return volume

    execute_both_with(LIMITED, padded(text, len(LONG)), {"volume": changed, "a": changed}, times=3)


def test_a_cancelled_request_leaves_nothing_behind(schema: Watched) -> None:
    async def cancel_first() -> Any:
        schema.proceed.clear()
        context = LibraryContext({"volume": a_volume})
        first = asyncio.create_task(schema.execute(LONG, context_value=context))
        while not schema.threads:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        assert not schema.documents.recent.values
        schema.proceed.set()
        return await outcome_of(schema, LONG, LibraryContext({"volume": a_volume}))

    assert run(cancel_first()) == run(outcome_of(PLAIN, LONG, LibraryContext({"volume": a_volume})))
    assert list(schema.documents.recent.values) == [LONG]


def test_requests_with_the_same_new_document_get_the_same_results(schema: Watched) -> None:
    async def at_once() -> list[Any]:
        context = LibraryContext({"volume": a_volume})
        return await asyncio.gather(*(schema.execute(LONG, context_value=context) for _ in range(8)))

    assert [each.data for each in run(at_once())] == [DONE[0]] * 8


# --- at the first use ------------------------------------------------------------------------------


@pytest.mark.parametrize(("points", "is_prepared"), [(PREPARED_FROM - 1, False), (PREPARED_FROM, True)])
def test_a_costly_operation_is_prepared_at_its_first_use(
    schema: Watched, points: int, is_prepared: bool
) -> None:
    text = "{ volume { " + " ".join(f"a{number}: title" for number in range(points - 1)) + " } }"

    data, errors = use(schema, text)

    assert (len(data["volume"]), errors) == (points - 1, [])
    assert schema.charged[-1] == points
    assert (schema.operations.find(text, None) is not None) is is_prepared


# --- charges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "points"),
    [(FREE_LENGTH, []), (FREE_LENGTH + CHARACTERS_PER_POINT - 1, []), (FREE_LENGTH + 400, [100])],
)
def test_a_document_that_is_not_cached_is_charged_by_its_length(
    schema: Watched, length: int, points: list[int]
) -> None:
    text = padded("{ volume { title } }", length)

    for _ in range(3):
        assert use(schema, text) == DONE

    assert schema.charged == [*points, 2, 2, 2]


def test_a_document_that_is_admitted_before_its_execution_is_charged_once(schema: Watched) -> None:
    document = run(schema.charged_document(LONG, None, schema.context()))

    assert document is not None and document.operation(None) is not None
    assert (schema.threads, schema.charged) == ([THREAD], [(len(LONG) - FREE_LENGTH) // CHARACTERS_PER_POINT])
    assert use(schema, LONG) == DONE
    assert schema.charged[1:] == [2]


def test_a_document_that_was_read_for_another_reason_is_charged(schema: Watched) -> None:
    schema.find_operation(LONG, None)

    assert use(schema, LONG) == DONE
    assert len(schema.charged) == 2


def test_an_invalid_document_is_charged(schema: Watched) -> None:
    text = padded("{ nothing ", FREE_LENGTH + 40)

    assert use(schema, text)[0] is None
    assert use(schema, text)[0] is None

    assert schema.charged == [10, 10]


def test_nothing_is_read_for_a_caller_without_points(schema: Watched) -> None:
    schema.allowance = 0

    assert use(schema, LONG) == (None, ["no more"])
    assert not schema.threads
    assert not schema.documents.recent.values


def test_documents_of_the_service_are_not_charged_for_their_length(schema: Watched) -> None:
    schema.pin(LONG)

    assert use(schema, LONG) == DONE
    assert schema.charged == [2]
