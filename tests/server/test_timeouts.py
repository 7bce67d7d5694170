"""When the server ends a connection whose client reads its response slowly, by a clock of the test."""

from types import SimpleNamespace
from typing import Any

from app.server.timeouts import MIN_PROGRESS, RESPONSE, TimedProtocol

UNSENT = 10 * MIN_PROGRESS


def sending(unsent: int) -> Any:
    """A connection with so many bytes in its write buffer since the moment 0."""
    one: Any = object.__new__(TimedProtocol)
    one.clock = one.size = 0
    one.now = lambda: one.clock
    one.transport = SimpleNamespace(get_write_buffer_size=lambda: one.size)
    one.timeout, one.timeout_keep_alive, one.phase = 15, 5, RESPONSE
    one.size = unsent
    one.note_unsent()
    return one


def ends_at(one: Any, *reads: int) -> int:
    """The first second at which the connection is due. Each second the client reads so many bytes."""
    while one.deadline(one.clock) > one.clock:
        one.clock += 1
        one.size -= reads[one.clock - 1] if one.clock <= len(reads) else 0
        assert one.clock < 1000
    return int(one.clock)


def test_a_client_that_reads_nothing_has_the_timeout() -> None:
    assert ends_at(sending(UNSENT)) == 15


def test_a_client_that_reads_enough_has_it_again() -> None:
    one = sending(UNSENT)

    assert ends_at(one, *([0] * 9 + [MIN_PROGRESS]) * 4) == 40 + 15


def test_a_client_that_reads_too_little_has_it_once() -> None:
    assert ends_at(sending(UNSENT), *[MIN_PROGRESS // 16] * 60) == 15
