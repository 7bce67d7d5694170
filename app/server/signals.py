"""Shutdown: by a signal, by the end of the parent process, or by the failure of a background task."""

import asyncio
import faulthandler
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import parent_process

from app.server.background import Vitals

END_SECONDS = 8  # for the server to stop; its own limit for running requests is 5 s
STDERR = 2


def end_within(seconds: float) -> None:
    """After `seconds` the process writes the stack of each thread and exits with code 1."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=STDERR)


@contextmanager
def stop_on_signals(
    start_draining: Callable[[], None], stop: Callable[[], None], pause: float, vitals: Vitals
) -> Iterator[None]:
    """On SIGTERM calls `start_draining` at once, and after `pause` seconds `stop` and the server's own
    handler. During the pause load balancers notice that /readyz fails. Ctrl-C and a second signal skip the
    pause. `stop` ends streams: the server waits for its responses, and a stream would never be complete.

    The end of the parent process counts as SIGTERM: otherwise a worker would keep the port open. The failure
    of a background task counts as SIGTERM without the pause."""
    if threading.current_thread() is not threading.main_thread():
        vitals.on_failure(start_draining)
        yield
        return
    loop = asyncio.get_running_loop()
    previous = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    handlers = {each: handler for each, handler in previous.items() if callable(handler)}
    received: list[int] = []

    def on_signal(number: int, frame: object, pause: float = pause) -> None:
        loop.call_soon_threadsafe(start_draining)
        if number == signal.SIGTERM and pause and not received:
            end_within(pause + END_SECONDS)
            loop.call_soon_threadsafe(loop.call_later, pause, end, number)
        else:
            end_within(END_SECONDS)
            end(number)
        received.append(number)

    def end(number: int) -> None:
        loop.call_soon_threadsafe(stop)
        handlers[signal.Signals(number)](number, None)

    def on_parent_exit(sentinel: int) -> None:
        loop.remove_reader(sentinel)
        on_signal(signal.SIGTERM, None, pause=0)  # the supervisor's next start needs the port

    def on_failure() -> None:
        loop.call_soon_threadsafe(start_draining)
        if signal.SIGTERM in handlers:
            end_within(END_SECONDS)
            loop.call_soon_threadsafe(end, signal.SIGTERM)

    for each in handlers:
        signal.signal(each, on_signal)
    parent = parent_process()  # None in a single process
    if parent and signal.SIGTERM in handlers:
        loop.add_reader(parent.sentinel, on_parent_exit, parent.sentinel)
    vitals.on_failure(on_failure)
    try:
        yield
    finally:
        if parent:
            loop.remove_reader(parent.sentinel)
        for each, handler in handlers.items():
            signal.signal(each, handler)
