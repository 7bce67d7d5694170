"""Faults of the service that the checker has to find. Each is planted at the start of a process."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from app.care import answers, assignment_changes, context
from app.care.idempotency import Outcome
from app.db.drivers import postgres
from app.db.drivers.batches import run_batch
from app.db.drivers.interface import OutcomeUnknown
from app.db.sql import Repeatable, Statement, Step, Together, mapping_steps
from app.db.statements import dispatch, sessions

OFTEN = 0.1
NOTHING = Statement(text("SELECT 1"))


def without_check(module: Any, name: str) -> None:
    setattr(module, name, lambda *_, **__: None)


def stale_drafts_are_saved() -> None:
    without_check(answers, "reject_stale")


def submissions_are_replaced() -> None:
    without_check(answers, "reject_unless_pending")


def withdrawn_although_submitted() -> None:
    without_check(assignment_changes, "reject_unless_pending")


def keys_are_not_looked_up() -> None:
    def performing(request: Any, now: Any, steps: Repeatable[Any]) -> Any:
        def begin() -> Any:
            return (yield from steps), Outcome.PERFORMED

        return Repeatable(begin)

    context.performing_once = performing  # type: ignore[assignment]


def changes_are_not_recorded() -> None:
    context.recorded = lambda steps, record_of: steps  # type: ignore[assignment]


def planting(change: Callable[[Step], Step]) -> None:
    """Maps the steps of each change."""
    write = postgres.PostgresDatabase.write

    async def planted(self: Any, steps: Any) -> Any:
        return await write(self, Repeatable(lambda: mapping_steps(steps, change)))

    postgres.PostgresDatabase.write = planted  # type: ignore[method-assign]


def without(step: Step, is_left_out: Callable[[Any], bool]) -> Step:
    if not isinstance(step, Together):
        return step
    kept = tuple(each for each in step.changes if not is_left_out(each[0]))
    return step._replace(changes=kept) if kept else step


def events_get_lost() -> None:
    planting(lambda step: without(step, lambda each: each.adds_events and random.random() < OFTEN))


def events_are_added_twice() -> None:
    def twice(step: Step) -> Step:
        if isinstance(step, Together) and random.random() < OFTEN:
            again = tuple(each for each in step.changes if each[0].adds_events)
            return step._replace(changes=(*step.changes, *again))
        return step

    planting(twice)


def locks_are_not_taken() -> None:
    run_step = postgres.run_step

    async def without_lock(connection: Any, kind: Any, step: Any) -> Any:
        return await run_step(Unlocking(connection), kind, step)

    postgres.run_step = without_lock


class Connection:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


class Unlocking(Connection):
    """Removes the locks from statements."""

    async def fetch(self, sql: str, *values: Any) -> Any:
        return await self.connection.fetch(unlocked(sql), *values)

    async def fetchmany(self, sql: str, runs: Any) -> Any:
        return await self.connection.fetchmany(unlocked(sql), runs)


def unlocked(sql: str) -> str:
    return sql.replace("FOR NO KEY UPDATE", "").replace("FOR UPDATE", "").replace("FOR SHARE", "")


def each_statement_is_a_transaction() -> None:
    init = postgres.PostgresDatabase.__init__

    def planted(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self.begin_change = "SELECT 1"

    postgres.PostgresDatabase.__init__ = planted  # type: ignore[method-assign]


def acknowledged_changes_are_rolled_back() -> None:
    confirm = postgres.PostgresDatabase.confirm

    async def planted(self: Any, connection: Any, commit: Any) -> Any:
        if random.random() < OFTEN:
            commit.close()
            return await connection.execute("ROLLBACK")
        return await confirm(self, connection, commit)

    postgres.PostgresDatabase.confirm = planted  # type: ignore[method-assign]


def answered_before_the_commit() -> None:
    """The next user of the connection waits; others may read the state before."""
    confirm = postgres.PostgresDatabase.confirm
    take = postgres.PostgresDatabase.take_connection
    waiting: dict[Any, asyncio.Task[Any]] = {}

    async def later(connection: Any, commit: Any) -> Any:
        await asyncio.sleep(0.02)
        return await commit

    async def planted(self: Any, connection: Any, commit: Any) -> Any:
        if not asyncio.iscoroutine(commit) or commit.__name__ != "execute":
            return await confirm(self, connection, commit)
        waiting[connection] = asyncio.create_task(later(connection, commit))
        return None

    async def taken(self: Any) -> Any:
        connection = await take(self)
        if task := waiting.pop(connection, None):
            await task
        return connection

    postgres.PostgresDatabase.confirm = planted  # type: ignore[method-assign]
    postgres.PostgresDatabase.take_connection = taken  # type: ignore[method-assign]


def rows_are_delivered_to_another_request() -> None:
    class Rotating(Connection):
        async def fetchmany(self, sql: str, runs: Any) -> Any:
            found = await self.connection.fetchmany(sql, runs)
            return [(row[0], *found[at - 1][1:]) for at, row in enumerate(found)]

    async def planted(connection: Any, *others: Any) -> None:
        await run_batch(Rotating(connection), *others)

    postgres.run_batch = planted


def batches_are_delivered_before_their_commit() -> None:
    async def planted(connection: Any, items: Any, confirm: Any = None) -> None:
        if confirm is None:
            return await run_batch(connection, items)
        await connection.execute("BEGIN")
        try:
            await run_batch(connection, items, confirm)
            await asyncio.sleep(0.02)
        finally:
            await connection.execute("COMMIT")

    postgres.run_batch = planted  # type: ignore[assignment]


def homework_is_added_again_after_an_unknown_outcome() -> None:
    run_fast_path = postgres.PostgresDatabase.run_fast_path

    async def planted(self: Any, step: Any) -> Any:
        try:
            rows = await run_fast_path(self, step)
        except OutcomeUnknown:
            return []
        return [] if random.random() < OFTEN else rows  # more responses get lost

    postgres.PostgresDatabase.run_fast_path = planted  # type: ignore[method-assign]


def leaving_out(*statements: Any) -> None:
    """Of changes, and of the dispatcher."""

    def change(step: Step) -> Step:
        return (NOTHING, {}) if isinstance(step, tuple) and step[0] in statements else step

    planting(change)


def reminders_do_not_move_with_their_session() -> None:
    leaving_out(sessions.MOVE_REMINDERS)


def due_reminders_are_sent_without_an_event() -> None:
    leaving_out(dispatch.INSERT_REMINDER_EVENTS)


FAULTS: dict[str, Callable[[], None]] = {
    "stale drafts are saved": stale_drafts_are_saved,
    "submissions are replaced": submissions_are_replaced,
    "withdrawn although submitted": withdrawn_although_submitted,
    "keys are not looked up": keys_are_not_looked_up,
    "changes are not recorded": changes_are_not_recorded,
    "events get lost": events_get_lost,
    "events are added twice": events_are_added_twice,
    "locks are not taken": locks_are_not_taken,
    "each statement is a transaction": each_statement_is_a_transaction,
    "acknowledged changes are rolled back": acknowledged_changes_are_rolled_back,
    "answered before the commit": answered_before_the_commit,
    "rows are delivered to another request": rows_are_delivered_to_another_request,
    "batches are delivered before their commit": batches_are_delivered_before_their_commit,
    "homework is added again after an unknown outcome": homework_is_added_again_after_an_unknown_outcome,
    "reminders do not move with their session": reminders_do_not_move_with_their_session,
    "due reminders are sent without an event": due_reminders_are_sent_without_an_event,
}
