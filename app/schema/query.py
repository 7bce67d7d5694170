"""The queries, one field each. Each resolver reads its arguments and calls one function of `care`."""

from collections.abc import Awaitable, Coroutine
from datetime import datetime
from typing import Annotated, Any, TypeVar

import strawberry
from graphql import FieldNode
from strawberry import ID, argument, field

from app.care import books, people
from app.care.answers import SubmissionFilter, get_my_answer_sets, list_my_submissions
from app.care.assignments import ORDERS as ORDERS_OF_ASSIGNMENTS
from app.care.assignments import (
    AssignmentFilter,
    AssignmentOrder,
    get_my_assignments,
    list_my_assignments,
)
from app.care.audit import list_audit_events
from app.care.books import BookFilter
from app.care.context import Get, Role
from app.care.errors import InvalidValue, NotFound
from app.care.own_data import DataFormat, get_own_data
from app.care.sessions import ORDERS as ORDERS_OF_SESSIONS
from app.care.sessions import SessionOrder, get_my_sessions, list_my_sessions
from app.db.audit.records import ANSWER_SETS, ASSIGNMENTS, CAREGIVERS, CLIENTS, SESSIONS
from app.db.drivers.interface import to_the_end
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
    Table,
    TimeState,
)
from app.schema.selection import Info, selected_page, selected_page_request, selected_rows
from app.schema.types import assignments as assignment_types
from app.schema.types import audit as audit_types
from app.schema.types import books as book_types
from app.schema.types import people as people_types
from app.schema.types import sessions as session_types
from app.schema.types.lists import (
    DEFAULT_PAGE_SIZE,
    MAX_PAGE_SIZE,
    After,
    Connection,
    First,
    Offset,
    read_page_request,
)
from app.schema.types.people import Viewer
from app.schema.types.scalars import EitherId, Node, read_filter_id, read_global_id, read_id

Result = TypeVar("Result")

# Lookups by id, restricted to the viewer's rows; of personal data with its name in the audit log, which
# records failed lookups.
LOOKUPS: dict[Table, tuple[Get, str | None]] = {
    Session: (get_my_sessions, SESSIONS),
    Assignment: (get_my_assignments, ASSIGNMENTS),
    AnswerSet: (get_my_answer_sets, ANSWER_SETS),
    Book: (books.get_books, None),
    Caregiver: (people.get_my_caregivers, CAREGIVERS),
    Client: (people.get_my_clients, CLIENTS),
}
PERSONAL = {table.__name__: name for table, (_, name) in LOOKUPS.items() if name}


def beside_others(info: Info, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]:
    """Only a field beside others can be cancelled by one that fails."""
    selections = info.operation.selection_set.selections
    is_alone = len(selections) == 1 and isinstance(selections[0], FieldNode)
    return work if is_alone else to_the_end(work)


async def look_up(info: Info, table: Table, text: str) -> Row:
    """The row with this id. A row that the viewer cannot access is treated as missing."""
    info.context.signed_in()
    get, kind = LOOKUPS[table]
    number = read_id(text, table)
    rows: list[Row] = []
    if number is not None:
        rows = await get(info.context, [number], selected_rows(info, table))
    if rows:
        return rows[0]
    rejection = NotFound(table.__name__.lower(), "id")
    if kind is None:
        raise rejection
    raise await info.context.rejected(info.field_name, rejection, {} if number is None else {kind: [number]})


async def look_up_nodes(info: Info, ids: list[ID]) -> list[Row | None]:
    """Reads once per kind; None for an id that the viewer cannot access."""
    info.context.signed_in()
    if len(ids) > MAX_PAGE_SIZE:
        raise InvalidValue("ids", f"may hold at most {MAX_PAGE_SIZE} ids")
    requested = [read_global_id(text) for text in ids]
    found: dict[tuple[str, int] | None, Row] = {}
    for table, (get, _) in LOOKUPS.items():
        numbers = [each[1] for each in requested if each is not None and each[0] == table.__name__]
        if numbers:
            rows = await get(info.context, numbers, selected_rows(info, table).with_ids())
            found |= {(table.__name__, row.id): row for row in rows}
    missing: dict[str, list[int]] = {}
    for each in dict.fromkeys(requested):
        if each is not None and each not in found and each[0] in PERSONAL:
            missing.setdefault(PERSONAL[each[0]], []).append(each[1])
    if missing:
        await info.context.rejected(info.field_name, NotFound("object", "id"), missing)
    return [found.get(each) for each in requested]


def read_page_arguments(
    info: Info,
    table: Table,
    first: int | None,
    after: str | None,
    offset: int | None = None,
    order: Order | None = None,
) -> tuple[Selection, PageRequest]:
    """Checks the sign-in before the arguments."""
    info.context.signed_in()
    selection, selected = selected_page(info, table, order)
    return selection, read_page_request(selected, table, first, after, offset, order)


@strawberry.type(description="All queries.")
class Query:
    @field(description="The signed-in user.", graphql_type=Viewer | None)
    async def viewer(self, info: Info) -> object:
        return Viewer(role=info.context.signed_in().role, time_zone=info.context.time_zone)

    @field(
        description="An object by global id; null if it does not exist or the viewer cannot access it.",
        graphql_type=Node | None,
    )
    async def node(
        self, info: Info, id: Annotated[ID, argument(description="A global id, as returned in `id`.")]
    ) -> object:
        return (await beside_others(info, look_up_nodes(info, [id])))[0]

    @field(
        description="Objects by global id, in the order of `ids`; null where the viewer cannot access one.",
        graphql_type=list[Node | None],
    )
    async def nodes(
        self, info: Info, ids: Annotated[list[ID], argument(description=f"Up to {MAX_PAGE_SIZE} global ids.")]
    ) -> object:
        return await beside_others(info, look_up_nodes(info, ids))

    @field(
        description="The viewer's sessions, newest first by default.",
        graphql_type=Connection[session_types.Session],
    )
    async def sessions(
        self,
        info: Info,
        time_state: Annotated[TimeState | None, argument(description="Filter by time state.")] = None,
        order_by: Annotated[
            SessionOrder | None, argument(description="Sort order; null means NEWEST.")
        ] = SessionOrder.NEWEST,
        first: First = DEFAULT_PAGE_SIZE,
        after: After = None,
        offset: Offset = None,
    ) -> object:
        order = ORDERS_OF_SESSIONS.get(order_by)
        selection, page_request = read_page_arguments(info, Session, first, after, offset, order)
        return await list_my_sessions(info.context, time_state, page_request, selection)

    @field(description="A session of the viewer.", graphql_type=session_types.Session | None)
    async def session(self, info: Info, id: EitherId) -> object:
        return await beside_others(info, look_up(info, Session, id))

    @field(
        description="The viewer's assignments, newest first by default.",
        graphql_type=Connection[assignment_types.Assignment],
    )
    async def assignments(
        self,
        info: Info,
        time_state: Annotated[
            TimeState | None, argument(description="Filter by time state of the session.")
        ] = None,
        status: Annotated[AssignmentStatus | None, argument(description="Filter by status.")] = None,
        session_id: Annotated[ID | None, argument(description="Filter by session.")] = None,
        client_id: Annotated[ID | None, argument(description="Filter by client.")] = None,
        is_overdue: Annotated[
            bool | None,
            argument(
                description="True: only pending assignments past their end date, in running sessions; "
                "false: all others."
            ),
        ] = None,
        submitted_since: Annotated[
            datetime | None, argument(description="Filter by submission at or after this time.")
        ] = None,
        order_by: session_types.OrderOfAssignments = AssignmentOrder.NEWEST,
        first: First = DEFAULT_PAGE_SIZE,
        after: After = None,
        offset: Offset = None,
    ) -> object:
        order = ORDERS_OF_ASSIGNMENTS.get(order_by)
        selection, page_request = read_page_arguments(info, Assignment, first, after, offset, order)
        filters = AssignmentFilter(
            time_state=time_state,
            status=status,
            session_id=read_filter_id(session_id, Session, "sessionId"),
            client_id=read_filter_id(client_id, Client, "clientId"),
            is_overdue=is_overdue,
            submitted_since=submitted_since,
        )
        return await list_my_assignments(info.context, filters, page_request, selection)

    @field(description="An assignment of the viewer.", graphql_type=assignment_types.Assignment | None)
    async def assignment(self, info: Info, id: EitherId) -> object:
        return await beside_others(info, look_up(info, Assignment, id))

    @field(
        description="Submissions of all attempts, newest first.",
        graphql_type=Connection[assignment_types.AnswerSet],
    )
    async def submissions(
        self,
        info: Info,
        since: Annotated[
            datetime | None, argument(description="Filter by submission at or after this time.")
        ] = None,
        client_id: Annotated[ID | None, argument(description="Filter by client.")] = None,
        first: First = DEFAULT_PAGE_SIZE,
        after: After = None,
    ) -> object:
        selection, page_request = read_page_arguments(info, AnswerSet, first, after)
        filters = SubmissionFilter(since, read_filter_id(client_id, Client, "clientId"))
        return await list_my_submissions(info.context, filters, page_request, selection)

    @field(
        description="Clients with whom the caregiver has or had a session, newest first. Caregivers only.",
        graphql_type=Connection[people_types.Client],
    )
    async def clients(self, info: Info, first: First = DEFAULT_PAGE_SIZE, after: After = None) -> object:
        selection, page_request = read_page_arguments(info, Client, first, after)
        return await people.list_my_clients(info.context, page_request, selection)

    @field(description="Books that can be assigned, newest first.", graphql_type=Connection[book_types.Book])
    async def books(
        self,
        info: Info,
        search: Annotated[
            str | None,
            argument(
                description="Up to five words. Each must match the start of a word in the name. Ignores case."
            ),
        ] = None,
        module_id: Annotated[ID | None, argument(description="Filter by module.")] = None,
        is_test: Annotated[
            bool | None, argument(description="True: only tests; false: only books that are not tests.")
        ] = None,
        first: First = DEFAULT_PAGE_SIZE,
        after: After = None,
    ) -> object:
        selection, page_request = read_page_arguments(info, Book, first, after)
        filters = BookFilter(search, read_filter_id(module_id, Module, "moduleId"), is_test)
        return await books.list_books(info.context, filters, page_request, selection)

    @field(
        description="Audit log of the caregiver's sessions with a client: reads of answers, and changes."
        " Newest first. Caregivers only.",
        graphql_type=Connection[audit_types.AuditEvent],
    )
    async def audit_events(
        self,
        info: Info,
        client_id: Annotated[ID, argument(description="Id of the client: a global id or a legacy id.")],
        first: First = DEFAULT_PAGE_SIZE,
        after: After = None,
    ) -> object:
        requested = read_id(client_id, Client)
        await info.context.require_role(
            Role.CAREGIVER, info.field_name, {CLIENTS: [requested]} if requested else {}
        )
        number = read_filter_id(client_id, Client, "clientId") or 0
        page_request = read_page_request(selected_page_request(info), AuditRecord, first, after)
        return await list_audit_events(info.context, number, page_request)

    @field(description="A book of the catalogue.", graphql_type=book_types.Book | None)
    async def book(self, info: Info, id: EitherId) -> object:
        return await beside_others(info, look_up(info, Book, id))

    @field(description="All data stored about the client, as one document. Clients only.")
    async def own_data(
        self,
        info: Info,
        format: Annotated[
            DataFormat | None, argument(description="Format of the document; null means JSON.")
        ] = DataFormat.JSON,
    ) -> str:
        return await get_own_data(info.context, format or DataFormat.JSON)
