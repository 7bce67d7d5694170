"""Promise: a document is parsed and validated once per request, and the cache is bounded."""

from dataclasses import replace

import pytest
import strawberry
from graphql import FragmentDefinitionNode, GraphQLError, specified_rules

from app.engine.documents import MAX_WEIGHT, MIN_WEIGHT, DocumentCache
from app.engine.limits import TooCostly
from app.engine.schema import EngineOptions
from tests.engine.library import Library, LibraryContext, a_volume, library, only, run
from tests.engine.test_limits import NO_LIMITS

TEXT = "{ volume { title } }"


@strawberry.type
class Other:
    nothing: int = 0


@pytest.fixture
def documents() -> DocumentCache:
    return DocumentCache(library(prepares=True)._schema, NO_LIMITS)


def test_a_document_is_parsed_once(documents: DocumentCache) -> None:
    assert documents.read(TEXT) is documents.read(TEXT)


def test_a_short_document_counts_as_one_of_the_minimum_weight(documents: DocumentCache) -> None:
    first = documents.read(TEXT)
    for number in range(MAX_WEIGHT // MIN_WEIGHT):
        documents.read(f"{{ a{number}: greeting }}")

    assert len(documents.recent.values) == MAX_WEIGHT // MIN_WEIGHT
    assert documents.read(TEXT) is not first


def test_a_long_document_evicts_all_others(documents: DocumentCache) -> None:
    documents.read(TEXT)
    long = documents.read(TEXT + " " * 2 * MAX_WEIGHT)

    assert list(documents.recent.values.values()) == [long]


def test_a_rejected_document_is_not_cached(documents: DocumentCache) -> None:
    documents.limits = replace(NO_LIMITS, depth=1)
    for text, kind in ((TEXT, TooCostly), ("{", GraphQLError)):
        with pytest.raises(kind):
            documents.read(text)

    assert not documents.recent.values


@pytest.mark.parametrize("text", [TEXT, "{ nothing }"])
def test_a_document_is_validated_once(documents: DocumentCache, text: str) -> None:
    document = documents.read(text)
    found = document.errors(tuple(specified_rules), False)

    document.schema = library(True, **only(Other))._schema  # nothing looks at it
    assert document.errors(tuple(specified_rules), False) is found


def test_circular_fragments_are_the_only_reported_error(documents: DocumentCache) -> None:
    document = documents.read("{ ...A nothing } fragment A on Query { ...A nothing }")

    errors = document.errors(tuple(specified_rules), False)

    assert [error.message for error in errors] == ["Cannot spread fragment 'A' within itself."]
    assert document.costs(None) is None
    assert isinstance(document.ast.definitions[1], FragmentDefinitionNode)


# --- a schema with limits --------------------------------------------------------------------------


def limited(prepares: bool, **limits: int) -> Library:
    return library(prepares, engine_options=EngineOptions(replace(NO_LIMITS, **limits)))


@pytest.mark.parametrize("prepares", [True, False])
def test_the_limits_apply_to_every_use(prepares: bool) -> None:
    schema = limited(prepares, depth=1)

    for _ in range(3):
        desk = LibraryContext({"volume": a_volume})
        result = run(schema.execute(TEXT, context_value=desk))
        assert [each.message for each in result.errors] == [
            "Too costly: 2 levels of fields, and 1 are allowed."
        ]
        assert not desk.calls


@pytest.mark.parametrize("prepares", [True, False])
def test_documents_of_the_service_have_no_limits(prepares: bool) -> None:
    schema = limited(prepares, depth=1, cost=1)
    schema.pin(TEXT)

    for _ in range(3):
        result = run(schema.execute(TEXT, context_value=LibraryContext({"volume": a_volume})))
        assert (result.data, result.errors) == ({"volume": {"title": "Emma"}}, None)


@pytest.mark.parametrize("prepares", [True, False])
def test_the_cost_is_charged_before_execution(prepares: bool) -> None:
    class NoMore(Exception): ...

    class Charging(LibraryContext):
        def charge(self, points: int) -> None:
            charged.append(points)
            if len(charged) > 2:
                raise NoMore("no more")

    charged: list[int] = []
    schema = limited(prepares)
    schema.rejection = NoMore
    schema.pin(TEXT)

    outcomes = []
    for _ in range(3):
        desk = Charging({"volume": a_volume})
        result = run(schema.execute(TEXT, context_value=desk))
        outcomes.append(
            (result.data, [each.message for each in result.errors or ()], sum(desk.calls.values()))
        )

    answered = ({"volume": {"title": "Emma"}}, [], 1)
    assert outcomes == [answered, answered, (None, ["no more"], 0)]
    assert charged == [2, 2, 2]
