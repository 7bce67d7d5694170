"""What may happen at any time with PostgreSQL: connections end, responses get lost, statements are slow."""

import random
from collections.abc import Awaitable
from typing import Any

from app.db.drivers import postgres
from app.events import dispatcher, notifications
from app.schema.transport import subscriptions
from tests.db import raw
from tests.history.life import FIRSTS, LASTS

END_CONNECTIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
# Some changes end their own connection: within a batch or transaction, and at its commit.
OF_CALLERS = f"WHEN (new.session_id NOT IN {(*FIRSTS, *LASTS)}) EXECUTE FUNCTION end_connection()"
CHANGES_END_CONNECTIONS = (
    """CREATE FUNCTION end_connection() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF random() < 0.02 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN new; END $$""",
    f"CREATE TRIGGER within AFTER INSERT ON assignment FOR EACH ROW {OF_CALLERS}",
    "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON event DEFERRABLE INITIALLY DEFERRED"
    f" FOR EACH ROW {OF_CALLERS}",
)
# Some statements read books slowly, so that others run between their snapshot and their locks.
SLOW_BOOKS = (
    "ALTER TABLE book RENAME TO stored_book",
    """CREATE VIEW book AS SELECT * FROM stored_book WHERE random() < 0.9 OR pg_sleep(0.01) IS NOT NULL""",
)


def end_connections(url: str) -> None:
    raw.run(url, END_CONNECTIONS)


def disturb_statements(url: str) -> None:
    raw.run(url, *SLOW_BOOKS, *CHANGES_END_CONNECTIONS)


def disturb_process(share: float = 0.03) -> None:
    """The process that calls it loses this share of the responses to commits. After an error it soon works
    again."""
    dispatcher.ERROR_PAUSES = notifications.PAUSE_SECONDS = subscriptions.POLL_SECONDS = 1
    lose_responses_to_commits(share)


def lose_responses_to_commits(share: float) -> None:
    confirm = postgres.PostgresDatabase.confirm

    async def committing(commit: Awaitable[Any]) -> Any:
        found = await commit
        if random.random() < share:
            raise ConnectionResetError
        return found

    async def losing(self: Any, connection: Any, commit: Awaitable[Any]) -> Any:
        return await confirm(self, connection, committing(commit))

    postgres.PostgresDatabase.confirm = losing  # type: ignore[method-assign]
