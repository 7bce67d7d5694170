"""Operations that nobody tuned for: what each costs inside one process, prepared and on Strawberry's own way.

python bench/shapes.py        needs the data set that `bench/run.py check` has imported
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import dataset
import orjson
from graphql import get_introspection_query
from servers import data_folder, master_database, read_targets

from app.auth.authenticator import utc_now, viewer_for
from app.auth.tokens import Identity
from app.care.context import Context, Role
from app.db.drivers.factory import open_database
from app.schema.schema import Schema, build_schema

ROUNDS, REQUESTS = 7, 12  # the two ways take turns, round by round

ALIASES = " ".join(f"a{n}: title b{n}: id" for n in range(40))
DEEP = "session { latestAssignment { " * 6 + "id" + " } }" * 6
NESTED = """
    query($cursor: String, $first: Int) { sessions(first: 10) { nodes { title
      assignments(first: $first, after: $cursor) {
        totalCount nodes { name status } pageInfo { endCursor } } } } }"""
DIRECTIVES = """
    query($with: Boolean!) { assignments(first: 20) { nodes {
      id name @include(if: $with) score @skip(if: $with)
      ...on Assignment @include(if: $with) { session { title } } } } }"""
FRAGMENTS = """
    query { assignments(first: 20) { nodes { ...a ...b } } }
    fragment a on Assignment { id session { ...s } client { name } }
    fragment b on Assignment { name session { ...s title } client { id } }
    fragment s on Session { id runningStatus caregiver { name } }"""
OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "deep nesting": (f"{{ assignments(first: 20) {{ nodes {{ {DEEP} }} }} }}", {}),
    "many aliases": (f"{{ sessions(first: 20) {{ nodes {{ {ALIASES} }} }} }}", {}),
    "fragments": (FRAGMENTS, {}),
    "directives": (DIRECTIVES, {"with": True}),
    "edges and cursors": (
        "{ sessions { edges { cursor node { id } } pageInfo { endCursor hasNextPage } } }",
        {},
    ),
    "lists in a list": (NESTED, {"first": 5}),
    "several roots": (
        "{ viewer { role } sessions(first: 5) { nodes { id } } books(first: 5) { nodes { name } } }",
        {},
    ),
    "an interface": (
        "query($id: ID!) { node(id: $id) { id __typename ... on Session { title } } }",
        {"id": "U2Vzc2lvbjox"},
    ),
    "filters": (
        "{ assignments(status: COMPLETE, timeState: RUNNING, first: 20) { totalCount nodes { id name } } }",
        {},
    ),
    "a later page": ("{ assignments(first: 20, offset: 200) { nodes { id name status } } }", {}),
    "a search": ('{ books(search: "b", first: 20) { totalCount nodes { id name module { name } } } }', {}),
    "a hundred rows": (
        "{ assignments(first: 100) { nodes { id name status startDate session { title } } } }",
        {},
    ),
    "only a total": ("{ sessions { totalCount } }", {}),
    "nothing but a type": ("{ __typename }", {}),
    "introspection": (get_introspection_query(), {}),
    "a refusal": ('{ assignment(id: "999999999") { id } }', {}),
    "a wrong variable": ("query($first: Int) { sessions(first: $first) { totalCount } }", {"first": "x"}),
}


async def main() -> int:
    data = data_folder(1)
    target = read_targets()[0]["care-gateway"]
    db = await open_database(f"sqlite:///{master_database(target, data, fresh=False)}")
    prepared, plain = build_schema(), build_schema(prepares=False)
    slower = 0
    try:
        context = await signed_in(db)
        print(f"{'':24}{'prepared us':>12}{'plain us':>12}{'':>8}")
        for name, (document, variables) in OPERATIONS.items():
            ours = asking(prepared, document, variables, context)
            theirs = asking(plain, document, variables, context)
            if await ours() != await theirs():
                print(f"{name}: the answers differ")
                return 1
            fast, slow = await in_turns(ours, theirs)
            slower += fast > slow
            print(f"{name:24}{fast:12,.0f}{slow:12,.0f}{slow / fast:7.1f}x")
    finally:
        await db.close()
    return int(slower > 0)


async def signed_in(db: Any) -> Context:
    identity = Identity(f"caregiver-{dataset.HOT_CAREGIVER}", Role.CAREGIVER)
    viewer = await db.read(viewer_for(identity))
    return Context(viewer, db, utc_now(), "bench", "UTC")


def asking(
    schema: Schema, document: str, variables: dict[str, Any], context: Context
) -> Callable[[], Awaitable[bytes]]:
    async def ask() -> bytes:
        result = await schema.execute(document, variables, context)
        errors = [error.formatted for error in result.errors or ()]
        return orjson.dumps({"data": result.data, "errors": errors})

    return ask


async def in_turns(*ways: Callable[[], Awaitable[bytes]]) -> list[float]:
    """Microseconds of processor time per request: the median of the rounds."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for way, found in zip(ways, times, strict=True):
            started = time.process_time()
            for _ in range(REQUESTS):
                await way()
            found.append((time.process_time() - started) / REQUESTS * 1e6)
    return [statistics.median(found) for found in times]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
