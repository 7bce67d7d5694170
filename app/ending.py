"""How a process hears that it is to end, and who is told when."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import parent_process


@contextmanager
def told_to_stop(leave: Callable[[], None], stop: Callable[[], None], pause: float) -> Iterator[None]:
    """Calls `leave` as soon as the process is told to end, and `stop` when it is to end indeed: after a pause
    in which those who send it requests can notice, unless it was said at the keyboard or is said again. Only
    then the server hears of it, which waits for its answers to be complete before it tells the application;
    a stream would never be.

    One of several processes is told by the death of the first, too: left alone it would hold the port."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    known = {each: handler for each, handler in handlers.items() if callable(handler)}
    told: list[int] = []

    def heard(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(leave)
        if number == signal.SIGTERM and pause and not told:
            loop.call_soon_threadsafe(loop.call_later, pause, end, number)
        else:
            end(number)
        told.append(number)

    def end(number: int) -> None:
        loop.call_soon_threadsafe(stop)
        known[signal.Signals(number)](number, None)

    def left_alone(sentinel: int) -> None:
        loop.remove_reader(sentinel)
        heard(signal.SIGTERM, None)

    for each in known:
        signal.signal(each, heard)
    first = parent_process()  # of several; who is started by hand has none
    if first and signal.SIGTERM in known:
        loop.add_reader(first.sentinel, left_alone, first.sentinel)
    try:
        yield
    finally:
        if first:
            loop.remove_reader(first.sentinel)
        for each, handler in known.items():
            signal.signal(each, handler)
