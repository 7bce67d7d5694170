"""The questions: a table of contents, one field each."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated

import strawberry

from app.care import books, people
from app.care.answers.reading import get_my_answer_sets
from app.care.answers.submissions import SubmissionFilter, list_my_submissions
from app.care.assignments.reading import ORDERS as ORDERS_OF_ASSIGNMENTS
from app.care.assignments.reading import (
    AssignmentFilter,
    AssignmentOrder,
    get_my_assignments,
    list_my_assignments,
)
from app.care.audit import list_audit_events
from app.care.books import BookFilter
from app.care.context import Context, Role
from app.care.errors import NotFound, Unreadable
from app.care.own_data.telling import DataFormat, get_own_data
from app.care.sessions.reading import ORDERS as ORDERS_OF_SESSIONS
from app.care.sessions.reading import SessionOrder, get_my_sessions, list_my_sessions
from app.db.audit.records import ANSWER_SETS, ASSIGNMENTS, CAREGIVERS, CLIENTS, SESSIONS
from app.db.reader.entities import Table
from app.db.reader.plans import Row
from app.db.reader.selection import Order, PageRequest, Selection
from app.db.tables import (
    AnswerSet,
    Assignment,
    AssignmentStatus,
    AuditRecord,
    Book,
    Caregiver,
    Client,
    Module,
    Session,
    TimeState,
)
from app.schema.selection import Info, wanted_page, wanted_rows, wanted_shape
from app.schema.types import answers as answer_types
from app.schema.types import assignments as assignment_types
from app.schema.types import audit as audit_types
from app.schema.types import books as book_types
from app.schema.types import people as people_types
from app.schema.types import sessions as session_types
from app.schema.types.lists import MOST_ROWS, PAGE, After, Connection, First, Offset, read_window
from app.schema.types.node import EitherId, Node, read_global_id, read_id
from app.schema.types.people import Viewer

# How the rows of each kind are looked up for a viewer.
LookUp = Callable[[Context, list[int], Selection], Awaitable[list[Row]]]
LOOK_UPS: dict[Table, LookUp] = {
    Session: get_my_sessions,
    Assignment: get_my_assignments,
    AnswerSet: get_my_answer_sets,
    Book: books.get_books,
    Caregiver: people.get_my_caregivers,
    Client: people.get_my_clients,
}
KINDS = {table.__name__: table for table in LOOK_UPS}
# Those whose rows belong to people, as the audit trail names them: a failed look-up of one is on record.
PERSONAL = {
    "Session": SESSIONS,
    "Assignment": ASSIGNMENTS,
    "AnswerSet": ANSWER_SETS,
    "Caregiver": CAREGIVERS,
    "Client": CLIENTS,
}


async def look_up(info: Info, table: Table, text: str) -> Row:
    """The row that an id argument names; not there and not the viewer's are the same."""
    info.context.signed_in()
    number = read_id(text, table)
    rows = (
        await LOOK_UPS[table](info.context, [number], wanted_rows(info, table)) if number is not None else []
    )
    if not rows:
        refusal = NotFound(table.__name__.lower(), "id")
        kind = PERSONAL.get(table.__name__)
        if kind is None:
            raise refusal
        named = {} if number is None else {kind: [number]}
        raise await info.context.refused(info.field_name, refusal, named)
    return rows[0]


async def look_up_nodes(info: Info, ids: list[strawberry.ID]) -> list[Row | None]:
    """One read per kind, whatever the number of ids; null where nothing of the viewer's is named."""
    info.context.signed_in()
    if len(ids) > MOST_ROWS:
        raise Unreadable("ids", f"may hold at most {MOST_ROWS} ids")
    named = [read_global_id(text) for text in ids]
    found: dict[tuple[str, int], Row] = {}
    for kind, table in KINDS.items():
        numbers = [one[1] for one in named if one is not None and one[0] == kind]
        if numbers:
            rows = await LOOK_UPS[table](info.context, numbers, wanted_rows(info, table).with_ids())
            found |= {(kind, row.id): row for row in rows}
    missing: dict[str, list[int]] = {}
    for one in dict.fromkeys(named):
        if one is not None and one not in found and one[0] in PERSONAL:
            missing.setdefault(PERSONAL[one[0]], []).append(one[1])
    if missing:
        await info.context.refused(info.field_name, NotFound("object", "id"), missing)
    return [None if one is None else found.get(one) for one in named]


def asked_page(
    info: Info,
    table: Table,
    first: int | None,
    after: str | None,
    offset: int | None = None,
    order: Order | None = None,
) -> tuple[Selection, PageRequest]:
    """What a list is asked for; who is not signed in learns nothing of how to ask."""
    info.context.signed_in()
    wanted, shape = wanted_page(info, table, order)
    return wanted, read_window(shape, table, first, after, offset, order)


def filter_number(text: str | None, table: Table) -> int | None:
    """An id to filter by; an id that names nothing matches nothing, as 0 does."""
    return None if text is None else read_id(text, table) or 0


@strawberry.type(description="What can be asked.")
class Query:
    @strawberry.field(description="Who is asking.", graphql_type=Viewer | None)
    async def viewer(self, info: Info) -> object:
        return Viewer(role=info.context.signed_in().role, time_zone=info.context.time_zone)

    @strawberry.field(
        description="An object by its global id; null when it is not the viewer's.", graphql_type=Node | None
    )
    async def node(
        self,
        info: Info,
        id: Annotated[strawberry.ID, strawberry.argument(description="A global id, as `id` fields say it.")],
    ) -> object:
        return (await look_up_nodes(info, [id]))[0]

    @strawberry.field(
        description="Objects by their global ids, in the order asked; null where one is not the viewer's.",
        graphql_type=list[Node | None],
    )
    async def nodes(
        self,
        info: Info,
        ids: Annotated[
            list[strawberry.ID], strawberry.argument(description=f"Up to {MOST_ROWS} global ids.")
        ],
    ) -> object:
        return await look_up_nodes(info, ids)

    @strawberry.field(
        description="The viewer's own sessions, newest first unless `orderBy` says otherwise.",
        graphql_type=Connection[session_types.Session],
    )
    async def sessions(
        self,
        info: Info,
        time_state: Annotated[
            TimeState | None, strawberry.argument(description="Only sessions of this time state.")
        ] = None,
        order_by: Annotated[
            SessionOrder | None, strawberry.argument(description="The order of the list; null means NEWEST.")
        ] = SessionOrder.NEWEST,
        first: First = PAGE,
        after: After = None,
        offset: Offset = None,
    ) -> object:
        order = ORDERS_OF_SESSIONS.get(order_by)
        wanted, window = asked_page(info, Session, first, after, offset, order)
        return await list_my_sessions(info.context, time_state, window, wanted)

    @strawberry.field(
        description="One of the viewer's sessions, by either form of its id.",
        graphql_type=session_types.Session | None,
    )
    async def session(self, info: Info, id: EitherId) -> object:
        return await look_up(info, Session, id)

    @strawberry.field(
        description="The viewer's own assignments, newest first unless `orderBy` says otherwise.",
        graphql_type=Connection[assignment_types.Assignment],
    )
    async def assignments(
        self,
        info: Info,
        time_state: Annotated[
            TimeState | None,
            strawberry.argument(description="Only those whose session is of this time state."),
        ] = None,
        status: Annotated[
            AssignmentStatus | None, strawberry.argument(description="Only those of this status.")
        ] = None,
        session_id: Annotated[
            strawberry.ID | None, strawberry.argument(description="Only those of this session.")
        ] = None,
        client_id: Annotated[
            strawberry.ID | None, strawberry.argument(description="Only those of this client.")
        ] = None,
        is_overdue: Annotated[
            bool | None,
            strawberry.argument(
                description="True: only those pending after their end date, in sessions that still run; "
                "false: only the others."
            ),
        ] = None,
        submitted_since: Annotated[
            datetime | None, strawberry.argument(description="Only those submitted at this moment or later.")
        ] = None,
        order_by: session_types.OrderOfAssignments = AssignmentOrder.NEWEST,
        first: First = PAGE,
        after: After = None,
        offset: Offset = None,
    ) -> object:
        order = ORDERS_OF_ASSIGNMENTS.get(order_by)
        wanted, window = asked_page(info, Assignment, first, after, offset, order)
        asked = AssignmentFilter(
            time_state,
            status,
            filter_number(session_id, Session),
            filter_number(client_id, Client),
            is_overdue,
            submitted_since,
        )
        return await list_my_assignments(info.context, asked, window, wanted)

    @strawberry.field(
        description="One of the viewer's assignments, by either form of its id.",
        graphql_type=assignment_types.Assignment | None,
    )
    async def assignment(self, info: Info, id: EitherId) -> object:
        return await look_up(info, Assignment, id)

    @strawberry.field(
        description="What came in, newest first: the submissions of every attempt.",
        graphql_type=Connection[answer_types.AnswerSet],
    )
    async def submissions(
        self,
        info: Info,
        since: Annotated[
            datetime | None, strawberry.argument(description="Only those of this moment or later.")
        ] = None,
        client_id: Annotated[
            strawberry.ID | None, strawberry.argument(description="Only those of this client.")
        ] = None,
        first: First = PAGE,
        after: After = None,
    ) -> object:
        wanted, window = asked_page(info, AnswerSet, first, after)
        asked = SubmissionFilter(since, filter_number(client_id, Client))
        return await list_my_submissions(info.context, asked, window, wanted)

    @strawberry.field(
        description="For caregivers: the clients whom they have or had a session with, newest first.",
        graphql_type=Connection[people_types.Client],
    )
    async def clients(self, info: Info, first: First = PAGE, after: After = None) -> object:
        wanted, window = asked_page(info, Client, first, after)
        return await people.list_my_clients(info.context, window, wanted)

    @strawberry.field(
        description="The books that can be assigned, newest first.",
        graphql_type=Connection[book_types.Book],
    )
    async def books(
        self,
        info: Info,
        search: Annotated[
            str | None,
            strawberry.argument(
                description="Up to five words; each must begin a word of the name, in any case."
            ),
        ] = None,
        module_id: Annotated[
            strawberry.ID | None, strawberry.argument(description="Only those of this module.")
        ] = None,
        is_test: Annotated[
            bool | None, strawberry.argument(description="True: only tests; false: only the others.")
        ] = None,
        first: First = PAGE,
        after: After = None,
    ) -> object:
        wanted, window = asked_page(info, Book, first, after)
        asked = BookFilter(search, filter_number(module_id, Module), is_test)
        return await books.list_books(info.context, asked, window, wanted)

    @strawberry.field(
        description="For caregivers: who saw a client's answers in their sessions with this client, or"
        " changed something in them, newest first.",
        graphql_type=Connection[audit_types.AuditEvent],
    )
    async def audit_events(
        self,
        info: Info,
        client_id: Annotated[
            strawberry.ID,
            strawberry.argument(description="Whose answers, by either form of the client's id."),
        ],
        first: First = PAGE,
        after: After = None,
    ) -> object:
        number = filter_number(client_id, Client) or 0
        await info.context.require_role(
            Role.CAREGIVER, info.field_name, {CLIENTS: [number]} if number else {}
        )
        window = read_window(wanted_shape(info), AuditRecord, first, after)
        return await list_audit_events(info.context, number, window)

    @strawberry.field(description="A book, by either form of its id.", graphql_type=book_types.Book | None)
    async def book(self, info: Info, id: EitherId) -> object:
        return await look_up(info, Book, id)

    @strawberry.field(description="For clients: everything that is held of them, as one document.")
    async def own_data(
        self,
        info: Info,
        format: Annotated[
            DataFormat | None, strawberry.argument(description="In which form; null means JSON.")
        ] = DataFormat.JSON,
    ) -> str:
        return await get_own_data(info.context, format or DataFormat.JSON)
