"""The `books` commands."""

from typing import BinaryIO

import click
import orjson

from app.care.books import BookFilter, finding_books
from app.care.context import utc_now
from app.cli.common import ID, Group, audited, main, read_database, settings_or_warn, write_database
from app.db.admin.books import as_record, importing_books, restoring, retiring, showing
from app.db.audit.records import BOOKS, About
from app.db.interchange.load import ImportRejected
from app.db.moments import as_moment
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Link, PageRequest, Selection
from app.telemetry.wording import printable

NO_LIMIT = 2**31 - 2  # all books in one page; it reads one row more, and 2**31 - 1 is the maximum
LISTED = Selection(
    frozenset({"id", "name", "module_id", "is_test", "retire_date"}),
    (Link("module", Selection(frozenset({"name"}))),),
)


@main.group(cls=Group)
def books() -> None:
    """Manage the catalogue of books."""


@books.command("list")
@click.option("--search", metavar="TEXT", help="Prefixes of words in the name.")
@click.option("--module", type=ID, metavar="ID", help="Only books of this module.")
@click.option("--retired", is_flag=True, help="Only retired books.")
def list_books(search: str | None, module: int | None, retired: bool) -> None:
    """List books, newest first: id, name, module, test, retirement date."""
    filter = BookFilter(search, module, is_retired=retired)
    steps = finding_books(AccessScope(utc_now()), filter, PageRequest(first=NO_LIMIT), LISTED)
    for book in read_database(settings_or_warn(), steps).rows:
        click.echo("\t".join(columns_of(book)))


def columns_of(book: Row) -> list[str]:
    retired = as_moment(book.retire_date)
    return [
        str(book.id),
        printable(book.name),
        f"{book.module_id} {printable(book.module.name)}",
        "test" if book.is_test else "-",
        f"retired {retired:%Y-%m-%d}" if retired else "-",
    ]


@books.command("show")
@click.argument("book", type=ID, metavar="ID")
def show_book(book: int) -> None:
    """Print a book in the format of `books import`."""
    found = read_database(settings_or_warn(), showing(book, utc_now()))
    click.echo(orjson.dumps(as_record(found), option=orjson.OPT_UTC_Z))


def about(books: list[int]) -> About:
    return [(None, None, {BOOKS: books})]


@books.command("import")
@click.argument("file", type=click.File("rb"))
def import_books(file: BinaryIO) -> None:
    """Add and replace modules and books from JSON Lines, in one transaction."""
    steps = audited(
        "books import",
        importing_books(file.readlines()),
        lambda changes: about([change.id for change in changes if change.kind == "book"]),
    )
    try:
        changes = write_database(settings_or_warn(), steps)
    except ImportRejected as error:
        raise error.in_file(file.name) from None
    for change in changes:
        verb = "added" if change.is_new else "replaced"
        click.echo(f"{verb}\t{change.kind}\t{change.id}\t{printable(change.name)}")


@books.command("retire")
@click.argument("book", type=ID, metavar="ID")
def retire_book(book: int) -> None:
    """Retire a book: it cannot be assigned anymore; existing assignments stay."""
    steps = audited("books retire", retiring(book, utc_now()), lambda _: about([book]))
    write_database(settings_or_warn(), steps)
    click.echo(f"book {book} is retired: it cannot be assigned anymore; existing assignments stay")


@books.command("restore")
@click.argument("book", type=ID, metavar="ID")
def restore_book(book: int) -> None:
    """Make a retired book assignable again."""
    write_database(settings_or_warn(), audited("books restore", restoring(book), lambda _: about([book])))
    click.echo(f"book {book} can be assigned")
