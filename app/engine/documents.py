"""Parses, limits, validates and caches the documents of requests."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from graphql import (
    DocumentNode,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLSchema,
    NoFragmentCyclesRule,
    OperationDefinitionNode,
    ParallelVisitor,
    TypeInfo,
    TypeInfoVisitor,
    ValidationContext,
    get_operation_ast,
    visit,
)
from graphql.validation import ASTValidationRule
from graphql.validation.validate import ValidationAbortedError, query_document_keys_to_validate
from graphql.validation.validation_context import VariableUsage, VariableUsageVisitor

from app.caches import BoundedCache
from app.engine.costs import Costs, costs_of
from app.engine.deprecated import DeprecatedUse, Parts, find_use
from app.engine.limits import Limits, count_within, parse_within
from app.engine.nodes import fragments_of, free

MAX_WEIGHT = 32 * 1024  # of all cached documents; see weight_of()
MIN_WEIGHT = 512
MAX_ERRORS = 10  # per response: each can quote a large part of the document
TOO_MANY = "Too many validation errors, error limit reached. Validation aborted."

Rules = tuple[type[ASTValidationRule], ...]


@dataclass(eq=False)
class Document:
    schema: GraphQLSchema
    ast: DocumentNode
    limits: Limits | None = None
    is_circular: bool = False
    is_paid: bool = False  # its preparation was charged
    found: list[GraphQLError] | None = None  # by validation
    known_costs: dict[str | None, Costs] = field(default_factory=dict)
    known_uses: dict[str | None, DeprecatedUse | None] = field(default_factory=dict)

    def errors(self, rules: Rules, hides_suggestions: bool) -> list[GraphQLError]:
        """Validation errors. Circular fragments are reported alone, as other rules would follow them."""
        if self.found is not None:
            return self.found
        if self.is_circular:
            rules = (NoFragmentCyclesRule,)
        errors = validate(self.schema, self.ast, rules, MAX_ERRORS, hides_suggestions)
        for error in errors if hides_suggestions else ():
            error.message = error.message.partition(" Did you mean ")[0]  # one rule always suggests braces
        self.found = errors
        return errors

    def operation(self, name: str | None) -> OperationDefinitionNode | None:
        return get_operation_ast(self.ast, name)

    def costs(self, name: str | None) -> Costs | None:
        """The costs of an operation; None if the operation is ambiguous or circular. Raises TooCostly if it
        selects too many objects, for which statements would have to be written."""
        operation = self.operation(name)
        if operation is None or self.is_circular:
            return None
        if name not in self.known_costs:
            fragments = fragments_of(self.ast)
            self.known_costs[name] = costs_of(self.schema, operation, fragments, self.limits)
        return self.known_costs[name]

    def deprecated_use(self, name: str | None, parts: Parts) -> DeprecatedUse | None:
        """The use of the schema's deprecated parts by an operation. The document must be valid."""
        operation = self.operation(name) if parts else None
        if operation is None:
            return None
        if name not in self.known_uses:
            self.known_uses[name] = find_use(self.schema, parts, operation, fragments_of(self.ast))
        return self.known_uses[name]


class DocumentCache:
    """A small cache, as one request reads its document several times."""

    def __init__(self, schema: GraphQLSchema, limits: Limits | None) -> None:
        self.schema = schema
        self.limits = limits
        self.recent: BoundedCache[Document] = BoundedCache(MAX_WEIGHT)

    def read(self, text: str, is_own: bool = False) -> Document:
        return self.recent.get(text) or self.add(text, self.parse(text, is_own))

    def parse(self, text: str, is_own: bool = False) -> Document:
        """Changes nothing, so it can run in a thread. Raises TooCostly if the document exceeds a limit."""
        limits = None if is_own else self.limits
        document = Document(self.schema, parse_within(text, limits), limits)
        if limits is not None:
            document.is_circular = count_within(document.ast, limits).is_circular
        return document

    def add(self, text: str, document: Document) -> Document:
        return self.recent.add(text, document, weight_of(len(text)))


def weight_of(length: int) -> int:
    """The weight of what is made from a document. Even a short one takes some kilobytes."""
    return max(length, MIN_WEIGHT)


# --- validation -------------------------------------------------------------------------------------


class FreedContext(ValidationContext):
    def get_variable_usages(
        self, node: OperationDefinitionNode | FragmentDefinitionNode
    ) -> list[VariableUsage]:
        """The same as graphql-core's, without the cycles of its visitors."""
        known: list[VariableUsage] | None = self._variable_usages.get(node)
        if known is not None:
            return known
        fragment = node if isinstance(node, FragmentDefinitionNode) else None
        visitor = VariableUsageVisitor(self._type_info, fragment)
        typed = TypeInfoVisitor(self._type_info, visitor)
        visit(node, typed)
        usages = self._variable_usages[node] = visitor.usages
        free(visitor, typed)
        return usages


def validate(
    schema: GraphQLSchema,
    document: DocumentNode,
    rules: Iterable[type[ASTValidationRule]],
    max_errors: int,
    hides_suggestions: bool,
) -> list[GraphQLError]:
    """The errors of `graphql.validate`. Frees everything that the rules made."""
    errors: list[GraphQLError] = []

    def report(error: GraphQLError) -> None:
        if len(errors) >= max_errors:
            raise ValidationAbortedError(TOO_MANY)
        errors.append(error)

    types = TypeInfo(schema)
    context = FreedContext(schema, document, types, report, hides_suggestions)
    visitors = [rule(context) for rule in rules]
    parallel = ParallelVisitor(visitors)
    typed = TypeInfoVisitor(types, parallel)
    try:
        visit(document, typed, query_document_keys_to_validate)
    except ValidationAbortedError as error:
        error.__context__ = None
        errors.append(error.with_traceback(None))
    except RecursionError:
        errors.append(ValidationAbortedError("Validation aborted."))
    finally:
        free(*visitors, parallel, typed, context, types)
    return errors
