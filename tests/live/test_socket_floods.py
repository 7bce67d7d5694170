"""A websocket that floods the server is closed with a code or read slowly, before and after sign-in. Of many
incomplete heads the oldest are rejected. Health checks are answered, and memory hardly grows."""

import asyncio
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.db.admin.migrate import migrate
from app.main import create_app
from app.server.admission import MAX_BODIES, MAX_HEADS
from app.server.sockets import FRAMES_AT_ONCE, MAX_PENDING, MESSAGES_AT_ONCE, PENDING_BYTES, PENDING_FRAMES
from app.settings import Environment, Settings
from tests import keys
from tests.callers import load
from tests.factories import a_world
from tests.live.edge import Connection, Edge, request, serve_app
from tests.live.processes import serving
from tests.ports import free_port

pytestmark = pytest.mark.live

MIB = 1024 * 1024
LIVEZ = request("GET", "/livez", b"connection: close\r\n")
UPGRADE = (
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: graphql-transport-ws\r\n"
)
DEFLATE = b"sec-websocket-extensions: permessage-deflate; client_no_context_takeover\r\n"
CONTINUATION, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
COMPRESSED = 0x40
TOO_MANY_FRAMES = (1008, "too many frames")


@dataclass
class Served(Edge):
    pid: int
    metrics: str

    def rejected(self, limit: str) -> float:
        data = httpx2.get(self.metrics).text.splitlines()
        name = f'care_limit_refusals_total{{limit="{limit}"}} '
        return float(next((line.removeprefix(name) for line in data if line.startswith(name)), 0))

    def closes(self) -> Counter[str]:
        """The closed websockets, by the labels of their metric."""
        name = "care_websocket_closes_total"
        lines = [line for line in httpx2.get(self.metrics).text.splitlines() if line.startswith(name)]
        return Counter(
            {labels: int(float(value)) for labels, value in (each[len(name) :].split() for each in lines)}
        )

    def memory(self) -> int:
        """The peak memory of the process in bytes since the last call."""
        folder = Path(f"/proc/{self.pid}")
        [peak] = [line for line in (folder / "status").read_text().splitlines() if line.startswith("VmHWM:")]
        (folder / "clear_refs").write_text("5")  # starts anew from what it holds now
        return int(peak.split()[1]) * 1024

    @contextmanager
    def socket(self, is_signed_in: bool, *headers: bytes, receive_buffer: int = 0) -> Iterator["Socket"]:
        with self.connection(receive_buffer) as connection:
            assert connection.fetch(request("GET", "/graphql", UPGRADE, *headers)).status == 101
            one = Socket(connection)
            if is_signed_in:
                token = keys.token("CAREGIVER", "caregiver-1")
                one.send(type="connection_init", payload={"Authorization": f"bearer {token}"})
                assert one.message() == {"type": "connection_ack"}
            yield one


@dataclass
class Socket:
    connection: Connection
    inflate: Any = field(default_factory=lambda: zlib.decompressobj(wbits=-15))

    def send(self, **message: Any) -> None:
        self.connection.send(frame(TEXT, json.dumps(message).encode()))

    def frame(self) -> tuple[int, bytes]:
        """The next frame: its opcode and its payload."""
        first, length = self.connection.read(2)
        if length == 126:
            length = int.from_bytes(self.connection.read(2), "big")
        assert length < 127, "a frame of more than 64 KiB"
        payload = self.connection.read(length)
        if first & COMPRESSED:
            payload = self.inflate.decompress(payload + b"\0\0\xff\xff")
        return first & 15, payload

    def message(self) -> Any:
        opcode, payload = self.frame()
        assert opcode == TEXT, (opcode, payload)
        return json.loads(payload)

    def until_closed(self) -> tuple[list[int], tuple[int, str]]:
        """The opcodes of the frames that still come, and the code and reason of the close frame."""
        opcodes = []
        while True:
            opcode, payload = self.frame()
            if opcode == CLOSE:
                assert self.connection.read_to_end() == b""
                return opcodes, (int.from_bytes(payload[:2], "big"), payload[2:].decode())
            opcodes.append(opcode)


def frame(opcode: int, payload: bytes = b"", is_final: bool = True, flags: int = 0) -> bytes:
    first = bytes([(0x80 if is_final else 0) | flags | opcode])
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = b"\xfe" + size.to_bytes(2, "big") if size < 65536 else b"\xff" + size.to_bytes(8, "big")
    return first + length + bytes(4) + payload  # masked by zeros


def compressed(payload: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-12)
    return frame(TEXT, (deflate.compress(payload) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4], flags=COMPRESSED)


def ping_of(length: int, filler: bytes) -> bytes:
    """A ping of graphql-transport-ws, which is a message."""
    start, end = b'{"type": "ping", "payload": {"": [', b'""]}}'
    return start + filler * ((length - len(start) - len(end)) // len(filler)) + end


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("floods")
    database = f"sqlite:///{folder}/care.db"
    asyncio.run(migrate(database))
    load(database, a_world())
    metrics, log = str(free_port()), folder / "log"
    with serving(log, database_url=database, token_key=keys.public_pem(), metrics_port=metrics) as one:
        host, _, port = one.url.removeprefix("http://").partition(":")
        assert one.process.pid
        yield Served(host, int(port), database, one.process.pid, f"http://{host}:{metrics}/metrics")


# --- one websocket ---

FLOODS = {
    "pings": frame(PING, b"x" * 125) * 2000,
    "empty pings": frame(PING) * 20_000,
    "pongs": frame(PONG) * 20_000,
    "continuation frames": frame(TEXT, is_final=False) + frame(CONTINUATION, is_final=False) * 20_000,
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("is_signed_in", [False, True], ids=["before sign-in", "signed in"])
def test_a_websocket_that_sends_too_many_frames_is_closed(
    served: Served, name: str, is_signed_in: bool
) -> None:
    with served.socket(is_signed_in) as one:
        one.connection.send(FLOODS[name])
        opcodes, closed = one.until_closed()

    limit = (
        2 * FRAMES_AT_ONCE if is_signed_in else PENDING_FRAMES
    )  # signed in it may send more as time goes by
    minimum = FRAMES_AT_ONCE if is_signed_in else PENDING_FRAMES
    assert closed == TOO_MANY_FRAMES
    assert set(opcodes) <= {PONG}
    assert len(opcodes) == 0 or minimum <= len(opcodes) <= limit
    assert ("pings" in name) == bool(opcodes)


ENDED_BY_SERVER = {
    "too many frames": (FLOODS["empty pings"], 1008),
    "a long message": (frame(TEXT, b" " * 300_000), 1009),
    "an unknown kind of frame": (frame(3), 1002),
    "a text that is not UTF-8": (frame(TEXT, b"\xff"), 1007),
}


@pytest.mark.parametrize(("data", "code"), ENDED_BY_SERVER.values(), ids=list(ENDED_BY_SERVER))
def test_a_websocket_that_the_server_ends_counts_as_closed_by_the_server(
    served: Served, data: bytes, code: int
) -> None:
    before = served.closes()

    with served.socket(is_signed_in=True) as one:
        one.connection.send(data)
        _, (received, _) = one.until_closed()

    assert received == code
    assert served.closes() - before == {f'{{by="server",code="{code}"}}': 1}


def test_a_websocket_that_the_client_ends_counts_as_closed_by_the_client(served: Served) -> None:
    before = served.closes()

    with served.socket(is_signed_in=True) as one:
        one.connection.send(frame(CLOSE, b"\x03\xe9"))
        assert one.until_closed() == ([], (1001, ""))

    assert served.closes() - before == {'{by="client",code="1001"}': 1}


def test_messages_before_sign_in_count_as_frames(served: Served) -> None:
    with served.socket(is_signed_in=False) as one:
        one.connection.send(frame(TEXT, b'{"type": "ping"}') * 1000)
        opcodes, closed = one.until_closed()

    assert closed == TOO_MANY_FRAMES
    assert len(opcodes) <= PENDING_FRAMES


def test_frames_after_the_close_of_the_server_are_counted(served: Served) -> None:
    before = served.rejected("frames of a websocket")

    with served.socket(is_signed_in=True) as one, suppress(ConnectionError):
        one.connection.send(frame(TEXT, b"no message"))
        while one.frame()[0] != CLOSE:
            pass
        one.connection.send(frame(TEXT, b"1") * 20_000)
        one.connection.read_to_end()

    assert served.rejected("frames of a websocket") == before + 1


def test_queued_messages_are_processed_at_a_limited_rate(served: Served) -> None:
    count = 10_000

    with served.socket(is_signed_in=True) as one:
        one.connection.send(frame(TEXT, b'{"type": "ping"}') * count)
        first = one.message()
        assert served.fetch(LIVEZ).status == 200
        one.connection.socket.setblocking(False)
        received = b""
        with suppress(BlockingIOError):
            while piece := one.connection.socket.recv(65536):
                received += piece

    assert first == {"type": "pong"}
    assert received.count(b"pong") < count // 2


def test_queued_messages_are_answered_in_order(served: Served) -> None:
    count = MESSAGES_AT_ONCE // 4

    with served.socket(is_signed_in=True) as one:
        for number in range(count):
            one.send(type="subscribe", id=str(number), payload={"query": "{ viewer { role } }"})
            one.connection.send(frame(PING, b"%d" % number))
        received = [one.frame() for _ in range(3 * count)]

    pongs = [payload for opcode, payload in received if opcode == PONG]
    messages = [json.loads(payload) for opcode, payload in received if opcode == TEXT]
    assert pongs == [b"%d" % number for number in range(count)]
    assert [each["id"] for each in messages if each["type"] == "next"] == [str(n) for n in range(count)]


@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "compressed"])
def test_the_first_message_has_a_lower_length_limit(served: Served, is_compressed: bool) -> None:
    long = ping_of(PENDING_BYTES + 100, b'"",')
    data = compressed(long) if is_compressed else frame(TEXT, long)

    with served.socket(False, DEFLATE) as one:
        one.connection.send(data)
        _, (code, _) = one.until_closed()
    with served.socket(True) as one:
        one.connection.send(frame(TEXT, long))
        answer = one.message()

    assert (code, answer) == (1009, {"type": "pong"})


@pytest.mark.parametrize("header", [b"sec-websocket-version: 12\r\n", b"a: %b\r\n" % (b"b" * 10_000)])
def test_a_rejected_handshake_is_counted(served: Served, header: bytes) -> None:
    before = served.rejected("invalid HTTP")

    with served.connection() as connection:
        connection.send(request("GET", "/graphql", UPGRADE, header))
        assert connection.read_to_end().startswith(b"HTTP/1.1 4")

    assert served.rejected("invalid HTTP") == before + 1


# --- many websockets ---


def test_the_oldest_unauthenticated_websockets_are_closed_first(served: Served) -> None:
    with ExitStack() as stack:
        signed_in = stack.enter_context(served.socket(is_signed_in=True))
        oldest = [stack.enter_context(served.socket(is_signed_in=False)) for _ in range(2)]
        others = [stack.enter_context(served.socket(is_signed_in=False)) for _ in range(MAX_PENDING)]
        closed = [each.until_closed() for each in oldest]
        for one in (signed_in, others[0], others[-1]):
            one.send(type="ping")
        still = [one.message() for one in (signed_in, others[0], others[-1])]

    assert closed == [([], (1013, "too many websockets that are not signed in"))] * 2
    assert still == [{"type": "pong"}] * 3


LONG = 262_000
SPACES = b'{"type": "ping", "payload": {"": "%b"}}' % (b" " * LONG)
MANY_SOCKETS = {
    "compressed messages before sign-in": (False, compressed(SPACES) * 100),
    "compressed messages": (True, compressed(SPACES) * 100),
    "messages of many values": (True, frame(TEXT, ping_of(LONG, b"[],"))),
}


@pytest.mark.parametrize("name", MANY_SOCKETS)
def test_many_flooding_websockets_use_little_memory(served: Served, name: str) -> None:
    is_signed_in, flood = MANY_SOCKETS[name]

    with ExitStack() as stack:
        sockets = [
            stack.enter_context(served.socket(is_signed_in, DEFLATE, receive_buffer=4096)) for _ in range(50)
        ]
        served.memory()
        before = served.memory()
        for one in sockets:
            with suppress(ConnectionError):  # closed meanwhile
                one.connection.send(flood)
        assert served.fetch(LIVEZ).status == 200
        answers = [one.message() for one in sockets if is_signed_in]

        assert answers == [{"type": "pong"}] * len(answers)
        assert served.memory() - before < 50 * MIB


def test_a_client_that_answers_no_ping_gets_no_close_code(tmp_path: Path) -> None:
    """After 1011 some clients do not reconnect, for example when a computer wakes up."""
    settings = Settings(
        env=Environment.DEVELOPMENT, var=str(tmp_path), database_url=f"sqlite:///{tmp_path}/db"
    )
    asyncio.run(migrate(settings.database))

    with (
        serve_app(create_app(settings), ws_ping_interval=0.01, ws_ping_timeout=0.01) as address,
        Edge(*address, "").connection() as connection,
    ):
        assert connection.fetch(request("GET", "/graphql", UPGRADE)).status == 101
        pings = connection.read_to_end()

    assert {pings[at] for at in range(0, len(pings), 6)} == {0x89}


# --- many incomplete heads ---

HEAD = request("GET", "/livez", b"x-long: %b\r\n" % (b"y" * 60_000)).removesuffix(b"\r\n")
AT_MOST = MAX_HEADS // len(HEAD)


BODY = request("POST", "/graphql", b"content-length: 250000\r\n") + b" " * 249_999
HEAD_OF_BODY = request("POST", "/graphql", b"content-length: 2\r\nx-long: %b\r\n" % (b"y" * 60_000))
INCOMPLETE = {
    "heads": (HEAD, AT_MOST, b"\r\n", 200),
    "bodies": (BODY, MAX_BODIES // 249_999, b" ", 401),
    "heads of bodies": (HEAD_OF_BODY, MAX_BODIES // len(HEAD_OF_BODY), b"{}", 401),
}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_the_oldest_incomplete_requests_are_rejected_first(served: Served, name: str) -> None:
    start, at_most, end, status = INCOMPLETE[name]

    with ExitStack() as stack:
        oldest = stack.enter_context(served.connection())
        oldest.send(start)
        assert served.fetch(LIVEZ).status == 200  # the bytes of the oldest have been read by now
        others = [stack.enter_context(served.connection()) for _ in range(at_most)]
        for one in others:
            one.send(start)
        rejected = oldest.receive()
        assert oldest.read_to_end() == b""
        newest = others[-1].fetch(end)
        in_two_pieces = stack.enter_context(served.connection())
        in_two_pieces.send(LIVEZ[:10])
        in_two_pieces.wait()
        second = in_two_pieces.fetch(LIVEZ[10:])

    assert (rejected.status, rejected.message) == (503, "server overloaded")
    assert (newest.status, second.status) == (status, 200)


MANY_HEADS = {
    "long headers": (HEAD, 4 * AT_MOST),
    "many headers": (request("GET", "/livez", b"x: y\r\n" * 98).removesuffix(b"\r\n"), 700),
}


@pytest.mark.parametrize("name", MANY_HEADS)
def test_many_incomplete_heads_use_little_memory(served: Served, name: str) -> None:
    head, count = MANY_HEADS[name]

    with ExitStack() as stack:
        connections = [stack.enter_context(served.connection()) for _ in range(count)]
        served.memory()
        before = served.memory()
        for one in connections:
            one.send(head)
        assert served.fetch(LIVEZ).status == 200

        assert connections[0].receive().status == 503
        assert served.memory() - before < 2 * MAX_HEADS
