"""Session: a period of care between one caregiver and one client."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from app.care.assignments.reading import of_status
from app.care.sessions.reading import time_state
from app.db.plans import Row
from app.db.tables import AssignmentStatus, TimeState
from app.schema.types.lists import PAGE, Connection, page_key
from app.schema.types.node import COMPUTES, Node, needing
from app.schema.types.people import Caregiver, Client
from app.schema.types.progress import Progress, ScorePoint, progress_field, score_history_field

if TYPE_CHECKING:
    from app.schema.types.assignments import Assignment

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
    status: AssignmentStatus | None = None,
    first: int | None = PAGE,
    after: str | None = None,
) -> Connection[LazyAssignment]:
    key = page_key("assignments", {"status": status, "first": first, "after": after})
    page: Connection[LazyAssignment] = next(page for page in session.pages if page.key == key)
    return page


@strawberry.type(description="A period of care between one caregiver and one client.")
class Session(Node):
    title: str
    description: str
    caregiver: Caregiver
    client: Client
    create_date: datetime
    start_date: datetime
    close_date: datetime | None = strawberry.field(
        description="Null while open, and where only the old service knew it."
    )
    chat_id: str = strawberry.field(description="Identifies the chat of the session.")
    is_closed: bool
    running_status: TimeState = strawberry.field(
        resolver=running_status_of,
        metadata=needing("is_closed", "start_date", "now"),
        description="FUTURE until its start, RUNNING until closed.",
    )
    assignment_count: int
    completed_assignment_count: int
    pending_assignment_count: int = strawberry.field(
        resolver=pending_count_of, metadata=needing("assignment_count", "completed_assignment_count")
    )
    last_assignment_score: int | None = strawberry.field(
        description="Score of the newest completed assignment; null if there is none."
    )
    latest_assignment: LazyAssignment | None = strawberry.field(description="The newest assignment.")
    assignments: Connection[LazyAssignment] = strawberry.field(
        resolver=assignments_of, metadata={**COMPUTES, "page": assignments_where}, description="Newest first."
    )
    progress: Progress = progress_field("Of all homework in this session.")
    score_history: list[ScorePoint] = score_history_field(
        "The scores of one book in this session, oldest first."
    )
