"""Statements that add, replace, retire and restore modules and books."""

from sqlalchemy import Boolean, bindparam, delete, func, insert, null, select, update
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import table_of
from app.db.sql import (
    DatabaseKind,
    Statement,
    Values,
    among,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.tables import Book, BookWord, Module, Question

MODULE = table_of(Module)
BOOK = table_of(Book)
WORD = table_of(BookWord)
QUESTION = table_of(Question)


def lock_books(kind: DatabaseKind) -> ClauseElement:
    """Locks `books`, so that no other transaction assigns them."""
    return select(BOOK.c.id).where(among(BOOK.c.id, "books", kind)).order_by(BOOK.c.id).with_for_update()


def find_assigned(kind: DatabaseKind) -> ClauseElement:
    """The ids of `books` that were ever assigned; their questions cannot change."""
    return select(BOOK.c.id).where(among(BOOK.c.id, "books", kind), BOOK.c.is_assigned)


def find_bare(kind: DatabaseKind) -> ClauseElement:
    """Finds `books` without questions, as the legacy migration imports them."""
    questions = select(QUESTION.c.id).where(QUESTION.c.book_id == BOOK.c.id).exists()
    columns = (BOOK.c.id, BOOK.c.module_id, BOOK.c.name, BOOK.c.is_test)
    return select(*columns).where(among(BOOK.c.id, "books", kind), ~questions)


def of_book() -> Values:
    return {
        "module_id": id_parameter("module"),
        "name": text_parameter("name"),
        "is_test": bindparam("is_test", type_=Boolean),
    }


def change_book(kind: DatabaseKind) -> ClauseElement:
    retired = func.coalesce(moment_parameter("retired"), BOOK.c.retire_date)
    return update(BOOK).where(BOOK.c.id == id_parameter("id")).values(retire_date=retired, **of_book())


def add_book(kind: DatabaseKind) -> ClauseElement:
    return insert(BOOK).values(retire_date=moment_parameter("retired"), **of_book())


def add_numbered_book(kind: DatabaseKind) -> ClauseElement:
    return insert(BOOK).values(id=id_parameter("id"), retire_date=moment_parameter("retired"), **of_book())


def add_module(kind: DatabaseKind) -> ClauseElement:
    return insert(MODULE).values(name=text_parameter("name"))


def add_numbered_module(kind: DatabaseKind) -> ClauseElement:
    return insert(MODULE).values(id=id_parameter("id"), name=text_parameter("name"))


def change_module(kind: DatabaseKind) -> ClauseElement:
    name = text_parameter("name")
    return update(MODULE).where(MODULE.c.id == id_parameter("id")).values(name=name)


def retire_book(kind: DatabaseKind) -> ClauseElement:
    first = func.coalesce(BOOK.c.retire_date, moment_parameter("now"))
    return update(BOOK).where(BOOK.c.id == id_parameter("id")).values(retire_date=first).returning(BOOK.c.id)


def restore_book(kind: DatabaseKind) -> ClauseElement:
    changed = update(BOOK).where(BOOK.c.id == id_parameter("id")).values(retire_date=null())
    return changed.returning(BOOK.c.id)


FIND_MODULES = Statement(lambda kind: select(MODULE.c.id))
LOCK_BOOKS = Statement(lock_books)
FIND_ASSIGNED = Statement(find_assigned)
FIND_BARE = Statement(find_bare)
CHANGE = {"module": Statement(change_module), "book": Statement(change_book)}
ADD = {"module": Statement(add_module, gives_ids=True), "book": Statement(add_book, gives_ids=True)}
ADD_NUMBERED = {"module": Statement(add_numbered_module), "book": Statement(add_numbered_book)}
DROP_WORDS = Statement(lambda kind: delete(WORD).where(among(WORD.c.book_id, "books", kind)))
DROP_QUESTIONS = Statement(lambda kind: delete(QUESTION).where(among(QUESTION.c.book_id, "books", kind)))
RETIRE_BOOK = Statement(retire_book)
RESTORE_BOOK = Statement(restore_book)
