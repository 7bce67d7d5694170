"""Promise: prepared or not, every operation gives the same result, even if resolvers return bad values.

Derandomised, so that a failure is reproducible. Many more and random ones with

    pytest tests/engine/test_differential.py --hypothesis-profile=thorough
"""

import asyncio
import logging
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from graphql import parse
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from app.care.context import Context, Role, Viewer
from app.db.admin.migrate import migrate
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.sql import LongWork, Step, Steps, changes_of
from app.engine.limits import Limits, count_within
from app.engine.schema import PreparingSchema
from app.schema.errors import failure_in
from app.schema.schema import Schema, build_schema
from tests.callers import load
from tests.db import raw
from tests.db.random_world import CAREGIVERS, CLIENTS, put_random_world
from tests.engine.library import (
    PLAIN,
    PREPARING,
    AsyncValue,
    LibraryContext,
    Outcome,
    kind_of,
    outcome_of,
    ready,
    run,
    run_to_the_end,
)
from tests.engine.queries import GeneratedOperation, Pool, lists_by_edges_and_nodes, operations
from tests.engine.random_objects import value_of
from tests.factories import NOW, a_world
from tests.schema.worlds import global_id, in_base64

# When a field fails, graphql-core leaves coroutines of other fields unawaited, prepared or not.
pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)

IS_THOROUGH = settings.get_current_profile_name() == "thorough"
Result = TypeVar("Result")


def some(examples: int) -> settings:
    return settings(
        max_examples=examples * 160 if IS_THOROUGH else examples,
        derandomize=not IS_THOROUGH,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@dataclass
class ExampleCounts:
    """Counts of the examples, which are useful only if they return data and errors."""

    examples: int = 0
    invalid: int = 0
    with_errors: int = 0
    with_data: int = 0
    generated: int = 0  # completed by generated code at least in part
    fell_back: int = 0  # errors although there was generated code

    def count(self, schema: PreparingSchema, has_errors: bool, data: str) -> None:
        self.examples += 1
        self.invalid += not schema.operations.recent.values  # invalid operations are not prepared
        self.with_errors += has_errors
        self.with_data += len(data) > 40
        prepared = [each.compiled for each in schema.operations.recent.values.values() if each.compiled]
        compiled = [*schema.operations.compiled.values.values(), *prepared]
        generated = any(complete is not None for each in compiled for complete in each.completers.values())
        self.generated += generated
        self.fell_back += has_errors and generated


EXAMPLE_COUNTS: dict[str, ExampleCounts] = {"library": ExampleCounts(), "care": ExampleCounts()}


# --- the library -----------------------------------------------------------------------------------

PLACES = [
    {"room": "hall"},
    {"room": "bay", "row": 2, "genres": ["NOVEL", "VERSE"], "beside": {"room": "attic", "stamps": ["#1"]}},
]
LIBRARY: Pool = {
    "String": ["", "Emma", "x" * 300],
    "String!": ["a"],
    "code": ["a", "b", 7],
    "Int": [0, 1, 2, 320],
    "Int!": [1, 2, 320],
    "Float": [0.5, 2, 0],
    "Boolean": [True, False],
    "Stamp": ["#1", "22"],
    "Place": PLACES,
    "JSON": [[1], {"a": None}],
    "pages": [[1, 900, 3], [], 7],
    "numbers": [[[1, None], [2]], [[]]],
}
VOLUMES = ["volume", "volumes", "pile", "sureVolume", "handed"]
OTHERS = [
    "motto",
    "genres",
    "item",
    "items",
    "map",
    "globe",
    "findings",
    "wanted",
    "cabinet",
    "infoText",
    "again",
    "noted",
]
CODES = ["a", "b"]
BADNESS = st.sampled_from((0.03, 0.0, 0.1, 0.2))


def found(seed: int, badness: float) -> dict[str, Any]:
    schema = PLAIN._schema
    assert schema.query_type and schema.mutation_type

    def finding(name: str, kind: Any) -> Any:
        def find() -> Any:
            rng = Random(f"{seed}.{name}")
            if rng.random() < badness:
                raise ValueError(f"{name} is not to be found")
            value = value_of(schema, kind, rng, f"{seed}.{name}", badness)
            return None if isinstance(value, AsyncValue) else value

        return find

    roots = {name: finding(name, definition.type) for name, definition in schema.query_type.fields.items()}
    volume = schema.query_type.fields["volume"].type
    return roots | {code: finding(code, volume) for code in CODES}


def compare_in_library(operation: GeneratedOperation, seed: int, badness: float) -> None:
    ready(PREPARING)

    async def thrice() -> list[Outcome]:
        return [
            await outcome_of(
                schema,
                operation.text,
                LibraryContext(found(seed, badness)),
                variable_values=operation.variables,
            )
            for schema in (PLAIN, PREPARING, PREPARING)
        ]

    plain, first, again = run(thrice())

    assert first == plain
    assert again == plain
    EXAMPLE_COUNTS["library"].count(PREPARING, bool(plain.errors), plain.data)


@some(40)
@given(
    operation=operations(PLAIN._schema, LIBRARY, roots=VOLUMES * 4 + OTHERS),
    seed=st.integers(0, 10_000),
    badness=BADNESS,
)
def test_queries_of_the_library_give_the_same_result(
    operation: GeneratedOperation, seed: int, badness: float
) -> None:
    compare_in_library(operation, seed, badness)


@some(30)
@given(
    operation=operations(PLAIN._schema, LIBRARY, depth=3, most_roots=1, roots=VOLUMES * 4 + OTHERS),
    seed=st.integers(0, 10_000),
    badness=BADNESS,
)
def test_queries_of_one_library_root_give_the_same_result(
    operation: GeneratedOperation, seed: int, badness: float
) -> None:
    compare_in_library(operation, seed, badness)


@some(15)
@given(
    operation=operations(PLAIN._schema, LIBRARY, depth=2, word="mutation"),
    seed=st.integers(0, 10_000),
    badness=BADNESS,
)
def test_mutations_of_the_library_give_the_same_result(
    operation: GeneratedOperation, seed: int, badness: float
) -> None:
    compare_in_library(operation, seed, badness)


@some(10)
@given(
    operation=operations(PLAIN._schema, LIBRARY, depth=3, roots=VOLUMES * 4 + OTHERS),
    others=st.lists(
        st.dictionaries(st.sampled_from(("yes", "no", "maybe")), st.sampled_from((True, False, None, 1))),
        min_size=2,
        max_size=5,
    ),
    seed=st.integers(0, 10_000),
)
def test_all_variants_of_an_operation_give_the_same_result(
    operation: GeneratedOperation, others: list[dict[str, Any]], seed: int
) -> None:
    ready(PREPARING)

    async def in_turn() -> list[tuple[Outcome, Outcome]]:
        return [
            (
                await outcome_of(
                    PREPARING, operation.text, LibraryContext(found(seed, 0.02)), variable_values=given
                ),
                await outcome_of(
                    PLAIN, operation.text, LibraryContext(found(seed, 0.02)), variable_values=given
                ),
            )
            for given in (
                operation.variables,
                *({**operation.variables, **other} for other in others),
                operation.variables,
            )
        ]

    for prepared, plain in run(in_turn()):
        assert prepared == plain


# --- the real schema -------------------------------------------------------------------------------

NUMBERS = [1, 2, 5, 17, 999]
IDS = [str(number) for number in NUMBERS] + [
    global_id(kind, number) for kind in ("Session", "Assignment", "Book", "AnswerSet") for number in (1, 2, 3)
]
CARE: Pool = {
    "id": IDS,
    "ids": [[each] for each in IDS]
    + [
        [
            global_id(kind, n)
            for kind in ("Session", "Assignment", "Book", "Caregiver", "Client", "AnswerSet")
            for n in (1, 2, 3)
        ],
        [],
    ],
    "sessionId": IDS,
    "clientId": IDS,
    "moduleId": ["1", "2"],
    "bookId": ["1", *IDS],
    "isOverdue": [True, False],
    "since": ["2026-11-10T00:00:00Z"],
    "submittedSince": ["2026-11-19T23:00:00-11:00"],
    "search": ["book", "Book 1", ""],
    "isTest": [True, False],
    "first": [1, 3, *[20] * 16, 0],
    "Session.assignments(after)": [*[in_base64("Assignment:before:40")] * 12, "nonsense"],
    "Query.assignments(after)": [in_base64("Assignment:before:60")],
    "Query.sessions(after)": [in_base64("Session:before:15")],
    "Query.books(after)": [in_base64("Book:before:6")],
    "Query.clients(after)": [in_base64("Client:before:4")],
    "Query.submissions(after)": [in_base64("AnswerSet:before:50")],
    "offset": [None],
}

# Values that no import accepts: unknown enum values, invalid times, numbers that are too large.
DAMAGES = [
    "UPDATE answer_set SET save_type = 'LOST' WHERE id % 21 = 0",
    "UPDATE answer_set SET revision = 3000000000 WHERE id % 27 = 0",
    "UPDATE assignment SET status = 'NONE' WHERE id % 33 = 0",
    "UPDATE assignment SET feedback_status = 7 WHERE id % 39 = 0",
    "UPDATE assignment SET assign_date = 'some day' WHERE id % 24 = 0",
    "UPDATE assignment SET score = 'many' WHERE id % 18 = 0",
    "UPDATE assignment SET attempt = 1.5 WHERE id % 42 = 0",
    "UPDATE session SET title = x'ff00' WHERE id % 15 = 0",
    "UPDATE session SET close_date = 'never' WHERE id % 12 = 0",
    "UPDATE session SET assignment_count = 'some' WHERE id % 21 = 0",
    "UPDATE session SET last_assignment_score = 9000000000 WHERE id % 9 = 0",
    "UPDATE question SET options = 'no JSON' WHERE id % 15 = 0",
    "UPDATE question SET options = '{\"a\": 1}' WHERE id % 15 = 1",
    "UPDATE question SET options = '[1, null, [2]]' WHERE id % 15 = 2",
    "UPDATE question SET kind = 'GUESS' WHERE id % 12 = 0",
    "UPDATE reminder SET state = 'LATE' WHERE id % 12 = 0",
    "UPDATE feedback SET score = 'good' WHERE id % 9 = 0",
    "UPDATE client SET name = x'00' WHERE id = 3",
]


class CorruptingDatabase:
    """A database that replaces a share of the values by null, exceptions, awaitables and wrong types."""

    def __init__(self, db: Database, seed: int, share: float) -> None:
        self.db = db
        self.rng = Random(seed)
        self.share = share

    async def read(self, steps: Steps[Result]) -> Result:
        return await self.db.read(self.corrupted(steps))

    async def write(self, steps: Steps[Result]) -> Result:
        return await self.db.write(steps)

    async def close(self) -> None:
        await self.db.close()

    def corrupted(self, steps: Steps[Result]) -> Generator[Step, list[Any], Result]:
        try:
            step = next(steps)
            while True:
                if isinstance(step, LongWork):  # in a thread chance would decide which of two faults is first
                    step = steps.send([step.function()])
                    continue
                rows = yield step
                if changes_of(step):
                    rows = [tuple(self.value(each) for each in row) for row in rows]
                step = steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def value(self, value: Any) -> Any:
        if self.rng.random() >= self.share:
            return value
        choices = [
            None,
            ValueError("corrupted"),
            AsyncValue(value),
            AsyncValue(ValueError("later")),
            "text",
            2**40,
            [value],
        ]
        return self.rng.choice(choices)


@dataclass(frozen=True)
class Care:
    """The real schema, prepared and plain, over a random world."""

    prepared: Schema
    plain: Schema
    db: Database
    runner: asyncio.Runner

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text("<a random world>")


@pytest.fixture(scope="module")
def care(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Care]:
    damages = ("DROP INDEX uq_answer_set_submission", "DROP INDEX uq_answer_set_draft", *DAMAGES)
    with a_random_world(tmp_path_factory.mktemp("engine"), damages) as care:
        yield care


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Care]:
    with a_random_world(tmp_path_factory.mktemp("undamaged")) as care:
        yield care


@contextmanager
def a_random_world(folder: Path, damages: Sequence[str] = ()) -> Iterator[Care]:
    url = f"sqlite:///{folder}/care.db"
    asyncio.run(migrate(url))
    put_random_world(url, is_damaged=bool(damages))
    if damages:
        raw.run(url, *damages)
    logger = logging.getLogger("care.graphql")
    level, logger.level = logger.level, logging.CRITICAL  # faults are meant here
    with asyncio.Runner() as runner:
        # Never in threads, where chance would decide which of two faults comes first.
        db = runner.run(open_database(url, loop_read_ms=60_000))
        yield Care(build_schema(), build_schema(prepares=False), db, runner)
        runner.run(db.close())
    logger.setLevel(level)
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Requester:
    viewer: Viewer | None
    seed: int
    share: float

    def context(self, db: Database) -> Context:
        return Context(self.viewer, CorruptingDatabase(db, self.seed, self.share), NOW, "request", "UTC")


REQUESTERS = st.builds(
    Requester,
    st.one_of(
        st.integers(1, CAREGIVERS).map(lambda number: Viewer(Role.CAREGIVER, number)),
        st.integers(1, CLIENTS).map(lambda number: Viewer(Role.CLIENT, number)),
    ),
    st.integers(0, 10_000),
    st.sampled_from((0.0, 0.0, 0.0, 0.004, 0.02)),
)


UNHARMED_REQUESTERS = REQUESTERS.map(lambda each: replace(each, share=0.0))


async def care_outcome(
    schema: Schema, db: Database, operation: GeneratedOperation, requester: Requester
) -> tuple[str, list[Any]]:
    result = await schema.execute(operation.text, operation.variables, requester.context(db))
    errors = [(dict(each.formatted), kind_of(each.original_error)) for each in result.errors or ()]
    return repr(result.data), errors


def compare_in_care(care: Care, operation: GeneratedOperation, requester: Requester) -> None:
    ready(care.prepared)

    plain, first, again = (
        care.runner.run(run_to_the_end(care_outcome(schema, care.db, operation, requester)))
        for schema in (care.plain, care.prepared, care.prepared)
    )

    assert first == plain
    assert again == plain
    data, errors = plain
    EXAMPLE_COUNTS["care"].count(care.prepared, bool(errors), data)


CARE_SCHEMA = build_schema(prepares=False)._schema


ROOTS = ["sessions", "assignments", "books"] * 3 + [
    "session",
    "assignment",
    "book",
    "node",
    "nodes",
    "viewer",
]


@some(40)
@given(operation=operations(CARE_SCHEMA, CARE, depth=5, roots=ROOTS), requester=REQUESTERS)
def test_queries_of_the_service_give_the_same_result(
    care: Care, operation: GeneratedOperation, requester: Requester
) -> None:
    compare_in_care(care, operation, requester)


@some(60)
@given(
    operation=operations(CARE_SCHEMA, CARE, depth=5, most_fields=5, most_roots=1, roots=ROOTS),
    requester=REQUESTERS,
)
def test_queries_of_one_service_root_give_the_same_result(
    care: Care, operation: GeneratedOperation, requester: Requester
) -> None:
    compare_in_care(care, operation, requester)


@some(60)
@given(operation=lists_by_edges_and_nodes(CARE_SCHEMA, CARE), requester=UNHARMED_REQUESTERS)
def test_a_list_by_edges_and_nodes_has_what_each_has_alone(
    undamaged: Care, operation: GeneratedOperation, requester: Requester
) -> None:
    """One name can mean different things below `edges` and below `nodes`."""

    async def outcome(**branches: bool) -> tuple[Any, list[str]]:
        variables = {**operation.variables, **branches}
        result = await undamaged.prepared.execute(operation.text, variables, requester.context(undamaged.db))
        return result.data, [failure_in(each).code for each in result.errors or ()]

    async def outcomes() -> list[tuple[Any, list[str]]]:
        return [
            await run_to_the_end(outcome(byEdges=by_edges, byNodes=by_nodes))
            for by_edges, by_nodes in ((True, False), (False, True), (True, True))
        ]

    ready(undamaged.prepared)
    (by_edges, in_edges), (by_nodes, in_nodes), (together, in_both) = undamaged.runner.run(outcomes())

    assert "INTERNAL" not in in_edges + in_nodes + in_both
    assert bool(in_both) == bool(in_edges or in_nodes)
    if not in_both:
        [(key, edges)], [(_, nodes)] = by_edges.items(), by_nodes.items()
        assert together == {key: {**edges, **nodes}}


LISTS = """
    query($status: AssignmentStatus, $first: Int, $with: Boolean! = true, $order: AssignmentOrder) {
        sessions(first: 20) { totalCount nodes { id title closeDate assignmentCount pendingAssignmentCount
            lastAssignmentScore client { name opptId } latestAssignment { name status }
            assignments(status: $status, first: $first) { totalCount nodes { id score } }
            inOrder: assignments(first: $first, orderBy: $order) { edges { cursor node { id name } }
                pageInfo { endCursor hasNextPage } } } }
        due: assignments(first: $first, status: $status, orderBy: $order) {
            totalCount edges { cursor node { id } } }
        byStart: sessions(first: 3, orderBy: STARTS_SOONEST) { nodes { id startDate } pageInfo { endCursor } }
        assignments(first: 30) @include(if: $with) { edges { cursor node { assignDate
            lateness { state seconds } status feedbackStatus book { questions { kind options required } }
            answerSets { saveType revision answers { questionText answer } }
            feedbacks { score author { name } } reminders { state remindDate } draft { saveType } } }
            pageInfo { hasNextPage endCursor } }
        books { nodes { id name module { name } questions { text kind options } } }
    }
"""


PROGRESS = """
    query($book: ID! = "1", $first: Int) {
        sessions(first: $first) { nodes { progress { overdueAssignmentCount completion { week assigned } }
            client { progress { assignmentCount lateAssignmentCount completion { completed week } } }
            scoreHistory(bookId: $book) { submitDate score attempt assignment { id status name } } } }
        clients(first: $first) { totalCount nodes { name progress { pendingAssignmentCount }
            a: scoreHistory(bookId: $book) { score } b: scoreHistory(bookId: 2) { assignment { score } } } }
        submissions(first: $first) { nodes { score submitDate feedback { text score submitDate } } }
    }
"""


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_progress_of_damaged_rows_gives_the_same_result(care: Care, role: Role, share: float) -> None:
    for number in (1, 2):
        for variables in ({}, {"book": global_id("Book", 3), "first": 2}, {"book": "x"}, {"first": 0}):
            compare_in_care(
                care, GeneratedOperation(PROGRESS, variables), Requester(Viewer(role, number), number, share)
            )


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_lists_of_damaged_rows_give_the_same_result(care: Care, role: Role, share: float) -> None:
    for number in (1, 2):
        for variables in (
            {},
            {"status": "PENDING", "first": 2, "order": "DUE_SOONEST"},
            {"first": 3, "order": "DUE_SOONEST"},
            {"first": 0},
            {"with": False, "order": "NEWEST"},
        ):
            compare_in_care(
                care, GeneratedOperation(LISTS, variables), Requester(Viewer(role, number), number, share)
            )


ASSIGN = """
    mutation($input: AssignHomeworkInput!) {
        assignHomework(input: $input) { message assignments { id name book { name } } userErrors { code } }
    }
"""


@pytest.mark.parametrize("prepares", [False, True], ids=["plain", "prepared"])
def test_homework_is_assigned_once_although_the_result_has_an_error(prepares: bool, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/care.db"
    asyncio.run(migrate(url))
    load(url, a_world())
    raw.run(url, "UPDATE book SET name = x'ff' WHERE id = 2")
    schema = build_schema(prepares)
    ready(schema)
    homework = {"sessionId": "1", "bookIds": ["2"], "startDate": "2026-11-22T09:00:00Z"}
    homework["endDate"] = "2026-11-29T09:00:00Z"

    async def assigned() -> list[str]:
        db = await open_database(url)
        try:
            context = Context(Viewer(Role.CAREGIVER, 1), db, NOW, "request", "UTC")
            result = await schema.execute(ASSIGN, {"input": homework}, context)
        finally:
            await db.close()
        return [error.message for error in result.errors or ()]

    messages = asyncio.run(assigned())

    assert messages == ["String cannot represent value: b'\\xff'"]
    assert raw.run(url, "SELECT count(*) FROM assignment WHERE book_id = 2") == [(2,)]


def test_null_for_a_directive_condition_gives_the_same_result_in_the_service(care: Care) -> None:
    query = "query($with: Boolean = true) { viewer @include(if: $with) { role } }"

    for variables in ({"with": None}, {}, {"with": False}, {"with": None}):
        compare_in_care(care, GeneratedOperation(query, variables), Requester(Viewer(Role.CLIENT, 1), 1, 0.0))


@pytest.mark.parametrize("depth", [10, 20, 30])
def test_a_deep_query_gives_the_same_result(care: Care, depth: int) -> None:
    """As deep as the service allows. Without a limit the result depends on the stack of the caller."""
    inner = "latestAssignment { session { " * depth + "title" + " } }" * depth
    query = f"{{ sessions(first: 2) {{ nodes {{ {inner} }} }} }}"
    count_within(parse(query), Limits(tokens=2000, depth=64, cost=15_000))

    compare_in_care(care, GeneratedOperation(query, {}), Requester(Viewer(Role.CAREGIVER, 1), 1, 0.0))


# --- the examples ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLE_COUNTS)
def test_the_examples_cover_errors_and_generated_code(name: str, request: pytest.FixtureRequest) -> None:
    """Nearly all were valid, many had errors, and most of both used generated code."""
    tally = EXAMPLE_COUNTS[name]
    if not tally.examples:
        pytest.skip("run together with the comparisons")

    assert tally.invalid < tally.examples / 10
    assert tally.with_errors > tally.examples / 5
    assert tally.examples - tally.with_errors > tally.examples / 6
    assert tally.with_data > tally.examples / 6
    assert tally.generated > tally.examples / 3
    assert tally.fell_back > tally.examples / 40
