"""The tables, as they were at first."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Written out here, not imported: a migration must stay what it was when the tables go on changing.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "caregiver",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=True),
        sa.Column("is_disabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "client",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("oppt_id", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=True),
        sa.Column("is_disabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("oppt_id"),
        sa.UniqueConstraint("user_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "event",
        sa.Column("id", ID, nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("assignment_id", ID, nullable=True),
        sa.Column("moment", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_event_caregiver", "event", ["caregiver_id", "id"], unique=False)
    op.create_table(
        "module",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "book",
        sa.Column("id", ID, nullable=False),
        sa.Column("module_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_test", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["module_id"], ["module.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_book_module", "book", ["module_id", "id"], unique=False)
    op.create_table(
        "relationship",
        sa.Column("client_id", ID, nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["caregiver_id"], ["caregiver.id"]),
        sa.ForeignKeyConstraint(["client_id"], ["client.id"]),
        sa.PrimaryKeyConstraint("client_id", "caregiver_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "session",
        sa.Column("id", ID, nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("create_date", MOMENT, nullable=False),
        sa.Column("start_date", MOMENT, nullable=False),
        sa.Column("is_closed", sa.Boolean(), nullable=False),
        sa.Column("close_date", MOMENT, nullable=True),
        sa.Column("assignment_count", sa.Integer(), nullable=False),
        sa.Column("completed_assignment_count", sa.Integer(), nullable=False),
        sa.Column("latest_assignment_id", ID, nullable=True),
        sa.Column("last_assignment_score", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["caregiver_id"], ["caregiver.id"]),
        sa.ForeignKeyConstraint(["client_id"], ["client.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_session_caregiver", "session", ["caregiver_id", "id"], unique=False)
    op.create_index("ix_session_caregiver_open", "session", ["caregiver_id", "is_closed", "id"], unique=False)
    op.create_index("ix_session_client", "session", ["client_id", "id"], unique=False)
    op.create_table(
        "assignment",
        sa.Column("id", ID, nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("book_id", ID, nullable=False),
        sa.Column("assign_date", MOMENT, nullable=False),
        sa.Column("start_date", MOMENT, nullable=False),
        sa.Column("end_date", MOMENT, nullable=True),
        sa.Column("submit_date", MOMENT, nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("score", sa.Integer(), nullable=False),
        sa.Column("feedback_status", sa.String(), nullable=False),
        sa.Column("feedback_submit_date", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["book_id"], ["book.id"]),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_assignment_caregiver", "assignment", ["caregiver_id", "id"], unique=False)
    op.create_index("ix_assignment_client", "assignment", ["client_id", "id"], unique=False)
    op.create_index("ix_assignment_session", "assignment", ["session_id", "id"], unique=False)
    op.create_table(
        "book_word",
        sa.Column(
            "word",
            sa.String(length=64, collation="C").with_variant(sa.String(length=64), "sqlite"),
            nullable=False,
        ),
        sa.Column("book_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["book_id"], ["book.id"]),
        sa.PrimaryKeyConstraint("word", "book_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "question",
        sa.Column("id", ID, nullable=False),
        sa.Column("book_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("is_required", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["book_id"], ["book.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_question_book", "question", ["book_id", "position"], unique=False)
    op.create_table(
        "answer_set",
        sa.Column("id", ID, nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("assignment_id", ID, nullable=False),
        sa.Column("save_type", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("submit_date", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_answer_set_assignment", "answer_set", ["assignment_id", "id"], unique=False)
    op.create_table(
        "reminder",
        sa.Column("id", ID, nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("assignment_id", ID, nullable=False),
        sa.Column("remind_date", MOMENT, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_reminder_assignment", "reminder", ["assignment_id", "remind_date"], unique=False)
    op.create_table(
        "answer",
        sa.Column("answer_set_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("question_text", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["answer_set_id"], ["answer_set.id"]),
        sa.PrimaryKeyConstraint("answer_set_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "feedback",
        sa.Column("id", ID, nullable=False),
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("assignment_id", ID, nullable=False),
        sa.Column("answer_set_id", ID, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("score", sa.Integer(), nullable=True),
        sa.Column("submit_date", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["answer_set_id"], ["answer_set.id"]),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("answer_set_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_feedback_assignment", "feedback", ["assignment_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_table("feedback")
    op.drop_table("answer")
    op.drop_table("reminder")
    op.drop_table("answer_set")
    op.drop_table("question")
    op.drop_table("book_word")
    op.drop_table("assignment")
    op.drop_table("session")
    op.drop_table("relationship")
    op.drop_table("book")
    op.drop_table("module")
    op.drop_table("event")
    op.drop_table("client")
    op.drop_table("caregiver")
