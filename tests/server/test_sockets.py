"""When the server reads from a websocket, and when it disconnects a client that reads too slowly."""

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.server import ServerProtocol

from app.care.budgets import MAX_UNSENT, Budget
from app.server import sockets
from app.server.admission import AdmissionControl
from app.server.sockets import (
    FRAMES_AT_ONCE,
    MESSAGE_BYTES,
    MESSAGES_AT_ONCE,
    MESSAGES_PER_SECOND,
    PENDING_BYTES,
    PENDING_FRAMES,
    READERS_PER_TURN,
    EdgeConnection,
    EdgeSocket,
    Flow,
    Rate,
    read_next_messages,
)
from app.server.timeouts import MIN_PROGRESS
from app.settings import Environment, Settings
from app.telemetry import counters

UNSENT = 10 * MIN_PROGRESS


class Socket:
    """A websocket without a client, whose timers the test fires. Call it in a running event loop."""

    def __init__(self) -> None:
        self.size = 0  # of the write buffer
        self.calls: list[str] = []  # of the transport
        self.timers: list[Any] = []
        admission = SimpleNamespace(pending_sockets={}, read_queue=deque())
        config = uvicorn.Config(Starlette(), log_config=None)
        one = EdgeSocket(config, ServerState(), {"admission": admission}, asyncio.get_running_loop())
        noting = {
            name: lambda name=name: self.calls.append(name)
            for name in ("pause_reading", "resume_reading", "abort", "close")
        }
        one.transport = cast(
            Any,
            SimpleNamespace(
                get_write_buffer_size=lambda: self.size,
                is_closing=lambda: "close" in self.calls,
                get_extra_info=lambda name: None,
                write=lambda data: None,
                **noting,
            ),
        )
        one.loop = cast(Any, SimpleNamespace(call_later=self.call_later))
        one.scope = cast(Any, {"state": {"budget": Budget()}})
        self.protocol = one

    def call_later(self, seconds: float, call: Any) -> Any:
        timer = SimpleNamespace(call=call, seconds=seconds, is_cancelled=False)
        timer.cancel = lambda: setattr(timer, "is_cancelled", True)
        self.timers.append(timer)
        return timer

    def fire(self) -> None:
        if not self.timers[-1].is_cancelled:
            self.timers[-1].call()


@pytest.mark.parametrize(
    "reads, timers",
    [
        ([0], 1),
        ([MIN_PROGRESS - 1], 1),
        ([MIN_PROGRESS, MIN_PROGRESS - 1], 2),
        ([MIN_PROGRESS, MIN_PROGRESS, 0], 3),
    ],
)
def test_a_client_that_reads_too_little_within_the_timeout_is_disconnected(
    reads: list[int], timers: int
) -> None:
    async def main() -> Socket:
        one = Socket()
        one.size = UNSENT
        one.protocol.pause_writing()
        for read in reads:
            assert "abort" not in one.calls
            one.size -= read
            one.fire()
        return one

    one = asyncio.run(main())

    assert (one.calls, len(one.timers)) == (["pause_reading", "abort"], timers)


@pytest.mark.parametrize("is_ending", [True, False])
def test_the_timeout_of_a_client_that_has_read_enough_ends_unless_the_websocket_closes(
    is_ending: bool,
) -> None:
    """A closing websocket stays in memory until the client has read everything."""

    async def main() -> tuple[bool, list[str], int]:
        one = Socket()
        one.size = UNSENT
        one.protocol.pause_writing()
        if is_ending:
            one.protocol.abort_if_unread()
        one.size -= 1
        one.protocol.resume_writing()
        one.fire()
        return len(one.timers) == 1, one.calls, one.protocol.scope["state"]["budget"].unsent

    expected = ["pause_reading", "resume_reading"]
    assert asyncio.run(main()) == (True, [*expected, "abort"] if is_ending else expected, 0)


def test_a_client_that_does_not_respond_to_a_ping_is_disconnected_at_once() -> None:
    """What it has not read would keep a closing websocket open."""

    async def main() -> list[str]:
        one = Socket()
        one.size = 1
        one.protocol.keepalive_timeout()
        return one.calls

    assert asyncio.run(main()) == ["abort"]


def test_a_client_that_does_not_read_the_rejection_of_its_handshake_is_disconnected() -> None:
    async def main() -> list[str]:
        one = Socket()
        one.size = UNSENT
        one.protocol.data_received(b"GET /graphql HTTP/1.1\r\ncontent-length: 5\r\n\r\n")
        one.fire()
        return one.calls

    assert asyncio.run(main()) == ["close", "abort"]


@pytest.mark.parametrize("is_writable", [True, False])
@pytest.mark.parametrize("has_message", [True, False])
def test_a_websocket_is_read_if_nothing_waits_for_its_application_or_its_client(
    is_writable: bool, has_message: bool
) -> None:
    async def main() -> list[str]:
        one = Socket()
        one.protocol.read_paused = has_message
        if not is_writable:
            one.protocol.writable.clear()
        one.protocol.resume_reading()
        return one.calls

    assert asyncio.run(main()) == (["resume_reading"] if is_writable and not has_message else [])


def test_the_messages_of_many_websockets_are_read_in_several_turns() -> None:
    async def main() -> list[int]:
        queue: Any = deque()
        read: list[int] = []
        for number in range(2 * READERS_PER_TURN + 1):
            queue.append(SimpleNamespace(read_next=lambda number=number: read.append(number)))
        read_next_messages(asyncio.get_running_loop(), queue)
        counts = [len(read)]
        while queue:
            await asyncio.sleep(0)
            counts.append(len(read))
        assert read == sorted(read)
        return counts

    assert asyncio.run(main()) == [READERS_PER_TURN, 2 * READERS_PER_TURN, 2 * READERS_PER_TURN + 1]


def test_the_reads_of_many_websockets_are_scheduled_once() -> None:
    async def main() -> tuple[int, int]:
        sockets, scheduled = [Socket() for _ in range(3)], list[Any]()
        for each in sockets:
            each.protocol.loop = cast(Any, SimpleNamespace(call_soon=lambda *call: scheduled.append(call)))
            each.protocol.read_queue = sockets[0].protocol.read_queue
            each.protocol.queue_read()
        return len(scheduled), len(sockets[0].protocol.read_queue)

    assert asyncio.run(main()) == (1, 3)


def test_a_rate_allows_a_burst_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(sockets, "monotonic", lambda: now)
    rate = Rate(4, per_second=2)

    first = [rate.take() for _ in range(6)]
    now += 1  # which allows two
    later = [rate.take(), rate.take(2)]
    now += 100
    last = [rate.take(4), rate.take(MESSAGES_AT_ONCE)]

    assert first == [0, 0, 0, 0, 0.5, 1]
    assert (later, last) == ([0.5, 1.5], [0, MESSAGES_AT_ONCE / 2])


@pytest.mark.parametrize("kind, body", [("text", "a"), ("bytes", b"a")])
@pytest.mark.parametrize("longer, seconds", [(-1, 0), (0, 1 / MESSAGES_PER_SECOND)])
def test_a_long_message_counts_as_several(
    kind: str, body: Any, longer: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "monotonic", lambda: 1000.0)

    async def main() -> float:
        one = Socket()
        one.protocol.read_paused = True
        message = {"type": "websocket.receive", kind: body * (MESSAGES_AT_ONCE * MESSAGE_BYTES + longer)}
        one.protocol.queue.put_nowait(cast(Any, message))
        await one.protocol.receive()
        return float(one.timers[-1].seconds)

    assert asyncio.run(main()) == pytest.approx(seconds)


def opened(pending: dict[Any, Any], limit: int = 2**20) -> EdgeConnection:
    """A connection after its handshake, that has not signed in."""
    one = EdgeConnection(ServerProtocol(max_size=limit), pending)
    pending[one] = None
    one.receive_data(
        b"GET /graphql HTTP/1.1\r\nhost: care\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    [request] = one.events_received()
    one.send_response(one.accept(cast(Any, request)))
    return one


@pytest.mark.parametrize("limit", [1024, PENDING_BYTES, PENDING_BYTES + 1024])
@pytest.mark.parametrize("is_signed_in", [True, False])
def test_a_message_may_have_exactly_the_limit_which_is_lower_before_sign_in(
    limit: int, is_signed_in: bool
) -> None:
    most, codes = (limit if is_signed_in else min(limit, PENDING_BYTES)), list[int | None]()
    for length in (most, most + 1):
        one = opened({}, limit)
        if is_signed_in:
            one.sign_in()
        one.receive_data(Frame(Opcode.TEXT, b"a" * length).serialize(mask=True))
        codes.append(one.close_sent.code if one.close_sent else None)

    assert codes == [None, CloseCode.MESSAGE_TOO_BIG]


def test_a_client_that_goes_on_sending_too_many_frames_receives_the_close_code() -> None:
    """A connection that is aborted or closed meanwhile would lose it. A shutdown sends no second one."""

    async def main() -> tuple[list[str], int, list[str]]:
        one, written = Socket(), bytearray()
        protocol = one.protocol
        protocol.conn = opened(protocol.pending)
        protocol.handshake_initiated = protocol.handshake_complete = True
        protocol.conn.data_to_send()
        protocol.transport.write = written.extend  # type: ignore[method-assign]
        protocol.transport.write_eof = lambda: None  # type: ignore[method-assign]
        for _ in range(3):
            protocol.data_received(PING.serialize(mask=True) * (PENDING_FRAMES + 1))
        before, length = [*one.calls], len(written)
        protocol.shutdown()
        assert len(written) == length
        return before, written.count(CloseCode.POLICY_VIOLATION.to_bytes(2, "big")), one.calls

    assert asyncio.run(main()) == ([], 1, ["close"])


def test_a_websocket_may_sign_in_while_it_is_closed_for_not_having_done_so() -> None:
    async def main() -> dict[Any, Any]:
        protocol = Socket().protocol
        protocol.conn = opened(protocol.pending)
        protocol.transport.write_eof = lambda: None  # type: ignore[method-assign]
        protocol.close_unauthenticated()
        protocol.conn.sign_in()  # its token is verified now
        return protocol.pending

    assert asyncio.run(main()) == {}


@pytest.mark.parametrize("has_read", [True, False])
def test_a_websocket_whose_handler_has_ended_stays_until_the_timeout(has_read: bool) -> None:
    async def handle(*_: Any) -> None:
        pass

    async def main() -> list[str]:
        one = Socket()
        one.protocol.admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT))
        one.protocol.app, one.protocol.handshake_complete = cast(Any, handle), True
        one.size = UNSENT
        await one.protocol.run_asgi()
        one.size = 0 if has_read else UNSENT
        one.fire()
        return one.calls

    assert asyncio.run(main()) == (["close"] if has_read else ["close", "abort"])


def test_a_websocket_counts_for_its_address_until_it_signs_in() -> None:
    async def handle(*_: Any) -> None:
        pass

    async def main() -> bool:
        one, admission = Socket().protocol, AdmissionControl(Settings(env=Environment.DEVELOPMENT))
        one.admission, one.app, one.client = admission, cast(Any, handle), ("192.0.2.7", 4711)
        one.handshake_complete = True
        await one.run_asgi()
        return one.scope["state"]["budget"] is admission.budgets.of_address("192.0.2.7")

    assert asyncio.run(main())


@pytest.mark.parametrize("is_text", [True, False])
def test_messages_count_for_the_viewer_until_the_client_has_read_them(is_text: bool) -> None:
    """One that is written counts as a whole until its last byte is sent, and each that waits for that."""

    assert asyncio.run(unread((1000, 500, 70), is_text)) == ([1000, 1500, 1570, 570], False)


@pytest.mark.parametrize(
    "lengths, is_ended",
    [
        ((MAX_UNSENT + 1,), False),
        ((MAX_UNSENT - 1, 1), False),
        ((MAX_UNSENT, 1), True),
        ((1, MAX_UNSENT), True),
    ],
)
def test_one_message_may_be_longer_than_the_limit_and_several_together_may_not(
    lengths: tuple[int, ...], is_ended: bool
) -> None:
    assert asyncio.run(unread(lengths))[1] is is_ended


async def unread(lengths: tuple[int, ...], is_text: bool = False) -> tuple[list[int], bool]:
    """The bytes that count after each message to a client that reads nothing, and then only the first one;
    and whether the connection is ended."""
    one, counted = Socket(), list[int]()
    protocol, budget = one.protocol, one.protocol.scope["state"]["budget"]
    protocol.conn, protocol.handshake_complete = opened({}), True
    protocol.transport.write = lambda data: protocol.pause_writing()  # type: ignore[method-assign]
    one.size = 10
    waiting = []
    for length in lengths:
        content = {"text": "a" * length} if is_text else {"bytes": bytes(length)}
        sending = protocol.send({"type": "websocket.send", **content})
        waiting.append(asyncio.create_task(sending))
        await asyncio.sleep(0)
        counted.append(budget.unsent)
    protocol.resume_writing()
    for _ in range(3):
        await asyncio.sleep(0)
    counted.append(budget.unsent)
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    return counted, "abort" in one.calls


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("the connection is lost", (1005, False)),
        ("a close", (1000, False)),
        ("too many frames", (1008, True)),
    ],
)
def test_only_a_close_that_the_server_sends_first_is_by_the_server(
    end: str, expected: tuple[int, bool]
) -> None:
    async def main() -> tuple[int, bool]:
        protocol = Socket().protocol
        protocol.conn = opened(protocol.pending)
        protocol.handshake_initiated = protocol.handshake_complete = True
        protocol.transport.write_eof = lambda: None  # type: ignore[method-assign]
        protocol.connections.add(protocol)
        if end == "the connection is lost":
            protocol.connection_lost(None)
        else:
            frames = [CLOSE] if end == "a close" else [PING] * (PENDING_FRAMES + 1)
            protocol.data_received(b"".join(each.serialize(mask=True) for each in frames))
        message = await protocol.receive()
        return message["code"], message.get("is_by_server", False)

    assert asyncio.run(main()) == expected


PING, CLOSE = Frame(Opcode.PING, b""), Frame(Opcode.CLOSE, b"\x03\xe8")
FRAGMENTS = [Frame(Opcode.TEXT, b"", fin=False), *[Frame(Opcode.CONT, b"", fin=False)] * (FRAMES_AT_ONCE - 1)]
END, MESSAGE = Frame(Opcode.CONT, b""), Frame(Opcode.TEXT, b"")
FRAMES: dict[str, tuple[bool, list[Frame], int | None]] = {
    "as many as may be": (False, [PING] * PENDING_FRAMES, None),
    "and the end": (False, [*[PING] * PENDING_FRAMES, CLOSE], 1000),
    "one more": (False, [PING] * (PENDING_FRAMES + 1), 1008),
    "one more, a message": (False, [MESSAGE] * (PENDING_FRAMES + 1), 1008),
    "signed in": (True, [PING] * FRAMES_AT_ONCE, None),
    "signed in, and the end": (True, [*[PING] * FRAMES_AT_ONCE, CLOSE], 1000),
    "signed in, one more": (True, [PING] * (FRAMES_AT_ONCE + 1), 1008),
    "signed in, a message in fragments": (True, [*FRAGMENTS, END], None),
    "signed in, one more fragment": (True, [*FRAGMENTS, FRAGMENTS[-1]], 1008),
    "signed in, messages": (True, [MESSAGE] * (2 * FRAMES_AT_ONCE), None),
}


@pytest.mark.parametrize("is_signed_in, frames, code", FRAMES.values(), ids=FRAMES)
def test_frames_are_limited_and_the_end_is_not(
    is_signed_in: bool, frames: list[Frame], code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "monotonic", lambda: 1000.0)
    before = counters.limits["frames of a websocket"]
    pending: dict[Any, Any] = {}
    one = opened(pending)
    if is_signed_in:
        one.sign_in()

    for each in frames:
        one.receive_data(each.serialize(mask=True))

    assert (one.close_sent.code if one.close_sent else None) == code
    assert counters.limits["frames of a websocket"] == before + (code == 1008)
    assert len(pending) == (not is_signed_in)


def test_frames_that_the_client_sent_before_it_received_the_close_do_not_delay_the_end() -> None:
    one = opened({})
    one.send_close(1000)

    one.receive_data(b"".join(each.serialize(mask=True) for each in (MESSAGE, PING, MESSAGE, CLOSE)))

    assert one.close_rcvd is not None


def test_a_message_waits_until_the_one_before_it_has_left_room() -> None:
    async def main() -> list[int]:
        writable, sent, counts = asyncio.Event(), list[int](), list[int]()

        async def send(number: int) -> None:
            await Flow(writable).drain()
            sent.append(number)
            writable.clear()  # it fills the buffer

        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(send(number))
            for _ in range(3):
                await asyncio.sleep(0)
                writable.set()
                for _ in range(5):
                    await asyncio.sleep(0)
                counts.append(len(sent))
        return counts

    assert asyncio.run(main()) == [1, 2, 3]
