"""Indexes of assignments by due date and of sessions by start, for lists in these orders."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

DUE = (
    "(CASE WHEN status = 'PENDING' THEN coalesce(end_date, '9999-12-30T00:00:00.000000Z')"
    " ELSE '9999-12-31T00:00:00.000000Z' END)"
)


def upgrade() -> None:
    for party in ("caregiver", "client"):
        op.create_index(f"ix_assignment_{party}_due", "assignment", [f"{party}_id", sa.text(DUE), "id"])
        op.create_index(f"ix_session_{party}_start", "session", [f"{party}_id", "start_date", "id"])
    if op.get_context().dialect.name == "sqlite":  # SQLite prefers the last of equally good indexes
        op.drop_index("ix_assignment_session", "assignment")
        op.create_index("ix_assignment_session", "assignment", ["session_id", "id"])


def downgrade() -> None:
    for party in ("caregiver", "client"):
        op.drop_index(f"ix_session_{party}_start", "session")
        op.drop_index(f"ix_assignment_{party}_due", "assignment")
