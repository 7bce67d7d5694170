"""Catalogue commands: add, replace, retire and restore modules and books."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from app.db.admin.importing import MOST_MISTAKES, ImportRefused, Mistake, set_next_id
from app.db.admin.questions import QUESTION_COLUMNS, QuestionRow, read_questions
from app.db.admin.records import Problem, Record
from app.db.moments import as_moment
from app.db.reader.reads import Row, get_rows
from app.db.reader.selection import AccessScope, Link, Selection
from app.db.sql import Bulk, Operation, Values
from app.db.statements.books import (
    ADD,
    ADD_NUMBERED,
    CHANGE,
    DROP_QUESTIONS,
    DROP_WORDS,
    FIND_ASSIGNED,
    FIND_BOOKS_WITHOUT_QUESTIONS,
    FIND_MODULES,
    LOCK_BOOKS,
    RESTORE_BOOK,
    RETIRE_BOOK,
    words_of,
)
from app.db.tables import Book, Module

SET_NEXT_ID = {"module": set_next_id(Module), "book": set_next_id(Book)}


class NoSuchBook(Exception):
    def __init__(self, book_id: int) -> None:
        super().__init__(f"there is no book {book_id}")


@dataclass(frozen=True)
class Change:
    """The result of one line."""

    is_new: bool
    kind: str
    id: int
    name: str


# --- reading the lines ----------------------------------------------------------------------------


@dataclass
class Line:
    """A module or a book; the database assigns an id if there is none."""

    number: int
    kind: str
    id: int | None
    name: str
    module_id: int | None = None
    is_test: bool = False
    retire_date: datetime | None = None
    questions: list[QuestionRow] | None = None

    def mistake(self, member: str, reason: str) -> Mistake:
        return Mistake(self.number, member, reason)


def read_lines(lines: Iterable[str | bytes]) -> tuple[list[Line], list[Mistake]]:
    """The valid lines, and the first mistakes of the other lines."""
    read, mistakes = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            read.append(read_line(number, line))
        except Problem as problem:
            mistakes.append(Mistake(number, problem.member, problem.reason))
            if len(mistakes) == MOST_MISTAKES:
                break
    return read, mistakes


def read_line(number: int, line: str | bytes) -> Line:
    try:
        record = Record(orjson.loads(line))
    except orjson.JSONDecodeError:
        raise Problem("the line", "is not JSON") from None
    kind = record.take("kind", "one of module, book", lambda v: v in ("module", "book"))
    read = Line(number, kind, record.optional_id("id"), record.text("name"))
    if kind == "book":
        read.module_id = record.id("moduleId")
        read.is_test = record.flag("isTest")
        read.retire_date = record.optional_moment("retireDate")
        read.questions = read_questions(record, read.is_test)
    record.finish()
    return read


# --- operations -----------------------------------------------------------------------------------


def importing_books(lines: Iterable[str | bytes]) -> Operation[list[Change]]:
    """Adds or replaces modules and books. A book that was ever assigned cannot be replaced, but questions can
    be added if it has none. Raises ImportRefused and then changes nothing."""
    read, mistakes = read_lines(lines)
    named: Values = {"books": [line.id for line in read if line.kind == "book" and line.id is not None]}
    known = {
        "module": {row[0] for row in (yield FIND_MODULES, {})},
        "book": {row[0] for row in (yield LOCK_BOOKS, named)},
    }
    assigned = {row[0] for row in (yield FIND_ASSIGNED, named)}
    bare = {tuple(row) for row in (yield FIND_BOOKS_WITHOUT_QUESTIONS, named)}
    is_module_certain = not mistakes  # an invalid line may be a module
    mistakes += check_lines(read, known["module"] if is_module_certain else None, assigned, bare)
    if mistakes:
        raise ImportRefused(sorted(mistakes))

    yield DROP_WORDS, named
    yield DROP_QUESTIONS, named
    changes = {}
    for line in sorted(read, key=lambda line: line.id is None):  # so that no new id equals a given one
        is_new = line.id not in known[line.kind]
        changes[line.number] = Change(is_new, line.kind, (yield from storing_line(line, is_new)), line.name)
    return [changes[line.number] for line in read]


def check_lines(
    read: list[Line], known: set[int] | None, assigned: set[int], bare: set[tuple[Any, ...]]
) -> Iterator[Mistake]:
    """At most one mistake per line. Without the list of known modules, modules are not checked."""
    modules = set(known or ())
    named = set()
    for line in read:
        if line.id is not None:
            if (line.kind, line.id) in named:
                yield line.mistake("id", f"{line.id} stands on a line above")
                continue
            named.add((line.kind, line.id))
        if line.kind == "module" and line.id is not None:
            modules.add(line.id)
        is_same = (line.id, line.module_id, line.name, line.is_test) in bare
        if line.kind == "book" and known is not None and line.module_id not in modules:
            yield line.mistake("moduleId", f"{line.module_id} is not known before this line")
        elif line.kind == "book" and line.id in assigned and not is_same:
            yield line.mistake("id", f"{line.id} is a book that was assigned, and stays as it was assigned")


def storing_line(line: Line, is_new: bool) -> Operation[int]:
    """Stores the line and returns its id."""
    values: Values = {
        "id": line.id,
        "name": line.name,
        "module": line.module_id,
        "is_test": line.is_test,
        "retired": line.retire_date,
    }
    row_id = line.id
    if not is_new:
        yield CHANGE[line.kind], values
    elif row_id is None:
        row_id = (yield ADD[line.kind], values)[0][0]
    else:
        yield ADD_NUMBERED[line.kind], values
        yield SET_NEXT_ID[line.kind], {}
    assert row_id is not None
    if line.questions is not None:
        yield Bulk("book_word", ("word", "book_id"), [(word, row_id) for word in words_of(line.name)])
        yield Bulk("question", QUESTION_COLUMNS, [(row_id, *question) for question in line.questions])
    return row_id


def retiring(book_id: int, now: datetime) -> Operation[None]:
    """Prevents new assignments of the book; a retired book keeps its date."""
    if not (yield RETIRE_BOOK, {"id": book_id, "now": now}):
        raise NoSuchBook(book_id)


def restoring(book_id: int) -> Operation[None]:
    if not (yield RESTORE_BOOK, {"id": book_id}):
        raise NoSuchBook(book_id)


SHOWN = Selection(
    frozenset({"id", "module_id", "name", "is_test", "retire_date"}),
    (
        Link(
            "questions",
            Selection(frozenset({"text", "kind", "options", "is_required", "minimum", "maximum", "weights"})),
        ),
    ),
)


def showing(book_id: int, now: datetime) -> Operation[Row]:
    rows = yield from get_rows(Book, AccessScope(now), [book_id], SHOWN)
    if not rows:
        raise NoSuchBook(book_id)
    return rows[0]


def as_record(book: Row) -> dict[str, Any]:
    """The book as a line that `books import` reads, without null members."""
    record = {
        "kind": "book",
        "id": book.id,
        "moduleId": book.module_id,
        "name": book.name,
        "isTest": book.is_test,
        "retireDate": as_moment(book.retire_date),
        "questions": [question_as_record(question) for question in book.questions],
    }
    return {name: value for name, value in record.items() if value is not None}


def question_as_record(question: Row) -> dict[str, Any]:
    record = {
        "text": question.text,
        "kind": question.kind,
        "options": question.options,
        "required": question.is_required,
        "minimum": question.minimum,
        "maximum": question.maximum,
        "weights": question.weights,
    }
    return {name: value for name, value in record.items() if value is not None}
