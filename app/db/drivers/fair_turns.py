"""Turns at the connections or threads of a database. They pass from caller to caller, so a caller with many
reads and changes delays those of others by one of them."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Caller:
    """The caller of the slice that the event loop runs. A context variable would take more instructions."""

    state: dict[str, Any] | None = None  # of the request; requests of one caller have the same `budget`


CALLER = Caller()
CONNECTED: "set[asyncio.Task[Any] | None]" = set()  # tasks that have or await a connection of the database


class FairQueue(Generic[Item]):
    """A queue for each caller, read in turn."""

    def __init__(self) -> None:
        self.items: OrderedDict[Any, deque[Item]] = OrderedDict()  # by caller
        self.lock = Lock()

    def put(self, item: Item) -> None:
        state = CALLER.state
        with self.lock:
            self.items.setdefault(state and state["budget"], deque()).append(item)

    def get(self) -> Item:
        with self.lock:
            caller, items = self.items.popitem(last=False)
            item = items.popleft()
            if items:
                self.items[caller] = items  # behind all other callers
            return item


@dataclass(eq=False)
class Waiter:
    """A request that waits for a turn. `turn` becomes False if another request has run its statement."""

    statement: Any = None  # that another request may run for it
    is_taken: bool = False  # by that request
    turn: "asyncio.Future[bool] | None" = None


class FairTurns:
    """A semaphore."""

    def __init__(self, number: int) -> None:
        self.free = number
        self.waiting: FairQueue[Waiter] = FairQueue()

    async def acquire(self, waiter: Waiter | None = None) -> bool:
        """Returns True if the request has a turn, False if another request has run its statement."""
        if self.free:
            self.free -= 1
            return True
        waiter = waiter or Waiter()
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiter.turn = turn
        self.waiting.put(waiter)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and not turn.exception() and turn.result():  # the turn has just come
                self.release()
            raise

    def release(self) -> None:
        while self.waiting.items:
            turn = self.waiting.get().turn
            if turn is not None and not turn.done():
                turn.set_result(True)
                return
        self.free += 1

    def take(self, statement: Any, number: int) -> list[Waiter]:
        """Removes waiters with this statement for a request that runs it for them: at most `number`, in turn
        over the callers. The requests of each caller keep their order."""
        taken: list[Waiter] = []
        items = self.waiting.items
        while len(taken) < number:
            callers = [one for one in islice(items, number) if items[one][0].statement is statement]
            if not callers:
                break
            waiter = items[callers[0]].popleft()
            if items[callers[0]]:
                items.move_to_end(callers[0])
            else:
                del items[callers[0]]
            if waiter.turn is not None and not waiter.turn.done():  # done: the request was cancelled
                waiter.is_taken = True
                taken.append(waiter)
        return taken


class FairThreads:
    """A thread pool."""

    def __init__(self, number: int, name: str) -> None:
        self.threads = ThreadPoolExecutor(number, thread_name_prefix=name)
        self.waiting: FairQueue[tuple[Future[Any], Callable[[], Any]]] = FairQueue()

    async def run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.wrap_future(self.submit(work))

    def submit(self, work: Callable[[], Result]) -> "Future[Result]":
        submitted: Future[Result] = Future()
        self.waiting.put((submitted, work))
        self.threads.submit(self.run_next)
        return submitted

    def run_next(self) -> None:
        submitted, work = self.waiting.get()
        if not submitted.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as fault:
            submitted.set_exception(fault)
            del submitted  # a reference cycle with the traceback
        else:
            submitted.set_result(result)

    def shutdown(self) -> None:
        """Completes all submitted work first."""
        self.threads.shutdown()
