"""The book catalogue, which every signed-in viewer may read."""

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Boolean, ColumnElement, FromClause, bindparam, false, select

from app.care.context import Context
from app.care.errors import Unreadable
from app.db.reader.entities import table_of
from app.db.reader.reads import Page, Row, get_rows, list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.sql import Operation, id_parameter, text_parameter
from app.db.tables import Book, BookWord
from app.db.words import end_of, words_of

MOST_WORDS = 5


@dataclass(frozen=True)
class BookFilter:
    search: str | None = None
    module_id: int | None = None
    is_test: bool | None = None
    is_retired: bool = False


def is_of_module(book: FromClause) -> ColumnElement[bool]:
    return book.c.module_id == id_parameter("module")


def is_test_or_not(book: FromClause) -> ColumnElement[bool]:
    return book.c.is_test == bindparam("is_test", type_=Boolean)


def is_retired(book: FromClause) -> ColumnElement[bool]:
    return book.c.retire_date.is_not(None)


def is_current(book: FromClause) -> ColumnElement[bool]:
    """A retired book is still looked up, and shown by what was assigned; it is only not found any more."""
    return book.c.retire_date.is_(None)


def is_nothing(book: FromClause) -> ColumnElement[bool]:
    return false()


@dataclass(frozen=True)
class HasWord:
    """The name has a word that begins like the n-th word searched for: a range of the word index."""

    n: int

    def __call__(self, book: FromClause) -> ColumnElement[bool]:
        words = table_of(BookWord)
        begins = words.c.word >= text_parameter(f"word_{self.n}")
        ends = words.c.word < text_parameter(f"word_{self.n}_end")
        return book.c.id.in_(select(words.c.book_id).where(begins, ends))


async def list_books(ctx: Context, filter: BookFilter, window: PageRequest, wanted: Selection) -> Page:
    ctx.signed_in()
    return await ctx.db.read(finding_books(ctx.now, filter, window, wanted))


def finding_books(
    now: datetime, filter: BookFilter, window: PageRequest, wanted: Selection
) -> Operation[Page]:
    where = [Where(is_retired if filter.is_retired else is_current)]
    values: dict[str, object] = {"module": filter.module_id, "is_test": filter.is_test}
    if filter.module_id is not None:
        where.append(Where(is_of_module))
    if filter.is_test is not None:
        where.append(Where(is_test_or_not))
    search = (filter.search or "").strip()
    words = words_of(search)
    if search and not words:
        where.append(Where(is_nothing))  # no name has a word that begins like no word
    if len(words) > MOST_WORDS:
        raise Unreadable("search", f"may hold at most {MOST_WORDS} words")
    for n, word in enumerate(words):
        where.append(Where(HasWord(n)))
        values |= {f"word_{n}": word, f"word_{n}_end": end_of(word)}
    return list_rows(Book, AccessScope(now), replace(window, where=tuple(where), values=values), wanted)


async def get_books(ctx: Context, ids: list[int], wanted: Selection) -> list[Row]:
    ctx.signed_in()
    return await ctx.db.read(get_rows(Book, AccessScope(ctx.now), ids, wanted))
