"""Catalogue commands: add, replace, retire and restore modules and books."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from app.db.admin.sequences import reserving_ids
from app.db.facts import member_of
from app.db.interchange.import_format import (
    CATALOGUE_LINE,
    CatalogueBook,
    CatalogueLine,
    CatalogueModule,
    LineRejected,
)
from app.db.interchange.load import MAX_MISTAKES, ImportRejected, Mistake
from app.db.interchange.rows import COLUMNS, question_rows
from app.db.moments import as_moment
from app.db.reader.reads import Row, get_rows
from app.db.reader.selection import AccessScope, Link, Selection
from app.db.sql import Bulk, Steps, Values
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
from app.db.tables import QUESTION, Book
from app.telemetry.wording import OperatorError


class NoSuchBook(OperatorError):
    def __init__(self, book_id: int) -> None:
        super().__init__(f"there is no book {book_id}")


class Change(NamedTuple):
    """The result of one line."""

    is_new: bool
    kind: str
    id: int
    name: str


# --- steps ----------------------------------------------------------------------------------------


def read_lines(lines: Iterable[str | bytes]) -> tuple[dict[int, CatalogueLine], list[Mistake]]:
    """The valid lines by number, and the first mistake of each other line."""
    valid, mistakes = {}, []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            valid[number] = CATALOGUE_LINE.validate_json(line)
        except ValidationError as error:
            mistakes.append(Mistake(number, str(LineRejected.of(error))))
            if len(mistakes) == MAX_MISTAKES:
                break
    return valid, mistakes


def importing_books(lines: Iterable[str | bytes]) -> Steps[list[Change]]:
    """Adds or replaces modules and books. A book that was ever assigned cannot be replaced, but questions can
    be added if it has none. Raises ImportRejected and then changes nothing."""
    valid, mistakes = read_lines(lines)
    books = [line.id for line in valid.values() if line.kind == "book" and line.id is not None]
    known = {
        "module": {row[0] for row in (yield FIND_MODULES, {})},
        "book": {row[0] for row in (yield LOCK_BOOKS, {"books": books})},
    }
    assigned = {row[0] for row in (yield FIND_ASSIGNED, {"books": books})}
    without_questions = {tuple(row) for row in (yield FIND_BOOKS_WITHOUT_QUESTIONS, {"books": books})}
    modules = None if mistakes else known["module"]  # an invalid line may be a module
    mistakes += check_lines(valid, modules, assigned, without_questions)
    if mistakes:
        raise ImportRejected(sorted(mistakes))

    yield DROP_WORDS, {"books": books}
    yield DROP_QUESTIONS, {"books": books}
    changes = {}
    # Lines with an id come first, so that no new id equals the id of a line.
    for number, line in sorted(valid.items(), key=lambda item: item[1].id is None):
        is_new = line.id not in known[line.kind]
        changes[number] = Change(is_new, line.kind, (yield from storing_line(line, is_new)), line.name)
    return [changes[number] for number in valid]


def check_lines(
    lines: dict[int, CatalogueLine],
    modules: set[int] | None,
    assigned: set[int],
    without_questions: set[tuple[Any, ...]],
) -> Iterator[Mistake]:
    """At most one mistake per line. The modules of books are checked only if `modules` are given."""
    module_ids = set(modules or ())
    seen = set()
    for number, line in lines.items():
        if line.id is not None:
            if (line.kind, line.id) in seen:
                yield Mistake(number, f"id: {line.id} is the id of an earlier line")
                continue
            seen.add((line.kind, line.id))
        if isinstance(line, CatalogueModule):
            if line.id is not None:
                module_ids.add(line.id)
        elif modules is not None and line.module_id not in module_ids:
            yield Mistake(number, f"moduleId: {line.module_id} does not exist before this line")
        elif line.id in assigned and (
            (line.id, line.module_id, line.name, line.is_test) not in without_questions
        ):
            yield Mistake(number, f"id: book {line.id} was assigned and cannot be changed")


def storing_line(line: CatalogueLine, is_new: bool) -> Steps[int]:
    """Stores the line and returns its id."""
    values: Values = {"id": line.id, "name": line.name}
    if isinstance(line, CatalogueBook):
        values |= {"module": line.module_id, "is_test": line.is_test, "retired": line.retire_date}
    row_id = line.id
    if row_id is None:
        row_id = (yield ADD[line.kind], values)[0][0]
    elif is_new:
        yield from reserving_ids(line.kind, [row_id])
        yield ADD_NUMBERED[line.kind], values
    else:
        yield CHANGE[line.kind], values
    assert row_id is not None
    if isinstance(line, CatalogueBook):
        yield Bulk("book_word", COLUMNS["book_word"], [(word, row_id) for word in words_of(line.name)])
        yield Bulk("question", COLUMNS["question"], list(question_rows(row_id, line.questions)))
    return row_id


def retiring(book_id: int, now: datetime) -> Steps[None]:
    """Prevents new assignments of the book; a retired book keeps its date."""
    if not (yield RETIRE_BOOK, {"id": book_id, "now": now}):
        raise NoSuchBook(book_id)


def restoring(book_id: int) -> Steps[None]:
    if not (yield RESTORE_BOOK, {"id": book_id}):
        raise NoSuchBook(book_id)


# The members of a question, with their columns.
QUESTION_MEMBERS = {
    member_of(column): column.name
    for column in QUESTION.columns
    if column.name not in ("id", "book_id", "position")
}
SHOWN = Selection(
    frozenset({"id", "module_id", "name", "is_test", "retire_date"}),
    (Link("questions", Selection(frozenset(QUESTION_MEMBERS.values()))),),
)


def showing(book_id: int, now: datetime) -> Steps[Row]:
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
    record = {member: getattr(question, column) for member, column in QUESTION_MEMBERS.items()}
    return {name: value for name, value in record.items() if value is not None}
