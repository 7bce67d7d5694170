"""Turns on the event loop, so that the work of one viewer does not delay the requests of others.

A turn is about one iteration of the event loop. The work of a request runs in slices, from one `await` that
waits to the next. Once slices took as long as a turn lasts, the others run in the next one. A viewer whose
slices took longer sits out the following turns, in which other viewers run and new connections are accepted;
if there are none, these turns take microseconds.
"""

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from time import perf_counter
from typing import Any

from app.care.budgets import Budget
from app.db.drivers.fair_turns import CALLER, CONNECTED
from app.telemetry import counters

# Longer by the last slice. Sockets are read after each turn, also those of the database. At twice the
# capacity, turns of 25 ms made requests wait in sockets for seconds, and 5 ms made small reads of PostgreSQL
# take one.
TURN_SECONDS = 0.0025
MAX_SECONDS_OWED = 0.25
LONG_SECONDS = 0.05  # a slice that is logged
LOG_SECONDS = 1.0  # between two of these log lines
ENDED = object()

State = dict[str, Any]  # of a request or a websocket: its `budget`, and what names its work in the log

logger = logging.getLogger("care.server")


class Turns:
    """One per process."""

    def __init__(
        self,
        describe: Callable[[State], str] = lambda state: "a request",
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.describe = describe
        self.clock = clock
        self.number = 0
        self.used = 0.0  # seconds of this turn
        self.is_ending = False  # whether the end of this turn is scheduled
        self.slice_start = 0.0  # of the last slice
        self.logged = 0.0
        # Who may run in the next turns, in order: a viewer by the budget, people who are new by their tasks.
        self.queue: dict[object, None] = {}

    def may_run(self, budget: Budget, place: object) -> bool:
        """Whether a slice of this viewer may run in this turn. If not, the viewer waits in a queue: the event
        loop resumes tasks in the same order in each iteration, so the first ones could take every turn."""
        self.pay(budget)
        if budget.seconds_owed >= TURN_SECONDS:
            if self.queue:  # usually empty, and this runs for each turn that the viewer sits out
                self.leave_queue(place)
        elif self.used < TURN_SECONDS and next(iter(self.queue), place) is place:
            self.leave_queue(place)
            return True
        else:
            self.queue[place] = None
        self.schedule_end()
        return False

    def leave_queue(self, place: object) -> None:
        self.queue.pop(place, None)

    def pay(self, budget: Budget) -> None:
        """Subtracts the length of each turn since the last call from what the viewer owes."""
        if budget.turn != self.number:
            paid = (self.number - budget.turn) * TURN_SECONDS
            budget.seconds_owed, budget.turn = max(0.0, budget.seconds_owed - paid), self.number

    def schedule_end(self) -> None:
        """Slices that sit out this turn are scheduled later, so they run in the next one. A turn of short
        slices has no end, because nothing sits it out."""
        if not self.is_ending:
            self.is_ending = True
            asyncio.get_running_loop().call_soon(self.end, context=Context())

    def end(self) -> None:
        self.number += 1
        self.used = 0.0
        self.is_ending = False

    def note(self, state: State, seconds: float) -> None:
        """Called after a slice in a turn that is not short."""
        self.schedule_end()
        budget = state["budget"]
        budget.seconds_owed -= seconds  # earlier turns do not pay this slice
        self.pay(budget)
        budget.seconds_owed = min(budget.seconds_owed + seconds, MAX_SECONDS_OWED)
        if seconds <= LONG_SECONDS:
            return
        counters.long_slices.add(seconds)
        now = self.clock()
        if now - self.logged > LOG_SECONDS:
            self.logged = now
            logger.warning("%s held the event loop for %.0f ms", self.describe(state), seconds * 1000)

    def create_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        """The task factory: a task that a request starts runs in turns too. Two kinds of tasks do not: those
        with a context of their own, which work for all requests, and those that a task with a connection of
        the database starts, because others wait for the connection."""
        is_free = options.get("context") is not None or asyncio.current_task(loop) in CONNECTED
        if CALLER.state is None or is_free:
            return asyncio.Task(work, loop=loop, **options)
        options.pop("eager_start", None)  # an eager task would run inside the slice that starts it
        task = asyncio.Task(result_in_turns(work, CALLER.state, self), loop=loop, **options)
        task.add_done_callback(lambda _: work.close())  # it may be cancelled before its start
        return task


@types.coroutine
def in_turns(work: Coroutine[Any, Any, None], state: State, turns: Turns) -> Generator[Any, None, None]:
    """Runs a coroutine in turns. None makes the task continue in the next iteration of the event loop.

    A slice that begins with an error, of a cancellation or of what the work waited for, does not wait for its
    turn, but is charged. The same is true of a task that has a connection of the database or has just got
    one, because others wait for that.
    """
    steps, fault = work.__await__(), None
    while True:
        budget = state["budget"]
        place: object = budget
        try:
            may_wait = (turns.queue or turns.used + budget.seconds_owed >= TURN_SECONDS) and fault is None
            if may_wait and (task := asyncio.current_task()) not in CONNECTED:
                if budget.is_shared:  # people who are new to the process, of one address
                    place = task
                while not turns.may_run(budget, place):
                    yield None
        except BaseException as cancellation:
            turns.leave_queue(place)
            fault = cancellation
        CALLER.state = state
        turns.slice_start = began = turns.clock()
        try:
            # `next` with a default costs less than the StopIteration that `send` raises at the end.
            awaited = next(steps, ENDED) if fault is None else steps.throw(fault)
        except StopIteration:
            return
        finally:
            CALLER.state = fault = None
            seconds = turns.clock() - began
            turns.used += seconds
            state["budget"].seconds_owed += seconds  # of the viewer, who may be known only now
            if turns.used >= TURN_SECONDS:
                turns.note(state, seconds)
        if awaited is ENDED:
            return
        try:
            yield awaited
        except BaseException as raised:
            fault = raised


async def result_in_turns(work: Coroutine[Any, Any, Any], state: State, turns: Turns) -> Any:
    result = None

    async def keep_result() -> None:
        nonlocal result
        result = await work

    await in_turns(keep_result(), state, turns)
    return result
