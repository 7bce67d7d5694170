"""A proxy of the old service, which sends the same requests to the new service and compares the responses."""

import asyncio
import threading
import time
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from queue import SimpleQueue

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from app.auth.tokens import application_of, unverified_claims
from app.http.errors import legacy_reply
from app.http.messages import join_repeated, read_body, request_id_of, send_reply
from app.http.paths import path_name
from app.rest_compat.usage import UNKNOWN, name_of
from moving_over import LegacyMigrationError
from moving_over.comparison import Comparison
from moving_over.http_client import Address, Connection, RequestFailed, Response, tls_context
from moving_over.recorded_calls import Call
from moving_over.shadow_counts import Counts, Found, differences_in

MAX_AT_ONCE = 128  # requests to the old service; more wait
MAX_WAITING, MAX_WAITING_BYTES = 1000, 8 * 1024 * 1024
MAX_BYTES = 1024 * 1024  # of a request, and of a response that is compared: parsing delays other threads
REST = 9  # times as long as it computes, a comparison rests: clients need the interpreter
SAMPLE = 100  # of so many equal responses, one is requested again
HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
OWN = {b"host", b"content-length", b"expect"}  # headers of requests that the proxy sets or handles


class Shadow:
    """A bounded queue of responses, and threads that compare them. One thread keeps the order of changes."""

    def __init__(self, comparison: Comparison, counts: Counts) -> None:
        self.comparison = comparison
        self.counts = counts
        self.waiting: SimpleQueue[tuple[str, str, Call, Response, int]] = SimpleQueue()
        self.waiting_bytes = 0
        self.lock, self.judging = threading.Lock(), threading.Lock()
        self.samples = count(1)
        for _ in range(1 if comparison.with_changes else comparison.concurrency):
            threading.Thread(target=self.work, daemon=True).start()

    def offer(self, call: Call, old: Response | None) -> None:
        """Queues a response of the old service, or counts why it is not compared. Never waits."""
        path = path_name(call.method, call.path)
        if path is None or not (call.is_safe or self.comparison.with_changes):
            return
        application = UNKNOWN if old is None or old.status in (401, 403) else application_in(call)
        if old is None or old.status >= 500:
            return self.counts.note(path, application, "old failed", {})
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
            outcome, found = "failed", dict[Found, str]()
            with suppress(Exception):  # whatever the new service sends, the next response is compared
                outcome, found = self.compare(path, call, response, old, new)
            self.counts.note(path, application, outcome, found)
            with self.lock:
                self.waiting_bytes -= size

    def compare(
        self, path: str, call: Call, response: Response, old: Connection, new: Connection
    ) -> tuple[str, dict[Found, str]]:
        """The outcome, and the differences with the outcome of each."""
        found = self.differences(call, response, new)
        noise = {each for each in found if self.counts.is_noise(path, each)}
        if call.is_safe and (noise < found or next(self.samples) % SAMPLE == 0):
            try:
                again = self.differences(call, response, old)
            except (RequestFailed, LegacyMigrationError):
                return "old failed", {}
            self.counts.learn(path, again)
            noise |= found if any(kind == "status" for _, kind in again) else found & again
        outcome = "different" if noise < found else "explained" if found else "same"
        return outcome, {each: "explained" if each in noise else "different" for each in found}

    def differences(self, call: Call, response: Response, service: Connection) -> set[Found]:
        """Between the response and that of `service` to the same call."""
        other = service.send_once(call.method, call.path, call.headers, call.body)
        with self.judging:
            start = time.thread_time()
            found = differences_in(self.comparison.judge(call, unzipped(response), unzipped(other)))
            time.sleep(REST * (time.thread_time() - start))
        return found


def application_in(call: Call) -> str:
    """Named by the token, which the old service has accepted, or else by the User-Agent."""
    claims = unverified_claims(call.headers.get("authorization", "").partition(" ")[2])
    return application_of(claims) or name_of(call.headers.get("user-agent"))


def unzipped(response: Response) -> Response:
    if response.headers.get("content-encoding") == "gzip":
        with suppress(zlib.error):
            return replace(response, body=zlib.decompressobj(wbits=31).decompress(response.body, MAX_BYTES))
    return response


def create_proxy(old: Address, timeout: float, shadow: Shadow) -> ASGIApp:
    pool = ThreadPoolExecutor(MAX_AT_ONCE)
    local = threading.local()
    tls_context()  # not by each of the first requests

    def exchange(call: Call) -> Response:
        connection: Connection = local.__dict__.setdefault("connection", Connection(old, timeout))
        return connection.send_once(call.method, call.path, call.headers, call.body)

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        body = None
        with suppress(ClientDisconnect):
            body = await read_body(scope, receive, MAX_BYTES)
        if body is None:
            return await reject(scope, send, 413, f"the body may have at most {MAX_BYTES} bytes")
        call, response = call_of(scope, body), None
        try:
            async with asyncio.timeout(timeout):
                response = await asyncio.get_running_loop().run_in_executor(pool, exchange, call)
            headers = end_to_end((k.encode("latin-1"), v.encode("latin-1")) for k, v in response.received)
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await send({"type": "http.response.body", "body": response.body})
        except (TimeoutError, RequestFailed, LegacyMigrationError) as error:
            is_late = TimeoutError in (type(error), type(error.__context__))
            await reject(scope, send, 504 if is_late else 502, "the service did not answer")
        shadow.offer(call, response)

    return proxy


def call_of(scope: Scope, body: bytes) -> Call:
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    joined = join_repeated(each for each in end_to_end(scope["headers"]) if each[0] not in OWN)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in joined.items()}
    return Call(0, scope["method"], target.decode("latin-1"), None, None, headers, body or None, 0)


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without the headers that concern only one connection."""
    found = [(name, value.strip()) for name, value in headers]
    named = b",".join(value for name, value in found if name.lower() == b"connection").lower().split(b",")
    return [each for each in found if each[0].lower() not in HOP_BY_HOP.union(map(bytes.strip, named))]


async def reject(scope: Scope, send: Send, status: int, message: str) -> None:
    await send_reply(scope, send, legacy_reply(scope, status, message), request_id_of(scope))
