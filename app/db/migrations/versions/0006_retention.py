"""Retention: checkpoints of removed audit records, and the last removed event."""

import sqlalchemy as sa
from alembic import op

from app.db.migrations.columns import BIGINT, ID, MOMENT, STRING, required

revision = "0006"
down_revision = "0005"

REFUSAL = "the audit trail is only added to"  # as in 0003
NO_SEAL = "a checkpoint names a seal that exists and is not the newest"
RECORD_OF = {"audit_record": "id", "audit_seal": "last_record_id", "audit_entry": "record_id"}
NEWEST_REMOVED = "coalesce((SELECT last_record_id FROM audit_checkpoint ORDER BY seal_id DESC LIMIT 1), 0)"
IS_NO_SEAL = """
    NOT EXISTS (
        SELECT 1 FROM audit_seal
        WHERE id = NEW.seal_id AND last_record_id = NEW.last_record_id AND hash = NEW.hash
        AND id < (SELECT max(id) FROM audit_seal)
    )
"""


def upgrade() -> None:
    op.create_table(
        "audit_checkpoint",
        sa.Column("seal_id", ID, autoincrement=False, nullable=False),
        *required(last_record_id=ID, hash=STRING, record_count=BIGINT, seal_count=BIGINT, seal_date=MOMENT),
        *required(moment=MOMENT),
        sa.PrimaryKeyConstraint("seal_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "event_removal",
        sa.Column("last_event_id", ID, autoincrement=False, nullable=False),
        *required(moment=MOMENT),
        sa.PrimaryKeyConstraint("last_event_id"),
        sqlite_with_rowid=False,
    )
    if op.get_context().dialect.name == "sqlite":
        guard_on_sqlite()
    else:
        guard_on_postgresql()


def guard_on_sqlite() -> None:
    for table, record in RECORD_OF.items():
        op.execute(f"DROP TRIGGER {table}_delete")
        op.execute(
            f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} WHEN OLD.{record} > {NEWEST_REMOVED}"
            f" BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_checkpoint_{change.lower()} BEFORE {change} ON audit_checkpoint"
            f" BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
    op.execute(
        f"CREATE TRIGGER audit_checkpoint_insert BEFORE INSERT ON audit_checkpoint WHEN {IS_NO_SEAL}"
        f" BEGIN SELECT RAISE(ABORT, '{NO_SEAL}'); END"
    )


def guard_on_postgresql() -> None:
    newest = " ".join(
        f"WHEN '{table}' THEN SELECT max({record}) INTO newest FROM removed;"
        for table, record in RECORD_OF.items()
    )
    op.execute(
        "CREATE FUNCTION refuse_audit_removal() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ DECLARE newest bigint; BEGIN CASE TG_TABLE_NAME {newest} END CASE;"
        f" IF newest > {NEWEST_REMOVED} THEN RAISE EXCEPTION '{REFUSAL}'; END IF; RETURN NULL; END $$"
    )
    op.execute(
        "CREATE FUNCTION refuse_audit_checkpoint() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF {IS_NO_SEAL} THEN RAISE EXCEPTION '{NO_SEAL}'; END IF; RETURN NEW; END $$"
    )
    for table in RECORD_OF:
        op.execute(f"DROP TRIGGER {table}_change ON {table}")
        op.execute(
            f"CREATE TRIGGER {table}_change BEFORE UPDATE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_removal AFTER DELETE ON {table} REFERENCING OLD TABLE AS removed"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_removal()"
        )
    op.execute(
        "CREATE TRIGGER audit_checkpoint_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_checkpoint"
        " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
    )
    op.execute(
        "CREATE TRIGGER audit_checkpoint_insert BEFORE INSERT ON audit_checkpoint"
        " FOR EACH ROW EXECUTE FUNCTION refuse_audit_checkpoint()"
    )


def downgrade() -> None:
    """Removed records stay removed, and without checkpoints the chain no longer verifies."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    for table in RECORD_OF:
        if is_sqlite:
            op.execute(f"DROP TRIGGER {table}_delete")
            op.execute(
                f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
            )
        else:
            op.execute(f"DROP TRIGGER {table}_change ON {table}")
            op.execute(f"DROP TRIGGER {table}_removal ON {table}")
            op.execute(
                f"CREATE TRIGGER {table}_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
                " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
            )
    op.drop_table("event_removal")
    op.drop_table("audit_checkpoint")
    if not is_sqlite:
        op.execute("DROP FUNCTION refuse_audit_removal()")
        op.execute("DROP FUNCTION refuse_audit_checkpoint()")
