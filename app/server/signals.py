"""Shutdown: by a signal, by the end of the parent process, or by the failure of a background task."""

import asyncio
import faulthandler
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import parent_process

from app.server.background import Vitals

END_SECONDS = 8  # for the server to stop; its own limit for requests is 5 s
STDERR = 2


def end_within(seconds: float) -> None:
    """After `seconds` the process writes the stack of each thread and exits with code 1."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=STDERR)


@contextmanager
def stop_on_signals(
    leave: Callable[[], None], stop: Callable[[], None], pause: float, vitals: Vitals
) -> Iterator[None]:
    """On SIGTERM calls `leave` at once, and after `pause` seconds `stop` and the server's own handler. Load
    balancers notice in between. Ctrl-C and a second signal skip the pause. `stop` is needed because the
    server waits for its responses before it ends the application, and a stream would never be complete.

    The end of the parent process counts as SIGTERM: otherwise a worker would keep the port open. The failure
    of a background task counts as SIGTERM without the pause."""
    if threading.current_thread() is not threading.main_thread():
        vitals.on_failure(leave)
        yield
        return
    loop = asyncio.get_running_loop()
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    known = {each: handler for each, handler in handlers.items() if callable(handler)}
    received: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(leave)
        if number == signal.SIGTERM and pause and not received:
            end_within(pause + END_SECONDS)
            loop.call_soon_threadsafe(loop.call_later, pause, end, number)
        else:
            end_within(END_SECONDS)
            end(number)
        received.append(number)

    def end(number: int) -> None:
        loop.call_soon_threadsafe(stop)
        known[signal.Signals(number)](number, None)

    def on_parent_exit(sentinel: int) -> None:
        loop.remove_reader(sentinel)
        on_signal(signal.SIGTERM, None)

    def failed() -> None:
        loop.call_soon_threadsafe(leave)
        if signal.SIGTERM in known:
            end_within(END_SECONDS)
            loop.call_soon_threadsafe(end, signal.SIGTERM)

    for each in known:
        signal.signal(each, on_signal)
    first = parent_process()  # None in a single process
    if first and signal.SIGTERM in known:
        loop.add_reader(first.sentinel, on_parent_exit, first.sentinel)
    vitals.on_failure(failed)
    try:
        yield
    finally:
        if first:
            loop.remove_reader(first.sentinel)
        for each, handler in known.items():
            signal.signal(each, handler)
