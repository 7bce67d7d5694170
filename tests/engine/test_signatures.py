"""Promise: the private parts of graphql-core and Strawberry that the engine uses are unchanged.

A failure names the file of app/engine that uses the changed part. Read the library's new code, adapt the
engine, run test_differential.py with `--hypothesis-profile=thorough`, and then update this file.
"""

import inspect
from collections.abc import Callable
from typing import Any

import graphql
import pytest
import strawberry
from graphql.execution import collect_fields, get_variable_signature, middleware, values
from graphql.execution.executor import Executor
from strawberry.execution import optimized_is_awaitable
from strawberry.schema import schema as strawberry_schema
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext
from strawberry.types import ExecutionContext, ExecutionResult, arguments
from strawberry.types.field import StrawberryField
from strawberry.types.fields import resolver as resolvers

EXECUTOR, PREPARED, CODEGEN, SCHEMA, ARGUMENTS, LIMITS, DOCUMENTS = (
    f"app/engine/{name}.py"
    for name in ("executor", "prepared", "codegen", "schema", "arguments", "limits", "documents")
)

COMPLETE = "self return_type field_details_list info path result position_context"
EXECUTE = (
    "schema document root_value context_value variable_values operation_name field_resolver type_resolver"
    " subscribe_field_resolver max_coercion_errors enable_early_execution middleware executor_class"
    " is_awaitable is_async_iterable hide_suggestions abort_signal hooks **custom_context_args"
)
CALLED: dict[str, tuple[Callable[..., Any], str, str]] = {
    "Executor.complete_object_value": (Executor.complete_object_value, COMPLETE, EXECUTOR),
    "Executor.complete_list_value": (Executor.complete_list_value, COMPLETE, EXECUTOR),
    "Executor.build_resolve_info": (
        Executor.build_resolve_info,
        "self field_def field_nodes parent_type path",
        EXECUTOR,
    ),
    "Strawberry's build_resolve_info": (
        StrawberryGraphQLCoreExecutionContext.build_resolve_info,
        "self field_def field_nodes parent_type path",
        EXECUTOR,
    ),
    "Strawberry's executor": (
        StrawberryGraphQLCoreExecutionContext.__init__,
        "self *args **kwargs",
        EXECUTOR,
    ),
    "Executor.build": (
        Executor.build.__func__,  # type: ignore[attr-defined]
        "cls schema document root_value context_value raw_variable_values operation_name field_resolver"
        " type_resolver subscribe_field_resolver max_coercion_errors enable_early_execution middleware"
        " is_awaitable is_async_iterable hide_suggestions abort_signal hooks **custom_args",
        EXECUTOR,
    ),
    "execute": (graphql.execute, EXECUTE, SCHEMA),
    "collect_fields": (
        collect_fields.collect_fields,
        "schema fragments variable_values runtime_type operation hide_suggestions forbid_skip_and_include"
        " on_selection_set",
        PREPARED,
    ),
    "collect_subfields": (
        collect_fields.collect_subfields,
        "schema fragments variable_values operation return_type field_details_list hide_suggestions",
        PREPARED,
    ),
    "get_argument_values": (
        values.get_argument_values,
        "type_def node variable_values fragment_variable_values hide_suggestions",
        ARGUMENTS,
    ),
    "get_variable_values": (
        values.get_variable_values,
        "schema var_def_nodes inputs max_errors hide_suggestions",
        ARGUMENTS,
    ),
    "get_variable_signature": (
        get_variable_signature.get_variable_signature,
        "schema var_def_node",
        ARGUMENTS,
    ),
    "middleware's get_field_resolver": (
        middleware.MiddlewareManager.get_field_resolver,
        "self field_resolver",
        SCHEMA,
    ),
    "parse": (
        graphql.parse,
        "source no_location max_tokens experimental_fragment_arguments allow_empty_selection_sets"
        " max_lexical_tokens max_comments max_source_length",
        LIMITS,
    ),
    "validate": (
        graphql.validate,
        "schema document_ast rules max_errors hide_suggestions allow_empty_selection_sets",
        DOCUMENTS,
    ),
    "Schema._prepare_operation_async": (
        strawberry.Schema._prepare_operation_async,
        "self context extensions_runner",
        SCHEMA,
    ),
    "convert_arguments": (
        arguments.convert_arguments,
        "value arguments scalar_registry config info",
        PREPARED,
    ),
    "StrawberryField.get_result": (StrawberryField.get_result, "self source info args kwargs", CODEGEN),
    "StrawberryResolver.__call__": (resolvers.StrawberryResolver.__call__, "self *args **kwargs", CODEGEN),
    "optimized_is_awaitable": (optimized_is_awaitable, "value", CODEGEN),
    "Schema.execute": (
        strawberry.Schema.execute,
        "self query variable_values context_value root_value operation_name allowed_operation_types"
        " operation_extensions",
        SCHEMA,
    ),
    "Schema._create_execution_context": (
        strawberry.Schema._create_execution_context,
        "self query allowed_operation_types variable_values context_value root_value operation_name"
        " operation_extensions",
        SCHEMA,
    ),
    "Schema._execute_operation": (
        strawberry.Schema._execute_operation,
        "self execution_context extensions_runner middleware_manager execute_function custom_context_kwargs",
        SCHEMA,
    ),
    "Schema._process_errors": (strawberry.Schema._process_errors, "self errors execution_context", SCHEMA),
    "ExecutionContext": (
        ExecutionContext.__init__,
        "self query schema allowed_operations context variables parse_options root_value validation_rules"
        " provided_operation_name graphql_document pre_execution_errors result extensions_results"
        " operation_extensions",
        SCHEMA,
    ),
    "ExecutionResult": (ExecutionResult.__init__, "self data errors extensions", SCHEMA),
}

TUPLES: dict[str, tuple[Any, str, str]] = {
    "GraphQLResolveInfo": (
        graphql.GraphQLResolveInfo,
        "field_name field_nodes return_type parent_type path schema fragments root_value operation"
        " variable_values context is_awaitable abort_signal async_helpers",
        SCHEMA,
    ),
    "Strawberry's own GraphQLResolveInfo": (
        strawberry_schema._OperationContextAwareGraphQLResolveInfo,
        "field_name field_nodes return_type parent_type path schema fragments root_value operation"
        " variable_values context is_awaitable abort_signal async_helpers operation_extensions",
        EXECUTOR,
    ),
    "VariableValues": (values.VariableValues, "sources coerced", PREPARED),
    "VariableValueSource": (values.VariableValueSource, "signature value", ARGUMENTS),
    "GraphQLVariableSignature": (
        get_variable_signature.GraphQLVariableSignature,
        "name type default default_value",
        ARGUMENTS,
    ),
    "FieldDetails": (
        collect_fields.FieldDetails,
        "node defer_usage fragment_variable_values",
        PREPARED,
    ),
    "FragmentDetails": (collect_fields.FragmentDetails, "definition variable_signatures", PREPARED),
    "CollectedFields": (
        collect_fields.CollectedFields,
        "grouped_field_set new_defer_usages forbidden_directive_instances",
        PREPARED,
    ),
}


def parameters(function: Callable[..., Any]) -> str:
    signs = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return " ".join(
        f"{signs.get(each.kind, '')}{name}" for name, each in inspect.signature(function).parameters.items()
    )


@pytest.mark.parametrize("name", CALLED)
def test_called_and_overridden_functions_have_known_parameters(name: str) -> None:
    function, expected, file = CALLED[name]

    assert parameters(function) == expected, f"{name} has changed: look at {file}"


@pytest.mark.parametrize("name", TUPLES)
def test_named_tuples_have_known_fields(name: str) -> None:
    kind, expected, file = TUPLES[name]

    assert " ".join(kind._fields) == expected, f"{name} has changed: look at {file}"


def test_strawberry_fields_have_known_attributes() -> None:
    names = {
        "base_resolver",
        "python_name",
        "extensions",
        "is_async",
        "arguments",
        "default_resolver",
        "get_result",
    }
    found = names & {*dir(StrawberryField), *vars(StrawberryField())}

    assert found == names, f"StrawberryField has changed: look at {CODEGEN}"


def test_a_resolver_reports_its_reserved_parameters() -> None:
    def resolve(self: Any, info: strawberry.Info, parent: strawberry.Parent[int], page: int) -> int:
        return page

    found = resolvers.StrawberryResolver(resolve)
    names = {
        spec: parameter.name if parameter else None for spec, parameter in found.reserved_parameters.items()
    }

    message = f"StrawberryResolver has changed: look at {CODEGEN}"
    assert found.wrapped_func is resolve, message
    assert names == {
        resolvers.SELF_PARAMSPEC: "self",
        resolvers.CLS_PARAMSPEC: None,
        resolvers.ROOT_PARAMSPEC: None,
        resolvers.INFO_PARAMSPEC: "info",
        resolvers.PARENT_PARAMSPEC: "parent",
    }, message
    assert [each.python_name for each in found.arguments] == ["page"], message


def test_the_executor_is_received_what_execute_does_not_know() -> None:
    """`compiled` and Strawberry's `operation_extensions` reach the executor as they are."""
    received = {}

    class Recording(Executor[Any]):
        def __init__(self, *args: Any, compiled: object, **given: Any) -> None:
            super().__init__(*args, **given)
            received["compiled"] = compiled

    schema = graphql.build_schema("type Query { a: Int }")
    graphql.execute(schema, graphql.parse("{ a }"), executor_class=Recording, compiled="this one")

    assert received == {"compiled": "this one"}, f"execute has changed: look at {SCHEMA} and {EXECUTOR}"


@pytest.mark.parametrize("kind", ["a function", "a method", "an object"])
def test_middleware_may_be_a_function_or_an_object_but_not_a_method(kind: str) -> None:
    """An object needs a method `resolve`. A bound method is ignored."""

    class Replay:
        def replay(self, resolver: Callable[..., Any], *_: Any, **__: Any) -> str:
            return "replayed"

        resolve = replay

    def function(resolver: Callable[..., Any], *_: Any, **__: Any) -> str:
        return "replayed"

    middleware = {"a function": function, "a method": Replay().replay, "an object": Replay()}[kind]
    schema = graphql.build_schema("type Query { a: String }")

    result = graphql.execute(schema, graphql.parse("{ a }"), {"a": "resolved"}, middleware=[middleware])

    expected = "resolved" if kind == "a method" else "replayed"
    assert result.data == {"a": expected}, f"middleware has changed: look at {SCHEMA}"  # type: ignore[union-attr]


def test_strawberry_uses_the_executor_that_the_engine_extends() -> None:
    @strawberry.type
    class Query:
        a: int = 1

    message = f"strawberry.Schema has changed: look at {SCHEMA} and {EXECUTOR}"
    schema = strawberry.Schema(Query)
    assert schema.execution_context_class is StrawberryGraphQLCoreExecutionContext, message
    assert schema._get_execute_function() is graphql.execute, message
    assert schema.get_extensions() == [], message
    assert schema.exception_handlers == (), message
    assert schema.directives == (), message


def test_strawberry_adds_the_same_validation_rules() -> None:
    """The engine validates first, and Strawberry skips validation."""
    source = inspect.getsource(strawberry_schema.validate_document)
    done = inspect.getsource(strawberry_schema._run_validation)

    message = f"validation has changed: look at {SCHEMA}"
    assert "MaybeNullValidationRule,\n        OneOfInputValidationRule,\n    )" in source, message
    assert "execution_context.pre_execution_errors is None" in done, message


def test_parser_errors_name_the_exceeded_limit() -> None:
    message = f"the parser has changed: look at {LIMITS}"
    for text, limits, expected in (
        ("{ a b }", {"max_lexical_tokens": 2}, "Document contains more than 2 tokens."),
        ("#\n#\n{ a }", {"max_comments": 1}, "Document contains more than 1 comments."),
        ("{ a " * 5000, {}, "Document is nested too deeply."),
    ):
        with pytest.raises(graphql.GraphQLSyntaxError) as refusal:
            graphql.parse(text, **limits)
        assert expected in refusal.value.message, message


def test_a_graphql_field_refers_to_its_strawberry_field() -> None:
    @strawberry.type
    class Query:
        a: int = 1

    field = strawberry.Schema(Query)._schema.query_type.fields["a"]  # type: ignore[union-attr]

    assert type(field.extensions["strawberry-definition"]) is StrawberryField, f"look at {CODEGEN}"
    assert field.resolve is not None, f"look at {PREPARED}"


def test_scalars_return_common_values_unchanged() -> None:
    """Generated code skips the coercion of these values."""
    message = f"graphql-core's scalars have changed: look at leaf_code in {CODEGEN}"
    for kind, same in (
        (graphql.GraphQLString, ["", "text"]),
        (graphql.GraphQLID, ["", "7"]),
        (graphql.GraphQLInt, [0, -(2**31), 2**31 - 1]),
        (graphql.GraphQLBoolean, [True, False]),
    ):
        for value in same:
            coerced = kind.coerce_output_value(value)
            assert coerced is value or (coerced == value and type(coerced) is type(value)), message
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(graphql.GraphQLError):
            graphql.GraphQLInt.coerce_output_value(value)
