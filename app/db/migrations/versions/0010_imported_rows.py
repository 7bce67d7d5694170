"""Fingerprints of imported rows, for the import of a later recording."""

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import ID, STRING, optional, required

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "imported_row",
        *required(kind=STRING),
        sa.Column("id", ID, autoincrement=False, nullable=False),
        *optional(client_id=ID),
        *required(fingerprint=STRING),
        sa.PrimaryKeyConstraint("kind", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_imported_row_client", "imported_row", ["client_id"])


def downgrade() -> None:
    op.drop_table("imported_row")
