"""A proxy of the old service, which sends the same requests to the new service and compares the responses.

Streams of any length pass, no request waits for another, and only connecting has a time limit.
"""

import asyncio
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from queue import SimpleQueue
from urllib.parse import urlsplit

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from app.auth.tokens import application_of, unverified_claims
from app.http.errors import legacy_reply
from app.http.messages import join_repeated, request_id_of, send_reply
from app.http.paths import path_name
from app.server.timeouts import reset
from app.usage.counts import UNKNOWN, name_of, product
from moving_over import LegacyMigrationError
from moving_over.comparison import Comparison
from moving_over.http_client import Address, BodyTooLong, Connection, RequestFailed, Response, tls_context
from moving_over.recorded_calls import Call
from moving_over.shadow_counts import Counts, Found, differences_in

MAX_WAITING, MAX_WAITING_BYTES = 1000, 8 * 1024 * 1024
MAX_BYTES = 1024 * 1024  # of a request with its response that are compared: parsing delays other threads
REST = 9  # times as long as it computes, a comparison rests: clients need the interpreter
SAMPLE = 100  # of so many equal responses, one is requested again
MAX_HEAD = 65536  # bytes of a request's line and headers
HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
FRAMING = {b"content-length", b"transfer-encoding"}
STATUS_PHRASES.update(dict.fromkeys(range(600, 1000), b""))  # some proxies send them, and uvicorn lacks them
OWN = {b"host", b"expect", b"x-forwarded-for", *FRAMING}  # headers of requests that the proxy sets or handles


class Shadow:
    """A bounded queue of responses, and threads that compare them. One thread keeps the order of changes."""

    def __init__(self, comparison: Comparison, counts: Counts) -> None:
        self.comparison, self.counts = comparison, counts
        self.waiting: SimpleQueue[tuple[str, str, Call, Response, int]] = SimpleQueue()
        self.waiting_bytes = 0
        self.lock, self.judging = threading.Lock(), threading.Lock()
        self.samples = count(1)
        for _ in range(1 if comparison.with_changes else comparison.concurrency):
            threading.Thread(target=self.work, daemon=True).start()

    def offer(self, call: Call, old: Response | None, failure: str = "") -> None:
        """Queues a response of the old service, or counts why it is not compared. Never waits."""
        if (path := path_name(call.method, call.path)) is None:
            return
        application = UNKNOWN if old is None or old.status in (401, 403) else application_in(call)
        if old is None or failure or has_failed(old):
            return self.counts.note(path, application, failure or "old failed", {})
        size = len(call.body or b"") + len(old.body)
        with self.lock:
            fits = self.waiting.qsize() < MAX_WAITING and self.waiting_bytes + size <= MAX_WAITING_BYTES
            if fits and size <= MAX_BYTES:
                self.waiting_bytes += size
                return self.waiting.put((path, application, call, old, size))
        self.counts.note(path, application, "dropped", {})

    def work(self) -> None:
        services = filter(None, (self.comparison.old, self.comparison.new))
        old, new = (Connection(each.address, self.comparison.timeout, MAX_BYTES) for each in services)
        while True:
            path, application, call, response, size = self.waiting.get()
            try:
                outcome, found = self.compare(path, call, response, old, new)
            except Exception as error:  # whatever the new service sends, the next response is compared
                outcome, found = "dropped" if isinstance(error, BodyTooLong) else "failed", {}
            self.counts.note(path, application, outcome, found)
            with self.lock:
                self.waiting_bytes -= size

    def compare(
        self, path: str, call: Call, response: Response, old: Connection, new: Connection
    ) -> tuple[str, dict[Found, str]]:
        """The outcome, and the differences with the outcome of each."""
        if not (call.is_safe or self.comparison.with_changes):
            # Without its body the new service only counts the change for its usage report, and rejects it.
            names = [each for each in ("authorization", "user-agent") if each in call.headers]
            new.send_once(call.method, call.path, {name: call.headers[name] for name in names}, None)
            return "not compared", {}
        headers = MutableHeaders(call.headers)
        del headers["host"]  # with --keep-host the client's, which only the old service gets
        found, _ = self.differences(replace(call, headers=headers), response, new)
        noise = {each for each in found if self.counts.is_noise(path, each)}
        if call.is_safe and (noise < found or next(self.samples) % SAMPLE == 0):
            with suppress(RequestFailed, LegacyMigrationError):
                changed, again = self.differences(call, response, old)
                if not has_failed(again):  # a failure explains nothing
                    self.counts.learn(path, changed)
                    # The row was added or removed meanwhile. An expired token says nothing about the row.
                    noise |= found if again.status not in (response.status, 401) else found & changed
        outcome = "different" if noise < found else "explained" if found else "same"
        return outcome, {each: "explained" if each in noise else "different" for each in found}

    def differences(self, call: Call, response: Response, service: Connection) -> tuple[set[Found], Response]:
        """Between the response and that of `service` to the same call."""
        other = service.send_once(call.method, call.path, call.headers, call.body)
        with self.judging:
            start = time.thread_time()
            found = differences_in(self.comparison.judge(call, response, other, MAX_BYTES))
            time.sleep(REST * (time.thread_time() - start))
        return found, other


def has_failed(response: Response) -> bool:
    return response.status in (408, 429) or response.status >= 500


def application_in(call: Call) -> str:
    """Named by the token, which the old service has accepted, or else by the User-Agent."""
    claims = unverified_claims(call.headers.get("authorization", "").partition(" ")[2])
    return product(application_of(claims)) or name_of(call.headers.get("user-agent"))


class Exchange:
    """A request and its response, with copies that end where they are too long to be compared."""

    def __init__(self, head: h11.Request, request: Request, send: Send) -> None:
        self.head, self.request, self.send = head, request, send
        self.http = h11.Connection(h11.CLIENT, MAX_HEAD)
        self.bodies = bytearray(), bytearray()
        self.response: Response | None = None
        self.failure = "dropped"  # if the client leaves before the end

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = asyncio.create_task(self.upload(writer)), asyncio.create_task(self.download(reader))
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            if down.done():
                down.result()
        finally:
            up.cancel()
            down.cancel()
            writer.close()

    async def upload(self, writer: asyncio.StreamWriter) -> None:
        """Ends when the client has left, or has its response."""
        with suppress(OSError, ClientDisconnect):  # the old service may respond before the end of the body
            writer.write(self.http.send(self.head) or b"")
            async for part in self.request.stream():
                self.bodies[0].extend(part if len(self.bodies[0]) <= MAX_BYTES else b"")
                writer.write(self.http.send(h11.Data(part)) or b"")
                await writer.drain()
            writer.write(self.http.send(h11.EndOfMessage()) or b"")
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    async def download(self, reader: asyncio.StreamReader) -> None:
        while not isinstance(event := self.http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                self.http.receive_data(await reader.read(MAX_HEAD))
            elif isinstance(event, h11.Response):
                headers = end_to_end(event.headers.raw_items())
                joined = join_repeated(event.headers).items()
                decoded = {name.decode(): value.decode("latin-1") for name, value in joined}
                self.response = Response(event.status_code, decoded, b"")
                start = {"type": "http.response.start", "status": event.status_code, "headers": headers}
                await self.send(start)
            elif isinstance(event, h11.Data):
                self.bodies[1].extend(event.data if len(self.bodies[1]) <= MAX_BYTES else b"")
                await self.send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        await self.send({"type": "http.response.body"})
        self.failure = ""


class ShadowProtocol(H11Protocol):
    """Gives requests their transport. Only this protocol of uvicorn keeps the case of headers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


def create_proxy(old: Address, timeout: float, shadow: Shadow, keeps_host: bool = False) -> ASGIApp:
    tls = tls_context() if old.is_secure else None

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if (b"upgrade", b"websocket") in scope["headers"]:
            return await reject(scope, send, 501, "the shadow does not support websockets")
        call, head = read_head(scope, old, keeps_host)
        exchange = Exchange(head, Request(scope, receive), send)
        try:
            async with asyncio.timeout(timeout):
                connection = await asyncio.open_connection(old.host, old.port, ssl=tls)
            await exchange.run(*connection)
        except (OSError, UnicodeError, h11.RemoteProtocolError) as error:
            exchange.failure = "old failed"
            if exchange.response is None:
                status = 504 if isinstance(error, TimeoutError) else 502
                await reject(scope, send, status, "the service did not answer")
            elif scope["http_version"] == "1.0":  # in HTTP/1.1 the end of a body is marked
                reset(scope["state"]["transport"])
        request, response = map(bytes, exchange.bodies)
        answer = exchange.response and replace(exchange.response, body=response)
        shadow.offer(replace(call, body=request or None), answer, exchange.failure)

    return proxy


def read_head(scope: Scope, old: Address, keeps_host: bool) -> tuple[Call, h11.Request]:
    """The call to compare, and the head that the old service receives."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    own = join_repeated(each for each in scope["headers"] if each[0] in OWN)
    senders = filter(None, (own.get(b"x-forwarded-for"), scope["client"][0].encode()))
    headers = [each for each in end_to_end(scope["headers"]) if each[0] not in OWN]
    headers.append((b"x-forwarded-for", b", ".join(senders)))
    host = [(b"host", own.get(b"host", b""))] if keeps_host else []
    sent = Headers(raw=[*host, *headers])
    call = Call(0, scope["method"], target.decode("latin-1"), None, None, sent, None, 0)
    host = host or [(b"host", urlsplit(old.text).netloc.encode())]
    framing = [name for name in (b"transfer-encoding", b"content-length") if name in own][:1]  # never both
    headers = [*host, *headers, *((name, own[name]) for name in framing)]
    return call, h11.Request(method=call.method, target=old.prefix.encode() + target, headers=headers)


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without the headers that concern only one connection."""
    found = [(name, value.strip()) for name, value in headers]
    named = b",".join(value for name, value in found if name.lower() == b"connection").lower().split(b",")
    return [each for each in found if each[0].lower() not in HOP_BY_HOP.union(map(bytes.strip, named))]


async def reject(scope: Scope, send: Send, status: int, message: str) -> None:
    await send_reply(scope, send, legacy_reply(scope, status, message), request_id_of(scope))
