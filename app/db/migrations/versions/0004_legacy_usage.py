"""Counts of the calls of each legacy path by day and application, and the start of the counting."""

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import BIGINT, MOMENT, STRING, required

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "legacy_usage",
        *required(day=STRING, path=STRING, role=STRING, application=STRING, requests=BIGINT),
        *required(last_date=MOMENT),
        sa.PrimaryKeyConstraint("day", "path", "role", "application"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "legacy_day",
        *required(day=STRING, since=MOMENT),
        sa.PrimaryKeyConstraint("day"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("legacy_day")
    op.drop_table("legacy_usage")
