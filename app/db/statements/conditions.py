"""The conditions of filters, for lists of assignments, submissions, books and clients."""

from dataclasses import dataclass

from sqlalchemy import Boolean, ColumnElement, FromClause, bindparam, exists, false, select

from app.db.sql import PerDatabase, id_parameter, moment_parameter, text_parameter
from app.db.tables import BOOK_WORD, RELATIONSHIP, SESSION

# --- assignments and submissions ------------------------------------------------------------------


def has_status(assignment: FromClause) -> ColumnElement[bool]:
    return assignment.c.status == text_parameter("status")


def is_in_session(assignment: FromClause) -> ColumnElement[bool]:
    return assignment.c.session_id == id_parameter("in_session")


def is_of_client(row: FromClause) -> ColumnElement[bool]:
    return row.c.client_id == id_parameter("of_client")


def is_of_book(assignment: FromClause) -> ColumnElement[bool]:
    return assignment.c.book_id == id_parameter("of_book")


def is_submitted_since(row: FromClause) -> ColumnElement[bool]:
    return row.c.submit_date >= moment_parameter("since")


def is_session(session: FromClause) -> ColumnElement[bool]:
    return session.c.id == id_parameter("in_session")


def all_of_session(session: FromClause) -> ColumnElement[int]:
    return session.c.assignment_count


def completed_of_session(session: FromClause) -> ColumnElement[int]:
    return session.c.completed_assignment_count


def pending_of_session(session: FromClause) -> ColumnElement[int]:
    return session.c.assignment_count - session.c.completed_assignment_count


# --- books ----------------------------------------------------------------------------------------


def is_of_module(book: FromClause) -> ColumnElement[bool]:
    return book.c.module_id == id_parameter("module")


def is_test_or_not(book: FromClause) -> ColumnElement[bool]:
    return book.c.is_test == bindparam("is_test", type_=Boolean)


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


# --- clients --------------------------------------------------------------------------------------


# Relationships are distributed by client. A caregiver has a session with every client, so the sessions of the
# caregiver, which one machine has, name the same clients.
IS_OF_CAREGIVER = SESSION.c.caregiver_id == id_parameter("caregiver")


def is_my_client(client: FromClause) -> ColumnElement[bool]:
    is_with_me = RELATIONSHIP.c.caregiver_id == id_parameter("caregiver")
    is_mine = client.c.id.in_(select(RELATIONSHIP.c.client_id).where(is_with_me))
    return PerDatabase(
        sqlite=is_mine,
        postgresql=is_mine,
        citus=client.c.id.in_(select(SESSION.c.client_id).where(IS_OF_CAREGIVER)),
    )


def is_known_client(client: FromClause) -> ColumnElement[bool]:
    """The same for clients that are found by their ids, without reading all clients of the caregiver."""
    is_related = is_relationship(id_parameter("caregiver"), client.c.id)
    return PerDatabase(
        sqlite=is_related,
        postgresql=is_related,
        citus=exists().where(IS_OF_CAREGIVER, SESSION.c.client_id == client.c.id),
    )


def is_known_caregiver(caregiver: FromClause) -> ColumnElement[bool]:
    return is_relationship(caregiver.c.id, id_parameter("client"))


def is_relationship(caregiver_id: ColumnElement[int], client_id: ColumnElement[int]) -> ColumnElement[bool]:
    return exists().where(RELATIONSHIP.c.caregiver_id == caregiver_id, RELATIONSHIP.c.client_id == client_id)
