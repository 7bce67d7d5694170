"""Book, Module and Question."""

import strawberry

from app.db.tables import QuestionKind
from app.schema.types.node import Node, id_field, legacy_id_field, needing


@strawberry.type(description="A group of books.")
class Module:
    id: strawberry.ID = id_field()
    legacy_id: strawberry.ID = legacy_id_field()
    name: str


@strawberry.type(description="A question of a book.")
class Question:
    id: strawberry.ID = id_field()
    position: int = strawberry.field(description="Counts from 1, in the order of the book.")
    text: str
    kind: QuestionKind
    options: list[str] = strawberry.field(description="What can be chosen; empty for other kinds.")
    minimum: float | None = strawberry.field(description="The least number that is taken; null for any.")
    maximum: float | None = strawberry.field(description="The greatest number that is taken; null for any.")
    required: bool = strawberry.field(resolver=lambda self: self.is_required, metadata=needing("is_required"))


@strawberry.type(description="What homework is made of: a set of questions.")
class Book(Node):
    name: str
    module: Module
    is_test: bool = strawberry.field(description="Whether answers are scored.")
    questions: list[Question] = strawberry.field(description="In the order of the book.")
