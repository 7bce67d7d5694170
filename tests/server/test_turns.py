"""Promise: the work of one viewer does not delay the requests of others by more than one slice."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from inspect import CORO_CLOSED, getcoroutinestate
from typing import Any
from weakref import ref

import pytest

from app.care.budgets import Budget, Budgets
from app.db.drivers.fair_turns import CALLER, CONNECTED
from app.server.turns import LONG_SECONDS, MAX_SECONDS_OWED, TURN_SECONDS, State, Turns, in_turns
from tests.patience import PATIENCE


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> Turns:
    return Turns(lambda state: "a request of sessions", clock)


@pytest.fixture
def done() -> list[str]:
    """What has run, in order."""
    return []


@pytest.fixture
def working(clock: Clock, done: list[str]) -> Callable[..., Coroutine[Any, Any, str]]:
    async def work(name: str, lasts: float, slices: int = 1) -> str:
        for number in range(slices):
            if number:
                await asyncio.sleep(0)
            clock.now += lasts * TURN_SECONDS
            done.append(name)
        return f"{name} is done"

    return work


def state_of_viewer() -> State:
    return {"budget": Budget()}


def in_task(work: Coroutine[Any, Any, Any], state: State, turns: Turns) -> "asyncio.Task[None]":
    async def run() -> None:
        await in_turns(work, state, turns)

    return asyncio.Task(run())


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(limited())


def test_the_requests_of_others_run_after_one_slice_of_a_busy_viewer(
    turns: Turns, done: list[str], working: Any
) -> None:
    async def main() -> None:
        busy, other = state_of_viewer(), state_of_viewer()
        requests = [in_task(working("busy", 5.2), busy, turns) for _ in range(4)]
        requests += [in_task(working("other", 0.2), other, turns) for _ in range(2)]
        await asyncio.gather(*requests)

    run(main)

    assert done == ["busy", "other", "other", "busy", "busy", "busy"]


def test_the_later_slices_of_a_request_wait_for_their_turn_too(
    turns: Turns, done: list[str], working: Any
) -> None:
    async def main() -> None:
        busy, other = state_of_viewer(), state_of_viewer()
        first = in_task(working("busy", 2.4, slices=3), busy, turns)
        second = in_task(working("other", 0.2, slices=6), other, turns)
        await asyncio.gather(first, second)

    run(main)

    assert done == ["busy", "other"] * 3 + ["other"] * 3


def test_a_new_connection_is_accepted_between_two_slices_of_a_busy_viewer(
    turns: Turns, done: list[str], working: Any
) -> None:
    """asyncio takes five iterations of the event loop from a connection to its first request."""

    async def main() -> None:
        busy = state_of_viewer()
        requests = [in_task(working("busy", 5.2), busy, turns) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        done.append("connection")
        await asyncio.gather(*requests)

    run(main)

    assert done == ["busy", "connection", "busy"]


def test_short_slices_run_in_the_same_turn(turns: Turns, done: list[str], working: Any) -> None:
    async def main() -> None:
        state = state_of_viewer()
        requests = [in_task(working("short", 0.2), state, turns) for _ in range(5)]
        await asyncio.sleep(0)
        assert done == ["short"] * 5
        await asyncio.gather(*requests)

    run(main)


def test_all_viewers_together_have_a_limit_in_a_turn(turns: Turns, done: list[str], working: Any) -> None:
    async def main() -> None:
        requests = [in_task(working("each", 0.6), state_of_viewer(), turns) for _ in range(5)]
        await asyncio.sleep(0)
        assert done == ["each"] * 2
        await asyncio.sleep(0)
        assert done == ["each"] * 4
        await asyncio.gather(*requests)

    run(main)


def test_a_task_with_a_connection_of_the_database_does_not_wait_for_its_turn(
    turns: Turns, done: list[str], working: Any
) -> None:
    """The requests of all viewers wait for the connection."""

    async def read(name: str, is_connected: bool) -> None:
        if is_connected:
            CONNECTED.add(asyncio.current_task())
        try:
            await working(name, 0, slices=1)
            await asyncio.sleep(0)
            await working(name, 0, slices=1)
        finally:
            CONNECTED.discard(asyncio.current_task())

    async def main() -> None:
        reads = [
            in_task(read("waiting", False), state_of_viewer(), turns),
            in_task(read("connected", True), state_of_viewer(), turns),
            in_task(working("busy", 5), state_of_viewer(), turns),
        ]
        await asyncio.gather(*reads)

    run(main)

    assert done == ["waiting", "connected", "busy", "connected", "waiting"]
    assert not CONNECTED


def test_busy_viewers_do_not_take_every_turn(turns: Turns, done: list[str], working: Any) -> None:
    """Their tasks are in front of the others in each iteration of the event loop."""

    async def main() -> None:
        requests = [in_task(working("busy", 1.2, slices=100), state_of_viewer(), turns) for _ in range(3)]
        await in_task(working("other", 0.2), state_of_viewer(), turns)
        await asyncio.gather(*requests)

    run(main)

    assert done[:4] == ["busy"] * 3 + ["other"]


def test_a_viewer_who_owes_time_does_not_delay_the_queue(turns: Turns, done: list[str], working: Any) -> None:
    """The viewer is the first in the queue, and another task of the same viewer takes long meanwhile."""

    async def main() -> None:
        busy = state_of_viewer()
        requests = [in_task(working("first", 1.2), state_of_viewer(), turns)]
        requests += [in_task(working("busy", 0.2), busy, turns)]
        requests += [in_task(working("other", 0.2), state_of_viewer(), turns)]
        requests += [in_task(working("connected", 5.2), busy, turns)]
        CONNECTED.add(requests[-1])
        await asyncio.gather(*requests)
        CONNECTED.discard(requests[-1])

    run(main)

    assert done == ["first", "connected", "other", "busy"]


def test_people_who_are_new_to_the_process_wait_beside_each_other(
    turns: Turns, done: list[str], working: Any
) -> None:
    """After a restart the tokens of all people are new, who may have one address: that of a proxy."""
    address = Budgets().of_address("192.0.2.1")

    async def sign_in(state: State) -> None:
        state["budget"] = Budget()
        await working("new", 1.2)

    async def main() -> None:
        new = [{"budget": address} for _ in range(3)]
        requests = [in_task(sign_in(state), state, turns) for state in new]
        requests += [in_task(working("known", 1.2), state_of_viewer(), turns) for _ in range(3)]
        await asyncio.gather(*requests)

    run(main)

    assert (done, turns.queue) == (["new"] * 3 + ["known"] * 3, {})


def test_the_rest_of_a_request_waits_in_the_place_of_its_viewer(
    turns: Turns, done: list[str], working: Any
) -> None:
    """Someone who uses ever new tokens would have many places."""
    viewer, address = Budget(), Budgets().of_address("192.0.2.1")
    viewer.seconds_owed = 3.5 * TURN_SECONDS

    async def sign_in(state: State) -> None:
        state["budget"] = viewer
        await asyncio.sleep(0)
        await working("new", 0.1)

    async def main() -> None:
        state = {"budget": address}
        requests = [in_task(sign_in(state), state, turns)]
        requests += [in_task(working("known", 0.1, slices=3), state_of_viewer(), turns)]
        await asyncio.gather(*requests)

    run(main)

    assert done == ["known"] * 3 + ["new"]


def test_strangers_of_an_address_take_one_turn_like_a_viewer(
    turns: Turns, done: list[str], working: Any
) -> None:
    """They do not become people, so what they take counts for the address."""
    address = {"budget": Budgets().of_address("192.0.2.1")}

    async def main() -> None:
        requests = [in_task(working("stranger", 2.2), address, turns) for _ in range(3)]
        requests += [in_task(working("known", 0.6), state_of_viewer(), turns) for _ in range(3)]
        await asyncio.gather(*requests)

    run(main)

    assert done == ["stranger", "known", "known", "known", "stranger", "stranger"]


def test_a_viewer_whose_request_is_cancelled_leaves_the_queue(
    turns: Turns, done: list[str], working: Any
) -> None:
    async def main() -> None:
        requests = [in_task(working("each", 1.2), state_of_viewer(), turns) for _ in range(3)]
        await asyncio.sleep(0)
        requests[1].cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    run(main)

    assert (done, turns.queue) == (["each"] * 2, {})


def test_what_a_task_with_a_connection_starts_does_not_wait_for_its_turn(
    turns: Turns, done: list[str], working: Any
) -> None:
    """A batch of several requests is such a task."""

    async def read() -> None:
        CONNECTED.add(asyncio.current_task())
        try:
            await asyncio.get_running_loop().create_task(working("batch", 0.2))
        finally:
            CONNECTED.discard(asyncio.current_task())

    async def main() -> None:
        busy = state_of_viewer()
        await in_task(working("busy", 50), busy, turns)
        asyncio.get_running_loop().set_task_factory(turns.create_task)
        reading = in_task(read(), busy, turns)
        CONNECTED.add(reading)
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == ["busy", "batch"]
        await reading
        CONNECTED.discard(reading)

    run(main)


def test_what_a_viewer_owes_is_bounded(turns: Turns, done: list[str], working: Any) -> None:
    async def main() -> None:
        busy = state_of_viewer()
        await in_task(working("busy", 1000), busy, turns)
        waiting = in_task(working("busy", 0.2), busy, turns)
        for _ in range(round(MAX_SECONDS_OWED / TURN_SECONDS) + 1):
            await asyncio.sleep(0)
        assert waiting.done()

    run(main)


def test_the_first_long_slice_after_a_pause_is_charged(turns: Turns, done: list[str], working: Any) -> None:
    async def main() -> None:
        busy, others = state_of_viewer(), state_of_viewer()
        for _ in range(20):  # turns in which this viewer does not run
            await in_task(working("others", 5.2), others, turns)
        requests = [in_task(working("busy", 5.2), busy, turns) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        done.append("connection")
        await asyncio.gather(*requests)

    run(main)

    assert done[20:] == ["busy", "connection", "busy"]


def test_a_slice_that_begins_with_an_error_is_charged(turns: Turns, done: list[str], working: Any) -> None:
    async def request(failing: "asyncio.Future[None]") -> None:
        with suppress(ConnectionError):
            await failing
        await working("busy", 5.2)

    async def main() -> None:
        busy = state_of_viewer()
        failing = asyncio.get_running_loop().create_future()
        first = in_task(request(failing), busy, turns)
        await asyncio.sleep(0)
        failing.set_exception(ConnectionError())
        await first
        second = in_task(working("busy", 0.2), busy, turns)
        await asyncio.sleep(0)
        done.append("connection")
        await second

    run(main)

    assert done == ["busy", "connection", "busy"]


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_slice_that_begins_with_an_error_does_not_wait_for_its_turn(
    turns: Turns, done: list[str], working: Any, is_cancelled: bool
) -> None:
    """It may have a lock, for which others wait."""

    async def request(failing: "asyncio.Future[None]") -> None:
        try:
            await failing
        finally:
            done.append("released")

    async def main() -> None:
        busy = state_of_viewer()
        failing = asyncio.get_running_loop().create_future()
        first = in_task(request(failing), busy, turns)
        await asyncio.sleep(0)
        await in_task(working("busy", 5.2), busy, turns)
        second = in_task(working("busy", 0.2), busy, turns)
        first.cancel() if is_cancelled else failing.set_exception(ConnectionError())
        await asyncio.wait([first, second])

    run(main)

    assert done == ["busy", "released", "busy"]


def test_the_tasks_that_a_request_starts_count_for_its_viewer(
    turns: Turns, done: list[str], working: Any
) -> None:
    async def resolve_fields() -> None:
        await asyncio.gather(*[working("field", 5.2) for _ in range(2)])

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(turns.create_task)
        busy, other = state_of_viewer(), state_of_viewer()

        async def request() -> None:
            await resolve_fields()

        first = in_task(request(), busy, turns)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = in_task(working("other", 0.2), other, turns)
        await asyncio.gather(first, second)

    run(main)

    assert done == ["field", "other", "field"]


def test_a_task_with_a_context_of_its_own_does_not_wait_for_the_turn_of_its_starter(
    turns: Turns, done: list[str], working: Any
) -> None:
    """It works for all requests, such as the task that follows the event log."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(turns.create_task)
        shared: list[asyncio.Task[None]] = []

        async def request() -> None:
            shared.append(loop.create_task(working("shared", 0.2), context=Context()))
            await working("busy", 50)

        await in_task(request(), state_of_viewer(), turns)
        await asyncio.sleep(0)
        assert done == ["busy", "shared"]
        await asyncio.gather(*shared)

    run(main)


def test_a_task_that_a_request_starts_eagerly_does_not_end_its_slice(
    turns: Turns, done: list[str], working: Any
) -> None:
    """Newer versions of Python and uvloop pass these options to the task factory."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        state = state_of_viewer()

        async def request() -> None:
            options = {"name": None, "context": None, "eager_start": True}
            task = turns.create_task(loop, working("task", 0.2), **options)
            assert CALLER.state is state
            done.append("request")
            done.append(await task)

        await in_task(request(), state, turns)

    run(main)

    assert done == ["request", "task", "task is done"]


def test_a_task_that_is_cancelled_before_its_start_closes_its_work(turns: Turns, working: Any) -> None:
    """Python would warn in the log that the work was never awaited."""
    work = working("task", 0.2)

    async def main() -> None:
        async def request() -> None:
            task = turns.create_task(asyncio.get_running_loop(), work)
            task.cancel()
            await asyncio.wait([task])

        await in_task(request(), state_of_viewer(), turns)

    run(main)

    assert getcoroutinestate(work) == CORO_CLOSED


def test_a_request_can_be_cancelled_while_it_waits_for_its_turn(
    turns: Turns, done: list[str], working: Any
) -> None:
    async def request() -> None:
        try:
            await working("busy", 5.2)
            await asyncio.sleep(0)
        finally:
            done.append("closed")

    async def main() -> None:
        busy = state_of_viewer()
        started = in_task(request(), busy, turns)
        waiting = in_task(request(), busy, turns)
        await asyncio.sleep(0)
        started.cancel()
        waiting.cancel()
        results = await asyncio.gather(started, waiting, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2

    run(main)

    assert done == ["busy", "closed"]


def test_a_cancelled_request_leaves_no_reference_cycle(turns: Turns) -> None:
    class WeakBudget(Budget):
        """Can have weak references."""

    left: list[ref[Budget]] = []

    async def main() -> None:
        budget = WeakBudget()
        left.append(ref(budget))
        waiting = in_task(asyncio.Event().wait(), {"budget": budget}, turns)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

    gc.collect()
    gc.disable()
    try:
        run(main)
        assert left[0]() is None
    finally:
        gc.enable()


def test_the_log_names_what_held_the_event_loop_at_most_once_a_second(
    turns: Turns, clock: Clock, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    clock.now = 1000.0

    async def main() -> None:
        state = state_of_viewer()
        turns.note(state, LONG_SECONDS)  # is not longer
        for milliseconds in (60, 150, 20, 2000, 70):
            await in_task(working("busy", milliseconds / 1000 / TURN_SECONDS), state, turns)

    with caplog.at_level(logging.WARNING, "care.server"):
        run(main)

    assert caplog.messages == [
        "a request of sessions held the event loop for 60 ms",
        "a request of sessions held the event loop for 2000 ms",
    ]
