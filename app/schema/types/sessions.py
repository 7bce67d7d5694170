"""Session: a period of care between one caregiver and one client."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import strawberry
from strawberry import Parent, argument, field, lazy

from app.care.assignments import ORDERS, AssignmentOrder, of_status
from app.care.sessions import time_state
from app.db.reader.plans import Row
from app.db.tables import AssignmentStatus, TimeState
from app.schema.types.lists import DEFAULT_PAGE_SIZE, After, Connection, First, page_key
from app.schema.types.people import Caregiver, Client
from app.schema.types.progress import Progress, ScorePoint, progress_field, score_history_field
from app.schema.types.scalars import Node, needing, paging

if TYPE_CHECKING:
    from app.schema.types.assignments import Assignment

OrderOfAssignments = Annotated[AssignmentOrder | None, argument(description="Sort order; null means NEWEST.")]
LazyAssignment = Annotated["Assignment", lazy("app.schema.types.assignments")]


def assignments_of(
    session: Parent[Row],
    status: Annotated[AssignmentStatus | None, argument(description="Filter by status.")] = None,
    order_by: OrderOfAssignments = AssignmentOrder.NEWEST,
    first: First = DEFAULT_PAGE_SIZE,
    after: After = None,
) -> Connection[LazyAssignment]:
    arguments = {"status": status, "orderBy": order_by, "first": first, "after": after}
    key = page_key("assignments", arguments)
    page: Connection[LazyAssignment] = next(page for page in session.pages if page.key == key)
    return page


@strawberry.type(description="A period of care between one caregiver and one client.")
class Session(Node):
    title: str = field(description="Title of the session.")
    description: str = field(description="Description of the session; may be empty.")
    caregiver: Caregiver = field(description="Caregiver of the session.")
    client: Client = field(description="Client of the session.")
    create_date: datetime = field(description="Time of creation.")
    start_date: datetime = field(description="Start date.")
    close_date: datetime | None = field(
        description="Time of closing; null while open and for some sessions imported from the old service."
    )
    chat_id: str = field(description="Id of the session's chat, which is stored in another service.")
    is_closed: bool = field(
        description="Whether the session is closed. A closed session cannot be opened again."
    )
    running_status: TimeState = field(
        resolver=lambda self: time_state(self.is_closed, self.start_date, self.now),
        metadata=needing("is_closed", "start_date", "now"),
        description="State at the time of the request.",
    )
    assignment_count: int = field(description="Total number of assignments.")
    completed_assignment_count: int = field(description="Number of submitted assignments.")
    pending_assignment_count: int = field(
        resolver=lambda self: self.assignment_count - self.completed_assignment_count,
        metadata=needing("assignment_count", "completed_assignment_count"),
        description="Number of pending assignments.",
    )
    last_assignment_score: int | None = field(
        description="Score of the newest completed assignment; null if there is none."
    )
    latest_assignment: LazyAssignment | None = field(
        description="The newest assignment; null if there is none."
    )
    assignments: Connection[LazyAssignment] = field(
        resolver=assignments_of,
        metadata=paging(lambda arguments: of_status(arguments.get("status")), ORDERS),
        description="Assignments of the session, newest first by default.",
    )
    progress: Progress = progress_field("Progress of all homework in this session.")
    score_history: list[ScorePoint] = score_history_field("Scores of one book in this session, oldest first.")
