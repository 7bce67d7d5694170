"""Messages for operators: counts with a noun, words for exceptions, and errors that a command prints."""

from collections.abc import Mapping
from typing import Any, TypeVar

Entry = TypeVar("Entry")


class OperatorError(Exception):
    """A problem that an operator can correct. A command prints the message and exits with code 2."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """ "1 record", "2 records"; pass irregular plurals."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def printable(text: str) -> str:
    """On one line and without control characters, which an import may store and a terminal would obey."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def entry_for(fault: BaseException, table: Mapping[type[Any], Entry]) -> Entry | None:
    """Returns the entry of the nearest base class. Messages of libraries may quote a secret or a person."""
    return next((table[kind] for kind in type(fault).__mro__ if kind in table), None)
