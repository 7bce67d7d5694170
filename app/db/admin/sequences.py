"""Ids that come from elsewhere: from an import, or given before a restore. The database must not give such
an id to a new row, and must give no id twice.

On PostgreSQL a sequence belongs to no transaction. Between reading its last id and setting it, others take
ids, and setting it would move it backwards. So it is set under a lock for which `nextval` waits, and which
waits for the transactions that have taken ids. The rollback to the savepoint releases the lock; the last id
stays.
"""

from collections.abc import Collection

from sqlalchemy import BigInteger, bindparam, select, text

from app.db.drivers.interface import DatabaseError
from app.db.sql import DATABASE_KIND, Statement, Steps, among
from app.db.tables import LINE_TABLES

BEGIN_LOCK, END_LOCK = Statement(text("SAVEPOINT ids")), Statement(text("ROLLBACK TO SAVEPOINT ids"))
# Each savepoint that is not released holds a lock. PostgreSQL has memory for some thousands of locks.
END_SAVEPOINT = Statement(text("RELEASE SAVEPOINT ids"))


def of_newest(sql: str) -> Statement:
    return Statement(text(sql).bindparams(bindparam("newest", type_=BigInteger)))


def set_last_id(table: str) -> Statement:
    sequence = f"'{table}_id_seq'"
    return of_newest(
        f"SELECT setval({sequence}, newest) FROM (SELECT CAST(:newest AS BIGINT) AS newest) AS given"
        f" WHERE newest > coalesce(pg_sequence_last_value({sequence}), 0)"
    )


def skipping_ids(table: str, newest: int) -> Steps[None]:
    """Continues after `newest`, unless newer ids were given already."""
    kind, values = (yield DATABASE_KIND)[0], {"newest": newest}
    if kind == "sqlite":
        add = (
            f"INSERT INTO sqlite_sequence (name, seq) SELECT '{table}', 0"
            f" WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{table}')"
        )
        yield Statement(text(add)), {}
        yield of_newest(f"UPDATE sqlite_sequence SET seq = max(seq, :newest) WHERE name = '{table}'"), values
    elif kind == "citus":  # cannot lock a sequence in this way
        yield set_last_id(table), values
    else:
        yield BEGIN_LOCK, {}
        # Changes nothing; other statements that lock a sequence rewrite it, and the rollback would undo the
        # last id.
        yield Statement(text(f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}.id")), {}
        yield set_last_id(table), values
        yield END_LOCK, {}
        yield END_SAVEPOINT, {}


def reserving_ids(table: str, ids: Collection[int]) -> Steps[None]:
    """Keeps others from taking these ids, and raises DatabaseError if one is taken. SQLite has one writer,
    and continues after inserted ids by itself."""
    if (yield DATABASE_KIND)[0] == "sqlite":
        return
    yield from skipping_ids(table, max(ids))
    row_id = LINE_TABLES[table].c.id
    find_taken = Statement(select(row_id).where(among(row_id, "ids")).order_by(row_id).limit(1))
    if taken := (yield find_taken, {"ids": sorted(ids)}):
        raise DatabaseError(
            f"{table.replace('_', ' ')} {taken[0][0]} was added by another process meanwhile; nothing was "
            "imported: import again, or stop the service first"
        )
