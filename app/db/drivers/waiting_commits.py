"""Commits that wait for a synchronous standby."""

from sqlalchemy import text

from app.db.sql import DATABASE_KIND, Statement, Steps

# Of the account of the service; of others it sees no `wait_event`.
WAITING_COMMITS = Statement(
    text(
        "SELECT count(*), coalesce(extract(epoch FROM max(clock_timestamp() - query_start)), 0)::float"
        " FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    )
)


def reading_waiting_commits() -> Steps[tuple[int, float]]:
    """The number of commits that wait, and the seconds since the first began to; 0 on SQLite."""
    if (yield DATABASE_KIND)[0] == "sqlite":
        return 0, 0.0
    [[number, seconds]] = yield WAITING_COMMITS, {}
    return number, seconds
