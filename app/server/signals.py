"""How a process ends: by a signal, with the first of several processes, or when a part of it has failed."""

import asyncio
import faulthandler
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import parent_process

from app.server.background import Vitals

END_SECONDS = 8  # from when the server is stopped; its own limit for requests is 5 s
STDERR = 2


def end_within(seconds: float) -> None:
    """After so many seconds the process writes what each thread does, and exits with code 1."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=STDERR)


@contextmanager
def stop_on_signals(
    leave: Callable[[], None], stop: Callable[[], None], pause: float, vitals: Vitals
) -> Iterator[None]:
    """On SIGTERM calls `leave` at once, and after `pause` seconds `stop` and the server's own handler. Load
    balancers notice in between. Ctrl-C and a second signal skip the pause. `stop` is needed because the
    server waits for its responses before it ends the application, and a stream would never be complete.

    The death of the parent process counts as SIGTERM: left alone, a worker would hold the port. The failure
    of a part counts as SIGTERM without the pause."""
    if threading.current_thread() is not threading.main_thread():
        vitals.on_failure(leave)
        yield
        return
    loop = asyncio.get_running_loop()
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    known = {each: handler for each, handler in handlers.items() if callable(handler)}
    told: list[int] = []

    def heard(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(leave)
        if number == signal.SIGTERM and pause and not told:
            end_within(pause + END_SECONDS)
            loop.call_soon_threadsafe(loop.call_later, pause, end, number)
        else:
            end_within(END_SECONDS)
            end(number)
        told.append(number)

    def end(number: int) -> None:
        loop.call_soon_threadsafe(stop)
        known[signal.Signals(number)](number, None)

    def left_alone(sentinel: int) -> None:
        loop.remove_reader(sentinel)
        heard(signal.SIGTERM, None)

    def failed() -> None:
        loop.call_soon_threadsafe(leave)
        if signal.SIGTERM in known:
            end_within(END_SECONDS)
            loop.call_soon_threadsafe(end, signal.SIGTERM)

    for each in known:
        signal.signal(each, heard)
    first = parent_process()  # of several; who is started by hand has none
    if first and signal.SIGTERM in known:
        loop.add_reader(first.sentinel, left_alone, first.sentinel)
    vitals.on_failure(failed)
    try:
        yield
    finally:
        if first:
            loop.remove_reader(first.sentinel)
        for each, handler in known.items():
            signal.signal(each, handler)
