"""graphql-core executors: one completes objects and lists with generated code, others stream events."""

from collections.abc import Callable, Iterable
from typing import Any

from graphql import GraphQLField, GraphQLList, GraphQLObjectType, GraphQLResolveInfo
from graphql.language import FieldNode
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from app.engine.codegen import Fields
from app.engine.prepared import Bound

Info = GraphQLResolveInfo[Any]


class CachingInfo(Info):
    """The resolver info with the selection cache of its prepared operation."""

    selection_cache: dict[Any, Any]
    operation_extensions: dict[str, Any] | None  # added by Strawberry


def caching_info(
    plain: Iterable[Any], selection_cache: dict[Any, Any], operation_extensions: dict[str, Any] | None
) -> CachingInfo:
    info: CachingInfo = CachingInfo._make(plain)
    info.selection_cache = selection_cache
    info.operation_extensions = operation_extensions
    return info


def selection_cache_of(info: Info) -> dict[Any, Any]:
    """Caches results that depend only on the selection; empty for an operation that is not prepared."""
    return info.selection_cache if isinstance(info, CachingInfo) else {}


class StreamingExecutor(StrawberryGraphQLCoreExecutionContext):
    """Executes a subscription. graphql-core copies the executor for each event."""

    def build_per_event_executor(self, payload: Any) -> Any:
        executor = super().build_per_event_executor(payload)
        executor._relevant_sub_fields = {}  # shared by the copies; would grow with every event
        return executor


class NoSuggestionsExecutor(StreamingExecutor):
    """Omits "Did you mean" from error messages."""

    @classmethod
    def build(cls, *args: Any, **given: Any) -> Any:
        return super().build(*args, **{**given, "hide_suggestions": True})


class CompletingExecutor(StrawberryGraphQLCoreExecutionContext):
    def __init__(self, *args: Any, bound: Bound, **given: Any) -> None:
        super().__init__(*args, **given)
        self.bound = bound

    def build_resolve_info(
        self,
        field_def: GraphQLField,
        field_nodes: list[FieldNode],
        parent_type: GraphQLObjectType,
        path: Path,
    ) -> Info:
        plain: Any = super().build_resolve_info(field_def, field_nodes, parent_type, path)
        known = plain[: len(GraphQLResolveInfo._fields)]
        return caching_info(known, self.bound.selection_cache, plain.operation_extensions)

    def complete_object_value(
        self,
        return_type: GraphQLObjectType,
        field_details_list: Fields,
        info: Info,
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        complete = super().complete_object_value
        return self.complete_generated(
            complete, return_type, field_details_list, info, path, result, position_context
        )

    def complete_list_value(
        self,
        return_type: GraphQLList[Any],
        field_details_list: Fields,
        info: Info,
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        complete = super().complete_list_value
        return self.complete_generated(
            complete, return_type, field_details_list, info, path, result, position_context
        )

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
        completer = self.bound.completer_of(kind, fields)
        if completer is not None:
            try:
                return completer(result)
            except Exception:
                pass  # graphql-core completes the value again and reports the error
        return complete(kind, fields, info, path, result, position_context)
