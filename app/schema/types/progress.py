"""Progress and ScorePoint: statistics on the homework of clients and sessions."""

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import strawberry
from graphql import GraphQLField, get_named_type
from strawberry import ID, Parent, argument, field, lazy

from app.care import progress
from app.care.assignments import is_of_book
from app.db.reader.plans import Row
from app.db.reader.selection import PageRequest, Where
from app.db.tables import Book
from app.schema.selection import FieldCollector, Fields, SelectionBuilder
from app.schema.types.lists import page_key
from app.schema.types.scalars import COMPUTES, gathering, read_filter_id, read_id

if TYPE_CHECKING:
    from app.schema.types.assignments import Assignment

MAX_SCORED_ASSIGNMENTS = 500


# --- columns to read from the assignments of a client or session ---------------------------------------


def gather_progress(
    collector: FieldCollector, builder: SelectionBuilder, definition: GraphQLField, group: Fields
) -> None:
    builder.columns.update({"now", "time_zone"})
    assignments = builder.link("assignments")
    assignments.columns.update({"status", "assign_date", "end_date", "submit_date"})
    assignments.link("session").columns.update({"is_closed", "start_date"})


def gather_score_history(
    collector: FieldCollector, builder: SelectionBuilder, definition: GraphQLField, group: Fields
) -> None:
    """Selects the assignments of one book and the columns of its points."""
    book = read_filter_id(collector.arguments(definition, group)["bookId"], Book, "bookId")
    page_request = PageRequest(
        key=page_key("scoreHistory", {"book": book}),
        first=MAX_SCORED_ASSIGNMENTS,
        where=(Where(is_of_book),),
        values={"of_book": book},
    )
    assignments = builder.page("assignments", page_request)
    assignments.link("answer_sets").columns.update({"id", "submit_date", "score", "attempt"})
    point: Any = get_named_type(definition.type)
    collector.gather(assignments, collector.collect_named(point, group, "assignment"))


# --- types ----------------------------------------------------------------------------------------


@strawberry.type(description="Cumulative number of assignments at the end of a week.")
class CompletionPoint:
    week: date = field(description="Monday of the week, in the time zone of the service.")
    assigned: int = field(description="Number of assignments assigned by the end of the week.")
    completed: int = field(description="Number of these assignments that were completed.")


def completion_of(progress_of_homework: Parent[progress.Progress]) -> Any:
    return progress.completion(progress_of_homework)


@strawberry.type(description="Progress of homework at the time of the request.")
class Progress:
    assignment_count: int = field(description="Total number of assignments.")
    completed_assignment_count: int = field(description="Number of submitted assignments, on time or late.")
    pending_assignment_count: int = field(description="Number of pending assignments, overdue or not.")
    overdue_assignment_count: int = field(
        description="Number of pending assignments past their end date, in running sessions."
    )
    late_assignment_count: int = field(description="Number of assignments submitted after their end date.")
    completion: list[CompletionPoint] = field(
        resolver=completion_of,
        metadata=COMPUTES,
        description="One point per week from the first assignment until now, at most the last 520 weeks;"
        " empty if nothing was assigned.",
    )


@strawberry.type(description="Score of one submission.")
class ScorePoint:
    submit_date: datetime = field(description="Time of submission.")
    score: int = field(description="Effective score.")
    attempt: int = field(description="Number of the attempt, from 1.")
    assignment: Annotated["Assignment", lazy("app.schema.types.assignments")] = field(
        description="The submitted assignment."
    )


def score_history_of(
    row: Parent[Row],
    book_id: Annotated[ID, argument(description="Id of the book: a global id or a legacy id.")],
) -> Any:
    key = page_key("scoreHistory", {"book": read_id(book_id, Book) or 0})
    return progress.score_history(next(page for page in row.pages if page.key == key).rows)


def progress_field(description: str) -> Any:
    return field(
        resolver=lambda self: progress.progress(self.assignments, self.now, self.time_zone),
        metadata=gathering(gather_progress),
        description=description,
    )


def score_history_field(description: str) -> Any:
    return field(resolver=score_history_of, metadata=gathering(gather_score_history), description=description)
