"""The audit log: append-only records, their seals, and the index entries of the records."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")

TABLES = ("audit_record", "audit_seal", "audit_entry")
REFUSAL = "the audit trail is only added to"


def upgrade() -> None:
    op.create_table(
        "audit_record",
        sa.Column("id", ID, nullable=False),
        sa.Column("moment", MOMENT, nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("actor_id", ID, nullable=True),
        sa.Column("contract", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "audit_seal",
        sa.Column("id", ID, nullable=False),
        sa.Column("last_record_id", ID, nullable=False),
        sa.Column("record_count", sa.Integer(), nullable=False),
        sa.Column("moment", MOMENT, nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "audit_entry",
        sa.Column("caregiver_id", ID, nullable=False),
        sa.Column("client_id", ID, nullable=False),
        sa.Column("record_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("caregiver_id", "client_id", "record_id"),
        sqlite_with_rowid=False,
    )
    if op.get_context().dialect.name == "sqlite":
        guard_on_sqlite()
    else:
        guard_on_postgresql()


def guard_on_sqlite() -> None:
    for table in TABLES:
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_{change.lower()} BEFORE {change} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
            )


def guard_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
    )
    for table in TABLES:
        op.execute(
            f"CREATE TRIGGER {table}_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
        )


def downgrade() -> None:
    """The triggers go with their tables."""
    for table in reversed(TABLES):
        op.drop_table(table)
    if op.get_context().dialect.name != "sqlite":
        op.execute("DROP FUNCTION refuse_audit_change()")
