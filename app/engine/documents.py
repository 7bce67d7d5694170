"""Parses, limits, validates and caches the documents of requests."""

from dataclasses import dataclass, field

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    NoFragmentCyclesRule,
    OperationDefinitionNode,
    get_operation_ast,
)
from graphql.validation import ASTValidationRule

from app.caches import BoundedCache
from app.engine.costs import Costs, costs_of
from app.engine.deprecated import DeprecatedUse, Parts, find_use
from app.engine.limits import Limits, count_within, parse_within
from app.engine.nodes import fragments_of
from app.engine.validation import validate

MAX_WEIGHT = 32 * 1024  # of all cached documents; see weight_of()
MIN_WEIGHT = 512
MAX_ERRORS = 10  # per response: each can quote a large part of the document

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
