"""The audit log: append-only records, their seals, and the index entries of the records."""

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import ID, INTEGER, MOMENT, STRING, TEXT, optional, required

revision = "0003"
down_revision = "0002"

TABLES = ("audit_record", "audit_seal", "audit_entry")
REFUSAL = "the audit trail is only added to"


def upgrade() -> None:
    op.create_table(
        "audit_record",
        *required(id=ID, moment=MOMENT, actor=STRING),
        *optional(actor_id=ID),
        *required(contract=STRING, operation=STRING, outcome=STRING, about=TEXT, request_id=STRING),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "audit_seal",
        *required(id=ID, last_record_id=ID, record_count=INTEGER, moment=MOMENT, hash=STRING),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "audit_entry",
        *required(caregiver_id=ID, client_id=ID, record_id=ID),
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
