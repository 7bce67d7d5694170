"""Tombstones of erased clients and of disabled accounts."""

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import ID, MOMENT, STRING, required

revision = "0011"
down_revision = "0010"

UNKNOWN = "1970-01-01T00:00:00.000000Z"  # when an account was disabled


def upgrade() -> None:
    op.create_table(
        "tombstone",
        *required(role=STRING),
        sa.Column("id", ID, autoincrement=False, nullable=False),
        *required(state=STRING, moment=MOMENT),
        sa.PrimaryKeyConstraint("role", "id"),
        sqlite_with_rowid=False,
    )
    unknown = f"'{UNKNOWN}'" if op.get_context().dialect.name == "sqlite" else f"timestamptz '{UNKNOWN}'"
    op.execute(
        "INSERT INTO tombstone (role, id, state, moment)"
        " SELECT 'CLIENT', id, 'ERASED', erase_date FROM client WHERE erase_date IS NOT NULL"
        f" UNION ALL SELECT 'CLIENT', id, 'DISABLED', {unknown} FROM client"
        " WHERE is_disabled AND erase_date IS NULL"
        f" UNION ALL SELECT 'CAREGIVER', id, 'DISABLED', {unknown} FROM caregiver WHERE is_disabled"
    )
