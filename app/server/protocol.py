"""HTTP behind `serve`: uvicorn's protocol with limits on time, sizes and concurrent requests.

The application receives a request once it is complete. A slow sender therefore holds no request slot, and the
server rejects what exceeds a limit before any work is done.
"""

import asyncio
import sys
from collections import deque
from contextvars import Context
from time import perf_counter
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.care.budgets import Budget, Unsent
from app.http.messages import HEADERS_BY_NAME
from app.server.admission import AdmissionControl
from app.server.rejections import (
    HEADERS_TOO_LONG,
    INVALID_HTTP,
    LIMITS,
    NOT_HTTP,
    OVERLOADED_MESSAGE,
    TARGET_TOO_LONG,
    TIMED_OUT,
    count_rejection,
    is_legacy,
    rejection,
)
from app.server.request_cycle import RequestCycle
from app.server.request_heads import SimpleRequest, find_head_error, read_simple_request, without_origin
from app.server.timeouts import BODY, HEADERS, IDLE, RESPONSE, TimedProtocol, reset

MAX_HEADER_BYTES = 64 * 1024  # also of chunk extensions and trailers without body bytes in between
MAX_HEADERS = 100
HEADER_OVERHEAD = 160  # bytes of memory of a header beside its text
MAX_PIPELINED = 100  # requests that wait for the responses before them
DEFERRED_SECONDS = 0.25  # from the arrival of a simple request until the server rejects or accepts it
GRACE_SECONDS = 0.5  # at shutdown, for a request that is in transit on an idle connection
# Of the time for a shutdown, before uvicorn reports that it cancels tasks, even if there are none.
ABORT_SHARE = 0.9
LINGER_SECONDS = 2  # for a client that still sends to receive the response
BLANKS = b" \t"  # not part of a header value (RFC 9110, section 5.5)
HEALTH = (b"/livez", b"/readyz")
FORWARDED = {b"x-forwarded-for", b"x-forwarded-proto"}


def is_health_check(target: bytes) -> bool:
    return target.partition(b"?")[0] in HEALTH


class EdgeProtocol(TimedProtocol):
    """Ends a connection in one of five ways:

    - `transport.close` sends the responses first. It is for a connection on which no request is incomplete.
    - `linger` sends the responses and ignores what still arrives for a while.
    - `reject_and_close` sends a rejection and lingers.
    - `close_after_responses` lingers after the responses to all complete requests.
    - `abort` drops the unsent bytes and resets the connection.
    """

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.parser = new_parser(self)
        self.admission: AdmissionControl = app_state["admission"]
        self.incoming: RequestCycle | None = None  # the request that is being received
        self.queued: deque[RequestCycle] = deque()  # complete requests that wait for earlier responses
        self.current: RequestCycle | None = None  # the request that the application handles, or the last one
        self.task: asyncio.Task[None]  # of `current`
        self.chunk = b""  # the bytes that the parser is reading
        self.header_bytes = 0  # received since the request began, up to the last read
        self.shared_bytes = 0  # of these, in a read that also had the end of the previous request
        self.framing_bytes = 0  # received since the last byte of a body
        self.has_body_bytes = self.has_ended = False  # in this read: part of a body, the end of a request
        self.headers = []
        self.headers_by_name: dict[bytes, bytes] = {}
        self.unaccepted = Unsent()
        self.is_body_checked = False  # whether the headers about the body were checked
        self.is_rejected = False  # reject the incoming request once it is complete
        self.unparsed = b""  # received bytes for the parser to read again
        self.deferred = b""  # a request that was neither accepted nor rejected yet
        self.decision: asyncio.Handle
        self.discards_input = False  # received bytes are discarded
        self.is_ending = False
        self.is_incomplete = False  # counted in `admission.heads` or `admission.bodies`
        self.unforwarded = self.app  # for requests without headers of a proxy
        if isinstance(self.app, ProxyHeadersMiddleware):
            self.unforwarded = self.app.app

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self.discard_input()
        self.cancel_timer()
        self.unaccepted.release()
        self.disconnect_cycles()
        self.current = None  # a reference cycle
        if exc is None:
            self.transport.close()
        self.parser = None  # type: ignore[assignment]  # a reference cycle

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that closes only its sending side still reads, so it gets the responses to its complete
        requests. A stream ends, because a client that has disconnected looks the same."""
        if self.scheme == "https":
            return False
        if self.deferred:
            self.decide()
        current = self.current
        if current is None or current.is_complete or current.end_event is not None:
            return False
        for cycle in (current, *self.queued):
            cycle.is_input_closed = True
        self.close_after_responses()
        return True

    # --- receiving ------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.deferred:
            self.deferred += data
            if read_simple_request(self.deferred):  # more of its body has arrived
                self.admission.deferred.set_size(self, len(self.deferred))
            else:
                self.decide()
        elif self.admission.may_reject() and self.is_silent() and self.rejected_request(data):
            self.defer(data)
        else:
            self.parse(data)

    def defer(self, data: bytes) -> None:
        """Keeps a request unread that is to be rejected. Clients that send the next request as soon as they
        have a response would otherwise make the process spend most of its time on rejections."""
        self.phase, self.deferred = RESPONSE, data
        self.decision = self.loop.call_later(DEFERRED_SECONDS, self.schedule_decision)
        self.admission.deferred.set_size(self, len(data))

    def schedule_decision(self) -> None:
        """After a pause of the process many timers are due at once. The event loop first starts the accepted
        requests, so that there may be room."""
        self.decision = self.loop.call_soon(self.decide)

    def decide(self) -> None:
        """Accepts or rejects the deferred request."""
        data = self.deferred
        self.drop_deferred()
        self.phase, self.phase_since = IDLE, self.now()
        request = self.rejected_request(data)
        if request is None or request.missing:
            self.parse(data)
            return
        count_rejection(LIMITS[OVERLOADED_MESSAGE], request.method, request.target)
        target, headers, date = request.target, request.headers, self.server_state.default_headers
        self.transport.write(rejection(503, OVERLOADED_MESSAGE, target, headers, False, date, closes=False))

    def drop_deferred(self) -> None:
        self.deferred = b""
        self.decision.cancel()
        self.admission.deferred.remove(self)

    def rejected_request(self, data: bytes) -> SimpleRequest | None:
        """Returns a simple request that is to be rejected. It is not parsed, since parsing is most of the
        cost. Returns None for any other request."""
        request = read_simple_request(data)
        if request is None or is_health_check(request.target) or self.flow.write_paused or self.is_stopping():
            return None
        account = self.admission.account_of(request.authorization)
        budget = account.budget if account else self.budget_of_address()
        return None if self.discards_input or not self.admission.rejects(budget) else request

    def parse(self, data: bytes) -> None:
        while data and not self.discards_input:
            self.chunk, self.unparsed = data, b""
            self.has_body_bytes = self.has_ended = False
            super().data_received(data)
            if not self.discards_input:
                self.limit_partial(len(data))
            else:
                self.url = b""  # of a request after the rejected one
            self.chunk, data = b"", self.unparsed

    def limit_partial(self, received: int) -> None:
        """Limits the bytes of a request that is incomplete after a read.

        The parser does not report which bytes of a read belong to which request, so bytes that share a read
        with an earlier request are not counted. One read is at most 256 KiB."""
        if self.is_incomplete and (self.has_ended or self.phase is not HEADERS):
            self.admission.heads.remove(self)
        if self.phase is HEADERS:
            self.header_bytes += received
            if self.has_ended:
                self.shared_bytes = self.header_bytes
            is_long = self.header_bytes - self.shared_bytes > MAX_HEADER_BYTES
            if is_long or len(self.headers) > MAX_HEADERS:
                self.reject_long_head()
            else:
                self.is_incomplete = True
                self.admission.heads.set_size(self, self.header_bytes + HEADER_OVERHEAD * len(self.headers))
        elif self.phase is BODY:
            self.framing_bytes = 0 if self.has_body_bytes else self.framing_bytes + received
            if self.framing_bytes > MAX_HEADER_BYTES:
                self.reject_and_close(431, HEADERS_TOO_LONG)
            else:
                self.limit_body()

    def on_message_begin(self) -> None:
        if self.discards_input:
            return
        self.url, self.headers, self.incoming = b"", [], None
        self.phase, self.phase_since = HEADERS, self.now()
        self.header_bytes = self.shared_bytes = self.framing_bytes = 0
        self.is_rejected = self.is_body_checked = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is HEADERS:  # trailers are ignored
            self.headers.append((name.lower(), value.strip(BLANKS)))

    def on_headers_complete(self) -> None:
        if self.discards_input:
            return
        self.url = without_origin(self.url)
        may_be_long = self.header_bytes + len(self.chunk) > MAX_HEADER_BYTES
        if len(self.headers) > MAX_HEADERS or (may_be_long and self.length_of_headers() > MAX_HEADER_BYTES):
            self.reject_long_head()
            return
        if self.is_unsupported_upgrade():
            return
        self.headers_by_name = dict(self.headers)
        version = self.parser.get_http_version()
        if error := find_head_error(version, self.url, self.headers, self.headers_by_name):
            self.reject_and_close(*error)
            return
        self.phase, self.phase_since = BODY, self.now()
        # A repeated header is ambiguous: the application reads and rejects it.
        is_unique = len(self.headers_by_name) == len(self.headers)
        authorization = self.headers_by_name.get(b"authorization") if is_unique else None
        self.account = account = self.admission.account_of(authorization)
        self.budget = account.budget if account else self.budget_of_address()
        if len(self.queued) >= MAX_PIPELINED:
            self.close_after_responses()
        else:
            self.begin_cycle("1.0" if version == "1.0" else "1.1")

    def begin_cycle(self, version: str) -> None:
        self.scope = scope = self.new_scope(version)
        if self.parser.should_upgrade():
            return  # a websocket begins
        keep_alive = version == "1.1" and self.parser.should_keep_alive()
        date = self.server_state.default_headers
        self.incoming = RequestCycle(
            scope, self.transport, self.flow, date, keep_alive, self.on_response_complete
        )
        self.incoming.is_forwarded = not FORWARDED.isdisjoint(self.headers_by_name)
        if not self.is_ready():
            self.flow.pause_reading()

    def new_scope(self, version: str) -> Any:
        url = self.url
        if url[:1] == b"/":
            raw_path, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            raw_path, query = parsed.path, parsed.query or b""
        path = raw_path.decode("ascii")
        state = self.app_state.copy()
        state["account"], state["budget"] = self.account, self.budget
        state["flow"] = self.flow
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
            "state": state,
        }
        if len(self.headers_by_name) == len(self.headers):
            scope[HEADERS_BY_NAME] = self.headers_by_name
        return scope

    def on_body(self, body: bytes) -> None:
        self.has_body_bytes = True
        cycle = self.incoming
        if self.discards_input or self.is_rejected or cycle is None:
            return
        cycle.body += body
        if len(cycle.body) > self.body_limit():
            self.start_without_body(cycle)

    def on_message_complete(self) -> None:
        self.has_ended = True
        if self.discards_input or self.is_unsupported_upgrade():
            return
        self.phase = RESPONSE
        self.release()
        if self.is_rejected:
            self.reject_overloaded()
        elif self.incoming is not None:
            self.incoming.scope["state"]["received"] = perf_counter()
            self.start_or_queue(self.incoming)

    def _unsupported_upgrade_warning(self) -> None:
        """A server may ignore the Upgrade header. The parser does not read the body of such a request, and
        uvicorn would parse the body as the next request, so the request is parsed again without that
        header."""
        if self.discards_input:
            return
        fault = sys.exception()
        method = self.parser.get_method()
        if not isinstance(fault, httptools.HttpParserUpgrade) or method == b"CONNECT":
            self.reject_and_close(400, NOT_HTTP)
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = new_parser(self)
        self.unparsed = b"\r\n".join([*lines, b"", self.chunk[fault.args[0] :]])

    def handle_websocket_upgrade(self) -> None:
        if self.discards_input:
            return
        if not self.is_ready():
            self.close_after_responses()
            return
        if self.flow.write_paused:  # the client has not read its responses
            self.abort()
            return
        if self.is_ending or self.is_overloaded(self.budget):
            self.reject_overloaded()
            return
        self.cancel_timer()
        Context().run(super().handle_websocket_upgrade)  # without the caller of an earlier request
        self.discard_input()
        self.parser = None  # type: ignore[assignment]  # a reference cycle

    def limit_body(self) -> None:
        """Checks the headers about an incomplete body, and limits the bytes of all incomplete bodies, with
        those of their heads."""
        if not self.is_body_checked:
            self.is_body_checked = True
            self.check_body_headers()
        if self.discards_input or self.incoming is None:
            return
        self.is_incomplete = True
        head = self.length_of_headers() + HEADER_OVERHEAD * len(self.headers)
        self.admission.bodies.set_size(self, len(self.incoming.body) + head)

    def check_body_headers(self) -> None:
        """Checks the announced length of an incomplete body, and responds to `Expect: 100-continue`."""
        if self.is_ready() and self.is_overloaded(self.budget):
            self.is_rejected, self.incoming = True, None
        cycle = self.incoming
        expects_continue = (
            self.headers_by_name.get(b"expect", b"").lower() == b"100-continue"
            and self.parser.get_http_version() != "1.0"  # RFC 9110, section 10.1.1
        )
        if self.is_rejected and expects_continue:
            self.reject_and_close(503, OVERLOADED_MESSAGE)
        elif cycle and int(self.headers_by_name.get(b"content-length", 0)) > self.body_limit():
            cycle.body.clear()  # a part of it could be valid JSON
            self.start_without_body(cycle)
        elif expects_continue and self.is_ready():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- conditions -----------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Whether all earlier requests on this connection have their response."""
        return self.current is None or self.current.is_complete

    def _should_upgrade(self) -> bool:
        """The legacy paths have no websockets, and HTTP/1.0 has no upgrades (RFC 9110, section 7.8)."""
        is_possible = self.parser.get_http_version() != "1.0" and not is_legacy(self.url)
        return is_possible and super()._should_upgrade()

    def is_unsupported_upgrade(self) -> bool:
        """Whether the request has an Upgrade header that is ignored: it is parsed a second time."""
        return self.parser.should_upgrade() and not self._should_upgrade()

    def budget_of_address(self) -> Budget:
        """Of a request without a token, or with one that is new to the process."""
        return self.admission.budgets.of_address(self.client[0] if self.client else "")

    def is_overloaded(self, budget: Budget) -> bool:
        return self.admission.rejects(budget) and not is_health_check(self.url)

    def is_stopping(self) -> bool:
        return self.is_ending or self.admission.is_draining

    def is_silent(self) -> bool:
        """Whether the connection waits for a request and no byte of it has arrived."""
        return self.phase is IDLE or (self.phase is HEADERS and not self.header_bytes)

    def body_limit(self) -> int:
        return self.admission.legacy_body_limit if is_legacy(self.url) else self.admission.graphql_body_limit

    def length_of_headers(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    # --- handling -------------------------------------------------------------------------------------

    def start_or_queue(self, cycle: RequestCycle) -> None:
        if not self.is_ready():
            self.queued.append(cycle)
        elif self.is_overloaded(cycle.scope["state"]["budget"]):
            self.reject_overloaded()
        else:
            self.start(cycle)

    def start_without_body(self, cycle: RequestCycle) -> None:
        """Lets the application reject a body that is too long, after its other checks and in its own
        format."""
        self.discard_input()
        self.phase = RESPONSE
        cycle.transport = LingeringTransport(self)  # type: ignore[assignment]
        cycle.keep_alive = False
        self.start_or_queue(cycle)
        self.flow.resume_reading()

    def start(self, cycle: RequestCycle) -> None:
        if self.is_stopping():
            cycle.keep_alive = False
        self.current = cycle
        state = cycle.scope["state"]
        app = self.app if cycle.is_forwarded else self.unforwarded
        turns = None if is_health_check(cycle.scope["raw_path"]) else self.admission.turns
        work = cycle.run(app, self.admission.dequeue, turns)
        self.task = task = asyncio.Task(work, loop=self.loop, context=Context())
        self.tasks.add(task)
        self.admission.enqueue(task, state["budget"])
        task.add_done_callback(self.on_task_done)

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if task in self.admission.running:  # the response is not complete
            self.admission.leave(task)
        if self.current is not None and self.current.is_complete:
            self.current.scope["state"].pop("request", None)  # the connection may stay open for long

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self.admission.leave(self.task)
        self.phase_since = self.now()
        if not self.flow.write_paused:
            self.note_unsent()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.queued:
            self.start(self.queued.popleft())
        elif self.phase is RESPONSE:
            self.phase = IDLE

    # --- rejections and the end of the connection -----------------------------------------------------

    def reject_overloaded(self) -> None:
        """Rejects a request and keeps the connection, since a new connection costs more than this
        response."""
        keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        if self.is_stopping() or self.discards_input or self.parser.should_upgrade() or not keep_alive:
            self.reject_and_close(503, OVERLOADED_MESSAGE)
            return
        self.phase, self.phase_since = IDLE, self.now()
        self.transport.write(self.rejection(503, OVERLOADED_MESSAGE, closes=False))
        if self.flow.write_paused:  # the client sends requests and reads no responses
            self.abort()

    def reject_long_head(self) -> None:
        if len(self.url) > MAX_HEADER_BYTES // 2:
            self.reject_and_close(414, TARGET_TOO_LONG)
        else:
            self.reject_and_close(431, HEADERS_TOO_LONG)

    def reject_and_close(self, status: int, message: str) -> None:
        """Sends a rejection and closes the connection. If earlier requests still wait for their responses,
        sends those instead."""
        if not self.is_ready():
            self.close_after_responses()
            return
        self.discard_input()
        self.transport.write(self.rejection(status, message, closes=True))
        self.linger()

    def make_room(self) -> None:
        if self.deferred:
            self.decide()
        else:
            self.reject_and_close(503, OVERLOADED_MESSAGE)

    def close_after_responses(self) -> None:
        """Closes the connection after the responses to the requests that were received completely."""
        self.discard_input()
        self.phase = RESPONSE
        last = self.queued[-1] if self.queued else self.current
        assert last is not None
        last.keep_alive = False
        last.transport = LingeringTransport(self)  # type: ignore[assignment]

    def rejection(self, status: int, message: str, closes: bool) -> bytes:
        method, self.url = self.parser.get_method(), without_origin(self.url)
        count_rejection(LIMITS.get(message, INVALID_HTTP), method, self.url)
        is_head = method == b"HEAD"
        date = self.server_state.default_headers
        return rejection(status, message, self.url, self.headers, is_head, date, closes)

    def linger(self) -> None:
        """Delays closing: closing a connection with unread bytes resets it, and the client may lose the
        response."""
        self.cancel_timer()
        if self.transport.is_closing():
            return
        self.forget_request()
        self.flow.resume_reading()
        self.transport.write_eof()
        self.timer = self.loop.call_later(min(LINGER_SECONDS, self.timeout), self.transport.abort)

    def forget_request(self) -> None:
        """Frees the memory of the incoming request: otherwise many rejected ones would add up meanwhile."""
        self.url, self.headers, self.headers_by_name = b"", [], {}
        self.phase = RESPONSE  # in which headers are ignored
        self.parser = None  # type: ignore[assignment]  # it keeps an incomplete header

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this for bytes that are not HTTP, also for bytes after a rejected request."""
        if not self.discards_input:
            # The parser stops at an unknown method, before the target.
            self.url = self.url or next(iter(self.chunk.split(b" ", 2)[1:2]), b"")
            self.reject_and_close(400, NOT_HTTP)

    def abort(self) -> None:
        self.discard_input()
        self.disconnect_cycles()
        reset(self.transport)

    def disconnect_cycles(self) -> None:
        """Drops the waiting requests, and tells the application that the client has disconnected."""
        self.queued.clear()
        if self.current is not None:
            self.current.disconnect()
            self.flow.resume_writing()

    def discard_input(self) -> None:
        self.discards_input = True
        self.incoming = None
        if self.deferred:
            self.drop_deferred()
        self.release()

    def release(self) -> None:
        if self.is_incomplete:
            self.is_incomplete = False
            self.admission.heads.remove(self)
            self.admission.bodies.remove(self)

    # --- clients that do not read ---------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.current is not None:
            # The transport counts the rest of a write, and keeps the whole until the end.
            size = max(self.transport.get_write_buffer_size(), self.current.written)
            if not self.unaccepted.hold(self.current.scope["state"]["budget"], size):
                self.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unaccepted.release()

    # --- timeouts and shutdown ------------------------------------------------------------------------

    def on_timeout(self) -> None:
        if self.transport.get_write_buffer_size() or self.transport.is_closing():
            self.abort()
        elif self.is_silent():
            self.transport.close()
        else:
            self.reject_and_close(408, TIMED_OUT)

    def shutdown(self) -> None:
        self.is_ending = True
        if seconds := self.config.timeout_graceful_shutdown:
            self.loop.call_later(ABORT_SHARE * seconds, self.abort_if_stalled)
        if self.is_silent():
            self.cancel_timer()
            self.timer = self.loop.call_later(GRACE_SECONDS, self.close_if_silent)
        elif self.current is not None:
            self.current.keep_alive = self.current.keep_alive and bool(self.queued)

    def abort_if_stalled(self) -> None:
        """Drops an incomplete request, or a response that the client does not read."""
        if self.is_ready():
            self.abort()

    def close_if_silent(self) -> None:
        if self.is_silent():
            self.transport.close()
        else:
            self.check_timeout()


def new_parser(protocol: EdgeProtocol) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(
        lenient_data_after_close=True,  # as uvicorn does
        lenient_version=True,  # a later HTTP/1.x is answered as 1.1 (RFC 9110, section 2.5)
    )
    return parser


class LingeringTransport:
    """The transport of the last response on a connection whose input is not read to its end."""

    def __init__(self, protocol: EdgeProtocol) -> None:
        self.write = protocol.transport.write
        self.abort = protocol.transport.abort
        self.get_extra_info = protocol.transport.get_extra_info
        self.close = protocol.linger
