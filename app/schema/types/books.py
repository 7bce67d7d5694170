"""Book, Module and Question."""

import strawberry

from app.db.tables import QuestionKind
from app.schema.types.node import Node, id_field, legacy_id_field, needing


@strawberry.type(description="A group of books of the catalogue.")
class Module:
    id: strawberry.ID = id_field()
    legacy_id: strawberry.ID = legacy_id_field()
    name: str = strawberry.field(description="What the group is called.")


@strawberry.type(description="A question of a book.")
class Question:
    id: strawberry.ID = id_field()
    position: int = strawberry.field(description="Its place in the book, from 1.")
    text: str = strawberry.field(description="What is asked.")
    kind: QuestionKind = strawberry.field(description="What an answer to it looks like.")
    options: list[str] = strawberry.field(
        description="What can be chosen, in order; empty for kinds without a choice."
    )
    minimum: float | None = strawberry.field(
        description="The least number that is taken; null where there is no bound."
    )
    maximum: float | None = strawberry.field(
        description="The greatest number that is taken; null where there is no bound."
    )
    required: bool = strawberry.field(
        resolver=lambda self: self.is_required,
        metadata=needing("is_required"),
        description="Whether a submission must answer it.",
    )


@strawberry.type(description="What homework is made of: a set of questions.")
class Book(Node):
    name: str = strawberry.field(description="What it is called, and homework made of it.")
    module: Module = strawberry.field(description="The group that it belongs to.")
    is_test: bool = strawberry.field(description="Whether submissions get a score.")
    questions: list[Question] = strawberry.field(description="What it asks, in its order.")
