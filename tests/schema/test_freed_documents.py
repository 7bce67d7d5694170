"""Promise: nothing that a document needs is left to the garbage collector: it is freed after the response, or
when a cache drops it."""

import gc
from collections.abc import Iterator

import pytest

from app.engine.documents import MIN_WEIGHT
from app.engine.schema import MAX_INLINE_LENGTH, PreparingSchema
from tests.callers import Gateway, schema_of

pytestmark = pytest.mark.sqlite_only

NUMBER = 20  # of documents; the caches keep fewer
DOCUMENTS = {
    "a small read": "{ viewer { a%d: role } }",
    "a list": "query Q%d { sessions(first: 5) { nodes { id title client { name } } } }",
    "nested lists": "{ sessions(first: 2) { nodes { a%d: id assignments(first: 3) { nodes { id } } } } }",
    "several root fields": "{ viewer { a%d: role } sessions(first: 2) { nodes { id } } }",
    "an object of any type": '{ node(id: "U2Vzc2lvbjox") { id ... on Session { a%d: title } } }',
    "variables": "query ($v: Boolean! = true, $first: Int = 2) { sessions(first: $first) "
    "{ nodes { id a%d: title @include(if: $v) assignments(first: $first) { nodes { id } } } } }",
    "fragments": "{ sessions { nodes { ...F%d } } } fragment F%d on Session { id client { name } }",
    "introspection": "{ a%d: __typename __schema { queryType { name } } }",
    "a costly read": "{ sessions(first: 60) { nodes { a%d: assignments(first: 20) { nodes { id } } } } }",
    "a long document": "{ sessions(first: 1) { nodes { b%d: id "
    + " ".join(f"a{n}: assignments(first: 1) {{ nodes {{ name attempt }} }}" for n in range(45))
    + " } } }",
    "no syntax": "{ viewer { a%d: role } ",
    "an invalid document": "{ viewer { a%d: nothing } }",
    "an object that does not exist": '{ session(id: "%d") { id } }',
    "a rejected change": 'mutation { updateSession(input: { sessionId: "x%d" }) { userErrors { code } } }',
}


@pytest.fixture
def schema(standing: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[PreparingSchema]:
    """With almost no room in its caches."""
    schema: PreparingSchema = schema_of(standing.client.app)  # type: ignore[arg-type]
    for cache in (schema.operations.recent, schema.operations.compiled, schema.documents.recent):
        monkeypatch.setattr(cache, "max_weight", 4 * MIN_WEIGHT)
    yield schema
    schema.operations.prepared_at_use = 1


@pytest.mark.parametrize("uses", [1, 2, 3])
@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_document_leaves_no_reference_cycles(
    standing: Gateway, schema: PreparingSchema, text: str, uses: int
) -> None:
    schema.operations.prepared_at_use = 2
    caller = standing.as_caregiver(1)

    def use(numbers: range) -> None:
        for number in numbers:
            for _ in range(uses):
                caller.post_graphql(text.replace("%d", str(number)))

    def garbage(first: int) -> int:
        gc.collect()
        use(range(first, first + NUMBER))
        return gc.collect()

    use(range(3))  # loads what is loaded once
    gc.collect()
    gc.freeze()  # collections below then skip the objects that exist now
    gc.disable()
    try:
        # What documents leave is there each time. Other work of the process, such as the next read of the
        # account, leaves some objects once.
        assert any(garbage(100 * attempt) < NUMBER for attempt in (1, 2, 3))
    finally:
        gc.enable()


def test_the_documents_include_those_that_are_prepared_in_a_thread() -> None:
    assert len(DOCUMENTS["a long document"]) > MAX_INLINE_LENGTH
