"""Book, Module and Question."""

import strawberry
from strawberry import ID, field

from app.db.tables import QuestionKind
from app.schema.types.scalars import Node, id_field, legacy_id_field, needing


@strawberry.type(description="A group of books of the catalogue.")
class Module:
    id: ID = id_field()
    legacy_id: ID = legacy_id_field()
    name: str = field(description="Name of the module.")


@strawberry.type(description="A question of a book.")
class Question:
    id: ID = id_field()
    position: int = field(description="Position in the book, from 1.")
    text: str = field(description="Text of the question.")
    kind: QuestionKind = field(
        description="Type of the question, which determines the format of its answers."
    )
    options: list[str] = field(description="Options in order; empty for kinds without options.")
    minimum: float | None = field(description="Smallest accepted number; null for no limit.")
    maximum: float | None = field(description="Largest accepted number; null for no limit.")
    required: bool = field(
        resolver=lambda self: self.is_required,
        metadata=needing("is_required"),
        description="Whether a submission must answer it.",
    )


@strawberry.type(description="A set of questions that can be assigned as homework.")
class Book(Node):
    name: str = field(description="Name of the book and of its assignments.")
    module: Module = field(description="Module of the book.")
    is_test: bool = field(description="Whether submissions are scored.")
    questions: list[Question] = field(description="Questions in order.")
