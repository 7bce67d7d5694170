"""graphql-core's executors, for what the direct execution of a prepared operation does not handle."""

from collections.abc import Callable
from typing import Any

from graphql import GraphQLField, GraphQLObjectType, GraphQLResolveInfo, GraphQLResolveInfoHelpers
from graphql.language import FieldNode
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from app.engine.codegen import Fields
from app.engine.operations import Info, caching_info
from app.engine.prepared import CompiledOperation


class Executor(StrawberryGraphQLCoreExecutionContext):
    """Strawberry's, without a reference cycle that would keep it and the context of the request."""

    @property
    def async_helpers(self) -> GraphQLResolveInfoHelpers:  # its functions refer to the executor
        return GraphQLResolveInfoHelpers(gather=self.gather_async_work, track=self.track_async_work)

    @async_helpers.setter
    def async_helpers(self, helpers: GraphQLResolveInfoHelpers) -> None:
        """Not stored."""


class CompletingExecutor(Executor):
    """Completes objects and lists with generated code where possible."""

    def __init__(self, *args: Any, compiled: CompiledOperation, **options: Any) -> None:
        super().__init__(*args, **options)
        self.compiled = compiled

    def build_resolve_info(
        self,
        field_def: GraphQLField,
        field_nodes: list[FieldNode],
        parent_type: GraphQLObjectType,
        path: Path,
    ) -> Info:
        plain: Any = super().build_resolve_info(field_def, field_nodes, parent_type, path)
        values = plain[: len(GraphQLResolveInfo._fields)]
        return caching_info(values, self.compiled.resolver_cache, plain.operation_extensions)

    def complete_object_value(self, *args: Any, **options: Any) -> Any:
        return self.complete_generated(super().complete_object_value, *args, **options)

    def complete_list_value(self, *args: Any, **options: Any) -> Any:
        return self.complete_generated(super().complete_list_value, *args, **options)

    def complete_generated(
        self,
        complete: Callable[..., Any],
        kind: Any,
        fields: Fields,
        info: Info,
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        completer = self.compiled.completer_of(kind, fields)
        if completer is not None:
            try:
                return completer(result)
            except Exception:
                pass  # graphql-core completes the value again and reports the error
        return complete(kind, fields, info, path, result, position_context)


class StreamingExecutor(Executor):
    """Executes a subscription. graphql-core copies the executor for each event."""

    def build_per_event_executor(self, payload: Any) -> Any:
        executor = super().build_per_event_executor(payload)
        executor._relevant_sub_fields = {}  # shared by the copies; would grow with every event
        return executor


class NoSuggestionsExecutor(StreamingExecutor):
    """Omits "Did you mean" from error messages."""

    @classmethod
    def build(cls, *args: Any, **options: Any) -> Any:
        return super().build(*args, **{**options, "hide_suggestions": True})
