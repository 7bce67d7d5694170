"""Limits on the size of a document, checked before validation. Each fragment is measured once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    parse,
)

from app.engine.documents import nodes_of


@dataclass(frozen=True)
class Limits:
    """Limits of a document. All but the first two and the last count fragments where they are spread."""

    tokens: int  # also the limit for comments, counted separately
    fragments: int
    levels: int  # nested selection sets, including fragments
    depth: int  # nested fields
    selections: int
    aliases: int
    root_fields: int
    directives: int
    comparisons: int  # of fields with the same response key, during validation
    cost: int
    values: int  # in the variables, including nested values


class TooCostly(GraphQLError):
    """A document exceeds a limit."""

    def __init__(self, counted: int | str, what: str, allowed: int) -> None:
        super().__init__(f"Too costly: {counted} {what}, and {allowed} are allowed.")
        self.what = what


def parse_within(text: str, limits: Limits | None) -> DocumentNode:
    """Parses the document and stops at the first limit that it exceeds."""
    if limits is None:
        return parse(text)
    try:
        return parse(text, max_lexical_tokens=limits.tokens, max_comments=limits.tokens)
    except GraphQLSyntaxError as error:
        for what in ("tokens", "comments"):
            if f"Document contains more than {limits.tokens} {what}." in error.message:
                raise TooCostly(f"more than {limits.tokens}", what, limits.tokens) from None
        if "Document is nested too deeply." in error.message:
            raise TooCostly(f"more than {limits.levels}", "levels", limits.levels) from None
        raise


Root = OperationDefinitionNode | FragmentDefinitionNode


class Counts(NamedTuple):
    """Counts of a selection set or a document with its fragments expanded."""

    levels: int = 0
    depth: int = 0
    selections: int = 0
    aliases: int = 0
    root_fields: int = 0
    directives: int = 0


class Counting:
    """Counts a document. A fragment spread within itself counts as empty."""

    def __init__(self, document: DocumentNode, most_levels: int) -> None:
        self.definitions = [each for each in document.definitions if isinstance(each, Root)]
        self.fragments = {
            each.name.value: each for each in self.definitions if isinstance(each, FragmentDefinitionNode)
        }
        self.most_levels = most_levels
        self.known: dict[str, Counts] = {}
        self.open: set[str] = set()
        self.is_circular = False
        self.roots = list(self.find_roots())

    def find_roots(self) -> Iterator[tuple[Root, Counts]]:
        """All operations, and unused fragments, which are validated too."""
        for each in self.definitions:
            if isinstance(each, OperationDefinitionNode):
                yield each, self.of_set(each.selection_set, 1)
        for each in self.definitions:
            if isinstance(each, FragmentDefinitionNode) and each.name.value not in self.known:
                yield each, self.of_fragment(each.name.value, 1)

    def whole(self) -> Counts:
        counts = [each for _, each in self.roots]
        return Counts(
            max((each.levels for each in counts), default=0),
            max((each.depth for each in counts), default=0),
            sum(each.selections for each in counts),
            sum(each.aliases for each in counts),
            max((each.root_fields for each in counts), default=0),
            sum(each.directives for each in counts) + sum(map(directives_outside, self.definitions)),
        )

    def of_set(self, selection_set: SelectionSetNode, level: int) -> Counts:
        if level > self.most_levels:
            raise TooCostly(f"more than {self.most_levels}", "levels", self.most_levels)
        levels = depth = aliases = root_fields = directives = 0
        selections = len(selection_set.selections)
        for each in selection_set.selections:
            directives += len(each.directives or ())
            below = self.below(each, level + 1)
            levels = max(levels, below.levels)
            selections += below.selections
            aliases += below.aliases
            directives += below.directives
            if isinstance(each, FieldNode):
                depth = max(depth, below.depth + 1)
                aliases += each.alias is not None
                root_fields += 1
            else:
                depth = max(depth, below.depth)
                root_fields += below.root_fields
        return Counts(levels + 1, depth, selections, aliases, root_fields, directives)

    def below(self, selection: SelectionNode, level: int) -> Counts:
        if isinstance(selection, FragmentSpreadNode):
            return self.of_fragment(selection.name.value, level)
        assert isinstance(selection, FieldNode | InlineFragmentNode)
        return self.of_set(selection.selection_set, level) if selection.selection_set else NOTHING

    def of_fragment(self, name: str, level: int) -> Counts:
        found = self.fragments.get(name)
        if found is None:
            return NOTHING
        if name in self.open:
            self.is_circular = True
            return NOTHING
        if name not in self.known:
            self.open.add(name)
            self.known[name] = self.of_set(found.selection_set, level)
            self.open.discard(name)
        return self.known[name]


NOTHING = Counts()


def directives_outside(definition: Root) -> int:
    """The directives of an operation or a fragment and of its variables."""
    variables = definition.variable_definitions or ()
    return len(definition.directives or ()) + sum(len(each.directives or ()) for each in variables)


# --- fields with the same response key --------------------------------------------------------------

Fragments = dict[str, FragmentDefinitionNode]


def fields_by_name(
    selection_sets: Iterable[SelectionSetNode], fragments: Fragments
) -> dict[str, list[FieldNode]]:
    """Fields by response key. A fragment that is spread twice counts once."""
    found: dict[str, list[FieldNode]] = {}
    spread: set[str] = set()
    waiting = list(selection_sets)
    while waiting:
        for each in waiting.pop().selections:
            if isinstance(each, FieldNode):
                found.setdefault((each.alias or each.name).value, []).append(each)
            elif isinstance(each, InlineFragmentNode):
                waiting.append(each.selection_set)
            elif isinstance(each, FragmentSpreadNode) and each.name.value not in spread:
                spread.add(each.name.value)
                if each.name.value in fragments:
                    waiting.append(fragments[each.name.value].selection_set)
    return found


def comparisons(selection_sets: Iterable[SelectionSetNode], fragments: Fragments) -> int:
    """The work of validation, which compares every two fields with the same response key."""
    total = 0
    for fields in fields_by_name(selection_sets, fragments).values():
        if len(fields) > 1:
            total += (len(fields) - 1) * sum(map(size_of_arguments, fields))
        below = [each.selection_set for each in fields if each.selection_set]
        if below:
            total += comparisons(below, fragments)
    return total


def size_of_arguments(node: FieldNode) -> int:
    return 1 + sum(1 for argument in node.arguments or () for _ in nodes_of(argument))


# --- the limits -------------------------------------------------------------------------------------


def count_within(document: DocumentNode, limits: Limits) -> Counting:
    """Counts a document. Raises TooCostly with the first limit that it exceeds."""
    fragments = sum(isinstance(each, FragmentDefinitionNode) for each in document.definitions)
    refuse_over(fragments, "fragments", limits.fragments)
    counting = Counting(document, limits.levels)
    whole = counting.whole()
    refuse_over(whole.levels, "levels", limits.levels)
    refuse_over(whole.depth, "levels of fields", limits.depth)
    refuse_over(whole.selections, "selections", limits.selections)
    refuse_over(whole.aliases, "aliases", limits.aliases)
    refuse_over(whole.root_fields, "root fields", limits.root_fields)
    refuse_over(whole.directives, "directives", limits.directives)
    if not counting.is_circular:
        sets = [[root.selection_set] for root, _ in counting.roots]
        compared = sum(comparisons(each, counting.fragments) for each in sets)
        refuse_over(compared, "comparisons of fields under one name", limits.comparisons)
    return counting


def count_values(variables: Mapping[str, Any]) -> int:
    counted = len(variables)
    waiting = [each for each in variables.values() if isinstance(each, dict | list)]
    while waiting:
        found = waiting.pop()
        counted += len(found)
        below = found.values() if isinstance(found, dict) else found
        waiting += [each for each in below if isinstance(each, dict | list)]
    return counted


def refuse_over(counted: int, what: str, allowed: int) -> None:
    if counted > allowed:
        raise TooCostly(counted, what, allowed)
