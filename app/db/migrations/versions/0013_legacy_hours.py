"""The minutes in which calls of the legacy paths were counted, in place of days.

Of a day only one moment was known, so no minute of the days before is.
"""

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import STRING, required

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "legacy_hour",
        *required(hour=STRING, minutes=sa.BigInteger()),
        sa.PrimaryKeyConstraint("hour"),
        sqlite_with_rowid=False,
    )
    op.drop_table("legacy_day")
