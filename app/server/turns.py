"""Turns on the event loop, so that the work of one viewer does not delay the requests of others.

A turn is about one iteration of the event loop. The work of a request runs in slices, from one `await` that
waits to the next. A viewer whose slices took longer than the share of a turn sits out the following turns, in
which other viewers run and new connections are accepted; if there are none, these turns take microseconds.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from time import perf_counter
from typing import Any

from app.care.budgets import Budget
from app.db.drivers.fair_turns import CALLER
from app.telemetry import counters

SHARE_SECONDS = 0.005  # of one viewer in a turn
TURN_SECONDS = 0.025  # of all viewers; longer by the last slice
MAX_SECONDS_OWED = 0.25
LONG_SECONDS = 0.05  # a slice that is logged
LOG_SECONDS = 1.0  # between two of these log lines

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

    def may_run(self, budget: Budget) -> bool:
        """Whether a slice of this viewer may run in this turn."""
        self.pay(budget)
        if budget.seconds_owed < SHARE_SECONDS and self.used < TURN_SECONDS:
            return True
        self.schedule_end()
        return False

    def pay(self, budget: Budget) -> None:
        """Each turn since the last call pays a share of what is owed."""
        if budget.turn != self.number:
            paid = (self.number - budget.turn) * SHARE_SECONDS
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
        """The task factory: a task that a request starts runs in turns too."""
        context: Context | None = options.get("context")
        state = CALLER.get() if context is None else context.get(CALLER)
        if state is not None:
            work = Sliced(work, state, self)
        return asyncio.Task(work, loop=loop, **options)


class Sliced(Coroutine[Any, Any, Any]):
    """Runs a coroutine in turns. A task calls `send` for each slice; None makes it call again in the next
    iteration of the event loop."""

    __slots__ = ("state", "turns", "work")

    def __init__(self, work: Coroutine[Any, Any, Any], state: State, turns: Turns) -> None:
        self.work = work
        self.state = state
        self.turns = turns

    def send(self, value: Any, *fault: Any) -> Any:
        turns, budget = self.turns, self.state["budget"]
        if turns.used + budget.seconds_owed >= SHARE_SECONDS and not (fault or turns.may_run(budget)):
            return None
        turns.slice_start = began = turns.clock()
        try:
            return self.work.throw(*fault) if fault else self.work.send(None)
        finally:
            fault = ()  # a reference cycle with the traceback
            seconds = turns.clock() - began
            turns.used += seconds
            self.state["budget"].seconds_owed += seconds  # of the viewer, who may be known only now
            if turns.used >= SHARE_SECONDS:
                turns.note(self.state, seconds)

    def throw(self, *fault: Any) -> Any:
        """Called for a slice that begins with an error, of a cancellation or of what the work waited for. It
        does not wait for its turn, but is charged."""
        try:
            return self.send(None, *fault)
        finally:
            del fault  # a reference cycle with the traceback

    def close(self) -> None:
        self.work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.work.__await__()
