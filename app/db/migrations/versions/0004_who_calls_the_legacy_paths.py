"""Counts of the calls of each legacy path by day and application, and the start of the counting."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "legacy_usage",
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("application", sa.String(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("last_date", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("day", "path", "role", "application"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "legacy_day",
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("day"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("legacy_day")
    op.drop_table("legacy_usage")
