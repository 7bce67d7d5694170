"""An operation on its way to generated code, and the bounded cache of operations. Each stage depends on the
values of more variables:

1. PreparedOperation: the document is parsed and validated, for all values.
2. CompiledOperation: its fields are collected and its functions generated, for the values in `@skip` and
   `@include`, and in arguments below the root.

The second does not refer to the first, which may hold it: reference cycles would keep what caches drop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from graphql import (
    DirectiveNode,
    DocumentNode,
    FieldNode,
    GraphQLField,
    GraphQLObjectType,
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
    Undefined,
    get_operation_ast,
)
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_fields, collect_subfields
from graphql.execution.values import VariableValues, get_argument_values
from graphql.pyutils import Path
from strawberry.types.arguments import convert_arguments
from strawberry.types.field import StrawberryField
from strawberry.types.graphql import OperationType as StrawberryOperationType

from app.caches import BoundedCache
from app.engine.arguments import Call, Variables, root_call
from app.engine.codegen import CodeGenerator, Completer, Fields
from app.engine.costs import Costs
from app.engine.deprecated import DeprecatedUse
from app.engine.documents import weight_of
from app.engine.nodes import Fragments, arguments_below, fragments_of, names_of_variables, nodes_of

MAX_DOCUMENT_LENGTH = 16 * 1024
MAX_WEIGHT = 128 * 1024  # of all cached documents, which use about 160 times their length in memory
MAX_COMPILED_WEIGHT = 256 * 1024  # of their documents, each counted with every combination of values
MAX_COUNTED = 1024  # hashes of operations that were used once
MAX_VALUE_LENGTH = 256

Key = tuple[str, str | None]  # document and operation name


@dataclass(eq=False)
class PreparedOperation:
    """A valid document and the requested operation."""

    schema: GraphQLSchema
    converter: Any  # of Strawberry
    document: DocumentNode
    operation: OperationDefinitionNode
    root_type: GraphQLObjectType
    fragments: dict[str, FragmentDetails]
    fragment_definitions: Fragments
    variables: Variables
    fixed_variables: tuple[str, ...]  # in directives, and in arguments below the root
    kind: StrawberryOperationType
    size: int  # characters of the document
    costs: Costs | None = None
    deprecated: DeprecatedUse | None = None
    is_own: bool = False  # a document of the service, exempt from limits
    compiled: "CompiledOperation | None" = None  # if it is the same for all variables


@dataclass(frozen=True)
class RootField:
    """The root field of an operation that has only one."""

    key: str
    definition: GraphQLField
    call: Call
    fields: Fields
    parent: GraphQLObjectType
    path: Path
    nodes: list[FieldNode]


def single_root(prepared: PreparedOperation, groups: Mapping[str, Fields]) -> RootField | None:
    if len(groups) != 1:
        return None
    [(key, fields)] = groups.items()
    parent = prepared.root_type
    definition = parent.fields.get(fields[0].node.name.value)
    if definition is None or definition.resolve is None:  # introspection, or not Strawberry's
        return None
    nodes = [each.node for each in fields]
    call = root_call(definition, nodes[0], prepared.converter)
    return RootField(key, definition, call, fields, parent, Path(None, key, parent.name), nodes)


class CompiledOperation:
    """The fields of an operation and its generated functions."""

    def __init__(self, prepared: PreparedOperation, variables: VariableValues) -> None:
        fixed = named_variables(prepared.fixed_variables, variables)
        groups = collect_fields(
            prepared.schema, prepared.fragments, fixed, prepared.root_type, prepared.operation
        ).grouped_field_set
        self.single_root = single_root(prepared, groups)
        # No code can be generated for introspection; looking for it would slow down its many objects.
        self.is_introspection = all(group[0].node.name.value.startswith("__") for group in groups.values())
        self.resolver_cache: dict[Any, Any] = {}  # what resolvers compute from the selection alone
        self.completers: dict[tuple[object, ...], Completer | None] = {}
        self.generator = CodeGenerator(
            partial(collect_subfields, prepared.schema, prepared.fragments, fixed, prepared.operation),
            partial(read_arguments, prepared.converter, fixed),
        )
        self.is_too_deep = False
        self.is_new = False  # whether generating further code can take long
        self.root: tuple[RootField, Completer] | None = None  # set if graphql-core can be skipped
        if root := self.single_root:
            complete = self.completer_of(root.definition.type, root.fields)
            self.root = (root, complete) if complete else None

    def completer_of(self, kind: Any, fields: Fields) -> Completer | None:
        """The generated function for a selection; None if graphql-core must complete it."""
        key = (kind, *[id(each.node) for each in fields])
        if key not in self.completers:
            try:
                self.completers[key] = self.generator.complete(kind, fields)
            except RecursionError:  # graphql-core needs the whole stack, so it executes the whole operation
                self.completers[key] = None
                self.is_too_deep = True
            except Exception:  # unsupported, or with arguments that graphql-core rejects
                self.completers[key] = None
        return self.completers[key]


def read_arguments(
    converter: Any,
    variables: VariableValues,
    own: StrawberryField,
    definition: GraphQLField,
    details: FieldDetails,
) -> dict[str, Any]:
    given = get_argument_values(definition, details.node, variables)
    return convert_arguments(given, own.arguments, converter.scalar_registry, converter.config)


def prepare(
    schema: GraphQLSchema, converter: Any, document: DocumentNode, name: str | None
) -> PreparedOperation | None:
    """The requested operation of a valid document; None if ambiguous or a subscription."""
    operation = get_operation_ast(document, name)
    if operation is None or operation.operation is OperationType.SUBSCRIPTION:
        return None
    root_type = schema.get_root_type(operation.operation)
    if root_type is None:
        return None
    drop_tokens(document)
    fragments = fragments_of(document)
    directives = [each for each in nodes_of(document) if isinstance(each, DirectiveNode)]
    arguments = arguments_below(operation.selection_set.selections, document)
    return PreparedOperation(
        schema,
        converter,
        document,
        operation,
        root_type,
        {fragment: FragmentDetails(each) for fragment, each in fragments.items()},
        fragments,
        Variables(schema, operation),
        names_of_variables(*directives, *arguments),
        StrawberryOperationType(operation.operation.value),
        document.loc.end if document.loc else 0,
    )


def drop_tokens(document: DocumentNode) -> None:
    """Frees a third of the memory of a document. Errors use offsets instead of tokens."""
    for node in nodes_of(document):
        location: Any = node.loc
        if location is not None:
            location.start_token = location.end_token = None


def named_variables(names: tuple[str, ...], variables: VariableValues) -> VariableValues:
    """The variables with these names. The others can be long and belong to one request."""
    sources, coerced = variables
    return VariableValues(
        {name: sources[name] for name in names if name in sources},
        {name: coerced[name] for name in names if name in coerced},
    )


# --- the cache --------------------------------------------------------------------------------------


class OperationCache:
    """The prepared operations of a schema."""

    prepared_at_use = 2  # most documents are used only once

    def __init__(self) -> None:
        self.pinned: dict[Key, PreparedOperation] = {}
        self.recent: BoundedCache[PreparedOperation] = BoundedCache(MAX_WEIGHT)
        self.compiled: BoundedCache[CompiledOperation] = BoundedCache(MAX_COMPILED_WEIGHT)
        self.use_counts: BoundedCache[int] = BoundedCache(MAX_COUNTED)  # hash -> number of uses

    def find(self, text: str, name: str | None) -> PreparedOperation | None:
        key = (text, name)
        return self.pinned.get(key) or self.recent.get(key)

    def is_repeated(self, text: str, name: str | None) -> bool:
        """Counts a use. Whether the operation is used often enough to be prepared."""
        if len(text) > MAX_DOCUMENT_LENGTH:
            return False
        hashed = hash((text, name))
        uses = (self.use_counts.get(hashed) or 0) + 1
        self.use_counts.put(hashed, uses)
        return uses >= self.prepared_at_use

    def add(self, text: str, name: str | None, prepared: PreparedOperation) -> None:
        if len(text) > MAX_DOCUMENT_LENGTH:
            return
        for evicted in self.recent.put((text, name), prepared, weight_of(len(text))):
            self.forget(evicted)

    def forget(self, prepared: PreparedOperation) -> None:
        """Removes what was compiled from an evicted operation."""
        if prepared.fixed_variables:
            for key in [key for key in self.compiled.values if key[0] is prepared]:
                self.compiled.remove(key)

    def find_compiled(
        self, prepared: PreparedOperation, variables: VariableValues
    ) -> CompiledOperation | None:
        if not prepared.fixed_variables:
            return prepared.compiled
        key = key_of(prepared, variables)
        return None if key is None else self.compiled.get(key)

    def add_compiled(
        self, prepared: PreparedOperation, variables: VariableValues, compiled: CompiledOperation
    ) -> None:
        if not prepared.fixed_variables:
            prepared.compiled = compiled
        elif (key := key_of(prepared, variables)) is not None:
            texts = sum(len(value) for _, value in key[1:] if isinstance(value, str))
            self.compiled.put(key, compiled, weight_of(prepared.size) + texts)


def key_of(prepared: PreparedOperation, variables: VariableValues) -> tuple[Any, ...] | None:
    """The operation and the values for which it is compiled; None if these cannot be part of a key."""
    values = [variables.coerced.get(name, Undefined) for name in prepared.fixed_variables]
    if not all(map(is_cacheable, values)):
        return None
    return (prepared, *[(value.__class__, value) for value in values])


def is_cacheable(value: object) -> bool:
    """Whether a value can be part of a cache key. Others are large, or are equal without being identical."""
    if isinstance(value, str):
        return len(value) <= MAX_VALUE_LENGTH
    if isinstance(value, int):
        return value.bit_length() <= MAX_VALUE_LENGTH
    return value is None or value is Undefined or isinstance(value, Enum)
