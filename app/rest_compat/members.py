"""Reads the members of a response body from a row by their indexes.

A page has some thousand values, and an attribute of a row takes several times as long.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from app.db.reader.plans import Place, Row

MAX_READERS = 64  # of a body; a document has a class of rows for each combination of filters

# Reads all values of a row, and converts those of some members.
Reader = tuple[Callable[[Any], tuple[Any, ...]], list[tuple[str, Callable[[Any], Any]]]]


class Members:
    """The members of a body in order, each with the path of its value in a row, such as `book.name`. A member
    without a path starts as None. Behind a missing row every value is None."""

    def __init__(self, **paths: str | None) -> None:
        self.paths = {name: path for name, path in paths.items() if path is not None}
        self.without_values = dict.fromkeys(paths)
        self.readers: dict[type[Row], Reader] = {}

    def of(self, row: Row) -> dict[str, Any]:
        get_values, conversions = self.readers.get(row.__class__) or self.add_reader(row.__class__)
        body: dict[str, Any] = self.without_values.copy()
        body.update(zip(self.paths, get_values(row), strict=True))
        for name, convert in conversions:
            body[name] = convert(body[name])
        return body

    def add_reader(self, kind: type[Row]) -> Reader:
        """A plan that is built again has new classes."""
        if len(self.readers) >= MAX_READERS:
            self.readers.clear()
        places = {name: place_of(kind, path) for name, path in self.paths.items()}
        get_values = itemgetter(*(index for index, _ in places.values()))
        reader = get_values, [(name, convert) for name, (_, convert) in places.items() if convert]
        self.readers[kind] = reader
        return reader


def place_of(kind: type[Row], path: str) -> Place:
    layout = kind.__layout__
    *links, member = path.split(".")
    for link in links:
        _, layout = layout.joined[link]
    return layout.lists[member][0] if member in layout.lists else layout.columns[member]
