"""Parses, limits, validates and caches the documents of requests."""

from dataclasses import dataclass, field

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    NoFragmentCyclesRule,
    OperationDefinitionNode,
    get_operation_ast,
    validate,
)
from graphql.validation import ASTValidationRule

from app.engine.costs import Costs, costs_of
from app.engine.limits import Limits, count_within, parse_within
from app.engine.nodes import fragments_of
from app.engine.operations import LruCache

MAX_DOCUMENTS = 64
MAX_CACHED_CHARACTERS = 32 * 1024  # of all cached documents
MAX_ERRORS = 10  # per response: each can quote a large part of the document

Rules = tuple[type[ASTValidationRule], ...]


@dataclass(eq=False)
class Document:
    schema: GraphQLSchema
    ast: DocumentNode
    is_circular: bool = False
    is_valid: bool = False
    known_costs: dict[str | None, Costs] = field(default_factory=dict)

    def errors(self, rules: Rules, hides_suggestions: bool) -> list[GraphQLError]:
        """Validation errors. Circular fragments are reported alone, as other rules would follow them."""
        if self.is_valid:
            return []
        if self.is_circular:
            rules = (NoFragmentCyclesRule,)
        errors = validate(self.schema, self.ast, rules, MAX_ERRORS, hides_suggestions)
        self.is_valid = not errors
        for error in errors if hides_suggestions else ():
            error.message = error.message.partition(" Did you mean ")[0]  # one rule always suggests braces
        return errors

    def operation(self, name: str | None) -> OperationDefinitionNode | None:
        return get_operation_ast(self.ast, name)

    def costs(self, name: str | None) -> Costs | None:
        """The costs of an operation; None if the operation is ambiguous or circular."""
        operation = self.operation(name)
        if operation is None or self.is_circular:
            return None
        if name not in self.known_costs:
            self.known_costs[name] = costs_of(self.schema, operation, fragments_of(self.ast))
        return self.known_costs[name]


class DocumentCache:
    """A small cache, as one request reads its document several times."""

    def __init__(self, schema: GraphQLSchema, limits: Limits | None) -> None:
        self.schema = schema
        self.limits = limits
        self.recent: LruCache[Document] = LruCache(MAX_DOCUMENTS)

    def read(self, text: str, is_own: bool = False) -> Document:
        cached = self.recent.get(text)
        if cached is not None:
            return cached
        limits = None if is_own else self.limits
        document = Document(self.schema, parse_within(text, limits))
        if limits is not None:
            document.is_circular = count_within(document.ast, limits).is_circular
        self.recent.put(text, document)
        texts = self.recent.values
        while len(texts) > 1 and sum(map(len, texts)) > MAX_CACHED_CHARACTERS:
            texts.popitem(last=False)
        return document
