"""Book, Module and Question."""

import strawberry

from app.db.tables import QuestionKind
from app.schema.types.node import Node, id_field, legacy_id_field, needing


@strawberry.type(description="A group of books of the catalogue.")
class Module:
    id: strawberry.ID = id_field()
    legacy_id: strawberry.ID = legacy_id_field()
    name: str = strawberry.field(description="Name of the module.")


@strawberry.type(description="A question of a book.")
class Question:
    id: strawberry.ID = id_field()
    position: int = strawberry.field(description="Position in the book, from 1.")
    text: str = strawberry.field(description="Text of the question.")
    kind: QuestionKind = strawberry.field(
        description="Type of the question, which determines the format of its answers."
    )
    options: list[str] = strawberry.field(description="Options in order; empty for kinds without options.")
    minimum: float | None = strawberry.field(description="Smallest accepted number; null for no limit.")
    maximum: float | None = strawberry.field(description="Largest accepted number; null for no limit.")
    required: bool = strawberry.field(
        resolver=lambda self: self.is_required,
        metadata=needing("is_required"),
        description="Whether a submission must answer it.",
    )


@strawberry.type(description="A set of questions that can be assigned as homework.")
class Book(Node):
    name: str = strawberry.field(description="Name of the book and of its assignments.")
    module: Module = strawberry.field(description="Module of the book.")
    is_test: bool = strawberry.field(description="Whether submissions are scored.")
    questions: list[Question] = strawberry.field(description="Questions in order.")
