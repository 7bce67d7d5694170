"""Sends the same calls to two services concurrently and compares their responses."""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from gzip import GzipFile
from io import BytesIO
from queue import SimpleQueue

from moving_over import LegacyMigrationError
from moving_over.body_diff import MISSING, Difference, Likeness, Masks, compare_bodies
from moving_over.http_client import (
    MAX_RESPONSE_BYTES,
    Address,
    BodyTooLong,
    Connection,
    RequestFailed,
    Response,
)
from moving_over.recorded_calls import Call
from moving_over.tokens import UserToken

HEADERS = ("content-type", "content-encoding", "www-authenticate", "allow", "location")  # clients use them
QUEUED_CALLS = 4  # per thread, so that a long file is not read ahead


class Outcome(StrEnum):
    SAME = "SAME"
    DIFFERENT = "DIFFERENT"
    FAILED = "FAILED"  # at least one response is missing
    SKIPPED = "SKIPPED"  # the call changes data, and --changes was not given


@dataclass(frozen=True)
class Service:
    name: str  # "old" or "new"
    address: Address
    tokens: list[UserToken]


@dataclass(frozen=True)
class CallResult:
    call: Call
    outcome: Outcome
    reason: str = ""  # of a failure
    statuses: tuple[int, int] = (0, 0)  # old and new
    headers: list[Difference] = field(default_factory=list)
    body: Likeness = Likeness.SAME
    members: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    old: Service | None  # None compares with the recorded responses
    new: Service
    masks: Masks
    timeout: float
    headers: tuple[str, ...] = HEADERS
    with_changes: bool = False
    is_loose: bool = False  # ignores formatting and the order of members
    concurrency: int = 4

    def run(self, calls: Iterable[Call]) -> Iterator[CallResult]:
        """In the order of the calls. Changes depend on each other, so with changes it sends one by one."""
        threads = 1 if self.with_changes else self.concurrency
        idle: SimpleQueue[dict[str, Connection]] = SimpleQueue()  # to both services; one item per thread
        for _ in range(threads):
            services = [self.new] if self.old is None else [self.old, self.new]
            idle.put({each.name: Connection(each.address, self.timeout) for each in services})
        pool = ThreadPoolExecutor(threads)
        waiting: deque[Future[CallResult]] = deque()
        try:
            for call in calls:
                waiting.append(pool.submit(self.compare, call, idle))
                if len(waiting) > threads * QUEUED_CALLS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            for _ in range(threads):
                for connection in idle.get().values():
                    connection.close()

    def compare(self, call: Call, idle: SimpleQueue[dict[str, Connection]]) -> CallResult:
        if not call.is_safe and not self.with_changes:
            return CallResult(call, Outcome.SKIPPED)
        connections = idle.get()
        try:
            old = recorded_response(call) if self.old is None else send(call, self.old, connections)
            new = send(call, self.new, connections)
            if new.status == 401 and old.status < 400:
                raise RequestFailed("the new service rejects the token (401)")
            return self.judge(call, old, new)
        except RequestFailed as error:
            return CallResult(call, Outcome.FAILED, str(error))
        finally:
            idle.put(connections)

    def judge(
        self, call: Call, old: Response, new: Response, max_bytes: int = MAX_RESPONSE_BYTES
    ) -> CallResult:
        """Raises BodyTooLong if one is longer when it is unzipped."""
        old, new = unzipped(old, max_bytes), unzipped(new, max_bytes)
        headers = [] if self.old is None else self.compare_headers(old.headers, new.headers)
        body, members = compare_bodies(old.body, new.body, self.masks)
        if self.is_loose and body in (Likeness.WRITING, Likeness.ORDER):
            body = Likeness.SAME
        is_same = old.status == new.status and not headers and body is Likeness.SAME
        outcome = Outcome.SAME if is_same else Outcome.DIFFERENT
        return CallResult(call, outcome, "", (old.status, new.status), headers, body, members)

    def compare_headers(self, old: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
        return [
            Difference(name, old.get(name, MISSING), new.get(name, MISSING))
            for name in self.headers
            if (name in old or name in new)
            and not self.masks.match(self.masks.headers, (name,))
            and old.get(name) != new.get(name)
        ]


def unzipped(response: Response, max_bytes: int) -> Response:
    """Equal bodies may be compressed differently."""
    if response.headers.get("content-encoding") == "gzip":
        with suppress(EOFError, OSError, zlib.error), GzipFile(fileobj=BytesIO(response.body)) as file:
            body = file.read(max_bytes + 1)
            if len(body) > max_bytes:
                raise BodyTooLong("the response is too long")
            return replace(response, body=body)
    return response


def recorded_response(call: Call) -> Response:
    body = call.response_body()
    if body is None:
        raise RequestFailed("the file contains no response")
    return Response(call.status, {}, body)


def send(call: Call, service: Service, connections: Mapping[str, Connection]) -> Response:
    token = find_token(service, call)
    try:
        return connections[service.name].send(call.method, call.path, token, call.headers, call.body)
    except RequestFailed as error:
        raise RequestFailed(f"the {service.name} service: {error}") from None


def find_token(service: Service, call: Call) -> str | None:
    """The token of the call's user, or the first token of its role."""
    if call.role is None:
        return None
    for each in service.tokens:
        if each.role == call.role and call.user in (None, each.user):
            return each.token
    role = call.role.lower()
    raise LegacyMigrationError(
        f"line {call.line}: the {service.name} service has no token of this {role}; "
        f"add it to a file given with --{role}s"
    )
