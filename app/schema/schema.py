"""The GraphQL schema: Strawberry's, with errors logged once and rows told apart by their own word."""

import logging
from datetime import date, datetime
from typing import Any

from graphql import (
    GraphQLError,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    lexicographic_sort_schema,
    print_schema,
)
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from app.care.errors import RateLimited
from app.engine.schema import EngineOptions, PreparingSchema
from app.http.errors import OVERLOADED
from app.schema.enums import say_meanings
from app.schema.errors import INTERNAL, code_of
from app.schema.mutation import Mutation
from app.schema.query import Query
from app.schema.subscription import Subscription
from app.schema.types.answers import AnswerSet
from app.schema.types.assignments import Assignment
from app.schema.types.books import Book
from app.schema.types.people import Caregiver, Client
from app.schema.types.scalars import DATE, DATE_TIME, write_stored
from app.schema.types.sessions import Session
from app.schema.weights import weigh

logger = logging.getLogger("care.graphql")


class OperationContext(ExecutionContext):
    """Strawberry runs the first of several operations when none is named; GraphQL refuses to guess."""

    @property
    def operation_name(self) -> str | None:
        return self._provided_operation_name


class Schema(PreparingSchema):
    def _create_execution_context(self, *_: Any, **given: Any) -> ExecutionContext:
        return OperationContext(
            query=given["query"],
            schema=self,
            provided_operation_name=given["operation_name"],
            allowed_operations=given["allowed_operation_types"],
            context=given["context_value"],
            root_value=given["root_value"],
            variables=given["variable_values"],
            operation_extensions=given["operation_extensions"],
        )

    def charge(self, context: Any, cost: int) -> GraphQLError | None:
        """What the viewer asks for is counted, over everything they ask."""
        try:
            context.charge(cost)
        except RateLimited as refusal:
            return GraphQLError(refusal.message, original_error=refusal)
        return None

    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        """A refusal is not a fault: only what nobody expected is logged, with its traceback."""
        context = execution_context.context if execution_context else None
        request_id = getattr(context, "request_id", "-")
        for error in errors:
            code, fault = code_of(error), error.original_error
            if code == INTERNAL:
                logger.error("fault in request %s at %s", request_id, error.path, exc_info=fault)
            elif code == OVERLOADED and fault is not None:
                logger.error("request %s: %s (%s)", request_id, fault, fault.__cause__)


def build_schema(prepares: bool = True, engine_options: EngineOptions | None = None) -> Schema:
    """The schema; with `prepares=False` every operation takes Strawberry's own way."""
    schema = Schema(
        prepares=prepares,
        engine_options=engine_options,
        query=Query,
        mutation=Mutation,
        subscription=Subscription,
        types=[Session, Assignment, AnswerSet, Book, Caregiver, Client],
        config=StrawberryConfig(scalar_map={datetime: DATE_TIME, date: DATE}),
    )
    # Strawberry asks of every object whether it is an instance of its type's class. Rows never are:
    # Node.resolve_type tells their kind where it is open, and elsewhere the schema already says it.
    for graphql_type in schema._schema.type_map.values():
        if isinstance(graphql_type, GraphQLObjectType) and graphql_type.interfaces:
            graphql_type.is_type_of = None
    schema._schema.type_map["DateTime"].extensions["of_text"] = write_stored
    weigh(schema._schema)
    say_meanings(schema._schema)
    describe_inputs(schema._schema)
    return schema


def describe_inputs(schema: GraphQLSchema) -> None:
    """The one argument of a mutation is what its type is."""
    assert schema.mutation_type is not None
    for field in schema.mutation_type.fields.values():
        field.args["input"].description = get_named_type(field.args["input"].type).description


def schema_text(schema: Schema) -> str:
    """The schema in SDL, sorted, so that a change is a readable difference."""
    return print_schema(lexicographic_sort_schema(schema._schema)) + "\n"
