"""How a server process handles SIGTERM: it drains, and then it stops."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from app.server import signals
from app.server.background import Vitals
from app.server.signals import END_SECONDS, stop_on_signals

PAUSE = 30


@pytest.fixture
def done() -> list[str]:
    """The calls of the handlers, in order."""
    return []


@pytest.fixture(autouse=True)
def handler_of_server(done: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(signals, "end_within", lambda seconds: done.append(f"ends within {seconds} s"))
    previous = signal.signal(signal.SIGTERM, lambda *_: done.append("the server stops"))
    yield
    signal.signal(signal.SIGTERM, previous)


@pytest.mark.parametrize(
    "numbers, expected",
    [
        ([signal.SIGTERM], [f"ends within {PAUSE + END_SECONDS} s", "drains"]),
        (
            [signal.SIGTERM, signal.SIGTERM],
            [
                f"ends within {PAUSE + END_SECONDS} s",
                f"ends within {END_SECONDS} s",
                "the server stops",
                "drains",
                "drains",
                "streams end",
            ],
        ),
    ],
    ids=["one", "two"],
)
def test_a_signal_begins_the_pause_and_the_next_one_skips_it(
    done: list[str], numbers: list[signal.Signals], expected: list[str]
) -> None:
    async def receive() -> None:
        with stop_on_signals(
            lambda: done.append("drains"), lambda: done.append("streams end"), PAUSE, Vitals()
        ):
            for number in numbers:
                signal.raise_signal(number)
            await asyncio.sleep(0)

    asyncio.run(receive())

    assert done == expected
