"""Promise: a document is read once for a request, however often it is looked at, and few are remembered."""

from dataclasses import replace

import pytest
import strawberry
from graphql import FragmentDefinitionNode, GraphQLError, specified_rules

from app.engine.documents import MAX_CACHED_CHARACTERS, MAX_DOCUMENTS, DocumentCache
from app.engine.limits import TooCostly
from app.engine.schema import EngineOptions
from tests.engine.library import Desk, Library, a_volume, library, only, run
from tests.engine.test_limits import WIDE

TEXT = "{ volume { title } }"


@strawberry.type
class Other:
    nothing: int = 0


@pytest.fixture
def documents() -> DocumentCache:
    return DocumentCache(library(prepares=True)._schema, WIDE)


def test_a_document_is_read_once(documents: DocumentCache) -> None:
    assert documents.read(TEXT) is documents.read(TEXT)


def test_so_many_documents_are_remembered(documents: DocumentCache) -> None:
    first = documents.read(TEXT)
    for number in range(MAX_DOCUMENTS):
        documents.read(f"{{ a{number}: greeting }}")

    assert len(documents.recent.values) == MAX_DOCUMENTS
    assert documents.read(TEXT) is not first


def test_long_documents_drive_out_others_but_the_newest_is_always_there(documents: DocumentCache) -> None:
    documents.read(TEXT)
    long = documents.read(TEXT + " " * 2 * MAX_CACHED_CHARACTERS)

    assert list(documents.recent.values.values()) == [long]


def test_what_is_refused_is_not_remembered(documents: DocumentCache) -> None:
    documents.limits = replace(WIDE, depth=1)
    for text, kind in ((TEXT, TooCostly), ("{", GraphQLError)):
        with pytest.raises(kind):
            documents.read(text)

    assert not documents.recent.values


def test_what_is_valid_is_not_validated_again(documents: DocumentCache) -> None:
    document = documents.read(TEXT)
    assert document.errors(tuple(specified_rules), False) == []

    document.schema = library(True, **only(Other))._schema  # nothing looks at it
    assert document.errors(tuple(specified_rules), False) == []
    document.is_valid = False
    assert len(document.errors(tuple(specified_rules), False)) == 1


def test_only_what_goes_round_is_told_of_fragments_that_go_round(documents: DocumentCache) -> None:
    document = documents.read("{ ...A nothing } fragment A on Query { ...A nothing }")

    errors = document.errors(tuple(specified_rules), False)

    assert [error.message for error in errors] == ["Cannot spread fragment 'A' within itself."]
    assert document.cost(None) is None
    assert isinstance(document.ast.definitions[1], FragmentDefinitionNode)


# --- a schema with limits --------------------------------------------------------------------------


def limited(prepares: bool, **limits: int) -> Library:
    return library(prepares, engine_options=EngineOptions(replace(WIDE, **limits)))


@pytest.mark.parametrize("prepares", [True, False])
def test_the_limits_hold_at_every_use(prepares: bool) -> None:
    schema = limited(prepares, depth=1)

    for _ in range(3):
        desk = Desk({"volume": a_volume})
        result = run(schema.execute(TEXT, context_value=desk))
        assert [each.message for each in result.errors] == [
            "Too costly: 2 levels of fields, and 1 are allowed."
        ]
        assert not desk.calls


@pytest.mark.parametrize("prepares", [True, False])
def test_own_documents_meet_no_limit(prepares: bool) -> None:
    schema = limited(prepares, depth=1, cost=1)
    schema.pin(TEXT)

    for _ in range(3):
        result = run(schema.execute(TEXT, context_value=Desk({"volume": a_volume})))
        assert (result.data, result.errors) == ({"volume": {"title": "Emma"}}, None)


@pytest.mark.parametrize("prepares", [True, False])
def test_everything_is_charged_before_it_is_executed(prepares: bool) -> None:
    class Charging(Library):
        charged: list[int]

        def charge(self, context: object, cost: int) -> GraphQLError | None:
            self.charged.append(cost)
            return GraphQLError("no more") if len(self.charged) > 2 else None

    schema = library(prepares, Charging, engine_options=EngineOptions(WIDE))
    schema.charged = []
    schema.pin(TEXT)

    answers = []
    for _ in range(3):
        desk = Desk({"volume": a_volume})
        result = run(schema.execute(TEXT, context_value=desk))
        answers.append(
            (result.data, [each.message for each in result.errors or ()], sum(desk.calls.values()))
        )

    answered = ({"volume": {"title": "Emma"}}, [], 1)
    assert answers == [answered, answered, (None, ["no more"], 0)]
    assert schema.charged == [2, 2, 2]
