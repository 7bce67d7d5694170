"""The `books` commands."""

from typing import BinaryIO

import click
import orjson

from app.care.books import BookFilter, finding_books
from app.care.context import utc_now
from app.cli.common import NUMBER, Group, on_database, on_record, settings_or_warn
from app.db.admin.books import (
    Change,
    as_record,
    importing_books,
    restoring,
    retiring,
    showing,
)
from app.db.admin.importing import ImportRefused
from app.db.audit.records import BOOKS, About
from app.db.moments import as_moment
from app.db.reader.reads import Page, Row
from app.db.reader.selection import Link, PageRequest, Selection

EVERY = 2**31 - 2  # a catalogue is small enough for one page
LISTED = Selection(
    frozenset({"id", "name", "module_id", "is_test", "retire_date"}),
    (Link("module", Selection(frozenset({"name"}))),),
)


@click.group(cls=Group)
def books() -> None:
    """Manage the catalogue of books."""


@books.command("list")
@click.option("--search", metavar="TEXT", help="Prefixes of words in the name.")
@click.option("--module", type=NUMBER, metavar="ID", help="Only books of this module.")
@click.option("--retired", is_flag=True, help="Only retired books.")
def list_books(search: str | None, module: int | None, retired: bool) -> None:
    """List books, newest first: id, name, module, test, retirement date."""
    filter = BookFilter(search, module, is_retired=retired)
    operation = finding_books(utc_now(), filter, PageRequest(first=EVERY), LISTED)
    page: Page = on_database(settings_or_warn(), lambda db: db.read(operation))
    for book in page.rows:
        click.echo("\t".join(cells_of(book)))


def cells_of(book: Row) -> list[str]:
    retired = as_moment(book.retire_date)
    return [
        str(book.id),
        on_one_line(book.name),
        f"{book.module_id} {on_one_line(book.module.name)}",
        "test" if book.is_test else "-",
        f"retired {retired:%Y-%m-%d}" if retired else "-",
    ]


def on_one_line(name: str) -> str:
    return " ".join(name.split())


@books.command("show")
@click.argument("book", type=NUMBER, metavar="ID")
def show_book(book: int) -> None:
    """Print a book in the format of `books import`."""
    found = on_database(settings_or_warn(), lambda db: db.read(showing(book, utc_now())))
    click.echo(orjson.dumps(as_record(found), option=orjson.OPT_UTC_Z))


def about_book(*books: int) -> About:
    return [(None, None, {BOOKS: list(books)})]


def about_books(changes: list[Change]) -> About:
    return about_book(*(change.id for change in changes if change.kind == "book"))


@books.command("import")
@click.argument("file", type=click.File("rb"))
def import_books(file: BinaryIO) -> None:
    """Add and replace modules and books from JSON Lines, in one transaction."""
    settings = settings_or_warn()
    try:
        changes = on_database(
            settings, lambda db: db.write(on_record("books import", importing_books(file), about_books))
        )
    except ImportRefused as refusal:
        raise ImportRefused.of_file(file.name, refusal) from None
    for change in changes:
        verb = "added" if change.is_new else "replaced"
        click.echo(f"{verb}\t{change.kind}\t{change.id}\t{on_one_line(change.name)}")


@books.command("retire")
@click.argument("book", type=NUMBER, metavar="ID")
def retire_book(book: int) -> None:
    """Retire a book: it cannot be assigned anymore; existing assignments stay."""
    retired = on_record("books retire", retiring(book, utc_now()), lambda _: about_book(book))
    on_database(settings_or_warn(), lambda db: db.write(retired))
    click.echo(f"book {book} is retired: it cannot be assigned anymore; existing assignments stay")


@books.command("restore")
@click.argument("book", type=NUMBER, metavar="ID")
def restore_book(book: int) -> None:
    """Make a retired book assignable again."""
    restored = on_record("books restore", restoring(book), lambda _: about_book(book))
    on_database(settings_or_warn(), lambda db: db.write(restored))
    click.echo(f"book {book} can be assigned")
