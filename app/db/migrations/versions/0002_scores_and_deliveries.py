"""Scores of submissions, withdrawal, erasure, retirement, deliveries and idempotency keys."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import ID, INTEGER, MOMENT, STRING, TEXT, optional, reference, required

revision = "0002"
down_revision = "0001"

# All are nullable, because SQLite adds such columns without copying the table.
COLUMNS: dict[str, dict[str, Any]] = {
    "client": {"erase_date": MOMENT},
    "book": {"retire_date": MOMENT},
    "question": {"minimum": sa.Float(), "maximum": sa.Float(), "weights": sa.JSON()},
    "assignment": {"withdraw_date": MOMENT},
    "answer_set": {"score": sa.Integer(), "own_score": sa.Integer()},
    "answer": {"question_id": ID},
    "event": {"actor": sa.String(), "reminder_id": ID, "hand_over_date": MOMENT},
}
PARTIAL = {
    "reminder": ("ix_reminder_due", ["remind_date", "caregiver_id"], "state = 'SCHEDULED'"),
    "event": ("ix_event_waiting", ["moment", "caregiver_id"], "hand_over_date IS NULL"),
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for name, kind in columns.items():
            op.add_column(table, sa.Column(name, kind, nullable=True))
    # Only caregivers caused events before this version, and old events are not delivered.
    op.execute("UPDATE event SET actor = 'CAREGIVER', hand_over_date = moment")
    op.execute(
        "UPDATE answer_set SET score = (SELECT a.score FROM assignment a"
        " JOIN book b ON b.id = a.book_id"
        " WHERE a.id = answer_set.assignment_id AND a.attempt = answer_set.attempt AND a.status = 'COMPLETE'"
        " AND (b.is_test OR a.score <> 0))"
        " WHERE save_type = 'FINAL'"
    )
    op.execute("UPDATE answer_set SET own_score = score")
    op.create_table(
        "delivery",
        *required(event_id=ID, caregiver_id=ID, client_id=ID, state=STRING, attempts=INTEGER),
        *required(next_date=MOMENT),
        *optional(last_answer=TEXT),
        reference("event"),
        sa.PrimaryKeyConstraint("event_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "kept_answer",
        *required(role=STRING, viewer_id=ID, contract=STRING, key=STRING, fingerprint=STRING, result=TEXT),
        *optional(status=INTEGER, body=TEXT),
        *required(moment=MOMENT),
        sa.PrimaryKeyConstraint("role", "viewer_id", "contract", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_delivery_due", "delivery", ["state", "next_date", "caregiver_id"])
    op.create_index("ix_kept_answer_moment", "kept_answer", ["moment"])
    op.create_index("ix_relationship_caregiver", "relationship", ["caregiver_id", "client_id"])
    op.create_index("ix_answer_set_caregiver", "answer_set", ["caregiver_id", "id"])
    op.create_index("ix_answer_set_client", "answer_set", ["client_id", "id"])
    op.create_index("ix_event_client", "event", ["client_id", "id"])
    for table, (name, keys, where) in PARTIAL.items():
        op.create_index(name, table, keys, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def downgrade() -> None:
    for table, (name, *_) in PARTIAL.items():
        op.drop_index(name, table)
    op.drop_index("ix_event_client", "event")
    op.drop_index("ix_answer_set_client", "answer_set")
    op.drop_index("ix_answer_set_caregiver", "answer_set")
    op.drop_index("ix_relationship_caregiver", "relationship")
    op.drop_table("kept_answer")
    op.drop_table("delivery")
    for table, columns in COLUMNS.items():
        for column in columns:
            op.drop_column(table, column)
