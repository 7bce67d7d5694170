"""The tables. Every row of a care relationship names its caregiver and its client (docs/decisions/0006)."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, Index, String, Text, UniqueConstraint, false, text
from sqlalchemy import Table as SqlTable
from sqlmodel import Field, SQLModel

from app.db.facts import Erased, Id, Place, about_table, code, distribution_key, party, stored
from app.db.moments import Moment

MAX_ID = 2**63 - 1  # of a BIGINT


class TimeState(StrEnum):
    RUNNING = "RUNNING"
    FUTURE = "FUTURE"
    COMPLETED = "COMPLETED"


class AssignmentStatus(StrEnum):
    PENDING = "PENDING"
    COMPLETE = "COMPLETE"


class FeedbackStatus(StrEnum):
    WAITING = "WAITING"
    SUBMITTED = "SUBMITTED"


class SaveType(StrEnum):
    FINAL = "FINAL"
    DRAFT = "DRAFT"
    AUTO_SAVE = "AUTO_SAVE"


class QuestionKind(StrEnum):
    TEXT = "TEXT"
    YES_NO = "YES_NO"
    NUMBER = "NUMBER"
    SINGLE_CHOICE = "SINGLE_CHOICE"
    MULTIPLE_CHOICE = "MULTIPLE_CHOICE"
    SCALE = "SCALE"


class ReminderState(StrEnum):
    SCHEDULED = "SCHEDULED"
    SENT = "SENT"
    SKIPPED = "SKIPPED"


class EventKind(StrEnum):
    SESSION_CREATED = "SESSION_CREATED"
    SESSION_UPDATED = "SESSION_UPDATED"
    SESSION_CLOSED = "SESSION_CLOSED"
    ASSIGNED = "ASSIGNED"
    EXTENDED = "EXTENDED"
    REMINDERS_SET = "REMINDERS_SET"
    WITHDRAWN = "WITHDRAWN"
    DRAFT_SAVED = "DRAFT_SAVED"
    SUBMITTED = "SUBMITTED"
    REOPENED = "REOPENED"
    FEEDBACK_GIVEN = "FEEDBACK_GIVEN"
    REMINDER_DUE = "REMINDER_DUE"
    CLIENT_ERASED = "CLIENT_ERASED"


class Actor(StrEnum):
    """The role that caused an event; the row of the event has the caregiver and the client."""

    CAREGIVER = "CAREGIVER"
    CLIENT = "CLIENT"
    SERVICE = "SERVICE"


class AuditActor(StrEnum):
    CAREGIVER = "CAREGIVER"
    CLIENT = "CLIENT"
    OPERATOR = "OPERATOR"


class Contract(StrEnum):
    """The interface of a request."""

    GRAPHQL = "GRAPHQL"
    LEGACY = "LEGACY"
    COMMAND = "COMMAND"


class DeliveryState(StrEnum):
    WAITING = "WAITING"
    DELIVERED = "DELIVERED"
    DEAD = "DEAD"


class TombstoneState(StrEnum):
    ERASED = "ERASED"  # for ever
    DISABLED = "DISABLED"
    ENABLED = "ENABLED"  # after it was disabled


# PostgreSQL checks that the text is JSON, and includes it in a larger document as it is.
Document = JSON().with_variant(Text(), "sqlite")

# Words must sort by code point on both databases, whatever the collation of PostgreSQL.
Word = String(64, collation="C").with_variant(String(64), "sqlite")

# Ids of deleted rows are never reused, because a link or a cursor to one must not lead to another row.
NEVER_REUSED: dict[str, Any] = {"sqlite_autoincrement": True}
# SQLite stores the rows in the order of their key, without a second index.
WITHOUT_ROWID: dict[str, Any] = {"sqlite_with_rowid": False}


def new_id() -> int:
    """An id that the database generates."""
    return Field(default=None, primary_key=True, sa_type=Id)  # type: ignore[no-any-return]


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


class Caregiver(SQLModel, table=True):
    __table_args__ = (NEVER_REUSED | about_table("caregiver", Place.EVERYWHERE),)
    id: int = new_id()
    name: str = stored(Text, erased=Erased.UNCHANGED, recorded=True)
    position: str = stored(Text, erased=Erased.UNCHANGED, recorded=True)
    user_name: str | None = stored(Text, erased=Erased.UNCHANGED, default=None, unique=True)
    is_disabled: bool = False


class Client(SQLModel, table=True):
    __table_args__ = (NEVER_REUSED | about_table("client", Place.EVERYWHERE),)
    id: int = new_id()
    name: str = stored(Text, erased="erased", recorded=True)
    oppt_id: str = stored(Text, erased=Erased.NUMBERED, recorded=True, unique=True)
    user_name: str | None = stored(Text, erased=Erased.NULL, default=None, unique=True)
    is_disabled: bool = False
    erase_date: datetime | None = stored(Moment, set_later=True, default=None)


class Module(SQLModel, table=True):
    __table_args__ = (NEVER_REUSED | about_table("module", Place.EVERYWHERE),)
    id: int = new_id()
    name: str = stored(Text, erased=Erased.UNCHANGED, recorded=True)


class Book(SQLModel, table=True):
    __table_args__ = (
        Index("ix_book_module", "module_id", "id"),
        NEVER_REUSED | about_table("book", Place.EVERYWHERE),
    )
    id: int = new_id()
    name: str = stored(Text, erased=Erased.UNCHANGED, recorded=True)
    module_id: int = stored(Id, recorded=True, foreign_key="module.id")
    is_test: bool = stored(recorded=True, default=False)
    # New assignments are not possible since then.
    retire_date: datetime | None = Field(default=None, sa_type=Moment)
    # Once true it stays true, and the book's questions never change.
    is_assigned: bool = stored(set_later=True, column={"server_default": false()})


class BookWord(SQLModel, table=True):
    """The folded words of a book's name, so that a search reads an index range on both databases."""

    __tablename__ = "book_word"
    __table_args__ = (WITHOUT_ROWID | about_table("book", Place.EVERYWHERE),)
    word: str = stored(Word, erased=Erased.UNCHANGED, primary_key=True)
    book_id: int = Field(primary_key=True, foreign_key="book.id", sa_type=Id)


class Question(SQLModel, table=True):
    __table_args__ = (
        Index("ix_question_book", "book_id", "position"),
        NEVER_REUSED | about_table("book", Place.EVERYWHERE),
    )
    id: int = new_id()
    book_id: int = Field(foreign_key="book.id", sa_type=Id)
    position: int
    text: str = stored(Text, erased=Erased.UNCHANGED)
    kind: str = code(default=QuestionKind.TEXT)
    options: list[str] = stored(JSON, erased=Erased.UNCHANGED, default_factory=list)
    is_required: bool = stored(member="required", default=False)
    minimum: float | None = None  # of a number
    maximum: float | None = None
    # Of a test: one per option.
    weights: list[int] | None = stored(JSON, erased=Erased.UNCHANGED, default=None)


class Relationship(SQLModel, table=True):
    """The caregivers of a client, for the relationship key of the client's statements."""

    __table_args__ = (Index("ix_relationship_caregiver", "caregiver_id", "client_id"), WITHOUT_ROWID)
    client_id: int = party(distributes=True, primary_key=True, foreign_key="client.id")
    caregiver_id: int = party(primary_key=True, foreign_key="caregiver.id")


class Session(SQLModel, table=True):
    __table_args__ = (
        Index("ix_session_caregiver", "caregiver_id", "id"),
        Index("ix_session_caregiver_open", "caregiver_id", "is_closed", "id"),
        Index("ix_session_client", "client_id", "id"),
        Index("ix_session_caregiver_start", "caregiver_id", "start_date", "id"),
        Index("ix_session_client_start", "client_id", "start_date", "id"),
        NEVER_REUSED | about_table("session"),
    )
    id: int = new_id()
    caregiver_id: int = party(distributes=True, recorded=True, fixed=True, foreign_key="caregiver.id")
    client_id: int = party(recorded=True, fixed=True, foreign_key="client.id")
    title: str = stored(Text, erased="", recorded=True)
    description: str = stored(Text, erased="", recorded=True)
    chat_id: str = stored(Text, erased=Erased.NUMBERED, recorded=True)
    create_date: datetime = stored(Moment, recorded=True)
    start_date: datetime = stored(Moment, recorded=True)
    is_closed: bool = stored(recorded=True, default=False)
    close_date: datetime | None = Field(default=None, sa_type=Moment)
    # Updated by the transaction that changes an assignment; `care-gateway verify` recomputes them.
    assignment_count: int = stored(exported=False, default=0)
    completed_assignment_count: int = stored(exported=False, default=0)
    latest_assignment_id: int | None = stored(Id, exported=False, set_later=True, default=None)
    last_assignment_score: int | None = stored(exported=False, set_later=True, default=None)


# The due date of an assignment as one indexed value: the end date of a pending assignment, WITHOUT_END if it
# has none, and NEVER_DUE after submission. `due_of` in entities.py is the same expression. NEVER_DUE is not
# the last day of the calendar, which asyncpg sends as infinity.
WITHOUT_END = "9999-12-30T00:00:00.000000Z"
NEVER_DUE = "9999-12-31T00:00:00.000000Z"
DUE = text(f"(CASE WHEN status = 'PENDING' THEN coalesce(end_date, '{WITHOUT_END}') ELSE '{NEVER_DUE}' END)")


class Assignment(SQLModel, table=True):
    __table_args__ = (
        Index("ix_assignment_caregiver", "caregiver_id", "id"),
        Index("ix_assignment_client", "client_id", "id"),
        Index("ix_assignment_caregiver_due", "caregiver_id", DUE, "id"),
        Index("ix_assignment_session", "session_id", "id"),  # last: SQLite prefers it to equally good indexes
        NEVER_REUSED | about_table("assignment"),
    )
    id: int = new_id()
    caregiver_id: int = party(distributes=True)
    client_id: int = party()
    session_id: int = stored(Id, recorded=True, fixed=True, foreign_key="session.id")
    book_id: int = stored(Id, recorded=True, fixed=True, foreign_key="book.id")
    assign_date: datetime = stored(Moment, recorded=True)
    start_date: datetime = stored(Moment, recorded=True)
    end_date: datetime | None = Field(default=None, sa_type=Moment)
    submit_date: datetime | None = stored(Moment, recorded=True, default=None)
    status: str = code(recorded=True, default=AssignmentStatus.PENDING)
    attempt: int = 1
    score: int = stored(recorded=True, default=0)
    feedback_status: str = code(recorded=True, default=FeedbackStatus.WAITING)
    feedback_submit_date: datetime | None = stored(Moment, recorded=True, default=None)
    # Reads skip withdrawn assignments; only operator commands find them.
    withdraw_date: datetime | None = stored(Moment, set_later=True, default=None)


class Reminder(SQLModel, table=True):
    __table_args__ = (
        Index("ix_reminder_assignment", "assignment_id", "remind_date"),
        partial_index("ix_reminder_due", "remind_date", "caregiver_id", where="state = 'SCHEDULED'"),
        NEVER_REUSED | about_table("assignment"),
    )
    id: int = new_id()
    caregiver_id: int = party(distributes=True)
    client_id: int = party()
    assignment_id: int = Field(foreign_key="assignment.id", sa_type=Id)
    remind_date: datetime = Field(sa_type=Moment)
    state: str = code(default=ReminderState.SCHEDULED)


class AnswerSet(SQLModel, table=True):
    """One submission per attempt and one draft per assignment: the database rejects a second one."""

    __tablename__ = "answer_set"
    __table_args__ = (
        partial_index(
            "uq_answer_set_submission", "assignment_id", "attempt", where="save_type = 'FINAL'", unique=True
        ),
        partial_index("uq_answer_set_draft", "assignment_id", where="save_type <> 'FINAL'", unique=True),
        Index("ix_answer_set_assignment", "assignment_id", "id"),
        Index("ix_answer_set_caregiver", "caregiver_id", "id"),
        Index("ix_answer_set_client", "client_id", "id"),
        NEVER_REUSED | about_table("answer_set"),
    )
    id: int = new_id()
    caregiver_id: int = party(distributes=True)
    client_id: int = party()
    assignment_id: int = Field(foreign_key="assignment.id", sa_type=Id)
    save_type: str = code(default=SaveType.FINAL)
    attempt: int = 1
    revision: int = 1
    submit_date: datetime | None = Field(default=None, sa_type=Moment)
    score: int | None = None  # of a submission; the feedback's score if there is one
    own_score: int | None = None  # computed from the book's weights
    # db/answers.py has the form. The last column, so that SQLite reads the others without this text.
    answers: str = stored(Document, erased=Erased.ANSWERS, column={"server_default": "[]"})


class Feedback(SQLModel, table=True):
    __table_args__ = (
        UniqueConstraint("answer_set_id"),
        Index("ix_feedback_assignment", "assignment_id", "id"),
        NEVER_REUSED,
    )
    id: int = new_id()
    caregiver_id: int = party(distributes=True)
    client_id: int = party()
    assignment_id: int = Field(foreign_key="assignment.id", sa_type=Id)
    answer_set_id: int = Field(foreign_key="answer_set.id", sa_type=Id)
    text: str = stored(Text, erased="")
    score: int | None = None
    submit_date: datetime = Field(sa_type=Moment)


class Event(SQLModel, table=True):
    """The outbox: events, inserted by the transaction of the change."""

    __table_args__ = (
        Index("ix_event_caregiver", "caregiver_id", "id"),
        Index("ix_event_client", "client_id", "id"),
        partial_index("ix_event_waiting", "moment", "caregiver_id", where="hand_over_date IS NULL"),
        NEVER_REUSED,
    )
    id: int = new_id()
    caregiver_id: int = party(distributes=True)
    client_id: int = party()
    kind: str = code()
    actor: str | None = code(default=None)
    session_id: int = Field(sa_type=Id)
    assignment_id: int | None = Field(default=None, sa_type=Id)
    reminder_id: int | None = Field(default=None, sa_type=Id)
    moment: datetime = Field(sa_type=Moment)
    # When its delivery was created, if a webhook exists.
    hand_over_date: datetime | None = stored(Moment, exported=False, default=None)


class EventRemoval(SQLModel, table=True):
    """The last event that retention has removed; one row or none."""

    __tablename__ = "event_removal"
    __table_args__ = (WITHOUT_ROWID,)
    last_event_id: int = Field(primary_key=True, sa_type=Id, sa_column_kwargs={"autoincrement": False})
    moment: datetime = Field(sa_type=Moment)


class Delivery(SQLModel, table=True):
    """The delivery of an event to the webhook."""

    __table_args__ = (Index("ix_delivery_due", "state", "next_date", "caregiver_id"), WITHOUT_ROWID)
    event_id: int = Field(primary_key=True, foreign_key="event.id", sa_type=Id)
    caregiver_id: int = party(distributes=True)
    client_id: int = party()
    state: str = code(default=DeliveryState.WAITING)
    attempts: int = 0
    next_date: datetime = Field(sa_type=Moment)  # of the next attempt, or of the removal after delivery
    # The response of the webhook, or the reason why there is none.
    last_answer: str | None = stored(Text, erased=Erased.NULL, exported=False, default=None)


class IdempotencyKey(SQLModel, table=True):
    """An Idempotency-Key with its first response, which repeated requests receive too."""

    __tablename__ = "idempotency_key"
    __table_args__ = (
        Index("ix_idempotency_key_moment", "moment"),
        WITHOUT_ROWID | about_table(place=Place.COORDINATOR),
    )
    role: str = code(primary_key=True)
    viewer_id: int = Field(primary_key=True, sa_type=Id)
    contract: str = code(primary_key=True)
    key: str = code(primary_key=True)
    fingerprint: str = code()  # of the request, to detect another request with the same key
    result: str = stored(Text, erased=Erased.UNCHANGED)  # of the change, as JSON, to build the response again
    status: int | None = None  # 0: the response is not stored, because a client was erased after the claim
    body: str | None = stored(Text, erased=Erased.NULL, exported=False, default=None)
    moment: datetime = Field(sa_type=Moment)


class AuditRecord(SQLModel, table=True):
    """Who read a person's answers or changed data. Append-only: the database rejects updates and deletes.

    It has no index except the key, so that inserts are cheap; AuditEntry is the index of the records.
    """

    __tablename__ = "audit_record"
    __table_args__ = (about_table(place=Place.COORDINATOR),)
    id: int = new_id()
    moment: datetime = Field(sa_type=Moment)
    actor: str = code()
    actor_id: int | None = Field(default=None, sa_type=Id)  # an operator has none
    contract: str = code()
    operation: str = code()
    outcome: str = code()  # DONE or an error code
    about: str = stored(Text, erased=Erased.UNCHANGED)  # JSON: relationships and their rows
    request_id: str = code()


class AuditSeal(SQLModel, table=True):
    """A seal of the records: a hash over the previous seal and the records since."""

    __tablename__ = "audit_seal"
    id: int = new_id()
    last_record_id: int = Field(sa_type=Id)
    record_count: int
    moment: datetime = Field(sa_type=Moment)
    hash: str = code()


class AuditCheckpoint(SQLModel, table=True):
    """The last removed seal of a removal of audit records. Append-only; each has an audit record."""

    __tablename__ = "audit_checkpoint"
    __table_args__ = (WITHOUT_ROWID,)
    seal_id: int = Field(primary_key=True, sa_type=Id, sa_column_kwargs={"autoincrement": False})
    last_record_id: int = Field(sa_type=Id)
    hash: str = code()  # of that seal, on which the next seal builds
    record_count: int = Field(sa_type=BigInteger)  # removed by this removal
    seal_count: int = Field(sa_type=BigInteger)
    seal_date: datetime = Field(sa_type=Moment)
    moment: datetime = Field(sa_type=Moment)


class AuditEntry(SQLModel, table=True):
    """Finds the records of a relationship; inserted when the records are sealed."""

    __tablename__ = "audit_entry"
    __table_args__ = (WITHOUT_ROWID,)
    caregiver_id: int = Field(primary_key=True, sa_type=Id)
    client_id: int = Field(primary_key=True, sa_type=Id)
    record_id: int = Field(primary_key=True, sa_type=Id)


class LegacyUsage(SQLModel, table=True):
    """Calls of a legacy path, or with a deprecated part of the GraphQL schema, by an application on a day; no
    users are stored."""

    __tablename__ = "legacy_usage"
    __table_args__ = (WITHOUT_ROWID,)
    day: str = code(primary_key=True)  # in UTC, such as 2026-11-21
    path: str = code(primary_key=True)  # with the HTTP method; or a schema coordinate
    role: str = code(primary_key=True)  # empty without a valid token
    application: str = code(primary_key=True)
    requests: int = Field(sa_type=BigInteger)
    last_date: datetime = Field(sa_type=Moment)


class LegacyHour(SQLModel, table=True):
    """The minutes of an hour in which calls were counted from their beginning to their end."""

    __tablename__ = "legacy_hour"
    __table_args__ = (WITHOUT_ROWID,)
    hour: str = code(primary_key=True)  # in UTC, such as 2026-11-21T09
    minutes: int = Field(sa_type=BigInteger)  # bit 0: the first minute


class ImportedRow(SQLModel, table=True):
    """What the last imported recording says about a row, so that a later import finds what has changed since.

    `fingerprint` is empty after the erasure of the client: such a row is never imported again. Rows of kinds
    that are no tables are marks: the moment of the newest recording, open conflicts, and the switch.
    """

    __tablename__ = "imported_row"
    __table_args__ = (
        Index("ix_imported_row_client", "client_id"),
        WITHOUT_ROWID | about_table(place=Place.COORDINATOR),
    )
    kind: str = code(primary_key=True)
    id: int = Field(primary_key=True, sa_type=Id, sa_column_kwargs={"autoincrement": False})
    client_id: int | None = Field(default=None, sa_type=Id)
    fingerprint: str = stored(erased="", exported=False)


class Tombstone(SQLModel, table=True):
    """What operators have decided about a person last. Every restore and import obeys it, also if the person
    is missing here."""

    __tablename__ = "tombstone"
    __table_args__ = (WITHOUT_ROWID | about_table(place=Place.COORDINATOR),)
    role: str = code(primary_key=True)
    id: int = Field(primary_key=True, sa_type=Id, sa_column_kwargs={"autoincrement": False})
    state: str = code()
    moment: datetime = Field(sa_type=Moment)


Table = type[SQLModel]


def table_of(model: Table) -> SqlTable:
    """SQLAlchemy's table behind a SQLModel class."""
    return model.__table__  # type: ignore[attr-defined, no-any-return]


# --- all tables -----------------------------------------------------------------------------------

TABLES = tuple(SQLModel.metadata.tables.values())  # parents before children
# Of the rows of care relationships, which name the caregiver and the client.
CARE_TABLES: tuple[Table, ...] = tuple(
    model for model in SQLModel.__subclasses__() if distribution_key(table_of(model)) == "caregiver_id"
)
IMPORTED_TABLES = tuple(table for table in TABLES if table.info.get("line"))
# By the kind of the lines that have the id of the row.
LINE_TABLES = {table.name: table for table in IMPORTED_TABLES if table.info["line"] == table.name}
PEOPLE = {kind: table for kind, table in LINE_TABLES.items() if "user_name" in table.c}  # with accounts

# The tables in statements.
CAREGIVER, CLIENT, RELATIONSHIP = table_of(Caregiver), table_of(Client), table_of(Relationship)
MODULE, BOOK, BOOK_WORD = table_of(Module), table_of(Book), table_of(BookWord)
QUESTION, SESSION, ASSIGNMENT = table_of(Question), table_of(Session), table_of(Assignment)
REMINDER, ANSWER_SET, FEEDBACK = table_of(Reminder), table_of(AnswerSet), table_of(Feedback)
EVENT, EVENT_REMOVAL, DELIVERY = table_of(Event), table_of(EventRemoval), table_of(Delivery)
AUDIT_RECORD, AUDIT_SEAL = table_of(AuditRecord), table_of(AuditSeal)
AUDIT_CHECKPOINT, AUDIT_ENTRY = table_of(AuditCheckpoint), table_of(AuditEntry)
IDEMPOTENCY_KEY, IMPORTED_ROW = table_of(IdempotencyKey), table_of(ImportedRow)
TOMBSTONE = table_of(Tombstone)
LEGACY_USAGE, LEGACY_HOUR = table_of(LegacyUsage), table_of(LegacyHour)
