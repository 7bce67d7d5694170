"""HTTP behind `serve`: uvicorn's protocol with limits on time, sizes and concurrent requests.

The application receives a request once it is complete. A slow sender therefore holds no request slot, and the
server rejects what exceeds a limit before any work is done.
"""

import asyncio
import sys
from collections import deque
from contextvars import Context
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.http.messages import BLANKS, NAMED
from app.server.admission import AdmissionControl
from app.server.answers import INVALID, TOO_BUSY, TOO_LONG, TOO_SLOW, is_legacy, refused
from app.server.exchange import Exchange
from app.server.heads import fault_of_head, simple_target
from app.telemetry import counters

LONGEST_HEADERS = 64 * 1024  # bytes; also of chunk extensions and trailers without body bytes in between
MOST_HEADERS = 100
MOST_HELD = 32 * 1024 * 1024  # bytes of incomplete bodies, over all connections
MOST_PIPELINED = 100
GRACE_SECONDS = 0.5  # when the process ends: for a request that is on its way on a connection that was idle
LINGER_SECONDS = 2  # for a client that still sends what nobody reads, to see the answer
ENOUGH = 64 * 1024  # bytes that a slow client takes meanwhile
MOMENT = 0.002  # by which the event loop's timers come early
LAST_READ_SECONDS = 0.01  # before a cut: a process that was stopped runs its timers before it reads
HEALTH = (b"/livez", b"/readyz")
IDLE, HEADERS, BODY, ANSWER = "idle", "headers", "body", "answer"


class EdgeProtocol(HttpToolsProtocol):
    seconds = 15.0  # for the headers to come, for the body to come, for the client to take what it is sent

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.parser = new_parser(self)
        self.load: AdmissionControl = app_state["load"]
        self.now = self.loop.time
        self.phase = HEADERS  # what is waited for; a new connection has as long as a new request
        self.since = self.now()
        self.unsent, self.unsent_since = 0, self.since  # bytes that the client had not taken then
        self.watch: asyncio.TimerHandle | None = None
        self.exchange: Exchange | None = None  # of the request that is coming in
        self.waiting: deque[Exchange] = deque()  # those that have come in, for their turn
        self.answering: Exchange | None = None  # or the last that was answered
        self.task: asyncio.Task[None]  # of it
        self.coming = b""  # the bytes that the parser reads at the moment
        self.header_bytes = 0  # received since the request began, up to the last read
        self.shared_bytes = 0  # of these, in a read that also held the end of the request before
        self.framing_bytes = 0  # received since the last byte of a body
        self.has_body_bytes = self.has_ended = False  # in this read: part of a body, the end of a request
        self.named: dict[bytes, bytes] = {}  # headers by name
        self.held = 0  # bytes of a body that is not complete
        self.is_announced = False  # whether it was looked at what the headers say of the body
        self.is_shed = False  # the request that is coming in is refused when it is there
        self.rest = b""  # of what came in, to be read once more
        self.discards_input = False  # whatever still comes is thrown away
        self.is_ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self.discards_input = True
        self.let_go()
        self.stop_watching()
        self.disconnect()
        self.exchange = self.answering = None  # they hold this object
        if exc is None:
            self.transport.close()
        self.parser = None  # type: ignore[assignment]  # it holds this object

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that closes only its sending side still reads, so complete requests are answered first.
        A stream ends, because a client that has left altogether looks the same."""
        answering = self.answering
        if answering is None or self.is_free() or answering.is_chunked or self.scheme == "https":
            return False
        self.close_after_last()
        return True

    # --- what comes in --------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.load.is_full() and self.phase is IDLE and (refusal := self.quick_refusal(data)):
            self.since = self.now()
            self.transport.write(refusal)
            return
        while data and not self.discards_input:
            self.coming, self.rest = data, b""
            self.has_body_bytes = self.has_ended = False
            super().data_received(data)
            if not self.discards_input:
                self.limit_partial(len(data))
            self.coming, data = b"", self.rest

    def quick_refusal(self, data: bytes) -> bytes | None:
        """Refuses a simple request without parsing it, which is most of what a refusal costs. For any other
        request None, and the parser reads it."""
        target = simple_target(data)
        if (
            target is None
            or target in HEALTH
            or self.flow.write_paused
            or self.is_ending
            or self.load.is_leaving
        ):
            return None
        counters.limits[TOO_BUSY] += 1
        return refused(503, TOO_BUSY, target, [], False, self.server_state.default_headers, closes=False)

    def limit_partial(self, received: int) -> None:
        """Limits what is kept of a request that is not complete after a read.

        The parser does not tell how much of a read belongs to which request, so what shares a read with an
        earlier request is not counted. One read is at most 256 KiB."""
        if self.phase is HEADERS:
            self.header_bytes += received
            if self.has_ended:
                self.shared_bytes = self.header_bytes
            if self.header_bytes - self.shared_bytes > LONGEST_HEADERS:
                self.refuse(431, TOO_LONG)
        elif self.phase is BODY:
            self.framing_bytes = 0 if self.has_body_bytes else self.framing_bytes + received
            if self.framing_bytes > LONGEST_HEADERS:
                self.refuse(431, TOO_LONG)
            else:
                self.await_body()

    def on_message_begin(self) -> None:
        if self.discards_input:
            return
        self.url, self.headers, self.exchange = b"", [], None
        self.phase, self.since = HEADERS, self.now()
        self.header_bytes = self.shared_bytes = self.framing_bytes = 0
        self.is_shed = self.is_announced = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is HEADERS:  # or it is a trailer, which no part of the service reads
            self.headers.append((name.lower(), value.strip(BLANKS)))

    def on_headers_complete(self) -> None:
        if self.discards_input:
            return
        may_be_long = self.header_bytes + len(self.coming) > LONGEST_HEADERS
        if len(self.headers) > MOST_HEADERS or (may_be_long and self.length_of_headers() > LONGEST_HEADERS):
            self.refuse(431, TOO_LONG)
            return
        if self.is_passed_over():
            return
        self.named = dict(self.headers)
        version = self.parser.get_http_version()
        if fault := fault_of_head(version, self.url, self.headers, self.named):
            self.refuse(*fault)
            return
        self.phase, self.since = BODY, self.now()
        if self.is_too_much() and self.is_free():
            self.is_shed = True
        elif len(self.waiting) >= MOST_PIPELINED:
            self.close_after_last()
        else:
            self.begin_exchange("1.0" if version == "1.0" else "1.1")

    def begin_exchange(self, version: str) -> None:
        self.scope = scope = self.new_scope(version)
        if self.parser.should_upgrade():
            return  # a websocket begins
        keeps = version == "1.1" and self.parser.should_keep_alive()
        standing, done = self.server_state.default_headers, self.on_response_complete
        self.exchange = Exchange(scope, self.transport, self.flow, standing, keeps, done)
        if not self.is_free():
            self.flow.pause_reading()

    def new_scope(self, version: str) -> Any:
        url = self.url
        if url[:1] == b"/":
            raw_path, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            raw_path, query = parsed.path, parsed.query or b""
        path = raw_path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "method": self.parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": self.app_state.copy(),
        }
        if len(self.named) == len(self.headers):
            scope[NAMED] = self.named
        return scope

    def on_body(self, body: bytes) -> None:
        self.has_body_bytes = True
        exchange = self.exchange
        if self.discards_input or self.is_shed or exchange is None:
            return
        exchange.body += body
        if len(exchange.body) > self.longest_body():
            self.hand_over_unread(exchange)

    def on_message_complete(self) -> None:
        self.has_ended = True
        if self.discards_input or self.is_passed_over():
            return
        self.phase = ANSWER
        self.let_go()
        if self.is_shed:
            self.shed()
        elif self.exchange is not None:
            self.hand_over(self.exchange)

    def _unsupported_upgrade_warning(self) -> None:
        """Nobody need heed a wish for another protocol. The parser then leaves the body alone, and uvicorn
        would take it for the next request: it is read once more, without the wish."""
        fault = sys.exception()
        method = self.parser.get_method()
        if not isinstance(fault, httptools.HttpParserUpgrade) or method == b"CONNECT":
            self.refuse(400, INVALID)
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = new_parser(self)
        self.rest = b"\r\n".join([*lines, b"", self.coming[fault.args[0] :]])

    def handle_websocket_upgrade(self) -> None:
        if self.discards_input or self.is_shed:
            return
        if not self.is_free():
            self.give_up()
            return
        self.stop_watching()
        super().handle_websocket_upgrade()
        self.discards_input = True
        self.parser = None  # type: ignore[assignment]  # it holds this object

    def await_body(self) -> None:
        """What has not come in one go: is it awaited at all, and how much is held by now of all that come?"""
        exchange = self.exchange  # none of a request that is refused
        if not self.is_announced:
            self.is_announced = True
            is_asked_for = self.named.get(b"expect", b"").lower() == b"100-continue"
            if self.is_shed and is_asked_for:
                self.refuse(503, TOO_BUSY)
            elif exchange is not None and int(self.named.get(b"content-length", 0)) > self.longest_body():
                exchange.body.clear()  # a part of it might be readable
                self.hand_over_unread(exchange)
            elif is_asked_for and self.is_free():
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.discards_input or exchange is None:
            return
        held = len(exchange.body)
        self.load.held += held - self.held
        self.held = held
        if self.load.held > MOST_HELD:
            self.refuse(503, TOO_BUSY)

    # --- what is asked about it -----------------------------------------------------------------------

    def is_free(self) -> bool:
        """Whether no earlier request on this connection is still to be answered."""
        return self.answering is None or self.answering.is_complete

    def is_passed_over(self) -> bool:
        """Whether the request wishes for a protocol that is not spoken here: it comes once more."""
        return self.parser.should_upgrade() and not self._should_upgrade()

    def is_too_much(self) -> bool:
        return self.load.is_full() and self.url not in HEALTH

    def longest_body(self) -> int:
        return self.load.legacy_body if is_legacy(self.url) else self.load.graphql_body

    def length_of_headers(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    # --- what is done with it -------------------------------------------------------------------------

    def hand_over(self, exchange: Exchange) -> None:
        if not self.is_free():
            self.waiting.append(exchange)
        elif self.is_too_much():  # meanwhile
            self.shed()
        else:
            self.start(exchange)

    def hand_over_unread(self, exchange: Exchange) -> None:
        """The application says that the body is too long, in its own words and after its own checks."""
        self.discards_input = True
        self.phase = ANSWER
        self.let_go()
        exchange.transport = LastAnswer(self)  # type: ignore[assignment]
        exchange.keep_alive = False
        self.hand_over(exchange)
        self.flow.resume_reading()

    def start(self, exchange: Exchange) -> None:
        if self.is_ending or self.load.is_leaving:
            exchange.keep_alive = False
        self.answering = exchange
        run = exchange.run(self.app, self.load.dequeue)
        self.task = task = self.loop.create_task(run, context=Context())
        self.tasks.add(task)
        self.load.enqueue(task)
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.load.running.discard(task)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self.load.running.discard(self.task)
        self.since = self.now()
        if not self.flow.write_paused:
            self.note_unsent()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.waiting:
            self.start(self.waiting.popleft())
        elif self.phase is ANSWER:
            self.phase = IDLE

    # --- refusing -------------------------------------------------------------------------------------

    def shed(self) -> None:
        """The connection stays: to come again on a new one would cost more than this answer."""
        stays = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        if (
            self.is_ending
            or self.load.is_leaving
            or self.discards_input
            or self.parser.should_upgrade()
            or not stays
        ):
            self.refuse(503, TOO_BUSY)
            return
        self.phase, self.since = IDLE, self.now()
        self.transport.write(self.refusal(503, TOO_BUSY, closes=False))
        if self.flow.write_paused:  # the client sends requests and reads no responses
            self.give_up()

    def refuse(self, status: int, message: str) -> None:
        """Nothing more is read from this connection. Earlier requests on it are still answered, and then the
        connection is closed without this refusal."""
        if not self.is_free():
            self.close_after_last()
            return
        self.discards_input = True
        self.let_go()
        self.transport.write(self.refusal(status, message, closes=True))
        self.linger()

    def close_after_last(self) -> None:
        """Answers the requests that were received completely, then closes the connection."""
        self.discards_input = True
        self.phase = ANSWER
        self.let_go()
        last = self.waiting[-1] if self.waiting else self.answering
        assert last is not None
        last.keep_alive = False
        last.transport = LastAnswer(self)  # type: ignore[assignment]

    def refusal(self, status: int, message: str, closes: bool) -> bytes:
        counters.limits[message] += 1
        is_head = self.parser.get_method() == b"HEAD"
        date = self.server_state.default_headers
        return refused(status, message, self.url, self.headers, is_head, date, closes)

    def linger(self) -> None:
        """A connection that is closed with something unread in it is reset: the answer might be lost."""
        self.stop_watching()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        self.transport.write_eof()
        self.watch = self.loop.call_later(min(LINGER_SECONDS, self.seconds), self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this for bytes that are not HTTP, also when they follow what was refused."""
        if not self.discards_input:
            self.refuse(400, INVALID)

    def give_up(self) -> None:
        self.discards_input = True
        self.let_go()
        self.disconnect()
        self.transport.abort()

    def disconnect(self) -> None:
        self.waiting.clear()
        if self.answering is not None:
            self.answering.lose()
            self.flow.resume_writing()

    def let_go(self) -> None:
        self.load.held -= self.held
        self.held = 0

    # --- time -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """One timer for each connection, which seldom fires: requests only note down when they began."""
        now = self.now()
        due = self.due(now)
        if due <= now + MOMENT:
            self.watch = self.loop.call_later(LAST_READ_SECONDS, self.cut_if_due)
        else:
            self.watch = self.loop.call_later(due - now, self.look)

    def cut_if_due(self) -> None:
        """The process may have been stopped for longer than the timeout. By now it has read the requests that
        waited in the sockets."""
        now = self.now()
        if self.due(now) <= now + MOMENT:
            self.cut()
        else:
            self.look()

    def due(self, now: float) -> float:
        due = now + min(self.seconds, self.timeout_keep_alive)
        if unsent := self.transport.get_write_buffer_size():
            if unsent <= self.unsent - ENOUGH:  # slow, but it reads
                self.note_unsent()
            return min(due, self.unsent_since + self.seconds)
        if self.phase is IDLE:
            return min(due, self.since + self.timeout_keep_alive)
        if self.phase is not ANSWER and not self.flow.read_paused:
            return min(due, self.since + self.seconds)
        return due

    def cut(self) -> None:
        if self.transport.get_write_buffer_size() or self.transport.is_closing():
            self.give_up()
        elif self.phase is IDLE or not (self.header_bytes or self.phase is BODY):
            self.transport.close()  # nothing was said
        else:
            self.refuse(408, TOO_SLOW)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.note_unsent()

    def note_unsent(self) -> None:
        self.unsent, self.unsent_since = self.transport.get_write_buffer_size(), self.now()

    def stop_watching(self) -> None:
        if self.watch is not None:
            self.watch.cancel()
            self.watch = None

    def shutdown(self) -> None:
        self.is_ending = True
        if self.phase is IDLE or (self.phase is HEADERS and not self.header_bytes):
            self.stop_watching()
            self.watch = self.loop.call_later(GRACE_SECONDS, self.close_if_silent)
        elif self.answering is not None:
            self.answering.keep_alive = self.answering.keep_alive and bool(self.waiting)

    def close_if_silent(self) -> None:
        if self.phase is IDLE or (self.phase is HEADERS and not self.header_bytes):
            self.transport.close()
        else:
            self.look()


def new_parser(protocol: EdgeProtocol) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(
        lenient_data_after_close=True,  # as uvicorn does
        lenient_version=True,  # a later HTTP/1.x is answered as 1.1 (RFC 9110, section 2.5)
    )
    return parser


class LastAnswer:
    """The transport for a request whose body is not read to its end: the connection ends with its answer."""

    def __init__(self, protocol: EdgeProtocol) -> None:
        self.write = protocol.transport.write
        self.abort = protocol.transport.abort
        self.close = protocol.linger
