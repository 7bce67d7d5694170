"""The tables of 1.0.0-rc1, without tombstones."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import (
    BIGINT,
    BOOLEAN,
    ID,
    INTEGER,
    JSON,
    MOMENT,
    STRING,
    TEXT,
    WORD,
    optional,
    reference,
    required,
)

revision = "0010"
down_revision = None

NUMBERED: dict[str, Any] = {"sqlite_autoincrement": True}
WITHOUT_ROWID: dict[str, Any] = {"sqlite_with_rowid": False}
PARTIES = {"caregiver_id": ID, "client_id": ID}
DUE = sa.text(
    "(CASE WHEN status = 'PENDING' THEN coalesce(end_date, '9999-12-30T00:00:00.000000Z')"
    " ELSE '9999-12-31T00:00:00.000000Z' END)"
)
APPEND_ONLY = "the audit trail is only added to"
NO_SEAL = "a checkpoint names a seal that exists and is not the newest"
RECORD_OF = {"audit_record": "id", "audit_seal": "last_record_id", "audit_entry": "record_id"}
NEWEST_REMOVED = "coalesce((SELECT last_record_id FROM audit_checkpoint ORDER BY seal_id DESC LIMIT 1), 0)"
IS_NO_SEAL = """
    NOT EXISTS (
        SELECT 1 FROM audit_seal
        WHERE id = NEW.seal_id AND last_record_id = NEW.last_record_id AND hash = NEW.hash
        AND id < (SELECT max(id) FROM audit_seal)
    )
"""


def upgrade() -> None:
    create_people_and_books()
    create_care()
    create_outbox()
    create_audit_log()
    create_rows_of_the_service()


def create(table: str, *parts: Any, key: str = "id", **options: Any) -> None:
    op.create_table(table, *parts, sa.PrimaryKeyConstraint(*key.split(", ")), **options)


def given_id(name: str) -> sa.Column[Any]:
    """An id that the database does not generate."""
    return sa.Column(name, ID, autoincrement=False, nullable=False)


def partial_index(name: str, table: str, columns: list[str], where: str, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def create_people_and_books() -> None:
    create(
        "caregiver",
        *required(id=ID, name=TEXT, position=TEXT),
        *optional(user_name=TEXT),
        *required(is_disabled=BOOLEAN),
        sa.UniqueConstraint("user_name"),
        **NUMBERED,
    )
    create(
        "client",
        *required(id=ID, name=TEXT, oppt_id=TEXT),
        *optional(user_name=TEXT),
        *required(is_disabled=BOOLEAN),
        *optional(erase_date=MOMENT),
        sa.UniqueConstraint("oppt_id"),
        sa.UniqueConstraint("user_name"),
        **NUMBERED,
    )
    create(
        "relationship",
        *required(client_id=ID, caregiver_id=ID),
        reference("caregiver"),
        reference("client"),
        key="client_id, caregiver_id",
        **WITHOUT_ROWID,
    )
    op.create_index("ix_relationship_caregiver", "relationship", ["caregiver_id", "client_id"])
    create("module", *required(id=ID, name=TEXT), **NUMBERED)
    create(
        "book",
        *required(id=ID, module_id=ID, name=TEXT, is_test=BOOLEAN),
        *optional(retire_date=MOMENT),
        sa.Column("is_assigned", BOOLEAN, nullable=False, server_default=sa.false()),
        reference("module"),
        **NUMBERED,
    )
    op.create_index("ix_book_module", "book", ["module_id", "id"])
    create(
        "book_word",
        *required(word=WORD, book_id=ID),
        reference("book"),
        key="word, book_id",
        **WITHOUT_ROWID,
    )
    create(
        "question",
        *required(id=ID, book_id=ID, position=INTEGER, text=TEXT, kind=STRING, options=JSON),
        *required(is_required=BOOLEAN),
        *optional(minimum=sa.Float(), maximum=sa.Float(), weights=JSON),
        reference("book"),
        **NUMBERED,
    )
    op.create_index("ix_question_book", "question", ["book_id", "position"])


def create_care() -> None:
    create(
        "session",
        *required(id=ID, **PARTIES, title=TEXT, description=TEXT, chat_id=TEXT),
        *required(create_date=MOMENT, start_date=MOMENT, is_closed=BOOLEAN),
        *optional(close_date=MOMENT),
        *required(assignment_count=INTEGER, completed_assignment_count=INTEGER),
        *optional(latest_assignment_id=ID, last_assignment_score=INTEGER),
        reference("caregiver"),
        reference("client"),
        **NUMBERED,
    )
    op.create_index("ix_session_caregiver", "session", ["caregiver_id", "id"])
    op.create_index("ix_session_caregiver_open", "session", ["caregiver_id", "is_closed", "id"])
    op.create_index("ix_session_client", "session", ["client_id", "id"])
    op.create_index("ix_session_caregiver_start", "session", ["caregiver_id", "start_date", "id"])
    op.create_index("ix_session_client_start", "session", ["client_id", "start_date", "id"])
    create(
        "assignment",
        *required(id=ID, **PARTIES, session_id=ID, book_id=ID, assign_date=MOMENT, start_date=MOMENT),
        *optional(end_date=MOMENT, submit_date=MOMENT),
        *required(status=STRING, attempt=INTEGER, score=INTEGER, feedback_status=STRING),
        *optional(feedback_submit_date=MOMENT, withdraw_date=MOMENT),
        reference("book"),
        reference("session"),
        **NUMBERED,
    )
    op.create_index("ix_assignment_caregiver", "assignment", ["caregiver_id", "id"])
    op.create_index("ix_assignment_client", "assignment", ["client_id", "id"])
    op.create_index("ix_assignment_caregiver_due", "assignment", ["caregiver_id", DUE, "id"])
    # The last one, because SQLite prefers it to equally good indexes.
    op.create_index("ix_assignment_session", "assignment", ["session_id", "id"])
    create(
        "reminder",
        *required(id=ID, **PARTIES, assignment_id=ID, remind_date=MOMENT, state=STRING),
        reference("assignment"),
        **NUMBERED,
    )
    op.create_index("ix_reminder_assignment", "reminder", ["assignment_id", "remind_date"])
    partial_index("ix_reminder_due", "reminder", ["remind_date", "caregiver_id"], "state = 'SCHEDULED'")
    create(
        "answer_set",
        *required(id=ID, **PARTIES, assignment_id=ID, save_type=STRING, attempt=INTEGER, revision=INTEGER),
        *optional(submit_date=MOMENT, score=INTEGER, own_score=INTEGER),
        sa.Column("answers", JSON.with_variant(TEXT, "sqlite"), nullable=False, server_default="[]"),
        reference("assignment"),
        **NUMBERED,
    )
    op.create_index("ix_answer_set_assignment", "answer_set", ["assignment_id", "id"])
    op.create_index("ix_answer_set_caregiver", "answer_set", ["caregiver_id", "id"])
    op.create_index("ix_answer_set_client", "answer_set", ["client_id", "id"])
    submitted, draft = "save_type = 'FINAL'", "save_type <> 'FINAL'"
    partial_index("uq_answer_set_submission", "answer_set", ["assignment_id", "attempt"], submitted, True)
    partial_index("uq_answer_set_draft", "answer_set", ["assignment_id"], draft, True)
    create(
        "feedback",
        *required(id=ID, **PARTIES, assignment_id=ID, answer_set_id=ID, text=TEXT),
        *optional(score=INTEGER),
        *required(submit_date=MOMENT),
        reference("answer_set"),
        reference("assignment"),
        sa.UniqueConstraint("answer_set_id"),
        **NUMBERED,
    )
    op.create_index("ix_feedback_assignment", "feedback", ["assignment_id", "id"])


def create_outbox() -> None:
    create(
        "event",
        *required(id=ID, **PARTIES, kind=STRING, session_id=ID),
        *optional(assignment_id=ID),
        *required(moment=MOMENT),
        *optional(actor=STRING, reminder_id=ID, hand_over_date=MOMENT),
        **NUMBERED,
    )
    op.create_index("ix_event_caregiver", "event", ["caregiver_id", "id"])
    op.create_index("ix_event_client", "event", ["client_id", "id"])
    partial_index("ix_event_waiting", "event", ["moment", "caregiver_id"], "hand_over_date IS NULL")
    removal = (given_id("last_event_id"), *required(moment=MOMENT))
    create("event_removal", *removal, key="last_event_id", **WITHOUT_ROWID)
    create(
        "delivery",
        *required(event_id=ID, **PARTIES, state=STRING, attempts=INTEGER, next_date=MOMENT),
        *optional(last_answer=TEXT),
        reference("event"),
        key="event_id",
        **WITHOUT_ROWID,
    )
    op.create_index("ix_delivery_due", "delivery", ["state", "next_date", "caregiver_id"])


def create_rows_of_the_service() -> None:
    create(
        "kept_answer",
        *required(role=STRING, viewer_id=ID, contract=STRING, key=STRING, fingerprint=STRING, result=TEXT),
        *optional(status=INTEGER, body=TEXT),
        *required(moment=MOMENT),
        key="role, viewer_id, contract, key",
        **WITHOUT_ROWID,
    )
    op.create_index("ix_kept_answer_moment", "kept_answer", ["moment"])
    create(
        "legacy_usage",
        *required(day=STRING, path=STRING, role=STRING, application=STRING, requests=BIGINT),
        *required(last_date=MOMENT),
        key="day, path, role, application",
        **WITHOUT_ROWID,
    )
    create("legacy_day", *required(day=STRING, since=MOMENT), key="day", **WITHOUT_ROWID)
    create(
        "imported_row",
        *required(kind=STRING),
        given_id("id"),
        *optional(client_id=ID),
        *required(fingerprint=STRING),
        key="kind, id",
        **WITHOUT_ROWID,
    )
    op.create_index("ix_imported_row_client", "imported_row", ["client_id"])


# --- the audit log --------------------------------------------------------------------------------


def create_audit_log() -> None:
    create(
        "audit_record",
        *required(id=ID, moment=MOMENT, actor=STRING),
        *optional(actor_id=ID),
        *required(contract=STRING, operation=STRING, outcome=STRING, about=TEXT, request_id=STRING),
    )
    create(
        "audit_seal",
        *required(id=ID, last_record_id=ID, record_count=INTEGER, moment=MOMENT, hash=STRING),
    )
    create(
        "audit_entry",
        *required(**PARTIES, record_id=ID),
        key="caregiver_id, client_id, record_id",
        **WITHOUT_ROWID,
    )
    create(
        "audit_checkpoint",
        given_id("seal_id"),
        *required(last_record_id=ID, hash=STRING, record_count=BIGINT, seal_count=BIGINT, seal_date=MOMENT),
        *required(moment=MOMENT),
        key="seal_id",
        **WITHOUT_ROWID,
    )
    if op.get_context().dialect.name == "sqlite":
        guard_on_sqlite()
    else:
        guard_on_postgresql()


def guard_on_sqlite() -> None:
    def reject(name: str, event: str, when: str = "", message: str = APPEND_ONLY) -> None:
        op.execute(f"CREATE TRIGGER {name} BEFORE {event}{when} BEGIN SELECT RAISE(ABORT, '{message}'); END")

    for table, record in RECORD_OF.items():
        reject(f"{table}_update", f"UPDATE ON {table}")
        reject(f"{table}_delete", f"DELETE ON {table}", f" WHEN OLD.{record} > {NEWEST_REMOVED}")
    for change in ("UPDATE", "DELETE"):
        reject(f"audit_checkpoint_{change.lower()}", f"{change} ON audit_checkpoint")
    reject("audit_checkpoint_insert", "INSERT ON audit_checkpoint", f" WHEN {IS_NO_SEAL}", NO_SEAL)


def guard_on_postgresql() -> None:
    newest = " ".join(
        f"WHEN '{table}' THEN SELECT max({record}) INTO newest FROM removed;"
        for table, record in RECORD_OF.items()
    )
    op.execute(
        "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}'; END $$"
    )
    op.execute(
        "CREATE FUNCTION refuse_audit_removal() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ DECLARE newest bigint; BEGIN CASE TG_TABLE_NAME {newest} END CASE;"
        f" IF newest > {NEWEST_REMOVED} THEN RAISE EXCEPTION '{APPEND_ONLY}'; END IF; RETURN NULL; END $$"
    )
    op.execute(
        "CREATE FUNCTION refuse_audit_checkpoint() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF {IS_NO_SEAL} THEN RAISE EXCEPTION '{NO_SEAL}'; END IF; RETURN NEW; END $$"
    )
    for table in RECORD_OF:
        op.execute(
            f"CREATE TRIGGER {table}_change BEFORE UPDATE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_removal AFTER DELETE ON {table} REFERENCING OLD TABLE AS removed"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_removal()"
        )
    op.execute(
        "CREATE TRIGGER audit_checkpoint_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_checkpoint"
        " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
    )
    op.execute(
        "CREATE TRIGGER audit_checkpoint_insert BEFORE INSERT ON audit_checkpoint"
        " FOR EACH ROW EXECUTE FUNCTION refuse_audit_checkpoint()"
    )
