"""Drops two indexes of assignments, to make assigning cheaper. A book has a flag for whether it was ever
assigned, and the assignments of a client are sorted by due date when they are read."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

DUE = (
    "(CASE WHEN status = 'PENDING' THEN coalesce(end_date, '9999-12-30T00:00:00.000000Z')"
    " ELSE '9999-12-31T00:00:00.000000Z' END)"
)


def upgrade() -> None:
    op.add_column("book", sa.Column("is_assigned", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("UPDATE book SET is_assigned = true WHERE id IN (SELECT book_id FROM assignment)")
    op.drop_index("ix_assignment_book", "assignment")
    op.drop_index("ix_assignment_client_due", "assignment")


def downgrade() -> None:
    op.create_index("ix_assignment_book", "assignment", ["book_id"])
    op.create_index("ix_assignment_client_due", "assignment", ["client_id", sa.text(DUE), "id"])
    if op.get_context().dialect.name == "sqlite":  # SQLite prefers the last of equally good indexes
        op.drop_index("ix_assignment_session", "assignment")
        op.create_index("ix_assignment_session", "assignment", ["session_id", "id"])
    op.drop_column("book", "is_assigned")
