"""Promise: at the connections and threads of a database, a caller with many operations delays those of others
by one operation."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from threading import Event

import pytest

from app.db.drivers.batches import BatchItem
from app.db.drivers.fair_turns import CALLER, FairThreads, FairTurns, Waiter
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from app.db.drivers.postgres import WORKER
from tests.patience import PATIENCE

pytestmark = pytest.mark.sqlite_only


class Operations:
    """Operations that wait for a turn; `done` has their callers in the order of their turns."""

    def __init__(self) -> None:
        self.turns = FairTurns(1)
        self.done: list[str] = []

    async def run(self, caller: str) -> None:
        CALLER.state = {"budget": caller}  # until the first await that waits
        await self.turns.acquire()
        try:
            await asyncio.sleep(0)
            self.done.append(caller)
        finally:
            self.turns.release()

    def start(self, *callers: str) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.run(caller)) for caller in callers]


@pytest.fixture(autouse=True)
def without_caller() -> Iterator[None]:
    yield
    CALLER.state = None


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(limited())


def test_turns_pass_from_caller_to_caller() -> None:
    operations = Operations()

    async def main() -> None:
        await asyncio.gather(*operations.start("busy", "busy", "busy", "busy", "other", "third", "other"))

    run(main)

    assert operations.done == ["busy", "busy", "other", "third", "busy", "other", "busy"]
    assert (operations.turns.free, len(operations.turns.waiting.items)) == (1, 0)


def test_a_cancelled_operation_loses_no_turn() -> None:
    operations = Operations()

    async def main() -> None:
        running, waiting, last = operations.start("first", "second", "third")
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(running, waiting, last, return_exceptions=True)

    run(main)

    assert operations.done == ["first", "third"]
    assert (operations.turns.free, len(operations.turns.waiting.items)) == (1, 0)


def test_a_turn_that_comes_to_a_cancelled_operation_passes_on() -> None:
    turns = FairTurns(1)

    async def main() -> None:
        await turns.acquire()
        waiting, behind = (asyncio.create_task(turns.acquire()) for _ in range(2))
        await asyncio.sleep(0)
        turns.release()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await behind
        turns.release()

    run(main)

    assert (turns.free, len(turns.waiting.items)) == (1, 0)


@pytest.mark.parametrize("fault", [None, DatabaseUnavailable()], ids=["has run", "has failed"])
def test_a_cancelled_request_whose_statement_another_request_runs_gives_no_turn_back(
    fault: DatabaseUnavailable | None,
) -> None:
    turns, item = FairTurns(1), BatchItem("A")

    async def main() -> None:
        await turns.acquire()
        waiting = asyncio.create_task(turns.acquire(item))
        await asyncio.sleep(0)
        assert turns.take("A", 8) == [item]
        if fault is None:
            item.complete([])
        else:
            item.fail(fault)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (waiting.cancelled(), turns.free) == (True, 0)

    run(main)


@pytest.mark.parametrize("is_change", [False, True], ids=["read", "change"])
@pytest.mark.parametrize("is_taken", [False, True], ids=["not taken", "taken"])
def test_only_a_change_that_a_batch_has_taken_may_have_been_made_after_its_time(
    is_change: bool, is_taken: bool
) -> None:
    turns, item = FairTurns(0), BatchItem("A", is_change=is_change)

    async def main() -> None:
        waiting = asyncio.create_task(turns.acquire(item))
        await asyncio.sleep(0)
        assert turns.take("A", 8 if is_taken else 0) == [item] * is_taken
        item.time_out()
        item.complete([])  # too late
        with pytest.raises(DatabaseUnavailable) as rejected:
            await waiting
        assert (rejected.type is OutcomeUnknown) == (is_taken and is_change)

    run(main)


def test_a_batch_takes_the_same_statement_in_turn_over_the_callers() -> None:
    """It leaves another statement, and what the same caller requested after that."""
    turns = FairTurns(1)
    requests = [("busy", "A"), ("busy", "A"), ("busy", "A"), ("mixed", "B"), ("mixed", "A"), ("other", "A")]
    waiters = [Waiter(statement) for _, statement in requests]

    async def wait(caller: str, waiter: Waiter) -> bool:
        CALLER.state = {"budget": caller}
        return await turns.acquire(waiter)

    async def main() -> None:
        await turns.acquire()
        waiting = [
            asyncio.create_task(wait(caller, waiter))
            for (caller, _), waiter in zip(requests, waiters, strict=True)
        ]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)

        assert turns.take("A", 2) == [waiters[0], waiters[5]]
        assert turns.take("A", 8) == [waiters[2]]
        assert turns.take("A", 8) == []
        assert [waiter.is_taken for waiter in waiters] == [True, False, True, False, False, True]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(main)


def test_threads_work_for_one_caller_after_the_other() -> None:
    threads, may_run = FairThreads(1, "test"), Event()
    done: list[str] = []
    threads.submit(partial(may_run.wait, 10))

    for caller in ("busy", "busy", "busy", "other"):
        submit_for(threads, caller, done)
    cancelled = submit_for(threads, "other", done)
    assert cancelled.cancel()
    may_run.set()
    threads.shutdown()

    assert done == ["busy", "other", "busy", "busy"]


def test_long_work_of_one_caller_does_not_delay_that_of_others_on_postgresql() -> None:
    may_run = Event()
    done: list[str] = []

    async def work(caller: str) -> None:
        CALLER.state = {"budget": caller}
        await WORKER.run(partial(done.append, caller))

    async def main() -> None:
        first = asyncio.create_task(WORKER.run(partial(may_run.wait, 10)))
        waiting = [asyncio.create_task(work(caller)) for caller in ("busy", "busy", "busy", "other")]
        await asyncio.sleep(0)
        may_run.set()
        await asyncio.gather(first, *waiting)

    run(main)

    assert done == ["busy", "other", "busy", "busy"]


def submit_for(threads: FairThreads, caller: str, done: list[str]) -> Future[None]:
    CALLER.state = {"budget": caller}
    return threads.submit(partial(done.append, caller))


@pytest.mark.parametrize("fault", [ValueError(), SystemExit()], ids=repr)
def test_a_fault_in_a_thread_reaches_its_caller(fault: BaseException) -> None:
    threads = FairThreads(1, "test")

    def fail() -> None:
        raise fault

    submitted = [threads.submit(work) for work in (fail, list)]
    threads.shutdown()

    assert (submitted[0].exception(0), submitted[1].result(0)) == (fault, [])
