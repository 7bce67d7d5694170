"""Turns at the connections or threads of a database. They pass from caller to caller, so a caller with many
reads and changes delays those of others by one of them."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

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


class Waiting(NamedTuple):
    turn: "asyncio.Future[bool]"
    work: Any  # that another caller may do in its turn, or None


class FairTurns:
    """A semaphore."""

    def __init__(self, number: int) -> None:
        self.free = number
        self.waiting: FairQueue[Waiting] = FairQueue()

    async def acquire(self, work: Any = None) -> bool:
        """Returns whether the caller has a turn now. If not, another caller has done the work in its turn."""
        if self.free:
            self.free -= 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.waiting.put(Waiting(turn, work))
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and not turn.exception() and turn.result():  # the turn has just come
                self.release()
            raise

    def release(self) -> None:
        while self.waiting.items:
            turn = self.waiting.get().turn
            if not turn.done():
                turn.set_result(True)
                return
        self.free += 1

    def take(self, is_wanted: Callable[[Any], bool], number: int) -> list[Waiting]:
        """Removes work that the caller with a turn will do in it. The callers who wait give their first work
        in turn; none of them loses its order, and none overtakes a caller who waits for something else by
        more than this turn."""
        taken: list[Waiting] = []
        items = self.waiting.items
        found = True
        while found and len(taken) < number:
            found = False
            for caller in list(islice(items, number)):
                if len(taken) < number and is_wanted(items[caller][0].work):
                    found = True
                    first = items[caller].popleft()
                    if items[caller]:
                        items.move_to_end(caller)
                    else:
                        del items[caller]
                    if not first.turn.done():  # cancelled
                        taken.append(first)
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
