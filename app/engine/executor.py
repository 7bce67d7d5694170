"""graphql-core's executor with two doors: objects and lists go to their shapes, and surprises come back."""

from collections.abc import Callable, Iterable
from typing import Any

from graphql import GraphQLField, GraphQLList, GraphQLObjectType, GraphQLResolveInfo
from graphql.language import FieldNode
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from app.engine.prepared import Bound
from app.engine.shapes import Fields

Info = GraphQLResolveInfo[Any]


class NotedInfo(Info):
    """What a resolver is told, with the notes of its prepared operation."""

    notes: dict[Any, Any]
    operation_extensions: dict[str, Any] | None  # Strawberry's own addition


def with_notes(
    plain: Iterable[Any], notes: dict[Any, Any], operation_extensions: dict[str, Any] | None
) -> NotedInfo:
    info: NotedInfo = NotedInfo._make(plain)
    info.notes = notes
    info.operation_extensions = operation_extensions
    return info


def notes_of(info: Info) -> dict[Any, Any]:
    """Where a resolver may keep what follows from its selection alone; new where nothing is prepared."""
    return info.notes if isinstance(info, NotedInfo) else {}


class StreamingExecutor(StrawberryGraphQLCoreExecutionContext):
    """That of a subscription, which graphql-core copies for each event."""

    def build_per_event_executor(self, payload: Any) -> Any:
        executor = super().build_per_event_executor(payload)
        executor._relevant_sub_fields = {}  # the copies share it, and it would grow with every event
        return executor


class DiscreetExecutor(StreamingExecutor):
    """The same, which does not tell what somebody may have meant."""

    @classmethod
    def build(cls, *args: Any, **given: Any) -> Any:
        return super().build(*args, **{**given, "hide_suggestions": True})


class ShapingExecutor(StrawberryGraphQLCoreExecutionContext):
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
        return with_notes(known, self.bound.notes, plain.operation_extensions)

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
        return self.shaped(complete, return_type, field_details_list, info, path, result, position_context)

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
        return self.shaped(complete, return_type, field_details_list, info, path, result, position_context)

    def shaped(
        self,
        complete: Callable[..., Any],
        kind: Any,
        fields: Fields,
        info: Info,
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        shape = self.bound.shape_of(kind, fields)
        if shape is not None:
            try:
                return shape(result)
            except Exception:
                pass  # whatever it was, graphql-core comes upon it again and says it in its own way
        return complete(kind, fields, info, path, result, position_context)
