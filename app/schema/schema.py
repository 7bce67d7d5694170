"""The GraphQL schema: Strawberry's with error logging, costs and descriptions."""

import logging
from datetime import date, datetime
from typing import Any

from graphql import (
    GraphQLError,
    GraphQLObjectType,
    GraphQLSchema,
    OperationDefinitionNode,
    get_named_type,
    lexicographic_sort_schema,
    print_schema,
)
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext
from strawberry.types.graphql import OperationType

from app.care.errors import RateLimited
from app.engine.limits import Limits
from app.engine.schema import EngineOptions, PreparingSchema
from app.http.errors import Failure
from app.schema.enums import describe_enums
from app.schema.errors import failure_in
from app.schema.mutation import Mutation
from app.schema.query import Query
from app.schema.subscription import Subscription
from app.schema.types.assignments import AnswerSet, Assignment
from app.schema.types.books import Book
from app.schema.types.people import Caregiver, Client
from app.schema.types.scalars import DATE, DATE_TIME, write_stored
from app.schema.types.sessions import Session
from app.schema.weights import add_weights
from app.settings import Settings

logger = logging.getLogger("care.graphql")


class OperationContext(ExecutionContext):
    """Requires an operation name if there are several operations, where Strawberry runs the first."""

    @property
    def operation_name(self) -> str | None:
        return self._provided_operation_name

    @property
    def operation_type(self) -> OperationType:
        """Returns QUERY if the request does not name one of several operations. graphql-core rejects it."""
        definitions = self.graphql_document.definitions if self.graphql_document else ()
        operations = sum(isinstance(each, OperationDefinitionNode) for each in definitions)
        if self.operation_name is None and operations > 1:
            return OperationType.QUERY
        return super().operation_type


class Schema(PreparingSchema):
    rejection = RateLimited

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

    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        """Logs only unexpected exceptions and database failures."""
        context = execution_context.context if execution_context else None
        request_id = getattr(context, "request_id", "-")
        for error in errors:
            failure, fault = failure_in(error), error.original_error
            if failure is Failure.INTERNAL:
                logger.error("fault in request %s at %s", request_id, error.path, exc_info=fault)
            elif failure in (Failure.OVERLOADED, Failure.OUTCOME_UNKNOWN) and fault is not None:
                logger.error("request %s: %s (%s)", request_id, fault, fault.__cause__)


def engine_options_of(settings: Settings) -> EngineOptions:
    """The limits of operations (docs/limits.md) and the features of development."""
    return EngineOptions(
        limits=Limits(
            settings.token_limit,
            settings.depth_limit,
            settings.cost_limit,
            response=settings.response_limit,
        ),
        introspection=settings.introspects,
        reports_cost=settings.in_development,
    )


def build_schema(prepares: bool = True, engine_options: EngineOptions | None = None) -> Schema:
    """With `prepares=False` Strawberry executes every operation."""
    schema = Schema(
        prepares=prepares,
        engine_options=engine_options,
        query=Query,
        mutation=Mutation,
        subscription=Subscription,
        types=[Session, Assignment, AnswerSet, Book, Caregiver, Client],
        config=StrawberryConfig(scalar_map={datetime: DATE_TIME, date: DATE}),
    )
    # Strawberry checks that objects are instances of their type's class, but rows are not. Node.resolve_type
    # returns the type of a row where the schema does not determine it.
    for graphql_type in schema._schema.type_map.values():
        if isinstance(graphql_type, GraphQLObjectType) and graphql_type.interfaces:
            graphql_type.is_type_of = None
    schema._schema.type_map["DateTime"].extensions["from_text"] = write_stored
    add_weights(schema._schema)
    describe_enums(schema._schema)
    describe_inputs(schema._schema)
    return schema


def describe_inputs(schema: GraphQLSchema) -> None:
    """Gives the `input` argument of each mutation the description of its type."""
    assert schema.mutation_type is not None
    for field in schema.mutation_type.fields.values():
        field.args["input"].description = get_named_type(field.args["input"].type).description


def schema_text(schema: Schema) -> str:
    """The sorted SDL, for readable diffs."""
    return print_schema(lexicographic_sort_schema(schema._schema)) + "\n"
