"""Finds nodes in the syntax tree of a document."""

from collections.abc import Collection, Iterator

from graphql import ArgumentNode, DocumentNode, FieldNode, FragmentDefinitionNode, Node, VariableNode


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


def fragments_of(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    return {
        each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
    }
