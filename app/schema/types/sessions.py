"""Session: a period of care between one caregiver and one client."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from app.care.assignments import ORDERS, AssignmentOrder, of_status
from app.care.sessions import time_state
from app.db.reader.plans import Row
from app.db.tables import AssignmentStatus, TimeState
from app.schema.types.lists import PAGE, After, Connection, First, page_key
from app.schema.types.node import COMPUTES, Node, needing
from app.schema.types.people import Caregiver, Client
from app.schema.types.progress import Progress, ScorePoint, progress_field, score_history_field

if TYPE_CHECKING:
    from app.schema.types.assignments import Assignment

OrderOfAssignments = Annotated[
    AssignmentOrder | None, strawberry.argument(description="Sort order; null means NEWEST.")
]
LazyAssignment = Annotated["Assignment", strawberry.lazy("app.schema.types.assignments")]


def running_status_of(session: strawberry.Parent[Row]) -> TimeState:
    return time_state(session.is_closed, session.start_date, session.now)


def pending_count_of(session: strawberry.Parent[Row]) -> int:
    pending: int = session.assignment_count - session.completed_assignment_count
    return pending


def assignments_where(arguments: Mapping[str, Any]) -> Any:
    return of_status(arguments.get("status"))


def assignments_of(
    session: strawberry.Parent[Row],
    status: Annotated[AssignmentStatus | None, strawberry.argument(description="Filter by status.")] = None,
    order_by: OrderOfAssignments = AssignmentOrder.NEWEST,
    first: First = PAGE,
    after: After = None,
) -> Connection[LazyAssignment]:
    arguments = {"status": status, "orderBy": order_by, "first": first, "after": after}
    key = page_key("assignments", arguments)
    page: Connection[LazyAssignment] = next(page for page in session.pages if page.key == key)
    return page


@strawberry.type(description="A period of care between one caregiver and one client.")
class Session(Node):
    title: str = strawberry.field(description="Title of the session.")
    description: str = strawberry.field(description="Description of the session; may be empty.")
    caregiver: Caregiver = strawberry.field(description="Caregiver of the session.")
    client: Client = strawberry.field(description="Client of the session.")
    create_date: datetime = strawberry.field(description="Time of creation.")
    start_date: datetime = strawberry.field(description="Start date.")
    close_date: datetime | None = strawberry.field(
        description="Time of closing; null while open and for some sessions imported from the old service."
    )
    chat_id: str = strawberry.field(
        description="Id of the session's chat, which is stored in another service."
    )
    is_closed: bool = strawberry.field(
        description="Whether the session is closed. A closed session cannot be opened again."
    )
    running_status: TimeState = strawberry.field(
        resolver=running_status_of,
        metadata=needing("is_closed", "start_date", "now"),
        description="State at the time of the request.",
    )
    assignment_count: int = strawberry.field(description="Total number of assignments.")
    completed_assignment_count: int = strawberry.field(description="Number of submitted assignments.")
    pending_assignment_count: int = strawberry.field(
        resolver=pending_count_of,
        metadata=needing("assignment_count", "completed_assignment_count"),
        description="Number of pending assignments.",
    )
    last_assignment_score: int | None = strawberry.field(
        description="Score of the newest completed assignment; null if there is none."
    )
    latest_assignment: LazyAssignment | None = strawberry.field(
        description="The newest assignment; null if there is none."
    )
    assignments: Connection[LazyAssignment] = strawberry.field(
        resolver=assignments_of,
        metadata={**COMPUTES, "page": assignments_where, "orders": ORDERS},
        description="Assignments of the session, newest first by default.",
    )
    progress: Progress = progress_field("Progress of all homework in this session.")
    score_history: list[ScorePoint] = score_history_field("Scores of one book in this session, oldest first.")
