"""The book catalogue, which every signed-in viewer may read."""

from dataclasses import dataclass

from sqlalchemy import Boolean, ColumnElement, FromClause, bindparam, false, select

from app.care.context import Context
from app.care.errors import InvalidValue
from app.db.reader.reads import Page, Row, get_rows, list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where, equals
from app.db.sql import Steps, id_parameter, text_parameter
from app.db.statements.books import end_of, words_of
from app.db.tables import BOOK_WORD, Book

MAX_WORDS = 5
MAX_SEARCH = 320  # characters, of which normalization can make 18 times as many

is_of_module = equals("module_id", id_parameter("module"))
is_test_or_not = equals("is_test", bindparam("is_test", type_=Boolean))


def is_retired(book: FromClause) -> ColumnElement[bool]:
    return book.c.retire_date.is_not(None)


def is_current(book: FromClause) -> ColumnElement[bool]:
    """Lists leave out retired books; lookups by id and assignments still show them."""
    return book.c.retire_date.is_(None)


def is_nothing(book: FromClause) -> ColumnElement[bool]:
    return false()


@dataclass(frozen=True)
class HasWord:
    """A word of the name begins with the n-th search word: a range of the word index."""

    n: int

    def __call__(self, book: FromClause) -> ColumnElement[bool]:
        begins = BOOK_WORD.c.word >= text_parameter(f"word_{self.n}")
        ends = BOOK_WORD.c.word < text_parameter(f"word_{self.n}_end")
        return book.c.id.in_(select(BOOK_WORD.c.book_id).where(begins, ends))


@dataclass(frozen=True)
class BookFilter:
    search: str | None = None
    module_id: int | None = None
    is_test: bool | None = None
    is_retired: bool = False


async def list_books(
    ctx: Context, filter: BookFilter, page_request: PageRequest, selection: Selection
) -> Page:
    ctx.signed_in()
    access = AccessScope(ctx.now)
    return await ctx.read("books", access, finding_books(access, filter, page_request, selection))


def finding_books(
    access: AccessScope, filter: BookFilter, page_request: PageRequest, selection: Selection
) -> Steps[Page]:
    where = [Where(is_retired if filter.is_retired else is_current)]
    values: dict[str, object] = {"module": filter.module_id, "is_test": filter.is_test}
    if filter.module_id is not None:
        where.append(Where(is_of_module))
    if filter.is_test is not None:
        where.append(Where(is_test_or_not))
    search = (filter.search or "").strip()
    if len(search) > MAX_SEARCH:
        raise InvalidValue("search", f"may have at most {MAX_SEARCH} characters")
    words = words_of(search)
    if search and not words:
        where.append(Where(is_nothing))  # a search without letters and digits finds nothing
    if len(words) > MAX_WORDS:
        raise InvalidValue("search", f"may hold at most {MAX_WORDS} words")
    for n, word in enumerate(words):
        where.append(Where(HasWord(n)))
        values |= {f"word_{n}": word, f"word_{n}_end": end_of(word)}
    return list_rows(Book, access, page_request._replace(where=tuple(where), values=values), selection)


async def get_books(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    ctx.signed_in()
    access = AccessScope(ctx.now)
    return await ctx.read("book", access, get_rows(Book, access, ids, selection))
