"""Resolves a single root field before graphql-core, which then reuses the result."""

from asyncio import Future, ensure_future
from collections.abc import Callable, Sequence
from typing import Any

from graphql import GraphQLResolveInfo
from graphql.execution.values import VariableValues
from graphql.pyutils import gather_with_cancel
from graphql.type import GraphQLResolveInfoHelpers
from strawberry.execution import optimized_is_awaitable

from app.engine.executor import caching_info
from app.engine.prepared import Bound, RootField


class Outcome:
    """The result or the error of the root resolver, which runs only once."""

    def __init__(self, is_awaited: bool, value: Any = None, error: Exception | None = None) -> None:
        self.is_awaited = is_awaited
        self.value = value
        self.error = error

    def resolve(  # called by graphql-core as middleware
        self, resolver: Callable[..., Any], root: Any, info: GraphQLResolveInfo[Any], **arguments: Any
    ) -> Any:
        if info.path.prev is not None:
            return resolver(root, info, **arguments)
        return self.awaited() if self.is_awaited else self.result()

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    async def awaited(self) -> Any:
        return self.result()


async def resolve(
    bound: Bound,
    root: RootField,
    variables: VariableValues,
    context: Any,
    operation_extensions: dict[str, Any] | None,
) -> Outcome:
    prepared = bound.variant.prepared
    definition = root.definition
    values: tuple[Any, ...] = (
        root.nodes[0].name.value,
        root.nodes,
        definition.type,
        root.parent,
        root.path,
        prepared.schema,
        prepared.fragment_definitions,
        None,
        prepared.operation,
        variables.coerced,
        context,
        optimized_is_awaitable,
        None,
        HELPERS,
    )
    is_awaited = False
    try:
        value = root.call(variables, caching_info(values, bound.selection_cache, operation_extensions))
        if is_awaited := optimized_is_awaitable(value):
            value = await value
        return Outcome(is_awaited, value)
    except Exception as error:
        return Outcome(is_awaited, error=error)


# --- helpers that graphql-core offers to resolvers ----------------------------------

in_background: set[Future[Any]] = set()


def track(values: Sequence[Any]) -> None:
    """Runs awaitables in the background to their end, and retrieves their errors."""
    for value in filter(optimized_is_awaitable, values):
        future = ensure_future(value)
        in_background.add(future)
        future.add_done_callback(finish)


def finish(future: Future[Any]) -> None:
    in_background.discard(future)
    if not future.cancelled():
        future.exception()


HELPERS = GraphQLResolveInfoHelpers(gather=lambda values: gather_with_cancel(*values), track=track)
