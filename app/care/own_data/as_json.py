"""Own data as one JSON document, in the members that docs/own-data.md lists."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import orjson

from app.db.reader.own_data import Data


class JsonDocument:
    """Writes the client, then each session, then the events; keeps no session in memory."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.has_sessions = False

    def begin(self, client: Data) -> None:
        self.write(f'{{\n  "client": {indented(client, 2)},\n  "sessions": [')

    def add_session(self, session: Data) -> None:
        self.write(f"{',' if self.has_sessions else ''}\n    {indented(session, 4)}")
        self.has_sessions = True

    def end(self, events: Iterable[Data]) -> None:
        after_sessions = "\n  " if self.has_sessions else ""
        lines = ",".join(f"\n    {as_json(event)}" for event in events)
        after_events = "\n  " if lines else ""
        self.write(f'{after_sessions}],\n  "events": [{lines}{after_events}]\n}}\n')


def indented(row: Data, spaces: int) -> str:
    """Every line break is one of the layout, because line breaks in texts are escaped."""
    return as_json(row, orjson.OPT_INDENT_2).replace("\n", "\n" + " " * spaces)


def as_json(row: Data, option: int = 0) -> str:
    return orjson.dumps(object_of(row), option=option | orjson.OPT_UTC_Z).decode()


def object_of(row: Data) -> dict[str, Any]:
    """The members of a row: the column `book.is_test` is the member `isTest` of the object `book`."""
    members: dict[str, Any] = {}
    for column, value in row.items():
        *objects, member = path_of(column)
        target = members
        for name in objects:
            target = target.setdefault(name, {})
        target[member] = list(map(object_of, value)) if isinstance(value, list) else value
    return members


@cache
def path_of(column: str) -> list[str]:
    words = column.title().replace("_", "").split(".")
    return [word[0].lower() + word[1:] for word in words]
