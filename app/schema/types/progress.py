"""Progress and ScorePoint: what clients and sessions tell of their homework."""

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import strawberry
from graphql import GraphQLField, get_named_type

from app.care import progress
from app.db.reader.plans import Row
from app.db.reader.selection import PageRequest, Where
from app.db.statements.conditions import is_of_book
from app.db.tables import Book
from app.schema.selection import Asked, Fields, SelectedFields
from app.schema.types.node import COMPUTES, gathering, read_id

if TYPE_CHECKING:
    from app.schema.types.assignments import Assignment

MOST_ASSIGNMENTS_OF_A_BOOK = 500


# --- what is read of the assignments of a client or session ---------------------------------------


def gather_progress(selection: SelectedFields, asked: Asked, definition: GraphQLField, group: Fields) -> None:
    asked.columns.update({"now", "time_zone"})
    assignments = asked.link("assignments")
    assignments.columns.update({"status", "assign_date", "end_date", "submit_date"})
    assignments.link("session").columns.update({"is_closed", "start_date"})


def gather_score_history(
    selection: SelectedFields, asked: Asked, definition: GraphQLField, group: Fields
) -> None:
    """The assignments of one book, with what the points tell of theirs; two books are read apart."""
    book = book_number(selection.arguments(definition, group)["bookId"])
    window = PageRequest(
        key=score_key(book),
        first=MOST_ASSIGNMENTS_OF_A_BOOK,
        where=(Where(is_of_book),),
        values={"of_book": book},
    )
    assignments = asked.page("assignments", window)
    assignments.link("answer_sets").columns.update({"id", "submit_date", "score", "attempt"})
    point: Any = get_named_type(definition.type)
    selection.gather(assignments, selection.named(point, group, "assignment"))


def book_number(book_id: str) -> int:
    """An id that names nothing has no assignments, as 0 has none."""
    return read_id(book_id, Book) or 0


def score_key(book: int) -> str:
    return f"scoreHistory({book})"


# --- types ----------------------------------------------------------------------------------------


def completion_of(of: strawberry.Parent[progress.Progress]) -> Any:
    return progress.completion(of)


@strawberry.type(description="How much was assigned and completed until the end of a week.")
class CompletionPoint:
    week: date = strawberry.field(description="The Monday it began on, in the time zone of the service.")
    assigned: int = strawberry.field(description="How many were assigned until its end, since the first.")
    completed: int = strawberry.field(description="How many of these are completed.")


@strawberry.type(description="How far homework is, at the moment of the request.")
class Progress:
    assignment_count: int = strawberry.field(description="Completed and pending together.")
    completed_assignment_count: int = strawberry.field(description="Submitted, in time or late.")
    pending_assignment_count: int = strawberry.field(description="Not submitted, overdue or not.")
    overdue_assignment_count: int = strawberry.field(
        description="Pending after their end date, in sessions that still run."
    )
    late_assignment_count: int = strawberry.field(description="Submitted after their end date.")
    completion: list[CompletionPoint] = strawberry.field(
        resolver=completion_of,
        metadata=COMPUTES,
        description="Week by week, from the first assignment until now, at most the newest 520;"
        " empty when nothing was assigned.",
    )


@strawberry.type(description="The score of one submission.")
class ScorePoint:
    submit_date: datetime = strawberry.field(description="When it was submitted.")
    score: int = strawberry.field(description="The score that counts.")
    attempt: int = strawberry.field(description="Which attempt at the assignment, from 1.")
    assignment: Annotated["Assignment", strawberry.lazy("app.schema.types.assignments")] = strawberry.field(
        description="What was submitted."
    )


def progress_of(row: strawberry.Parent[Row]) -> Any:
    return progress.progress(row.assignments, row.now, row.time_zone)


def score_history_of(
    row: strawberry.Parent[Row],
    book_id: Annotated[strawberry.ID, strawberry.argument(description="The book, by either form of its id.")],
) -> Any:
    key = score_key(book_number(book_id))
    return progress.score_history(next(page for page in row.pages if page.key == key).rows)


def progress_field(description: str) -> Any:
    return strawberry.field(
        resolver=progress_of, metadata=gathering(gather_progress), description=description
    )


def score_history_field(description: str) -> Any:
    return strawberry.field(
        resolver=score_history_of, metadata=gathering(gather_score_history), description=description
    )
