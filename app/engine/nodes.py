"""Finds nodes in the syntax tree of a document, and frees what visits it."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from graphql import (
    ArgumentNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    Node,
    SelectionSetNode,
    VariableNode,
)

Fragments = dict[str, FragmentDefinitionNode]
TypedSelectionSet = tuple[Any, SelectionSetNode]  # with its type; None if the type is unknown


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        for key in node.keys:
            below = getattr(node, key)
            if isinstance(below, Node):
                waiting.append(below)
            elif isinstance(below, list | tuple):
                waiting.extend(each for each in below if isinstance(each, Node))


def names_of_variables(*nodes: Node) -> tuple[str, ...]:
    """The variables used in or below these nodes."""
    found = {each.name.value for node in nodes for each in nodes_of(node) if isinstance(each, VariableNode)}
    return tuple(sorted(found))


def arguments_below(roots: Collection[Node], document: DocumentNode) -> Iterator[ArgumentNode]:
    """The arguments of all fields except `roots`, including fields in fragments."""
    known = {id(root) for root in roots}
    for node in nodes_of(document):
        if isinstance(node, FieldNode) and id(node) not in known:
            yield from node.arguments or ()


def fragments_of(document: DocumentNode) -> Fragments:
    return {
        each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
    }


def fields_of(
    selection_sets: Iterable[TypedSelectionSet], fragments: Fragments, type_named: Callable[[str], Any]
) -> Iterator[tuple[Any, FieldNode]]:
    """The fields of these selection sets, with their parent types. Each fragment is followed once."""
    spread: set[str] = set()
    waiting = list(selection_sets)
    while waiting:
        kind, selection_set = waiting.pop()
        for each in selection_set.selections:
            if isinstance(each, FieldNode):
                yield kind, each
                continue
            fragment: Any = each
            if isinstance(each, FragmentSpreadNode):
                name = each.name.value
                if name in spread or name not in fragments:
                    continue
                spread.add(name)
                fragment = fragments[name]
            condition = fragment.type_condition
            waiting.append((type_named(condition.name.value) if condition else kind, fragment.selection_set))


def response_key(node: FieldNode) -> str:
    return (node.alias or node.name).value


def free(*visitors: object) -> None:
    """Empties visitors of graphql-core. They keep their own bound methods, so a thousand objects would stay
    in reference cycles, which also hold the document, until the garbage collector finds them."""
    for each in visitors:
        vars(each).clear()
