"""Names the table of the idempotency keys after them."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.rename_table("kept_answer", "idempotency_key")
    if op.get_context().dialect.name == "sqlite":  # it cannot rename an index, and its keys have no names
        op.drop_index("ix_kept_answer_moment", "idempotency_key")
        op.create_index("ix_idempotency_key_moment", "idempotency_key", ["moment"])
    else:
        op.execute("ALTER INDEX ix_kept_answer_moment RENAME TO ix_idempotency_key_moment")
        op.execute("ALTER INDEX kept_answer_pkey RENAME TO idempotency_key_pkey")
