"""One submission per attempt, one draft per assignment; and an index that finds the assignments of a book."""

import sqlalchemy as sa
from alembic import op

from app.db.drivers.interface import DatabaseError

revision = "0005"
down_revision = "0004"

TABLE = "answer_set"
UNIQUE = {
    "uq_answer_set_submission": (["assignment_id", "attempt"], "save_type = 'FINAL'"),
    "uq_answer_set_draft": (["assignment_id"], "save_type <> 'FINAL'"),
}
MEANING = {
    "uq_answer_set_submission": "two FINAL answer sets for one attempt",
    "uq_answer_set_draft": "two drafts for one assignment",
}
MAX_NAMED = 20  # assignments in the message


def upgrade() -> None:
    refuse_violations()
    for name, (keys, where) in UNIQUE.items():
        condition = sa.text(where)
        op.create_index(name, TABLE, keys, unique=True, sqlite_where=condition, postgresql_where=condition)
    op.create_index("ix_assignment_book", "assignment", ["book_id"])


def refuse_violations() -> None:
    """The operator must decide which of several sets counts."""
    found = []
    for name, (keys, where) in UNIQUE.items():
        rows = op.get_bind().execute(
            sa.text(
                f"SELECT DISTINCT assignment_id FROM (SELECT assignment_id FROM {TABLE} WHERE {where}"
                f" GROUP BY {', '.join(keys)} HAVING count(*) > 1) AS twice ORDER BY assignment_id"
            )
        )
        if ids := [row[0] for row in rows]:
            found.append(f"{MEANING[name]} ({list_ids(ids)})")
    if found:
        raise DatabaseError(
            f"nothing was changed: the database has {' and '.join(found)}; keep one row of answer_set "
            "for each, and delete the others with their rows of answer and feedback. "
            "Then run `care-gateway migrate` again"
        )


def list_ids(ids: list[int]) -> str:
    more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    return f"assignments {', '.join(map(str, ids[:MAX_NAMED]))}{more}"


def downgrade() -> None:
    op.drop_index("ix_assignment_book", "assignment")
    for name in UNIQUE:
        op.drop_index(name, TABLE)
