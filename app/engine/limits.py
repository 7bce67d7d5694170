"""The limits of a GraphQL operation, and the counts of a document, which are checked before validation.

`schema/schema.py` sets the limits, three of them from the settings. `costs.py` computes the cost.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSyntaxError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    Source,
    Token,
)
from graphql.language import Lexer
from graphql.language.parser import Parser

from app.engine.nodes import Fragments, fields_of, fragments_of, nodes_of, response_key


@dataclass(frozen=True)
class Limits:
    """Depth and all counts of selections include fragments where they are spread."""

    tokens: int  # also the limit for comments, counted separately
    depth: int  # nested fields
    cost: int
    levels: int = 64  # nested selection sets: fields and inline fragments
    fragments: int = 100
    selections: int = 1000
    aliases: int = 100
    root_fields: int = 50
    directives: int = 100
    comparisons: int = 10_000  # of fields with the same response key, during validation
    values: int = 2000  # in the variables, including nested values
    objects: int = 150  # fields with a selection, except the items of a list with pages
    lists: int = 20  # with pages, inside other objects
    response: int = 4 * 1024 * 1024  # bytes


class TooCostly(GraphQLError):
    """A document exceeds a limit."""

    def __init__(self, count: int | str, unit: str, limit: int) -> None:
        super().__init__(f"Too costly: {count} {unit}, and {limit} are allowed.")
        self.unit = unit


def parse_within(text: str, limits: Limits | None) -> DocumentNode:
    """Parses the document and stops at the first limit that it exceeds."""
    lexer = Lexer(Source(text))
    tokens = limits.tokens if limits else None
    parser = Parser(lexer.source, lexer=lexer, max_lexical_tokens=tokens, max_comments=tokens)
    try:
        return parser.parse_document()
    except RecursionError:  # more than 200 levels
        if limits is None:
            raise
        raise TooCostly(f"more than {limits.levels}", "levels", limits.levels) from None
    except GraphQLSyntaxError as error:  # the parser has no other class for its limits
        if limits is None:
            raise
        for unit in ("tokens", "comments"):
            if f"Document contains more than {limits.tokens} {unit}." in error.message:
                raise TooCostly(f"more than {limits.tokens}", unit, limits.tokens) from None
        raise
    finally:
        unlink(lexer.token)


def unlink(token: Token | None) -> None:
    """Separates the tokens, which are linked in both directions and would be freed only by the collector."""
    while token is not None:
        before = token.prev
        token.prev = token.next = None
        token = before


Definition = OperationDefinitionNode | FragmentDefinitionNode


class Counts(NamedTuple):
    """Counts of a selection set with its fragments expanded."""

    levels: int = 0
    depth: int = 0
    selections: int = 0
    aliases: int = 0
    root_fields: int = 0
    directives: int = 0


EMPTY = Counts()


class DocumentCounter:
    """Counts a document, each fragment once. A fragment spread within itself counts as empty."""

    def __init__(self, document: DocumentNode, max_levels: int) -> None:
        self.definitions = [each for each in document.definitions if isinstance(each, Definition)]
        self.fragments = fragments_of(document)
        self.max_levels = max_levels
        self.fragment_counts: dict[str, Counts] = {}
        self.unfinished: set[str] = set()  # fragments that are being counted
        self.is_circular = False
        self.roots = list(self.count_roots())

    def count_roots(self) -> Iterator[tuple[Definition, Counts]]:
        """All operations, and the fragments that they do not use, which are validated too: unused ones, and
        all but the last of those with one name."""
        for each in self.definitions:
            if isinstance(each, OperationDefinitionNode) or self.fragments[each.name.value] is not each:
                yield each, self.count_set(each.selection_set, 1)
        for name, fragment in self.fragments.items():
            if name not in self.fragment_counts:
                yield fragment, self.count_fragment(name, 1)

    def count_set(self, selection_set: SelectionSetNode, level: int) -> Counts:
        if level > self.max_levels:
            raise TooCostly(f"more than {self.max_levels}", "levels", self.max_levels)
        levels = depth = aliases = root_fields = directives = 0
        selections = len(selection_set.selections)
        for each in selection_set.selections:
            below = self.count_below(each, level + 1)
            levels = max(levels, below.levels)
            selections += below.selections
            aliases += below.aliases
            directives += len(each.directives or ()) + below.directives
            if isinstance(each, FieldNode):
                # Introspection queries nest more of these than any type has: they end in null.
                depth = max(depth, below.depth + (each.name.value != "ofType"))
                aliases += each.alias is not None
                root_fields += 1
            else:
                depth = max(depth, below.depth)
                root_fields += below.root_fields
        return Counts(levels + 1, depth, selections, aliases, root_fields, directives)

    def count_below(self, selection: SelectionNode, level: int) -> Counts:
        if isinstance(selection, FragmentSpreadNode):
            return self.count_fragment(selection.name.value, level)
        assert isinstance(selection, FieldNode | InlineFragmentNode)
        return self.count_set(selection.selection_set, level) if selection.selection_set else EMPTY

    def count_fragment(self, name: str, level: int) -> Counts:
        if name not in self.fragments:
            return EMPTY
        if name in self.unfinished:
            self.is_circular = True
            return EMPTY
        if name not in self.fragment_counts:
            self.unfinished.add(name)
            self.fragment_counts[name] = self.count_set(self.fragments[name].selection_set, level)
            self.unfinished.discard(name)
        return self.fragment_counts[name]


def directives_outside(definition: Definition) -> int:
    """The directives of an operation or a fragment and of its variables."""
    variables = definition.variable_definitions or ()
    return len(definition.directives or ()) + sum(len(each.directives or ()) for each in variables)


# --- fields with the same response key --------------------------------------------------------------


def comparisons(selection_sets: Iterable[SelectionSetNode], fragments: Fragments) -> int:
    """The work of validation, which compares every two fields with the same response key."""
    groups: dict[str, list[FieldNode]] = defaultdict(list)
    for _, node in fields_of([(None, each) for each in selection_sets], fragments, lambda name: None):
        groups[response_key(node)].append(node)
    total = 0
    for nodes in groups.values():
        if len(nodes) > 1:
            total += (len(nodes) - 1) * sum(map(size_of_arguments, nodes))
        below = [each.selection_set for each in nodes if each.selection_set]
        if below:
            total += comparisons(below, fragments)
    return total


def size_of_arguments(node: FieldNode) -> int:
    return 1 + sum(1 for argument in node.arguments or () for _ in nodes_of(argument))


# --- comparison with the limits ---------------------------------------------------------------------


def count_within(document: DocumentNode, limits: Limits) -> DocumentCounter:
    """Counts a document. Raises TooCostly with the first limit that it exceeds."""
    fragments = sum(isinstance(each, FragmentDefinitionNode) for each in document.definitions)
    check(fragments, "fragments", limits.fragments)
    counter = DocumentCounter(document, limits.levels)
    counts = [EMPTY, *(each for _, each in counter.roots)]
    levels, depths, selections, aliases, root_fields, directives = zip(*counts, strict=True)
    outside = map(directives_outside, counter.definitions)
    check(max(levels), "levels", limits.levels)
    check(max(depths), "levels of fields", limits.depth)
    check(sum(selections), "selections", limits.selections)
    check(sum(aliases), "aliases", limits.aliases)
    check(max(root_fields), "root fields", limits.root_fields)
    check(sum(directives) + sum(outside), "directives", limits.directives)
    if not counter.is_circular:
        sets = [[root.selection_set] for root, _ in counter.roots]
        compared = sum(comparisons(each, counter.fragments) for each in sets)
        check(compared, "comparisons of fields under one name", limits.comparisons)
    return counter


def check(count: int, unit: str, limit: int) -> None:
    if count > limit:
        raise TooCostly(count, unit, limit)
