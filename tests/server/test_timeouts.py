"""When the server ends a connection whose client reads its response slowly, or is idle, by a clock of the
test."""

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from app.care.budgets import Budget
from app.server.admission import AdmissionControl
from app.server.protocol import EdgeProtocol
from app.server.timeouts import BODY, HEADERS, IDLE, MIN_PROGRESS, RESPONSE, TimedProtocol, reset
from app.settings import Environment, Settings

UNSENT = 10 * MIN_PROGRESS


def sending(unsent: int, phase: Any = RESPONSE) -> Any:
    """A connection with so many bytes in its write buffer since the moment 0."""
    one: Any = object.__new__(TimedProtocol)
    one.clock = one.size = 0
    one.now = lambda: one.clock
    one.transport = SimpleNamespace(get_write_buffer_size=lambda: one.size)
    one.timeout, one.timeout_keep_alive, one.phase = 15, 5, phase
    one.unsent = one.unsent_since = one.phase_since = 0
    one.flow = SimpleNamespace(pause_writing=lambda: None, read_paused=False)
    one.size = unsent
    one.pause_writing()
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


@pytest.mark.parametrize("phase", [RESPONSE, IDLE], ids=["streamed", "written as a whole"])
def test_a_client_that_reads_enough_has_it_again(phase: Any) -> None:
    one = sending(UNSENT, phase)

    assert ends_at(one, *([0] * 9 + [MIN_PROGRESS]) * 4) == 40 + 15


def test_a_client_that_reads_too_little_has_it_once() -> None:
    assert ends_at(sending(UNSENT), *[MIN_PROGRESS // 16] * 60) == 15


@pytest.mark.parametrize("seconds", [5, 15, 60])
def test_an_idle_connection_stays_open_for_its_own_time(seconds: int) -> None:
    """It may be longer than that of a request."""
    one = sending(0, IDLE)
    one.timeout_keep_alive = seconds

    assert ends_at(one) == seconds


@pytest.mark.parametrize("seconds", [5, 60])
def test_a_connection_is_checked_before_it_could_have_been_idle_for_too_long(seconds: int) -> None:
    """Its phase may change before the check, and starts no timer."""
    one = sending(0, HEADERS)
    one.timeout_keep_alive = seconds

    assert one.deadline(0) == min(seconds, 15)


def test_a_body_that_the_server_does_not_read_has_no_timeout() -> None:
    """It waits for the response to the request before it."""
    one = sending(0)
    one.phase, one.phase_since = BODY, 0
    one.flow.read_paused, one.clock = True, 100

    assert one.deadline(100) > 100

    one.flow.read_paused = False
    assert one.deadline(100) == 15


def test_a_request_that_is_read_at_the_last_moment_keeps_its_connection() -> None:
    one, timers = sending(0), list[tuple[float, Callable[[], None]]]()
    one.phase, one.phase_since = IDLE, 0
    one.loop = SimpleNamespace(call_later=lambda seconds, call: timers.append((seconds, call)))
    ended: list[int] = []
    one.on_timeout = lambda: ended.append(one.clock)

    one.clock = 5
    one.check_timeout()
    one.phase_since = one.clock  # the request is read and answered
    timers[-1][1]()
    assert (ended, timers[-1][0]) == ([], 5)

    one.clock = 10
    one.check_timeout()
    timers[-1][1]()
    assert ended == [10]


def test_a_connection_that_its_client_has_reset_is_aborted() -> None:
    gone, calls = socket.socket(), list[str]()
    gone.close()

    reset(
        cast(Any, SimpleNamespace(get_extra_info={"socket": gone}.get, abort=lambda: calls.append("abort")))
    )

    assert calls == ["abort"]


@pytest.mark.parametrize("is_deferred", [True, False])
def test_a_client_is_idle_from_the_rejection_of_its_request_on(is_deferred: bool) -> None:
    clock, sent = 0.0, bytearray()
    transport = SimpleNamespace(
        get_extra_info=lambda name: None, get_write_buffer_size=lambda: 0, write=sent.extend
    )
    # A request with this header is read by the parser only.
    unusual = b"" if is_deferred else b"upgrade-insecure-requests: 1\r\n"

    async def reject() -> float:
        nonlocal clock
        admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=1))
        admission.enqueue(cast(Any, object()), Budget())
        config = uvicorn.Config(Starlette(), timeout_keep_alive=5, log_config=None)
        one = EdgeProtocol(config, ServerState(), {"admission": admission}, asyncio.get_running_loop())
        one.now, one.phase_since = (lambda: clock), clock
        one.connection_made(cast(Any, transport))
        one.data_received(b"POST / HTTP/1.1\r\nhost: care\r\n%bcontent-length: 2\r\n\r\n" % unusual)
        clock += 60
        one.data_received(b"{}")
        if is_deferred:
            assert not sent
            one.make_room()
        one.cancel_timer()
        return one.deadline(clock + 4)

    deadline = asyncio.run(reject())

    assert sent.startswith(b"HTTP/1.1 503 ")
    assert deadline == 60 + 5
