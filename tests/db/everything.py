"""Every statement that the service runs on behalf of a viewer: all lists, look-ups, levels and writes."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from app.auth.door import viewer_for
from app.auth.tokens import Identity
from app.care.answers import get_my_answer_sets
from app.care.assignments import (
    AssignmentFilter,
    get_my_assignments,
    has_status,
    list_my_assignments,
)
from app.care.books import BookFilter, get_books, list_books
from app.care.context import Context, Role, Viewer
from app.care.homework import Homework, assigning
from app.care.people import get_my_caregivers, get_my_clients, get_myself
from app.care.sessions import get_my_sessions, list_my_sessions
from app.db.entities import ENTITIES, Table, ToOne
from app.db.selection import Link, Viewpoint, Wanted, Where, Window
from app.db.statements import Operation, Statement, Step, Values
from app.db.tables import (
    AnswerSet,
    Assignment,
    AssignmentStatus,
    Book,
    Caregiver,
    Client,
    Session,
    TimeState,
)
from tests.callers import Watched, remembering
from tests.db.conftest import OpenWorld
from tests.db.random_world import ASSIGNMENTS, PlainRow
from tests.given import DAY, HOUR, NOW

VIEWERS = {"caregiver": Viewer(Role.CAREGIVER, 1), "client": Viewer(Role.CLIENT, 2)}
SHAPES = {
    "rows": Window(),
    "rows and total": Window(with_total=True, before=70),
    "total": Window(with_rows=False, with_total=True),
}
LITTLE = Wanted(frozenset({"id"}))
Ask = Callable[[Context], Awaitable[Any]]


@dataclass(frozen=True)
class Ran:
    """A statement, what it ran with, and which question of whom it belongs to."""

    name: str
    statement: Statement
    values: Values


def everything_of(table: Table, depth: int = 2) -> Wanted:
    """All columns and all links, each list both whole and in pages, some levels deep."""
    entity = ENTITIES[table]
    if depth == 0:
        return Wanted(frozenset(entity.columns))
    links = []
    for name, link in entity.links.items():
        wanted = everything_of(link.target, depth - 1)
        links.append(Link(name, wanted))
        if not isinstance(link, ToOne) and "id" in ENTITIES[link.target].columns:
            page = Window(first=3, with_total=True)
            links.append(Link(name, wanted, page))
        if link.target is Assignment and not isinstance(link, ToOne):
            pending = replace(page, where=(Where(has_status),), values={"status": "PENDING"})
            links.append(Link(name, wanted, pending))
    return Wanted(frozenset({*entity.columns, "now"}), tuple(links))


def lists() -> Iterator[tuple[str, Ask]]:
    for (shape, window), state in product(SHAPES.items(), (None, *TimeState)):
        yield (
            f"sessions({state}): {shape}",
            lambda ctx, s=state, w=window: list_my_sessions(ctx, s, w, LITTLE),
        )
        for status, session, client in product((None, *AssignmentStatus), (None, 4), (None, 2)):
            asked = AssignmentFilter(state, status, session, client)
            yield (
                f"assignments({state}, {status}, session={session}, client={client}): {shape}",
                lambda ctx, a=asked, w=window: list_my_assignments(ctx, a, w, LITTLE),
            )
    for (shape, window), search, module, is_test in product(
        SHAPES.items(), (None, "boo", "b o o k 3"), (None, 2), (None, True)
    ):
        filter = BookFilter(search, module, is_test)
        yield (
            f"books({search}, module={module}, is_test={is_test}): {shape}",
            lambda ctx, a=filter, w=window: list_books(ctx, a, w, LITTLE),
        )


def look_ups() -> Iterator[tuple[str, Ask]]:
    """The links of every kind hang on its look-up and on its list alike."""
    many = list(range(1, ASSIGNMENTS))
    sessions, assignments = everything_of(Session), everything_of(Assignment)
    yield "session", lambda ctx: get_my_sessions(ctx, many, sessions)
    yield "assignment", lambda ctx: get_my_assignments(ctx, many, assignments)
    yield "answer set", lambda ctx: get_my_answer_sets(ctx, many, everything_of(AnswerSet))
    yield "book", lambda ctx: get_books(ctx, many, everything_of(Book))
    yield "caregiver", lambda ctx: get_my_caregivers(ctx, many, everything_of(Caregiver))
    yield "client", lambda ctx: get_my_clients(ctx, many, everything_of(Client))
    yield "myself", lambda ctx: get_myself(ctx, ctx.signed_in().role, LITTLE)
    yield "sessions", lambda ctx: list_my_sessions(ctx, None, Window(), sessions)
    yield (
        "assignments",
        lambda ctx: list_my_assignments(ctx, AssignmentFilter(), Window(first=50), assignments),
    )


def everything_read(world: OpenWorld) -> Iterator[Ran]:
    for (viewer_name, viewer), (name, ask) in product(VIEWERS.items(), [*lists(), *look_ups()]):
        seen: list[Step] = []
        ctx = Context(viewer, Watched(world.db, seen), NOW, "request", "UTC")
        world.runner.run(as_coroutine(ask(ctx)))
        yield from ran(f"{viewer_name}: {name}", seen)
    for role in Role:
        yield from ran(f"account of a {role}", [next(viewer_for(Identity("client-1", role)))])


def everything_assigned(world: OpenWorld) -> Iterator[Ran]:
    """What assigning runs; undone at its end, so that the world stays as it is."""
    session = running_session(world)
    viewpoint = Viewpoint(NOW, caregiver=session["caregiver_id"])
    homework = Homework(session["id"], (1, 2), NOW - DAY, NOW + DAY, (NOW - HOUR, NOW + HOUR))
    seen: list[Step] = []
    try:
        world.runner.run(world.db.write(undone(remembering(assigning(viewpoint, homework), seen))))
    except Undone:
        yield from ran("assigning", seen)


class Undone(Exception):
    pass


def undone(operation: Operation[Any]) -> Operation[None]:
    yield from operation
    raise Undone


def running_session(world: OpenWorld) -> PlainRow:
    return next(row for row in world.plain["session"] if not row["is_closed"] and row["start_date"] <= NOW)


async def as_coroutine(asked: Awaitable[Any]) -> Any:
    return await asked


def ran(name: str, steps: list[Step]) -> list[Ran]:
    assert steps, f"{name} asked nothing"
    return [Ran(name, step[0], step[1]) for step in steps if isinstance(step, tuple)]
