"""An operation on its way to generated code. Each stage depends on the values of more variables:

1. PreparedOperation: the document is parsed and validated, for all values.
2. CompiledOperation: its fields are collected and its functions generated, for the values in `@skip` and
   `@include`, and in arguments below the root.

The second does not refer to the first, which may hold it: reference cycles would keep what caches drop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
    get_operation_ast,
)
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_fields, collect_subfields
from graphql.execution.values import VariableValues, get_argument_values
from graphql.pyutils import Path
from strawberry.types.arguments import convert_arguments
from strawberry.types.field import StrawberryField
from strawberry.types.graphql import OperationType as StrawberryOperationType

from app.engine.arguments import Call, Variables, root_call
from app.engine.codegen import CodeGenerator, Completer, Fields
from app.engine.costs import Costs
from app.engine.deprecated import DeprecatedUse
from app.engine.nodes import Fragments, arguments_below, fragments_of, names_of_variables, nodes_of


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
