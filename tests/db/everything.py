"""Every statement that reads on behalf of a viewer: all lists, look-ups and levels."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from app.auth.authenticator import viewer_for
from app.auth.tokens import Identity
from app.care.answers import SubmissionFilter, get_my_answer_sets, list_my_submissions
from app.care.assignments import (
    DUE_SOONEST,
    AssignmentFilter,
    get_my_assignments,
    list_my_assignments,
)
from app.care.books import BookFilter, get_books, list_books
from app.care.context import Context, Role, Viewer
from app.care.own_data import DataFormat, get_own_data
from app.care.people import get_my_caregivers, get_my_clients, get_myself, list_my_clients
from app.care.sessions import ORDERS as ORDERS_OF_SESSIONS
from app.care.sessions import SessionOrder, get_my_sessions, list_my_sessions
from app.care.subscriptions import (
    CAREGIVER_CHANGES,
    MAX_EVENTS,
    EventFilter,
    current_position,
    finding_event,
    reading_events,
)
from app.db.reader.entities import ENTITIES, Table, ToOne
from app.db.reader.selection import Link, PageRequest, Selection, Where
from app.db.sql import Statement, Step, Values
from app.db.statements.conditions import has_status, is_of_book
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
from tests.callers import Watched
from tests.db.conftest import OpenWorld
from tests.db.random_world import ASSIGNMENTS, OF_ONE_CAREGIVER
from tests.factories import DAY, NOW

VIEWERS = {"caregiver": Viewer(Role.CAREGIVER, 1), "client": Viewer(Role.CLIENT, 2)}
SHAPES = {
    "rows": PageRequest(),
    "rows and total": PageRequest(with_total=True, before=70),
    "total": PageRequest(with_rows=False, with_total=True),
}
BEHIND = (NOW, 7)  # a row of an earlier page
BY_START = {
    "by start": PageRequest(order=ORDERS_OF_SESSIONS[SessionOrder.STARTS_SOONEST]),
    "later by start": PageRequest(order=ORDERS_OF_SESSIONS[SessionOrder.STARTS_SOONEST], after=BEHIND),
}
BY_DUE_DATE = {
    "by due date": PageRequest(order=DUE_SOONEST),
    "later by due date": PageRequest(order=DUE_SOONEST, after=BEHIND),
}
LITTLE = Selection(frozenset({"id"}))
Ask = Callable[[Context], Awaitable[Any]]


@dataclass(frozen=True)
class Ran:
    """A statement, what it ran with, and which question of whom it belongs to."""

    name: str
    statement: Statement
    values: Values


def everything_of(table: Table, depth: int = 2) -> Selection:
    """All columns and all links, each list both whole and in pages, some levels deep."""
    entity = ENTITIES[table]
    if depth == 0:
        return Selection(frozenset(entity.columns))
    links = []
    for name, link in entity.links.items():
        wanted = everything_of(link.target, depth - 1)
        links.append(Link(name, wanted))
        if not isinstance(link, ToOne) and "id" in ENTITIES[link.target].columns:
            page = PageRequest(first=3, with_total=True)
            links.append(Link(name, wanted, page))
        if link.target is Assignment and not isinstance(link, ToOne):
            pending = replace(page, where=(Where(has_status),), values={"status": "PENDING"})
            links.append(Link(name, wanted, pending))
            links.append(Link(name, wanted, replace(pending, order=DUE_SOONEST)))
            of_book = replace(page, where=(Where(is_of_book),), values={"of_book": 1}, with_total=False)
            links.append(Link(name, wanted, of_book))
    return Selection(frozenset({*entity.columns, "now"}), tuple(links))


def lists() -> Iterator[tuple[str, Ask]]:
    for (shape, window), state in product(BY_START.items(), (None, *TimeState)):
        yield (
            f"sessions({state}): {shape}",
            lambda ctx, s=state, w=window: list_my_sessions(ctx, s, w, LITTLE),
        )
    for (shape, window), state, status, session, client, overdue in product(
        BY_DUE_DATE.items(),
        (None, TimeState.RUNNING),
        (None, *AssignmentStatus),
        (None, 4),
        (None, 2),
        (None, True),
    ):
        asked = AssignmentFilter(state, status, session, client, overdue)
        yield (
            f"assignments({state}, {status}, session={session}, client={client}, overdue={overdue}): {shape}",
            lambda ctx, a=asked, w=window: list_my_assignments(ctx, a, w, LITTLE),
        )
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
        for overdue, since, client in product((None, True, False), (None, NOW - DAY), (None, 2)):
            asked = AssignmentFilter(state, None, None, client, overdue, since)
            yield (
                f"assignments({state}, client={client}, overdue={overdue}, since={since}): {shape}",
                lambda ctx, a=asked, w=window: list_my_assignments(ctx, a, w, LITTLE),
            )
    for (shape, window), since, client in product(SHAPES.items(), (None, NOW - DAY), (None, 2)):
        came_in = SubmissionFilter(since, client)
        yield (
            f"submissions({since}, client={client}): {shape}",
            lambda ctx, a=came_in, w=window: list_my_submissions(ctx, a, w, LITTLE),
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
    sessions, assignments = everything_of(Session), everything_of(Assignment)
    for ids in (list(range(1, ASSIGNMENTS)), [2]):  # a single one is asked for in another way
        yield "session", lambda ctx, i=ids: get_my_sessions(ctx, i, sessions)
        yield "assignment", lambda ctx, i=ids: get_my_assignments(ctx, i, assignments)
        yield "answer set", lambda ctx, i=ids: get_my_answer_sets(ctx, i, everything_of(AnswerSet))
        yield "book", lambda ctx, i=ids: get_books(ctx, i, everything_of(Book))
        yield "caregiver", lambda ctx, i=ids: get_my_caregivers(ctx, i, everything_of(Caregiver))
        yield "client", lambda ctx, i=ids: get_my_clients(ctx, i, everything_of(Client))
    yield "myself", lambda ctx: get_myself(ctx, ctx.signed_in().role, LITTLE)
    yield "sessions", lambda ctx: list_my_sessions(ctx, None, PageRequest(), sessions)
    yield (
        "assignments",
        lambda ctx: list_my_assignments(ctx, AssignmentFilter(), PageRequest(first=50), assignments),
    )


def what_is_watched() -> Iterator[tuple[str, Ask]]:
    for session in (None, 4):
        yield f"what happens: session={session}", lambda ctx, s=session: watch(ctx, s)
    yield "what happens: an event", lambda ctx: ctx.db.read(finding_event(ctx.access(), CAREGIVER_CHANGES, 1))


async def watch(ctx: Context, session: int | None) -> None:
    event_filter = EventFilter(CAREGIVER_CHANGES, session)
    position = await current_position(ctx, event_filter)
    await ctx.db.read(reading_events(ctx.access(), event_filter, position, MAX_EVENTS))


def lists_of_a_caregiver() -> Iterator[tuple[str, Ask]]:
    for (shape, window), wanted in product(SHAPES.items(), (LITTLE, everything_of(Client))):
        yield f"clients: {shape}", lambda ctx, s=wanted, w=window: list_my_clients(ctx, w, s)


def everything_read(world: OpenWorld) -> Iterator[Ran]:
    for_both = [*lists(), *look_ups(), *what_is_watched()]
    of_a_client = [*for_both, ("own data", lambda ctx: get_own_data(ctx, DataFormat.JSON))]
    of_one_caregiver = Viewer(Role.CLIENT, OF_ONE_CAREGIVER)
    for viewer_name, viewer, questions in (
        ("caregiver", VIEWERS["caregiver"], [*for_both, *lists_of_a_caregiver()]),
        ("client", VIEWERS["client"], of_a_client),
        ("client", of_one_caregiver, look_ups()),
    ):
        for name, ask in questions:
            seen: list[Step] = []
            ctx = Context(viewer, Watched(world.db, seen), NOW, "request", "UTC")
            world.runner.run(as_coroutine(ask(ctx)))
            yield from ran(f"{viewer_name}: {name}", seen)
    for role in Role:
        yield from ran(f"account of a {role}", [next(viewer_for(Identity("client-1", role)))])


async def as_coroutine(asked: Awaitable[Any]) -> Any:
    return await asked


def ran(name: str, steps: list[Step]) -> list[Ran]:
    assert steps, f"{name} asked nothing"
    return [Ran(name, step[0], step[1]) for step in steps if isinstance(step, tuple)]
