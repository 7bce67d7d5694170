"""How a server process handles SIGTERM: it drains, and then it stops."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from threading import Thread
from types import SimpleNamespace

import pytest

from app.server import signals
from app.server.background import Vitals
from app.server.signals import END_SECONDS, stop_on_signals

PAUSE = 30
STOPS = [f"ends within {END_SECONDS} s", "drains", f"the server stops by {signal.SIGTERM}", "streams end"]


@pytest.fixture
def done() -> list[str]:
    """The calls of the handlers, in order."""
    return []


@pytest.fixture(autouse=True)
def handler_of_server(done: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(signals, "end_within", lambda seconds: done.append(f"ends within {seconds} s"))
    previous = {
        each: signal.signal(each, lambda number, _: done.append(f"the server stops by {number}"))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    handlers = [signal.getsignal(each) for each in previous]
    yield
    assert [signal.getsignal(each) for each in previous] == handlers  # they were restored
    for each, handler in previous.items():
        signal.signal(each, handler)


@pytest.mark.parametrize(
    "numbers, expected",
    [
        ([signal.SIGTERM], [f"ends within {PAUSE + END_SECONDS} s", "drains"]),
        *(
            (
                [signal.SIGTERM, second],
                [
                    f"ends within {PAUSE + END_SECONDS} s",
                    f"ends within {END_SECONDS} s",
                    f"the server stops by {second}",
                    "drains",
                    "drains",
                    "streams end",
                ],
            )
            for second in (signal.SIGTERM, signal.SIGINT)
        ),
        (
            [signal.SIGINT],
            [f"ends within {END_SECONDS} s", f"the server stops by {signal.SIGINT}", "drains", "streams end"],
        ),
        (
            [signal.SIGINT, signal.SIGTERM],
            [
                f"ends within {END_SECONDS} s",
                f"the server stops by {signal.SIGINT}",
                f"ends within {END_SECONDS} s",
                f"the server stops by {signal.SIGTERM}",
                *["drains", "streams end"] * 2,
            ],
        ),
    ],
    ids=["one", "two", "and Ctrl-C", "Ctrl-C", "Ctrl-C and SIGTERM"],
)
def test_a_signal_begins_the_pause_and_the_next_one_skips_it(
    done: list[str], numbers: list[signal.Signals], expected: list[str]
) -> None:
    def receive() -> None:
        for number in numbers:
            signal.raise_signal(number)

    serve(done, receive)

    assert done == expected


@pytest.mark.parametrize("has_begun", [False, True])
def test_the_failure_of_a_part_skips_the_pause_or_its_rest(done: list[str], has_begun: bool) -> None:
    vitals = Vitals()

    def fail() -> None:
        if has_begun:
            signal.raise_signal(signal.SIGTERM)
        vitals.fail("the writer", OSError())

    serve(done, fail, vitals)

    begun = [f"ends within {PAUSE + END_SECONDS} s", "drains"] if has_begun else []
    assert sorted(done) == sorted([*begun, *STOPS])
    assert done.index("drains") < done.index("streams end")


def test_the_end_of_the_parent_process_skips_the_pause_once(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    monkeypatch.setattr(signals, "parent_process", lambda: SimpleNamespace(sentinel=read))

    serve(done, lambda: os.close(write))

    os.close(read)
    assert sorted(done) == sorted(STOPS)


def test_the_end_of_the_pause_stops_the_server(done: list[str]) -> None:
    serve(done, lambda: signal.raise_signal(signal.SIGTERM), pause=1e-6)

    assert sorted(done[1:]) == sorted(STOPS[1:])


def test_a_process_that_ignores_signals_goes_on_ignoring_them(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is started in the background ignores Ctrl-C."""
    read, write = os.pipe()
    monkeypatch.setattr(signals, "parent_process", lambda: SimpleNamespace(sentinel=read))
    vitals = Vitals()
    usual = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}

    def receive() -> None:
        for number in usual:
            signal.raise_signal(number)
        os.close(write)
        vitals.fail("the writer", OSError())

    serve(done, receive, vitals)

    assert [signal.signal(each, handler) for each, handler in usual.items()] == [signal.SIG_IGN] * 2
    os.close(read)
    assert done == ["drains"]  # because a part has failed


def test_a_service_in_another_thread_drains_when_a_part_fails(done: list[str]) -> None:
    """Only the main thread receives signals: the program that started the thread ends the service."""
    vitals = Vitals()

    thread = Thread(target=serve, args=(done, lambda: vitals.fail("the writer", OSError()), vitals))
    thread.start()
    thread.join()

    assert done == ["drains"]


def serve(
    done: list[str], happens: Callable[[], None], vitals: Vitals | None = None, pause: float = PAUSE
) -> None:
    async def main() -> None:
        draining, stopping = (lambda: done.append("drains")), (lambda: done.append("streams end"))
        with stop_on_signals(draining, stopping, pause, vitals or Vitals()):
            happens()
            for _ in range(50):
                await asyncio.sleep(0)

    asyncio.run(main())
