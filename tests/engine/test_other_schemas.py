"""Promise: schemas with extensions and custom resolvers get the same results as in Strawberry."""

from collections.abc import Callable
from typing import Any

import pytest
import strawberry
from graphql import GraphQLError
from strawberry.directive import DirectiveLocation, DirectiveValue
from strawberry.extensions import SchemaExtension
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from app.engine.schema import PreparingSchema
from tests.engine.library import (
    PLAIN,
    PREPARING,
    Found,
    Library,
    LibraryContext,
    a_volume,
    execute_both_with,
    library,
    ready,
    run,
)


class Renaming(SchemaExtension):
    def resolve(self, _next: Callable[..., Any], root: Any, info: Any, *args: Any, **kwargs: Any) -> Any:
        result = _next(root, info, *args, **kwargs)
        return result.upper() if isinstance(result, str) else result


def test_a_schema_with_extensions_is_not_prepared() -> None:
    schema = library(True, extensions=[Renaming])

    outcome = execute_both_with(
        {"extensions": [Renaming]}, "{ volume { title author { name } } }", {"volume": a_volume}
    )

    assert not schema.prepares
    assert outcome.data == "{'volume': {'title': 'EMMA', 'author': {'name': 'JANE'}}}"


@strawberry.directive(locations=[DirectiveLocation.FIELD])
def shouted(value: DirectiveValue[str]) -> str:
    return value.upper()


@pytest.mark.parametrize("query", ["{ volume { title @shouted author { name } } }", "{ greeting @shouted }"])
def test_custom_directives_give_the_same_result(query: str) -> None:
    outcome = execute_both_with({"directives": [shouted]}, query, {"volume": a_volume})

    assert "EMMA" in outcome.data or "HELLO" in outcome.data


def test_a_custom_default_resolver_is_used() -> None:
    def reading(source: Any, name: str) -> Any:
        return f"{name} of {type(source).__name__}" if name == "title" else getattr(source, name)

    outcome = execute_both_with(
        {"config": StrawberryConfig(default_resolver=reading, scalar_map=PLAIN.config.scalar_map)},
        "{ volume { title author { name } } }",
        {"volume": a_volume},
    )

    assert outcome.data == "{'volume': {'title': 'title of PlainObject', 'author': {'name': 'Jane'}}}"


class Telling(Library):
    """Records the query of each error."""

    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        assert execution_context is not None
        context = execution_context
        self.processed += [
            f"{error.message}: {context.query} {context.variables} {context.operation_name}"
            f" {context.operation_type} {context.context is not None} {context.root_value}"
            for error in errors
        ]


@pytest.mark.parametrize("name", [None, "Q"])
@pytest.mark.parametrize("query", ["query Q { volume { title } }", "query Q { volume { title } motto }"])
def test_errors_are_processed_with_their_query(query: str, name: str | None) -> None:
    outcome = execute_both_with(
        {"kind": Telling}, query, {"volume": lambda: a_volume(title=None)}, operation_name=name
    )

    assert len(outcome.processed) == 1
    assert "query Q" in outcome.processed[0]


@pytest.mark.parametrize("query", ["{ volume { title } }", "{ volume { title } count }"])
def test_a_result_has_the_same_extensions(query: str) -> None:
    ready(PREPARING)
    found: Found = {"volume": a_volume, "count": lambda: 1}

    plain = run(PLAIN.execute(query, context_value=LibraryContext(found)))

    assert run(PREPARING.execute(query, context_value=LibraryContext(found))) == plain


@strawberry.type
class Ordered:
    @strawberry.field
    def pair(self, second: str = "s", first: str = "f") -> str:
        return f"{first} {second}"


@pytest.mark.parametrize("query", ['{ pair(second: "2", first: "1") }', '{ pair(second: "2") }', "{ pair }"])
def test_a_sorted_schema_passes_each_argument_its_own_value(query: str) -> None:
    config = StrawberryConfig(sort_schema=True)
    prepared = PreparingSchema(Ordered, config=config)
    prepared.operations.prepared_at_use = 1
    plain = PreparingSchema(Ordered, config=config, prepares=False)

    outcomes = [run(schema.execute(query)) for schema in (plain, prepared, prepared)]

    assert outcomes[0].errors is None
    assert outcomes[1] == outcomes[2] == outcomes[0]
