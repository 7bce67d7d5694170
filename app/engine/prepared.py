"""An operation, prepared: its document parsed and valid, its fields collected, its shapes written.

What it selects depends on its text and on the variables in its directives: that is a Variant. What its fields
below the root are asked depends on the variables in their arguments too: that is Bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    DirectiveNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    GraphQLField,
    GraphQLObjectType,
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
)
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_fields, collect_subfields
from graphql.execution.values import VariableValues, get_argument_values
from graphql.pyutils import Path
from strawberry.types.arguments import convert_arguments
from strawberry.types.field import StrawberryField
from strawberry.types.graphql import OperationType as StrawberryOperationType

from app.engine.arguments import Call, Variables, root_call
from app.engine.costs import Cost
from app.engine.documents import arguments_below, names_of_variables, nodes_of
from app.engine.shapes import Completed, Fields, Shapes


@dataclass(eq=False)
class Prepared:
    """A valid document, and the operation in it that was named."""

    schema: GraphQLSchema
    converter: Any  # Strawberry's: what GraphQL's input values are in Python
    document: DocumentNode
    operation: OperationDefinitionNode
    root_type: GraphQLObjectType
    fragments: dict[str, FragmentDetails]
    fragment_definitions: dict[str, FragmentDefinitionNode]
    variables: Variables
    deciding: tuple[str, ...]  # the variables in directives
    asking: tuple[str, ...]  # the variables in arguments below the root
    kind: StrawberryOperationType
    cost: Cost | None = None
    is_own: bool = False  # the service's own: it meets no limit
    bound: "Bound | None" = None  # where the variables change nothing of what is selected


@dataclass(frozen=True)
class RootField:
    """The only root field of an operation."""

    key: str
    definition: GraphQLField
    call: Call
    fields: Fields
    parent: GraphQLObjectType
    path: Path
    nodes: list[FieldNode]


class Variant:
    """An operation with its directives decided."""

    def __init__(self, prepared: Prepared, variables: VariableValues) -> None:
        self.prepared = prepared
        self.variables = only(prepared.deciding, variables)
        groups = collect_fields(
            prepared.schema, prepared.fragments, self.variables, prepared.root_type, prepared.operation
        ).grouped_field_set
        self.root = only_root(prepared, groups)
        # Introspection has none, and asks of very many objects.
        self.has_shapes = not all(group[0].node.name.value.startswith("__") for group in groups.values())

    def collect(self, kind: GraphQLObjectType, fields: Fields) -> dict[str, Fields]:
        prepared = self.prepared
        return collect_subfields(
            prepared.schema, prepared.fragments, self.variables, prepared.operation, kind, fields
        ).grouped_field_set


def only_root(prepared: Prepared, groups: Mapping[str, Fields]) -> RootField | None:
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


class Bound:
    """A variant with the arguments of everything below its root."""

    def __init__(self, variant: Variant, variables: VariableValues) -> None:
        self.variant = variant
        self.variables = only(variant.prepared.asking, variables)
        self.notes: dict[Any, Any] = {}  # what resolvers worked out of their selection, to be used again
        self.completed: dict[tuple[object, ...], Completed | None] = {}
        self.shapes = Shapes(variant.collect, self.arguments)
        self.is_too_deep = False
        self.root: tuple[RootField, Completed] | None = None  # where the short way can be taken
        if root := variant.root:
            complete = self.shape_of(root.definition.type, root.fields)
            self.root = (root, complete) if complete else None

    def shape_of(self, kind: Any, fields: Fields) -> Completed | None:
        """The function that completes a value of this selection; None where graphql-core does it all."""
        key = (kind, *[id(each.node) for each in fields])
        if key not in self.completed:
            try:
                self.completed[key] = self.shapes.complete(kind, fields)
            except RecursionError:  # then graphql-core needs all of the stack, without a shape at each level
                self.completed[key] = None
                self.is_too_deep = True
            except Exception:  # not to be shaped, or with arguments that graphql-core has to refuse
                self.completed[key] = None
        return self.completed[key]

    def arguments(
        self, own: StrawberryField, definition: GraphQLField, details: FieldDetails
    ) -> dict[str, Any]:
        given = get_argument_values(definition, details.node, self.variables)
        converter = self.variant.prepared.converter
        return convert_arguments(given, own.arguments, converter.scalar_registry, converter.config)


def prepare(
    schema: GraphQLSchema, converter: Any, document: DocumentNode, name: str | None
) -> Prepared | None:
    """The named operation of a valid document; None if it is not clear which, or if it is a subscription."""
    operations = [each for each in document.definitions if isinstance(each, OperationDefinitionNode)]
    named = [each for each in operations if name is None or (each.name and each.name.value == name)]
    if len(named) != 1 or named[0].operation is OperationType.SUBSCRIPTION:
        return None
    root_type = schema.get_root_type(named[0].operation)
    if root_type is None:
        return None
    forget_tokens(document)
    definitions = {
        each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
    }
    return Prepared(
        schema,
        converter,
        document,
        named[0],
        root_type,
        {fragment: FragmentDetails(each) for fragment, each in definitions.items()},
        definitions,
        Variables(schema, named[0]),
        names_of_variables(*(each for each in nodes_of(document) if isinstance(each, DirectiveNode))),
        names_of_variables(*arguments_below(named[0].selection_set.selections, document)),
        StrawberryOperationType(named[0].operation.value),
    )


def forget_tokens(document: DocumentNode) -> None:
    """A third of what a document takes in memory; nobody reads them later: errors name offsets."""
    for node in nodes_of(document):
        location: Any = node.loc
        if location is not None:
            location.start_token = location.end_token = None


def only(names: tuple[str, ...], variables: VariableValues) -> VariableValues:
    """These variables alone: the others may be long, and belong to one request."""
    sources, coerced = variables
    return VariableValues(
        {name: sources[name] for name in names if name in sources},
        {name: coerced[name] for name in names if name in coerced},
    )
