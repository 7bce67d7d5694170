"""The first tables."""

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import (
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

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "caregiver",
        *required(id=ID, name=TEXT, position=TEXT),
        *optional(user_name=TEXT),
        *required(is_disabled=BOOLEAN),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "client",
        *required(id=ID, name=TEXT, oppt_id=TEXT),
        *optional(user_name=TEXT),
        *required(is_disabled=BOOLEAN),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("oppt_id"),
        sa.UniqueConstraint("user_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "event",
        *required(id=ID, caregiver_id=ID, client_id=ID, kind=STRING, session_id=ID),
        *optional(assignment_id=ID),
        *required(moment=MOMENT),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_event_caregiver", "event", ["caregiver_id", "id"], unique=False)
    op.create_table(
        "module",
        *required(id=ID, name=TEXT),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "book",
        *required(id=ID, module_id=ID, name=TEXT, is_test=BOOLEAN),
        reference("module"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_book_module", "book", ["module_id", "id"], unique=False)
    op.create_table(
        "relationship",
        *required(client_id=ID, caregiver_id=ID),
        reference("caregiver"),
        reference("client"),
        sa.PrimaryKeyConstraint("client_id", "caregiver_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "session",
        *required(id=ID, caregiver_id=ID, client_id=ID, title=TEXT, description=TEXT, chat_id=TEXT),
        *required(create_date=MOMENT, start_date=MOMENT, is_closed=BOOLEAN),
        *optional(close_date=MOMENT),
        *required(assignment_count=INTEGER, completed_assignment_count=INTEGER),
        *optional(latest_assignment_id=ID, last_assignment_score=INTEGER),
        reference("caregiver"),
        reference("client"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_session_caregiver", "session", ["caregiver_id", "id"], unique=False)
    op.create_index("ix_session_caregiver_open", "session", ["caregiver_id", "is_closed", "id"], unique=False)
    op.create_index("ix_session_client", "session", ["client_id", "id"], unique=False)
    op.create_table(
        "assignment",
        *required(id=ID, caregiver_id=ID, client_id=ID, session_id=ID, book_id=ID, assign_date=MOMENT),
        *required(start_date=MOMENT),
        *optional(end_date=MOMENT, submit_date=MOMENT),
        *required(status=STRING, attempt=INTEGER, score=INTEGER, feedback_status=STRING),
        *optional(feedback_submit_date=MOMENT),
        reference("book"),
        reference("session"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_assignment_caregiver", "assignment", ["caregiver_id", "id"], unique=False)
    op.create_index("ix_assignment_client", "assignment", ["client_id", "id"], unique=False)
    op.create_index("ix_assignment_session", "assignment", ["session_id", "id"], unique=False)
    op.create_table(
        "book_word",
        *required(word=WORD, book_id=ID),
        reference("book"),
        sa.PrimaryKeyConstraint("word", "book_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "question",
        *required(id=ID, book_id=ID, position=INTEGER, text=TEXT, kind=STRING, options=JSON),
        *required(is_required=BOOLEAN),
        reference("book"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_question_book", "question", ["book_id", "position"], unique=False)
    op.create_table(
        "answer_set",
        *required(id=ID, caregiver_id=ID, client_id=ID, assignment_id=ID, save_type=STRING),
        *required(attempt=INTEGER, revision=INTEGER),
        *optional(submit_date=MOMENT),
        reference("assignment"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_answer_set_assignment", "answer_set", ["assignment_id", "id"], unique=False)
    op.create_table(
        "reminder",
        *required(id=ID, caregiver_id=ID, client_id=ID, assignment_id=ID, remind_date=MOMENT, state=STRING),
        reference("assignment"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_reminder_assignment", "reminder", ["assignment_id", "remind_date"], unique=False)
    op.create_table(
        "answer",
        *required(answer_set_id=ID, position=INTEGER, caregiver_id=ID, client_id=ID, question_text=TEXT),
        *required(answer=TEXT),
        reference("answer_set"),
        sa.PrimaryKeyConstraint("answer_set_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "feedback",
        *required(id=ID, caregiver_id=ID, client_id=ID, assignment_id=ID, answer_set_id=ID, text=TEXT),
        *optional(score=INTEGER),
        *required(submit_date=MOMENT),
        reference("answer_set"),
        reference("assignment"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("answer_set_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_feedback_assignment", "feedback", ["assignment_id", "id"], unique=False)


def downgrade() -> None:
    for table in (
        "feedback", "answer", "reminder", "answer_set", "question", "book_word", "assignment", "session",
        "relationship", "book", "module", "event", "client", "caregiver",
    ):  # fmt: skip
        op.drop_table(table)
