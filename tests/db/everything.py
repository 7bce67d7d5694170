"""Every statement that reads for a viewer: all lists, lookups and linked rows."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from app.auth.authenticator import finding_account
from app.auth.tokens import Identity
from app.care.answers import SubmissionFilter, get_my_answer_sets, list_my_submissions
from app.care.assignments import (
    DUE_SOONEST,
    AssignmentFilter,
    get_my_assignments,
    has_status,
    is_of_book,
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
from app.db.reader.entities import ENTITIES, ToOne
from app.db.reader.selection import Link, PageRequest, Selection, Where
from app.db.sql import Statement, Step, Values, changes_of
from app.db.tables import (
    AnswerSet,
    Assignment,
    AssignmentStatus,
    Book,
    Caregiver,
    Client,
    Session,
    Table,
    TimeState,
)
from tests.callers import Watched
from tests.db.conftest import OpenWorld
from tests.db.random_world import ASSIGNMENTS
from tests.factories import DAY, NOW

VIEWERS = {"caregiver": Viewer(Role.CAREGIVER, 1), "client": Viewer(Role.CLIENT, 2)}
PAGE = PageRequest(with_total=True, before=70)  # the statements of rows or a total alone are parts of its own
AFTER = (NOW, 7)  # the last row of the previous page
BY_START = {
    "by start": PageRequest(order=ORDERS_OF_SESSIONS[SessionOrder.STARTS_SOONEST]),
    "later by start": PageRequest(order=ORDERS_OF_SESSIONS[SessionOrder.STARTS_SOONEST], after=AFTER),
}
BY_DUE_DATE = {
    "by due date": PageRequest(order=DUE_SOONEST),
    "later by due date": PageRequest(order=DUE_SOONEST, after=AFTER),
}
ONLY_IDS = Selection(frozenset({"id"}))
ReadFunction = Callable[[Context], Awaitable[Any]]


@dataclass(frozen=True)
class Ran:
    """A statement that ran, its values, and the read that it belongs to."""

    name: str
    statement: Statement
    values: Values


def everything_of(table: Table, depth: int = 2) -> Selection:
    """All columns and all links, each list both in full and in pages, some levels deep."""
    entity = ENTITIES[table]
    if depth == 0:
        return Selection(frozenset(entity.columns))
    links = []
    for name, link in entity.links.items():
        selection = everything_of(link.target, depth - 1)
        links.append(Link(name, selection))
        if not isinstance(link, ToOne) and "id" in ENTITIES[link.target].columns:
            page = PageRequest(first=3, with_total=True)
            links.append(Link(name, selection, page))
        if link.target is Assignment and not isinstance(link, ToOne):
            pending = page._replace(where=(Where(has_status),), values={"status": "PENDING"})
            links.append(Link(name, selection, pending))
            links.append(Link(name, selection, pending._replace(order=DUE_SOONEST)))
            of_book = page._replace(where=(Where(is_of_book),), values={"of_book": 1}, with_total=False)
            links.append(Link(name, selection, of_book))
    return Selection(frozenset({*entity.columns, "now"}), tuple(links))


def lists() -> Iterator[tuple[str, ReadFunction]]:
    for (shape, request), state in product(BY_START.items(), (None, *TimeState)):
        yield (
            f"sessions({state}): {shape}",
            lambda ctx, s=state, w=request: list_my_sessions(ctx, s, w, ONLY_IDS),
        )
    for (shape, request), state, status, session, client, overdue in product(
        BY_DUE_DATE.items(),
        (None, TimeState.RUNNING),
        (None, *AssignmentStatus),
        (None, 4),
        (None, 2),
        (None, True),
    ):
        filter = AssignmentFilter(state, status, session, client, overdue)
        yield (
            f"assignments({state}, {status}, session={session}, client={client}, overdue={overdue}): {shape}",
            lambda ctx, a=filter, w=request: list_my_assignments(ctx, a, w, ONLY_IDS),
        )
    for state in (None, *TimeState):
        yield f"sessions({state}): page", lambda ctx, s=state: list_my_sessions(ctx, s, PAGE, ONLY_IDS)
        for status, session, client in product((None, *AssignmentStatus), (None, 4), (None, 2)):
            filter = AssignmentFilter(state, status, session, client)
            yield (
                f"assignments({state}, {status}, session={session}, client={client}): page",
                lambda ctx, a=filter: list_my_assignments(ctx, a, PAGE, ONLY_IDS),
            )
        for overdue, since, client in product((None, True, False), (None, NOW - DAY), (None, 2)):
            filter = AssignmentFilter(state, None, None, client, overdue, since)
            yield (
                f"assignments({state}, client={client}, overdue={overdue}, since={since}): page",
                lambda ctx, a=filter: list_my_assignments(ctx, a, PAGE, ONLY_IDS),
            )
    for since, client in product((None, NOW - DAY), (None, 2)):
        submitted = SubmissionFilter(since, client)
        yield (
            f"submissions({since}, client={client}): page",
            lambda ctx, a=submitted: list_my_submissions(ctx, a, PAGE, ONLY_IDS),
        )
    for search, module, is_test in product((None, "boo", "b o o k 3"), (None, 2), (None, True)):
        filter = BookFilter(search, module, is_test)
        yield (
            f"books({search}, module={module}, is_test={is_test}): page",
            lambda ctx, a=filter: list_books(ctx, a, PAGE, ONLY_IDS),
        )


def lookups() -> Iterator[tuple[str, ReadFunction]]:
    """Lookups of every kind by id, with all of its links."""
    sessions, assignments = everything_of(Session), everything_of(Assignment)
    for ids in (list(range(1, ASSIGNMENTS)), [2]):  # a single id has another statement
        yield "session", lambda ctx, i=ids: get_my_sessions(ctx, i, sessions)
        yield "assignment", lambda ctx, i=ids: get_my_assignments(ctx, i, assignments)
        yield "answer set", lambda ctx, i=ids: get_my_answer_sets(ctx, i, everything_of(AnswerSet))
        yield "book", lambda ctx, i=ids: get_books(ctx, i, everything_of(Book))
        yield "caregiver", lambda ctx, i=ids: get_my_caregivers(ctx, i, everything_of(Caregiver))
        yield "client", lambda ctx, i=ids: get_my_clients(ctx, i, everything_of(Client))
    yield "myself", lambda ctx: get_myself(ctx, ctx.signed_in().role, ONLY_IDS)
    yield "sessions", lambda ctx: list_my_sessions(ctx, None, PageRequest(), sessions)
    yield (
        "assignments",
        lambda ctx: list_my_assignments(ctx, AssignmentFilter(), PageRequest(first=50), assignments),
    )


def subscriptions() -> Iterator[tuple[str, ReadFunction]]:
    for session in (None, 4):
        yield f"events: session={session}", lambda ctx, s=session: watch(ctx, s)
    yield "events: an event", lambda ctx: ctx.db.read(finding_event(ctx.access(), CAREGIVER_CHANGES, 1))


async def watch(ctx: Context, session: int | None) -> None:
    event_filter = EventFilter(CAREGIVER_CHANGES, session)
    position = await current_position(ctx, event_filter)
    await ctx.db.read(reading_events(ctx.access(), event_filter, position, MAX_EVENTS))


def lists_of_a_caregiver() -> Iterator[tuple[str, ReadFunction]]:
    for selection in (ONLY_IDS, everything_of(Client)):
        yield "clients: page", lambda ctx, s=selection: list_my_clients(ctx, PAGE, s)


def everything_read(world: OpenWorld) -> Iterator[Ran]:
    for_both = [*lists(), *lookups(), *subscriptions()]
    of_a_client = [*for_both, ("own data", lambda ctx: get_own_data(ctx, DataFormat.JSON))]
    for viewer_name, viewer, reads in (
        ("caregiver", VIEWERS["caregiver"], [*for_both, *lists_of_a_caregiver()]),
        ("client", VIEWERS["client"], of_a_client),
    ):
        yield from statements_of(world, viewer_name, viewer, reads)
    for role in Role:
        yield from ran(f"account of a {role}", [next(finding_account(Identity("client-1", role)))])


def statements_of(
    world: OpenWorld, viewer_name: str, viewer: Viewer, reads: Iterable[tuple[str, ReadFunction]]
) -> Iterator[Ran]:
    for name, read in reads:
        steps: list[Step] = []
        ctx = Context(viewer, Watched(world.db, steps), NOW, "request", "UTC")
        world.runner.run(as_coroutine(read(ctx)))
        yield from ran(f"{viewer_name}: {name}", steps)


async def as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def ran(name: str, steps: list[Step]) -> list[Ran]:
    assert steps, f"{name} ran no statement"
    return [Ran(name, statement, values) for step in steps for statement, values in changes_of(step)]
