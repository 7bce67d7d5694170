"""The book catalogue, which every signed-in viewer may read."""

from dataclasses import dataclass, replace
from datetime import datetime

from app.care.context import Context
from app.care.errors import Unreadable
from app.db.reader.reads import Page, Row, get_rows, list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.sql import Operation
from app.db.statements.books import end_of, words_of
from app.db.statements.conditions import (
    HasWord,
    is_current,
    is_nothing,
    is_of_module,
    is_retired,
    is_test_or_not,
)
from app.db.tables import Book

MAX_WORDS = 5


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
    return await ctx.db.read(finding_books(ctx.now, filter, page_request, selection))


def finding_books(
    now: datetime, filter: BookFilter, page_request: PageRequest, selection: Selection
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
        where.append(Where(is_nothing))  # a search without letters and digits finds nothing
    if len(words) > MAX_WORDS:
        raise Unreadable("search", f"may hold at most {MAX_WORDS} words")
    for n, word in enumerate(words):
        where.append(Where(HasWord(n)))
        values |= {f"word_{n}": word, f"word_{n}_end": end_of(word)}
    return list_rows(
        Book, AccessScope(now), replace(page_request, where=tuple(where), values=values), selection
    )


async def get_books(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    ctx.signed_in()
    return await ctx.db.read(get_rows(Book, AccessScope(ctx.now), ids, selection))
