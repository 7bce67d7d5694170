"""One connection without a socket: what it sends, when it reads, and when it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from app.care.budgets import Budget
from app.http.messages import header
from app.server import protocol, timeouts
from app.server.admission import AdmissionControl
from app.server.protocol import HEADER_OVERHEAD, MAX_HEADER_BYTES, MAX_HEADERS, EdgeProtocol
from app.server.request_cycle import FAILED, LONG_BODY
from app.server.sockets import EdgeSocket
from app.server.timeouts import TimedProtocol
from app.settings import Environment, Settings
from tests.leftovers import of_requests

ADDRESS = "192.0.2.1"
LIMIT, LEGACY_LIMIT = 2048, 1024  # bytes of a body
HEAD = b" HTTP/1.1\r\nhost: care\r\n"
WAITS, REQUEST = b"GET /waits" + HEAD + b"\r\n", b"GET /" + HEAD + b"\r\n"
POST = b"POST /" + HEAD
UPGRADE = (
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Connection:
    """With an application that responds at once, except that /waits waits for `released`, and /listens for
    the end. Call it in a running event loop."""

    def __init__(self, most_requests: int = 100, app: ASGIApp | None = None, **config: Any) -> None:
        self.clock = 0.0
        self.unsent = 0
        self.fills_at: float = inf  # bytes of a write of which the client reads all but the last 10
        self.sent = bytearray()
        self.calls: list[str] = []  # of the transport
        self.scopes: list[Scope] = []  # of the requests that the application has received
        self.released = asyncio.Event()
        settings = Settings(
            env=Environment.DEVELOPMENT,
            most_requests=most_requests,
            graphql_body_limit=LIMIT,
            legacy_body_limit=LEGACY_LIMIT,
        )
        self.admission = AdmissionControl(settings)
        self.admission.turns.clock = lambda: 0.0  # no slice is long
        options = uvicorn.Config(
            app or self.respond,
            interface="asgi3",
            ws=EdgeSocket,
            log_config=None,
            timeout_keep_alive=5,
            **config,
        )
        one = EdgeProtocol(options, ServerState(), {"admission": self.admission}, asyncio.get_running_loop())
        self.protocol = one
        one.now, one.phase_since, one.unsent_since = (lambda: self.clock), 0.0, 0.0
        noting = {
            name: lambda *_, name=name: self.calls.append(name)
            for name in ("pause_reading", "resume_reading", "write_eof", "close", "abort", "set_protocol")
        }
        connected = SimpleNamespace(
            getpeername=lambda: (ADDRESS, 1),
            getsockname=lambda: ("192.0.2.80", 80),
            setsockopt=lambda *_: None,
        )
        transport = SimpleNamespace(
            get_extra_info={"socket": connected}.get,
            get_write_buffer_size=lambda: self.unsent,
            is_closing=lambda: "close" in self.calls or "abort" in self.calls,
            write=self.write,
            **noting,
        )
        one.connection_made(cast(Any, transport))

    def write(self, data: bytes) -> None:
        self.sent += data
        if len(data) >= self.fills_at:
            self.unsent = 10
            self.protocol.pause_writing()

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["path"] == "/waits":
            await self.released.wait()
        if scope["path"] == "/listens":
            await receive()
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def receive(self, *data: bytes) -> None:
        for each in data:
            self.protocol.data_received(each)
            await settle()

    async def release(self) -> None:
        self.released.set()
        await settle()

    @property
    def statuses(self) -> list[int]:
        return [int(each[:3]) for each in bytes(self.sent).split(b"HTTP/1.1 ")[1:]]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        before = asyncio.all_tasks()
        result = await main()
        for left in asyncio.all_tasks() - before:
            left.cancel()
        return result

    return asyncio.run(limited())


# --- requests behind each other -------------------------------------------------------------------


def test_the_body_of_a_request_behind_a_running_one_is_read_after_its_response() -> None:
    """A process with one slot does not reject it, and the client gets no interim response between."""

    async def main() -> list[tuple[list[int], list[str]]]:
        one, states = Connection(most_requests=1), []
        expecting = POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        await one.receive(WAITS, expecting, b"{")
        states.append((one.statuses, [*one.calls]))
        one.clock = 60
        await one.release()
        states.append((one.statuses, [*one.calls]))
        assert one.protocol.deadline(one.clock) > one.clock  # the client could not send the rest before
        one.protocol.on_timeout()  # the body is late
        return [*states, (one.statuses, one.calls)]

    assert run(main) == [
        ([], ["pause_reading"]),
        ([200], ["pause_reading", "resume_reading"]),
        ([200, 408], ["pause_reading", "resume_reading", "write_eof"]),
    ]


@pytest.mark.parametrize(("is_overloaded", "statuses"), [(False, [100, 200]), (True, [503])])
def test_a_client_that_expects_an_interim_response_gets_one_or_the_rejection(
    is_overloaded: bool, statuses: list[int]
) -> None:
    """It sends the body afterwards, so the connection cannot stay open after the rejection."""

    async def main() -> tuple[list[int], list[str]]:
        one = Connection(most_requests=1)
        if is_overloaded:
            one.admission.enqueue(cast(Any, object()), Budget())
        await one.receive(POST + b"expect: 100-continue\r\ncontent-length: 3\r\n\r\n", b"{", b" ", b"}")
        return one.statuses, one.calls

    assert run(main) == (statuses, ["write_eof"] * is_overloaded)


def test_a_tunnel_is_rejected() -> None:
    async def main() -> tuple[list[int], list[str]]:
        one = Connection()
        await one.receive(b"CONNECT care:443" + HEAD + b"\r\n")
        return one.statuses, one.calls

    assert run(main) == ([400], ["write_eof"])


def test_the_time_of_a_request_begins_when_it_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """It includes the wait for the response before it."""

    async def main() -> list[float]:
        one = Connection()
        monkeypatch.setattr(protocol, "perf_counter", lambda: one.clock)
        await one.receive(WAITS, POST + b"content-length: 2\r\n\r\n{")
        one.clock = 5
        await one.receive(b"}")
        one.clock = 60
        await one.release()
        return [each["state"]["received"] for each in one.scopes]

    assert run(main) == [0, 5]


def test_a_body_that_looks_like_a_request_is_none() -> None:
    """Also while the process rejects requests without reading them."""

    async def main() -> tuple[list[int], int]:
        one = Connection(most_requests=1)
        one.admission.enqueue(cast(Any, object()), Budget())
        head = POST + b"upgrade-insecure-requests: 1\r\ncontent-length: %d\r\n" % len(REQUEST)
        await one.receive(head, b"\r\n", REQUEST)
        return one.statuses, one.admission.deferred.bytes

    assert run(main) == ([503], 0)


@pytest.mark.parametrize("length", [2, 2 * MAX_HEADER_BYTES])
def test_a_request_after_a_rejected_one_is_accepted_if_there_is_room(length: int) -> None:
    """The body of the rejected one may be longer than a head, or than the limit."""
    head = POST + b"upgrade-insecure-requests: 1\r\ncontent-length: %d\r\n\r\n"

    async def main() -> tuple[list[int], list[str]]:
        one, other = Connection(most_requests=1), cast(Any, object())
        one.admission.enqueue(other, Budget())
        await one.receive(head % length, *[b"a" * (length // 2)] * 2)
        one.admission.leave(other)
        await one.receive(head % 2, b"{", b"}")
        return one.statuses, one.calls

    assert run(main) == ([503, 200], [])


def test_a_request_behind_a_running_one_needs_no_second_slot() -> None:
    async def main() -> list[int]:
        one = Connection(most_requests=1)
        await one.receive(WAITS, POST + b"content-length: 2\r\n\r\n", b"{")
        await one.release()
        await one.receive(b"}")
        return one.statuses

    assert run(main) == [200, 200]


@pytest.mark.parametrize("count", [1, 2])
def test_a_shutdown_completes_the_requests_of_a_connection(count: int) -> None:
    async def main() -> tuple[list[int], int, list[str]]:
        one = Connection()
        await one.receive(*[WAITS, REQUEST][:count])
        one.protocol.shutdown()
        one.protocol.abort_if_stalled()
        await one.release()
        return one.statuses, one.sent.count(b"connection: close"), one.calls

    statuses, closing, calls = run(main)

    assert (statuses, closing, calls[-1]) == ([200] * count, 1, "close")


KEPT = WAITS[:-2].replace(b"1.1", b"1.0") + b"connection: keep-alive\r\n\r\n"
LAST = {  # the requests, whether the process ends meanwhile, and how many get a response
    "connection: close": ([WAITS[:-2] + b"connection: close\r\n\r\n", REQUEST], False, 1),
    "and the process ends": ([WAITS[:-2] + b"connection: close\r\n\r\n", REQUEST], True, 1),
    "HTTP/1.0": ([KEPT, REQUEST], False, 1),
    "the second one in a process that ends": ([WAITS, REQUEST, REQUEST], True, 2),
}


@pytest.mark.parametrize("case", LAST)
def test_a_request_that_ends_its_connection_is_the_last_one(case: str) -> None:
    """The application does not receive the next one, which would get no response."""
    requests, ends, answered = LAST[case]

    async def main() -> tuple[list[int], list[str], int]:
        one = Connection()
        await one.receive(*requests)
        if ends:
            one.protocol.shutdown()
        await one.release()
        return one.statuses, one.calls[-1:], len(one.scopes)

    assert run(main) == ([200] * answered, ["close"], answered)


def test_a_request_that_begins_during_shutdown_has_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "GRACE_SECONDS", 0)

    async def main() -> bool:
        one = Connection()
        before = one.protocol.timer
        one.protocol.shutdown()
        assert before is not None
        assert before.cancelled()
        one.protocol.data_received(REQUEST[:9])
        await settle()
        timer = one.protocol.timer
        assert timer is not None
        return not timer.cancelled() and timer.when() > asyncio.get_running_loop().time()

    assert run(main)


@pytest.mark.parametrize("is_draining", [True, False])
def test_a_response_of_a_process_that_drains_closes_its_connection(is_draining: bool) -> None:
    async def main() -> tuple[bool, list[str]]:
        one = Connection()
        if is_draining:
            one.admission.start_draining()
        await one.receive(REQUEST)
        return b"connection: close" in one.sent, one.calls

    closes, calls = run(main)

    assert (closes, calls) == (is_draining, ["close"] if is_draining else [])


@pytest.mark.parametrize(
    ("requests", "is_answered"),
    [([], False), ([REQUEST], False), ([WAITS], True), ([WAITS, REQUEST], True), ([WAITS, POST], True)],
    ids=["no request", "an answered one", "a running one", "one behind it", "an incomplete one behind it"],
)
def test_a_client_that_closes_its_sending_side_still_gets_the_responses_to_complete_requests(
    requests: list[bytes], is_answered: bool
) -> None:
    async def main() -> tuple[bool, bool, list[int]]:
        one = Connection()
        await one.receive(*requests)
        stays_open = one.protocol.eof_received()
        await one.release()
        return stays_open, "write_eof" in one.calls, one.statuses

    count = len(requests) - (POST in requests)
    assert run(main) == (is_answered, is_answered, [200] * count)


@pytest.mark.parametrize("begins_later", [True, False])
def test_every_stream_of_a_client_that_closes_its_sending_side_ends(begins_later: bool) -> None:
    async def main() -> tuple[bool, bool]:
        one = Connection()
        await one.receive(*[WAITS] * begins_later, REQUEST.replace(b"/", b"/listens", 1))
        stays_open = one.protocol.eof_received()
        await one.release()
        return stays_open, "abort" in one.calls

    assert run(main) == (begins_later, begins_later)


def test_what_is_noted_about_a_request_is_not_known_to_others() -> None:
    async def main() -> list[dict[str, Any]]:
        one = Connection()
        await one.receive(WAITS, REQUEST)
        one.scopes[0]["state"].update(status=500, request_id="of the first")
        await one.release()
        await one.receive(REQUEST)
        return [each["state"] for each in one.scopes[1:]]

    assert [each.keys() & {"status", "request_id"} for each in run(main)] == [set(), set()]


def test_a_stream_notices_the_end_of_its_client_although_a_request_waits_behind_it() -> None:
    async def main() -> list[str]:
        one = Connection()
        await one.receive(REQUEST.replace(b"/", b"/listens", 1) + REQUEST)
        return [*one.calls]

    assert run(main) == ["pause_reading", "resume_reading"]


@pytest.mark.parametrize("is_free", [True, False])
def test_a_client_that_closes_its_sending_side_gets_the_response_to_a_deferred_request(is_free: bool) -> None:
    async def main() -> tuple[bool, list[int]]:
        one, other = Connection(most_requests=1), cast(Any, object())
        one.admission.enqueue(other, Budget())
        await one.receive(REQUEST)
        assert (one.statuses, one.admission.deferred.bytes) == ([], len(REQUEST))
        if is_free:
            one.admission.leave(other)
        stays_open = one.protocol.eof_received()
        await settle()
        return stays_open, one.statuses

    assert run(main) == (is_free, [200] if is_free else [503])


def test_the_response_to_a_request_that_was_deferred_may_take_longer_than_an_idle_connection_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next request arrives before the server decides about the first one, and decides about it."""
    monkeypatch.setattr(protocol, "DEFERRED_SECONDS", 0)

    async def main() -> tuple[bool, list[int]]:
        one, other = Connection(most_requests=2), [cast(Any, object()) for _ in range(2)]
        for each in other:
            one.admission.enqueue(each, Budget())
        one.protocol.data_received(WAITS)
        for each in other:
            one.admission.leave(each)
        await one.receive(REQUEST)
        is_due = one.protocol.deadline(10.0) <= 10.0
        await one.release()
        return is_due, one.statuses

    assert run(main) == (False, [200, 200])


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_end_of_a_side_of_tls_ends_both(scheme: str) -> None:
    async def main() -> bool:
        one = Connection()
        one.protocol.scheme = cast(Any, scheme)
        await one.receive(WAITS)
        return one.protocol.eof_received()

    assert run(main) == (scheme == "http")


def test_a_client_that_reads_nothing_is_disconnected_if_its_next_request_is_rejected() -> None:
    async def main() -> list[str]:
        one = Connection(most_requests=1)
        one.admission.enqueue(cast(Any, object()), Budget())
        one.unsent = 100
        one.protocol.pause_writing()
        await one.receive(REQUEST)
        return one.calls

    assert "abort" in run(main)


def test_a_request_that_does_not_end_is_dropped_before_the_end_of_a_shutdown() -> None:
    async def main() -> list[str]:
        one = Connection()
        await one.receive(REQUEST, REQUEST[:9])
        one.protocol.shutdown()
        one.protocol.abort_if_stalled()
        return one.calls

    assert run(main) == ["abort"]


@pytest.mark.parametrize(("target", "path"), [(b"http://care", "/"), (b"http://care?a=/b", "/"), (b"*", "*")])
def test_an_absolute_target_may_have_no_path(target: bytes, path: str) -> None:
    async def main() -> tuple[list[int], list[str]]:
        one = Connection()
        await one.receive(b"OPTIONS " + target + HEAD + b"\r\n")
        return one.statuses, [each["path"] for each in one.scopes]

    assert run(main) == ([200], [path])


@pytest.mark.parametrize(
    "header", [b"connection: keep-alive", b"connection: close", b"connection: upgrade\r\nupgrade: h2c"]
)
@pytest.mark.parametrize("version", [b"1.0", b"1.1", b"1.2"])
def test_a_connection_is_closed_for_its_client_and_after_http_1_0_always(
    version: bytes, header: bytes
) -> None:
    request = REQUEST.replace(b"1.1", version)[:-2] + header + b"\r\n\r\n"

    async def main() -> tuple[bool, list[str], str]:
        one = Connection()
        await one.receive(request)
        return b"connection: close" in one.sent, one.calls, one.scopes[0]["http_version"]

    async def main_while_overloaded() -> tuple[list[int], bool]:
        one = Connection(most_requests=1)
        one.admission.enqueue(cast(Any, object()), Budget())
        await one.receive(request)
        if one.protocol.deferred:
            one.protocol.make_room()
        return one.statuses, b"connection: close" in one.sent

    is_closed = version == b"1.0" or header == b"connection: close"
    assert run(main) == (is_closed, ["close"] * is_closed, "1.0" if version == b"1.0" else "1.1")
    assert run(main_while_overloaded) == ([503], is_closed)


def test_a_request_whose_upgrade_is_ignored_has_all_other_headers_and_its_body() -> None:
    headers = b"a: 1\r\nA: 2\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n"

    async def main() -> tuple[list[Any], list[int]]:
        one = Connection()
        await one.receive(POST + headers + b"{}" + REQUEST)
        await one.receive(REQUEST.replace(b"1.1", b"1.2"))
        return one.scopes[0]["headers"], one.statuses

    host, connection, length = (b"host", b"care"), (b"connection", b"upgrade"), (b"content-length", b"2")
    assert run(main) == ([host, (b"a", b"1"), (b"a", b"2"), connection, length], [200] * 3)


def test_a_trailer_of_a_body_is_no_header() -> None:
    """A proxy may not have checked it."""
    trailers = b"0\r\nauthorization: bearer other\r\nidempotency-key: 1\r\n\r\n"

    async def main() -> tuple[list[Any], list[int]]:
        one = Connection()
        await one.receive(CHUNKED, b"2\r\n{}\r\n", trailers)
        await one.receive(CHUNKED + trailers)
        return [each["headers"] for each in one.scopes], one.statuses

    headers = [(b"host", b"care"), (b"transfer-encoding", b"chunked")]
    assert run(main) == ([headers] * 2, [200] * 2)


@pytest.mark.parametrize("path", [b"/gateway/a", b"/graphql"])
def test_invalid_http_after_the_first_read_is_rejected_in_the_format_of_its_path(path: bytes) -> None:
    async def main() -> tuple[list[int], bool]:
        one = Connection()
        await one.receive(b"GET " + path + HEAD, b"no colon /graphql\r\n\r\n")
        return one.statuses, b'"path":"/gateway/a"' in one.sent

    assert run(main) == ([400], path == b"/gateway/a")


# --- limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_chunked", [True, False])
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(("target", "limit"), [(b"/graphql", LIMIT), (b"//%67ateway/a", LEGACY_LIMIT)])
def test_a_body_may_have_exactly_the_limit(is_chunked: bool, more: int, target: bytes, limit: int) -> None:
    length = limit + more
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (length, bytes(length)) if is_chunked else bytes(length)
    header = b"transfer-encoding: chunked" if is_chunked else b"content-length: %d" % length

    async def main() -> tuple[list[int], bool, list[str]]:
        one = Connection()
        await one.receive(b"POST " + target + HEAD + header + b"\r\n\r\n", body)
        return one.statuses, b"connection: close" in one.sent, one.calls

    assert run(main) == ([200], more > 0, ["write_eof"] * more)


CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
EARLIER = {  # what a connection has received before, which does not count for the next request
    "nothing": [],
    "framing": [CHUNKED, b"1;", b"x" * 40_000, b"\r\nb\r\n", b"0;", b"x" * 40_000, b"\r\n", b"\r\n"],
    "a shared read": [REQUEST + REQUEST[:20], REQUEST[20:]],
}


def head_of(length: int) -> bytes:
    """The bytes of the target and of the header lines count."""
    return REQUEST[:-2] + b"a: ".ljust(length - len(b"/host: care\r\n") - 2, b"b") + b"\r\n\r\n"


AT_LIMIT: dict[str, Callable[[int], list[bytes]]] = {
    "a complete head": lambda more: [head_of(MAX_HEADER_BYTES + more)],
    "an incomplete head": lambda more: [(POST + b"a: ").ljust(MAX_HEADER_BYTES + more, b"b")],
    "headers": lambda more: [POST + b"a: b\r\n" * (MAX_HEADERS - 1 + more) + b"\r\n"],
    "headers without an end": lambda more: [POST + b"a: b\r\n" * (MAX_HEADERS - 1 + more) + b"c"],
    "framing": lambda more: [CHUNKED, b"1;".ljust(MAX_HEADER_BYTES - len(CHUNKED) + more, b"x")],
}


@pytest.mark.parametrize("earlier", EARLIER)
@pytest.mark.parametrize("part", AT_LIMIT)
def test_the_head_of_each_request_may_have_exactly_the_limit(part: str, earlier: str) -> None:
    async def main() -> list[bool]:
        connections = [Connection(), Connection()]
        for more, one in enumerate(connections):
            await one.receive(*EARLIER[earlier], *AT_LIMIT[part](more))
        return [431 in one.statuses for one in connections]

    assert run(main) == [False, True]


def test_earlier_requests_of_a_read_do_not_count_for_the_head_at_its_end() -> None:
    complete = POST + b"content-length: %d\r\n\r\n%b" % (LIMIT, bytes(LIMIT))
    count = MAX_HEADER_BYTES // LIMIT

    async def main() -> list[int]:
        one = Connection()
        await one.receive(complete * count + REQUEST[:20], REQUEST[20:])
        for _ in range(count):
            await settle()
        return one.statuses

    assert run(main) == [200] * (count + 1)


def test_a_body_that_becomes_too_long_while_the_process_is_overloaded_closes_the_connection() -> None:
    async def main() -> tuple[list[int], bool, list[str]]:
        one = Connection(most_requests=1)
        await one.receive(CHUNKED, b"1\r\na\r\n")
        one.admission.enqueue(cast(Any, object()), Budget())
        await one.receive(b"%x\r\n%b" % (LIMIT, bytes(LIMIT)))
        return one.statuses, b"connection: close" in one.sent, [*one.calls][:1]

    assert run(main) == ([503], True, ["write_eof"])


def test_what_an_incomplete_request_occupies_is_counted() -> None:
    """Each complete header takes memory beside its text."""
    head = POST + b"content-length: 9\r\n"
    lines = len(b"/") + len(b"host: care\r\ncontent-length: 9\r\n")

    async def main() -> list[tuple[int, int]]:
        one, counted = Connection(), []
        for data in (head, b"\r\n1234", b"5", b"6789"):
            await one.receive(data)
            counted.append((one.admission.heads.bytes, one.admission.bodies.bytes))
        return counted

    assert run(main) == [
        (len(head) + HEADER_OVERHEAD, 0),  # the next line could continue the last header
        (0, 4 + lines + 2 * HEADER_OVERHEAD),
        (0, 5 + lines + 2 * HEADER_OVERHEAD),
        (0, 0),
    ]


# --- timeouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unsent", "later"), [(0, 60 + 5), (100, 64 + 5)])
def test_a_client_is_idle_from_the_response_on(unsent: int, later: float) -> None:
    """Its time to read begins then, too, if the response has not left the buffer yet."""

    async def main() -> list[float]:
        one = Connection()
        await one.receive(WAITS)
        one.clock, one.unsent = 60, unsent
        await one.release()
        return [one.protocol.deadline(now) for now in (60, 64)]

    assert run(main) == [60 + 5, later]


def test_head_and_body_have_the_timeout_each() -> None:
    """A client that is slow with the first may be slow with the second."""

    async def main() -> float:
        one = Connection()
        await one.receive(POST)
        one.clock = 14
        await one.receive(b"content-length: 2\r\n\r\n{")
        while (deadline := one.protocol.deadline(one.clock)) > one.clock:
            one.clock = deadline
        return one.clock

    assert run(main) == 14 + TimedProtocol.timeout


def test_a_client_that_does_not_read_its_rejection_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is closed regularly would wait until the client has read everything."""
    monkeypatch.setattr(protocol, "LINGER_SECONDS", 0)

    async def main() -> tuple[list[int], list[str]]:
        one = Connection()
        await one.receive(b"GET / HTTP/1.1\r\n\r\n")  # without a host
        return one.statuses, one.calls

    assert run(main) == ([400], ["write_eof", "abort"])


# --- the scope of a request, and its turn -----------------------------------------------------------

FORWARDED: dict[bytes, tuple[str, str]] = {
    b"": ("http", ADDRESS),
    b"x-forwarded-for: 198.51.100.7\r\n": ("http", "198.51.100.7"),
    b"x-forwarded-proto: https\r\n": ("https", ADDRESS),
}


@pytest.mark.parametrize(("header", "expected"), FORWARDED.items(), ids=["none", "client", "scheme"])
def test_each_header_of_a_trusted_proxy_counts(header: bytes, expected: tuple[str, str]) -> None:
    async def main() -> tuple[str, str]:
        one = Connection(proxy_headers=True, forwarded_allow_ips="*")
        await one.receive(b"GET /" + HEAD + header + b"\r\n")
        [scope] = one.scopes
        return scope["scheme"], scope["client"][0]

    assert run(main) == expected


def test_the_values_of_a_repeated_header_are_joined() -> None:
    async def main() -> tuple[str | None, str | None]:
        one = Connection()
        await one.receive(b"GET /" + HEAD + b"accept: text/html\r\nprefer: a\r\naccept: */*\r\n\r\n")
        [scope] = one.scopes
        return header(scope, b"accept"), header(scope, b"prefer")

    assert run(main) == ("text/html, */*", "a")


AUTHORIZATIONS: dict[str, tuple[bytes, bool]] = {
    "known": (b"authorization: Bearer mine\r\n", True),
    "in lower case": (b"authorization: bearer mine\r\n", True),
    "of another scheme": (b"authorization: Basic mine\r\n", False),
    "unknown": (b"authorization: Bearer min\r\n", False),
    "with a byte beyond ASCII": (b"authorization: Bearer \xff\r\n", False),
    "twice": (b"authorization: Bearer mine\r\n" * 2, False),
    "the second of two": (b"authorization: Bearer min\r\nauthorization: Bearer mine\r\n", False),
}


@pytest.mark.parametrize(("header", "is_known"), AUTHORIZATIONS.values(), ids=AUTHORIZATIONS)
def test_only_one_known_token_names_the_viewer_of_a_request(header: bytes, is_known: bool) -> None:
    """The application reads any other header, and rejects the request."""

    async def main() -> tuple[list[int], list[bool], list[bool]]:
        one, account = Connection(), SimpleNamespace(budget=Budget())
        one.admission.signed_in = {"mine": cast(Any, account)}
        await one.receive(b"GET /" + HEAD + header + b"\r\n")
        [state] = [each["state"] for each in one.scopes]
        return one.statuses, [state["account"] is account], [state["budget"] is account.budget]

    assert run(main) == ([200], [is_known], [is_known])


@pytest.mark.parametrize(("path", "status"), [(b"/livez", 200), (b"/readyz?probe=1", 200), (b"/ready", 503)])
@pytest.mark.parametrize("header", [b"", b"connection: close\r\n"])
def test_a_health_check_needs_no_slot(path: bytes, status: int, header: bytes) -> None:
    async def main() -> list[int]:
        one = Connection(most_requests=1)
        one.admission.enqueue(cast(Any, object()), Budget())
        await one.receive(b"GET " + path + HEAD + header + b"\r\n")
        if one.protocol.deferred:
            one.protocol.make_room()
        return one.statuses

    assert run(main) == [status]


def test_a_health_check_does_not_wait_for_its_turn() -> None:
    async def main() -> list[list[int]]:
        statuses = []
        for path in (b"/livez", b"/readyz?probe=1", b"/"):
            one = Connection()
            one.admission.turns.queue[object()] = None  # another viewer is first
            await one.receive(b"GET " + path + HEAD + b"\r\n")
            statuses.append(one.statuses)
        return statuses

    assert run(main) == [[200], [200], []]


# --- websockets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["overloaded", "ending"])
def test_a_rejected_websocket_handshake_closes_the_connection(reason: str) -> None:
    async def main() -> tuple[list[int], bool, list[str]]:
        one = Connection(most_requests=1)
        if reason == "overloaded":
            one.admission.enqueue(cast(Any, object()), Budget())
        else:
            one.protocol.shutdown()
        await one.receive(b"GET /graphql" + HEAD + UPGRADE)
        return one.statuses, b"connection: close" in one.sent, one.calls

    assert run(main) == ([503], True, ["write_eof"])


def test_a_websocket_behind_a_running_request_is_not_opened() -> None:
    """The client would read the response as frames."""

    async def main() -> tuple[list[int], list[str]]:
        one = Connection()
        await one.receive(WAITS, b"GET /graphql" + HEAD + UPGRADE)
        await one.release()
        return one.statuses, one.calls

    statuses, calls = run(main)

    assert (statuses, "write_eof" in calls, "set_protocol" in calls) == ([200], True, False)


def test_a_websocket_does_not_have_the_timeout_of_its_request() -> None:
    async def main() -> tuple[list[Any], Any]:
        one = Connection()
        timer: Any = one.protocol.timer
        await one.receive(b"GET /graphql" + HEAD + UPGRADE)
        return [timer.cancelled(), one.protocol.timer], one.protocol.discards_input

    assert run(main) == ([True, None], True)


# --- responses --------------------------------------------------------------------------------------


def sending(status: int, headers: list[tuple[bytes, bytes]], *bodies: bytes) -> ASGIApp:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        *parts, last = bodies or (b"",)
        for body in parts:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": last})

    return respond


def response_of(app: ASGIApp, request: bytes = REQUEST) -> bytes:
    async def main() -> bytes:
        one = Connection(app=app)
        await one.receive(request)
        return bytes(one.sent)

    sent: bytes = run(main)
    return sent


@pytest.mark.parametrize("status, line", [(204, b"204 No Content"), (304, b"304 Not Modified")])
def test_a_response_without_a_body_is_not_chunked(status: int, line: bytes) -> None:
    assert response_of(sending(status, [(b"a", b"b")])) == b"HTTP/1.1 %b\r\na: b\r\n\r\n" % line


@pytest.mark.parametrize("header", [(b"a", b"b"), (b"content-length", b"4")], ids=["no length", "a length"])
@pytest.mark.parametrize("parts", [(b"abcd",), (b"ab", b"cd"), (b"",)], ids=["one part", "two parts", "none"])
def test_a_head_gets_no_body_whatever_the_application_sends(
    header: tuple[bytes, bytes], parts: tuple[bytes, ...]
) -> None:
    sent = response_of(sending(200, [header], *parts), REQUEST.replace(b"GET", b"HEAD"))

    assert sent == b"HTTP/1.1 200 OK\r\n%b: %b\r\n\r\n" % header


@pytest.mark.parametrize("length", [1, LONG_BODY, LONG_BODY + 1])
def test_each_part_of_a_chunked_response_has_its_length(length: int) -> None:
    part = b"x" * length

    sent = response_of(sending(200, [], part, b"", part))

    chunk = b"%x\r\n%b\r\n" % (length, part)
    assert sent == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + 2 * chunk + b"0\r\n\r\n"


@pytest.mark.parametrize("code, status", [(0, 500), (9, 200), (10, 500), (13, 500), (31, 500), (127, 500)])
def test_a_header_has_no_control_character_but_the_tab(code: int, status: int) -> None:
    """It could end the header, and what follows would be another one."""
    sent = response_of(sending(200, [(b"content-length", b"0"), (b"a", b"b%cc" % code)]))

    assert sent.startswith(b"HTTP/1.1 %d " % status)
    assert (b"a: b" in sent) == (status == 200)


def test_the_response_after_a_fault_in_the_head_has_its_own_length() -> None:
    assert response_of(sending(200, [(b"a", b"b\n")])) == (
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"content-length: 21\r\nconnection: close\r\n\r\nInternal Server Error"
    )


@pytest.mark.parametrize(
    "parts, sent",
    [
        ((b"ab", b"c"), b"ab"),
        ((b"ab", b"cde", b""), b"ab"),
        ((b"abc",), FAILED),
        ((b"",), FAILED),
        ((b"abcde",), FAILED),
    ],
    ids=["shorter", "longer", "one shorter part", "no body", "one longer part"],
)
def test_a_response_that_is_not_as_long_as_it_says_closes_the_connection(
    parts: tuple[bytes, ...], sent: bytes
) -> None:
    async def main() -> tuple[bytes, list[str]]:
        one = Connection(app=sending(200, [(b"content-length", b"4")], *parts))
        await one.receive(REQUEST)
        return bytes(one.sent).partition(b"\r\n\r\n")[2], one.calls

    assert run(main) == (sent, ["close"])


# --- a client that leaves -----------------------------------------------------------------------------

LEAVING = {
    "in the head": [REQUEST[:20]],
    "in the body": [POST + b"content-length: 9\r\n\r\n", b"1234"],
    "while its request runs": [WAITS],
    "while requests wait": [WAITS, REQUEST, REQUEST, POST + b"content-length: 9\r\n\r\n1234"],
    "after a response": [REQUEST],
    "while a stream is open": [REQUEST.replace(b"/", b"/listens", 1)],
}


@pytest.mark.parametrize("data", LEAVING.values(), ids=LEAVING)
def test_a_client_that_leaves_leaves_nothing_behind(
    data: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """A request that waits behind another one is not executed any more."""

    async def main() -> tuple[list[tuple[str, Any]], int, Any]:
        one = Connection()
        await one.receive(*data)
        one.protocol.connection_lost(None)
        await one.release()
        return [each for each in of_requests(one.admission) if each[1]], len(one.scopes), one.protocol.timer

    complete = data[0] != REQUEST[:20] and not data[0].startswith(b"POST")
    assert run(main) == ([], int(complete), None)
    assert caplog.messages == []


def test_a_client_that_leaves_right_before_its_timeout_is_not_disconnected_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "LAST_READ_SECONDS", 0)

    async def main() -> list[str]:
        one = Connection()
        one.clock = 60
        one.protocol.check_timeout()
        one.protocol.connection_lost(None)
        await settle()
        return one.calls

    assert run(main) == ["close"]


def test_the_server_waits_for_the_request_of_a_client_that_has_left() -> None:
    """uvicorn waits for these tasks at shutdown, so a change is completed."""

    async def main() -> list[int]:
        one = Connection()
        await one.receive(WAITS)
        one.protocol.connection_lost(None)
        await settle()
        tasks = [len(one.protocol.tasks)]
        await one.release()
        return [*tasks, len(one.protocol.tasks)]

    assert run(main) == [1, 0]


def test_the_deferred_request_of_a_client_that_leaves_is_dropped() -> None:
    async def main() -> tuple[list[int], dict[Any, int], bool]:
        one = Connection(most_requests=1)
        one.admission.enqueue(cast(Any, object()), Budget())
        await one.receive(REQUEST)
        counted = [one.admission.deferred.bytes]
        one.protocol.connection_lost(None)
        counted.append(one.admission.deferred.bytes)
        return counted, one.admission.deferred.sizes, one.protocol.decision.cancelled()

    assert run(main) == ([len(REQUEST), 0], {}, True)


@pytest.mark.parametrize("is_started", [True, False])
def test_a_request_that_waits_for_a_client_to_read_ends_when_the_client_leaves(is_started: bool) -> None:
    """It is not executed if it has not begun, and no longer counts as waiting."""

    async def main() -> tuple[int, list[int], tuple[int, int, int]]:
        one = Connection()
        if is_started:
            await one.receive(WAITS)
        one.unsent = 100
        one.protocol.pause_writing()
        await (one.release() if is_started else one.receive(REQUEST))
        running = len(one.admission.running)
        one.protocol.connection_lost(None)
        await settle()
        return running, one.statuses, (len(one.scopes), len(one.admission.running), one.admission.queued)

    assert run(main) == (1, [], (int(is_started), 0, 0))


def test_a_part_of_a_response_counts_no_more_once_the_client_has_read_it() -> None:
    async def main() -> list[tuple[int, int]]:
        one, counted = Connection(), []
        await one.receive(WAITS)
        budget, one.unsent = one.admission.budgets.of_address(ADDRESS), 100
        for change in (one.protocol.pause_writing, one.protocol.resume_writing):
            change()
            counted.append((budget.unsent, budget.slow_connections))
        return counted

    assert run(main) == [(100, 1), (0, 0)]


@pytest.mark.parametrize("end", ["resume_writing", "connection_lost"])
def test_the_whole_response_counts_until_the_client_has_read_it(end: str) -> None:
    """The transport keeps all of it in memory until its last byte is sent."""

    async def main() -> list[tuple[bool, int]]:
        one = Connection(app=sending(200, [(b"content-length", b"1000")], bytes(1000)))
        one.fills_at = 1000
        await one.receive(REQUEST)
        budget, counted = one.admission.budgets.of_address(ADDRESS), []
        counted.append((budget.unsent >= 1000, budget.slow_connections))
        one.protocol.connection_lost(None) if end == "connection_lost" else one.protocol.resume_writing()
        return [*counted, (budget.unsent > 0, budget.slow_connections)]

    assert run(main) == [(True, 1), (False, 0)]


def test_a_request_that_is_cancelled_gets_a_response() -> None:
    """The server cancels requests that still run at the end of a shutdown."""

    async def main() -> tuple[list[int], list[str], int]:
        one = Connection()
        await one.receive(WAITS)
        one.protocol.task.cancel()
        await settle()
        return one.statuses, one.calls, len(one.admission.running)

    assert run(main) == ([500], ["close"], 0)


@pytest.mark.parametrize("end", ["response", "client"])
@pytest.mark.parametrize("before", [0, 2])
def test_everything_that_waits_for_the_end_of_a_request_is_notified(end: str, before: int) -> None:
    """And what waits for it only afterwards."""
    received = []

    async def main() -> None:
        has_left = asyncio.Event()

        async def listens(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            waiting = [asyncio.create_task(receive()) for _ in range(before)]
            await asyncio.sleep(0)
            await (sending(200, [])(scope, receive, send) if end == "response" else has_left.wait())
            for each in (*waiting, receive()):
                received.append((await each)["type"])

        one = Connection(app=listens)
        await one.receive(REQUEST)
        if end == "client":
            one.protocol.connection_lost(None)
            has_left.set()
        await settle()

    run(main)

    assert received == ["http.disconnect"] * (before + 1)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("has_length", [True, False])
def test_the_head_of_a_response_of_unknown_length_is_sent_at_once(version: bytes, has_length: bool) -> None:
    """The client of a stream then knows that it has begun. Other heads are sent with the body."""
    headers = [(b"content-length", b"1")] if has_length else []

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await receive()
        await receive()

    sent = response_of(waits, REQUEST.replace(b"1.1", version))

    assert sent.startswith(b"HTTP/1.1 200 OK\r\n") != has_length
