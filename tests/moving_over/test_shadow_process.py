"""`legacy shadow` changes nothing for clients, whatever the new service does, and keeps no values."""

import gzip
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from signal import SIGTERM
from urllib.parse import urlsplit

import orjson
import pytest
from click.testing import CliRunner

from app.cli import main
from tests import keys
from tests.live.processes import PATIENCE
from tests.moving_over.shadows import RawService, RunningShadow, address_of, fetch, shadowing

pytestmark = pytest.mark.live

PATH = "/gateway/profile/caregiver/session/assignment"
NOWHERE = "http://127.0.0.1:1"
TOKEN = f"bearer {keys.token('CAREGIVER', 'caregiver-1')}"
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "x-hop")


def ok(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, length, b"", body])


# --- what clients receive ---

ZIPPED = gzip.compress(b'{"a": 1}')
CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n%b\r\n\r\n%x\r\n%b\r\n4\r\n":1}\r\n0\r\n\r\n'
ANSWERS = {
    "/usual": ok(b'{"a": 1}', b"Content-Type: application/json;charset=UTF-8", b"X-ReQuest-ID: 7"),
    "/repeated": ok(b"{}", b"Set-Cookie: a=1; Path=/", b"ETag: \"x\"", b"set-cookie: b=2, c", b"Vary: a,b"),
    "/chunked": CHUNKED % (b"A: b", 3, b"{\"a"),
    "/gzip": ok(ZIPPED, b"Content-Encoding: gzip", b"content-type: application/json"),
    "/gzip-chunked": CHUNKED % (b"Content-Encoding: gzip", len(ZIPPED), ZIPPED),
    "/closed": b"HTTP/1.1 200 OK\r\nConnection: close\r\nDate: now\r\n\r\n{\"until\": \"the end\"}",
    "/hops": ok(b"{}", b"Connection: keep-alive", b"X-Hop: 1", b"Connection: X-Hop"),
    "/a%20b%2F%C3%AB?q=%25&r": ok(b"{}"),
    "/hop": ok(b"{}", b"X-Hop: 1", b"Keep-Alive: timeout=5", b"Connection: keep-alive, X-Hop", b"X-End: 2"),
    "/empty": ok(b""),
    "/none": b"HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n",
    "/unchanged": b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 12\r\n\r\n",
    "/moved": ok(b"", b"Location: https://old.example/x?y=%20", status=b"302 Found"),
    "/missing": ok(b"{\"status\":404}", b"Content-Type: application/json", status=b"404 Not Found"),
    "/failed": ok(b"\xff\x00<html>", status=b"500 Oops"),
    "/unknown": ok(b"{}", status=b"999 Request Denied"),
    "/above": ok(b"{}", status=b"600 Above"),
    "/latin": ok(b"{}", b"X-Name: Zo\xeb"),
    "/large": ok(bytes(3_000_000)),
}  # fmt: skip
SHORT = ok(b"{}", b"Connection: close")[:-1]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nContent-Type: application/json\r\n\r\n"


@pytest.fixture(scope="module")
def old() -> RawService:
    return RawService(
        {
            **ANSWERS,
            "/head": HEAD,
            "/echo": ok(b"{}"),
            "/short": SHORT,
            f"{PATH}/7": SHORT,
            "/broken": (CHUNKED % (b"Connection: close", 3, b'{"a')).removesuffix(b"0\r\n\r\n"),
        }
    )


@pytest.fixture(scope="module")
def passed(old: RawService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShadow]:
    """A shadow whose new service is down."""
    folder = tmp_path_factory.mktemp("shadow")
    hosts = {"host": "127.0.0.2", "metrics_host": "127.0.0.3"} if sys.platform == "linux" else {}
    with old.running() as url, shadowing(folder, url, NOWHERE, **hosts) as shadow:
        yield shadow


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_the_proxy_and_its_metrics_are_each_only_at_their_own_host(passed: RunningShadow) -> None:
    for url in (passed.url, passed.metrics_url):
        host, port = address_of(url)
        socket.create_connection((host, port), PATIENCE).close()
        for other in {"127.0.0.1", "127.0.0.2", "127.0.0.3"} - {host}:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, port), PATIENCE)


@pytest.mark.parametrize("path", ANSWERS)
def test_an_answer_is_passed_on_unchanged(old: RawService, passed: RunningShadow, path: str) -> None:
    with old.running() as direct:
        status, headers, body = fetch(direct, path)
    end_to_end = [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]

    received = passed.fetch(path)

    assert (received[0], received[2]) == (status, body)
    assert [each for each in received[1] if each[0].lower() not in HOP_BY_HOP[:3]] == end_to_end


def test_the_answer_to_a_head_request_keeps_its_headers(passed: RunningShadow) -> None:
    assert passed.fetch("/head", "HEAD") == (
        200,
        [("Content-Length", "5000"), ("Content-Type", "application/json")],
        b"",
    )


def test_a_client_of_http_1_0_gets_the_chunked_body_unframed(passed: RunningShadow) -> None:
    with socket.create_connection(passed.address) as client:
        client.sendall(b"GET /chunked HTTP/1.0\r\n\r\n")
        received = client.makefile("rb").read()

    assert received.partition(b"\r\n\r\n")[2] == b'{"a":1}'
    assert b"ransfer-" not in received


def test_a_client_of_http_1_0_sees_that_an_answer_is_incomplete(passed: RunningShadow) -> None:
    with socket.create_connection(passed.address) as client:
        client.sendall(b"GET /broken HTTP/1.0\r\n\r\n")

        with pytest.raises(ConnectionResetError):
            client.makefile("rb").read()


def lines_of(request: bytes) -> list[str]:
    return request.partition(b"\r\n\r\n")[0].decode().split("\r\n")


def test_the_request_arrives_with_its_headers_and_body(old: RawService, passed: RunningShadow) -> None:
    old.requests.clear()
    hops = {"Connection": "X-Hop", "X-Hop": "1", "TE": "trailers", "Trailer": "X-Sum", "Keep-Alive": "1"}
    hops["Upgrade"] = "h2c"
    headers = {"Authorization": TOKEN, "Offset": "1", "Expect": "100-continue", **hops}

    passed.fetch("/echo", "PUT", b'{"a": 1}', **headers)

    first, host, *rest = lines_of(old.requests[0])
    assert old.requests[0].partition(b"\r\n\r\n")[2] == b'{"a": 1}'
    assert (first, host.startswith("host: 127.0.0.1:")) == ("PUT /echo HTTP/1.1", True)
    assert host.partition(" ")[2] not in passed.url  # that of the old service
    assert rest == [
        "accept-encoding: identity",
        f"authorization: {TOKEN}",
        "offset: 1",
        "x-forwarded-for: 127.0.0.1",
        "content-length: 8",
    ]


COOKIES = b"Cookie: a=1\r\nCookie: b=2\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 192.0.2.8\r\n"


def exchange_raw(url: str, request: bytes) -> bytes:
    """The response to a request that ends the connection."""
    with socket.create_connection(address_of(url), PATIENCE) as client:
        client.sendall(request)
        return client.makefile("rb").read()


def test_a_request_with_a_length_and_chunks_arrives_with_chunks(
    old: RawService, passed: RunningShadow
) -> None:
    """A service that obeys the length would read the rest as another request."""
    old.requests.clear()
    with socket.create_connection(passed.address) as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n")
        client.sendall(b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        client.recv(1)

    head, _, body = old.requests[0].partition(b"\r\n\r\n")
    assert (b"transfer-encoding: chunked" in head, b"content-length" in head) == (True, False)
    assert body == b"3\r\nabc\r\n0\r\n\r\n"


def test_repeated_headers_stay_apart_for_both_services(tmp_path: Path) -> None:
    old, new = RawService({PATH: GOOD}), RawService({PATH: GOOD})
    with old.running() as url, new.running() as new_url, shadowing(tmp_path, url, new_url) as shadow:
        exchange_raw(
            shadow.url,
            b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n" % (PATH.encode(), COOKIES),
        )
        shadow.wait_for('outcome="same"')

    expected = ["cookie: a=1", "cookie: b=2", "x-forwarded-for: 192.0.2.7, 192.0.2.8, 127.0.0.1"]
    assert [
        [line for line in lines_of(service.requests[0]) if line.lower().startswith(("c", "x-"))]
        for service in (old, new)
    ] == [expected] * 2


def test_the_host_of_the_client_is_passed_to_the_old_service_on_request(tmp_path: Path) -> None:
    """The paths of both services begin with a prefix. A client of HTTP/1.0 sends no host."""
    old = RawService({f"/old{PATH}": GOOD, "/old/": GOOD})
    new = RawService({f"/new{PATH}": ok(b"{}")})
    with (
        old.running() as url,
        new.running() as new_url,
        shadowing(tmp_path, f"{url}/old/", f"{new_url}/new", "--keep-host") as shadow,
    ):
        shadow.fetch(PATH, Host="care.example")
        shadow.wait_for('outcome="different"')
        without_host = exchange_raw(shadow.url, b"GET / HTTP/1.0\r\n\r\n")

    hosts = [[lines_of(each)[1] for each in service.requests] for service in (old, new)]
    assert hosts == [["host: care.example"] * 2 + ["host: "], [f"Host: {urlsplit(new_url).netloc}"]]
    assert without_host.startswith(b"HTTP/1.1 200 ")


def problem(received: tuple[int, list[tuple[str, str]], bytes]) -> tuple[int, str, str, str]:
    status, headers, content = received
    body = orjson.loads(content)
    assert list(body) == ["timestamp", "status", "error", "message", "path"]
    assert body["status"] == status
    assert dict(headers)["content-type"] == "application/json"
    return status, body["error"], body["message"], body["path"]


LONG = b"%0100000d" * 30 % tuple(range(30))  # 3 MB, more than is compared


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_request_of_any_length_passes(old: RawService, passed: RunningShadow, is_chunked: bool) -> None:
    old.requests.clear()
    parts = (LONG[start : start + 70_000] for start in range(0, len(LONG), 70_000))

    assert passed.fetch("/echo", "PUT", parts if is_chunked else LONG)[0] == 200

    body = old.requests[0].partition(b"\r\n\r\n")[2]
    assert (dechunked(body) if is_chunked else body) == LONG


def dechunked(body: bytes) -> bytes:
    parts = []
    while body != b"0\r\n\r\n":
        size, _, body = body.partition(b"\r\n")
        parts.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]
    return b"".join(parts)


def test_long_bodies_pass_and_are_counted_as_not_compared(tmp_path: Path) -> None:
    """Of the request or of the response."""
    old = RawService({f"{PATH}/1": ok(LONG), PATH: ok(b"")})
    with old.running() as url, shadowing(tmp_path, url, NOWHERE) as shadow:
        assert shadow.fetch(f"{PATH}/1")[2] == LONG
        assert shadow.fetch(PATH, "PUT", LONG)[0] == 200

        shadow.wait_for(*(f'"dropped",path="{each}"' for each in (f"PUT {PATH}", f"GET {PATH}/{{id}}")))


@pytest.mark.parametrize("path", ["/short", f"{PATH}/7"])
def test_an_answer_that_ends_early_ends_early_for_the_client(passed: RunningShadow, path: str) -> None:
    with pytest.raises(IncompleteRead) as ended:
        passed.fetch(path)

    assert ended.value.partial == b"{"
    if path != "/short":
        passed.wait_for(f'outcome="old failed",path="GET {PATH}/{{id}}"')


def test_headers_of_many_packets_pass(old: RawService, passed: RunningShadow) -> None:
    """Another exchange between the packets ensures that the shadow has read the first one by itself."""
    half = b"a" * 25_000

    def next_packet() -> bytes:
        passed.fetch("/usual")
        return half + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    old.answers["/long"] = [b"HTTP/1.1 200 OK\r\nX-Long: " + half, next_packet]
    with socket.create_connection(passed.address, PATIENCE) as client:
        client.sendall(b"GET /long HTTP/1.1\r\nHost: a\r\nX-Long: " + half)
        client.sendall(next_packet())
        received = client.makefile("rb").read()

    assert received.startswith(b"HTTP/1.1 200 OK\r\nX-Long: " + 2 * half)
    assert b"x-long: " + 2 * half in next(each for each in reversed(old.requests) if b" /long " in each)


def test_websockets_are_named_as_unsupported(old: RawService, passed: RunningShadow) -> None:
    old.requests.clear()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}

    message = "the shadow does not support websockets"
    assert problem(passed.fetch("/echo", **upgrade)) == (501, "Not Implemented", message, "/echo")
    assert old.requests == []


def test_an_old_service_that_is_down_is_a_502(tmp_path: Path) -> None:
    with shadowing(tmp_path, NOWHERE, NOWHERE) as shadow:
        assert problem(shadow.fetch(PATH)) == (502, "Bad Gateway", "the service did not answer", PATH)
        shadow.wait_for('outcome="old failed"')


def test_a_change_that_takes_longer_than_the_timeout_gets_its_answer(tmp_path: Path) -> None:
    """Also if the shadow is stopped meanwhile. A 504 would make clients repeat what was done."""

    def answer() -> bytes:
        shadow.process.send_signal(SIGTERM)
        threading.Event().wait(0.5)
        return ok(b'{"message": "done"}')

    old = RawService({PATH: answer})
    with old.running() as url, shadowing(tmp_path, url, NOWHERE, "--timeout", "0.1") as shadow:
        status, _, body = shadow.fetch(PATH, "PUT", b"{}")
        code = shadow.process.wait()

    assert (status, body, code) == (200, b'{"message": "done"}', 0)


def test_no_request_waits_for_slow_ones(tmp_path: Path) -> None:
    arrived, released, count = threading.Semaphore(0), threading.Event(), 200

    def answer_late() -> bytes:
        arrived.release()
        return GOOD if released.wait(PATIENCE) else b""

    old = RawService({PATH: answer_late, f"{PATH}/1": GOOD})
    with old.running() as url, shadowing(tmp_path, url, NOWHERE) as shadow, ThreadPoolExecutor(count) as pool:
        slow = [pool.submit(shadow.fetch, PATH, "PUT", b"{}") for _ in range(count)]
        assert all(arrived.acquire(timeout=PATIENCE) for _ in slow)

        assert shadow.fetch(f"{PATH}/1")[0] == 200
        assert not any(each.done() for each in slow)
        released.set()
        assert {each.result()[0] for each in slow} == {200}


def test_an_event_stream_passes_event_by_event(tmp_path: Path) -> None:
    received = threading.Event()
    first = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
    old = RawService({"/events": [first, lambda: b"data: 2\n\n" if received.wait(PATIENCE) else b"", b""]})
    with old.running() as url, shadowing(tmp_path, url, NOWHERE) as shadow:
        connection = HTTPConnection(urlsplit(shadow.url).netloc, timeout=PATIENCE)
        connection.request("GET", "/events")
        response = connection.getresponse()

        assert (response.getheader("content-type"), response.readline()) == (
            "text/event-stream",
            b"data: 1\n",
        )
        received.set()
        assert [response.readline(), response.readline()] == [b"\n", b"data: 2\n"]
        connection.close()


def test_the_request_ends_with_the_client(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as old,
        shadowing(tmp_path, f"http://127.0.0.1:{old.getsockname()[1]}", NOWHERE) as shadow,
    ):
        with socket.create_connection(shadow.address) as client:
            client.sendall(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            connection = old.accept()[0]
            connection.settimeout(PATIENCE)
            assert connection.recv(65536).startswith(b"GET")
        with connection:
            assert connection.recv(65536) == b""
        shadow.wait_for('outcome="dropped"')


@contextmanager
def silent_service() -> Iterator[str]:
    """Accepts connections like a stopped process, and reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


# --- a new service that misbehaves ---

GOOD = ok(b'{"id":1}', b"Content-Type: application/json")
BAD = {
    "reset": b"",
    "garbage": b"\x16\x03\x01 not HTTP\r\n\r\n\xff",
    "huge": ok(bytes(2 * 1024 * 1024)),
    "endless header": b"HTTP/1.1 200 OK\r\nA: " + bytes(70_000),
    "wrong status": ok(b"{}", status=b"418 Teapot"),
    "incomplete": ok(b"{}", b"Connection: close")[:-1],
    "bad length": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: -5\r\n\r\n{}",
    "bad zip": ok(b"{}", b"Content-Encoding: gzip"),
    "deep": ok(b"[" * 100_000),
}


def test_a_new_service_that_misbehaves_changes_nothing_for_clients(tmp_path: Path) -> None:
    released, paths = threading.Event(), {name: f"{PATH}/{number}" for number, name in enumerate(BAD)}
    new = RawService({paths[name]: answer for name, answer in BAD.items()})
    new.answers[f"{PATH}/late"] = lambda: GOOD if released.wait(60) else b""
    old = RawService(dict.fromkeys([*paths.values(), f"{PATH}/late"], GOOD))
    with old.running() as old_url, new.running() as new_url, shadowing(tmp_path, old_url, new_url) as shadow:
        received = [shadow.fetch(path) for path in (f"{PATH}/late", *paths.values())]

        assert received == [fetch(old_url, f"{PATH}/late")] * (len(BAD) + 1)
        assert not released.is_set()  # the new service has not answered yet
        released.set()
        shadow.wait_for('outcome="same",path="GET /gateway/profile/caregiver/session/assignment/{id}"} 1.0')
        shadow.wait_for('outcome="failed",path="GET /gateway/profile/caregiver/session/assignment/{id}"} 4.0')
        shadow.wait_for(
            'outcome="dropped",path="GET /gateway/profile/caregiver/session/assignment/{id}"} 1.0'
        )
        shadow.wait_for('"200 -> 418"')


def test_a_new_service_that_is_stopped_changes_nothing_for_clients(tmp_path: Path) -> None:
    old = RawService({PATH: GOOD})
    with (
        old.running() as old_url,
        silent_service() as stopped,
        shadowing(tmp_path, old_url, stopped) as shadow,
    ):
        received = [shadow.fetch(PATH) for _ in range(10)]

        assert received == [fetch(old_url, PATH)] * 10


def test_the_timeout_limits_the_new_service(tmp_path: Path) -> None:
    """One after the other: with a longer limit, they would not all fail in time."""
    old = RawService({PATH: GOOD})
    options = ("--timeout", "0.5", "--mirror-writes")
    with (
        old.running() as url,
        silent_service() as stopped,
        shadowing(tmp_path, url, stopped, *options) as shadow,
    ):
        for _ in range(8):
            shadow.fetch(PATH)

        shadow.wait_for(f'outcome="failed",path="GET {PATH}"}} 8.0')


# --- what is sent to the new service, and what is kept ---


def test_the_put_is_mirrored_on_request_and_in_order(tmp_path: Path) -> None:
    """The options apply to its responses, too."""
    other = ok(b'{ "id":2}', b"Content-Type: application/json", b"Allow: GET")
    old, new = RawService({PATH: GOOD}), RawService({PATH: other})
    options = ("--mirror-writes", "--mask", "header:allow", "--mask", "id", "--loose")
    with (
        old.running() as old_url,
        new.running() as new_url,
        shadowing(tmp_path, old_url, new_url, *options) as shadow,
    ):
        for method in ("PUT", "GET", "PUT"):
            shadow.fetch(PATH, method, b"{}" if method == "PUT" else None, Authorization=TOKEN)
        shadow.wait_for(f'"same",path="PUT {PATH}"}} 2.0')
        code, lines = shadow.stop()

    assert (code, lines[0]) == (0, "warning: calls that change data are sent to all services")
    assert [each.split(b" ")[0] for each in new.requests] == [b"PUT", b"GET", b"PUT"]
    assert all(TOKEN.encode() in each for each in new.requests)


def test_the_put_reaches_the_new_service_without_its_body_to_be_counted(tmp_path: Path) -> None:
    old, new = RawService({PATH: GOOD}), RawService({PATH: ok(b"{}", status=b"400 Bad Request")})
    key = {"Authorization": TOKEN, "User-Agent": "app/1", "Idempotency-Key": "k", "Cookie": "a=1"}
    with old.running() as url, new.running() as new_url, shadowing(tmp_path, url, new_url) as shadow:
        assert shadow.fetch(PATH, "PUT", b'{"sessionId": 1}', **key)[0] == 200
        shadow.wait_for(f'application="tests",outcome="not compared",path="PUT {PATH}"')

    (request,) = new.requests
    assert request.partition(b"\r\n\r\n")[2] == b""
    assert [line for line in lines_of(request) if not line.startswith(("Host", "Accept-Encoding"))] == [
        f"PUT {PATH} HTTP/1.1",
        "Content-Length: 0",
        f"authorization: {TOKEN}",
        "user-agent: app/1",
    ]


SECRETS = ("Mara-Lind", "471147114711", "kitchen", "secret-cookie", "secret-query", TOKEN.split()[1])


def test_no_value_is_kept_and_counts_continue_after_a_restart(tmp_path: Path) -> None:
    path = f"{PATH}/471147114711"
    old = RawService(
        {f"{path}?q=secret-query": ok(b'{"id":471147114711,"name":"Mara-Lind"}', b"Location: /secret-cookie")}
    )
    new = RawService({f"{path}?q=secret-query": ok(b'{"name":"kitchen","Mara-Lind x":1,"id":471147114711}')})
    logs, exits = [], []
    for _ in range(2):
        with (
            old.running() as old_url,
            new.running() as new_url,
            shadowing(tmp_path, old_url, new_url) as shadow,
        ):
            shadow.fetch(f"{path}?q=secret-query", Authorization=TOKEN, Cookie="secret-cookie")
            metrics = shadow.wait_for(f'"different",path="GET {PATH}/{{id}}"}} {len(exits) + 1}')
            code, lines = shadow.stop()
            exits.append(code)
            logs += lines
    result = CliRunner().invoke(main, ["legacy", "shadow", "report", "--state", str(shadow.state)])

    verdict = "2 answers of 1 day, 6 unexplained differences, 0 dropped, 0 failed, 0 old failed"
    assert exits == [0, 0]
    assert (result.exit_code, logs[-1], result.stdout.splitlines()[-1]) == (1, verdict, verdict)
    assert [line.split("\t")[1:] for line in result.stdout.splitlines()[1:-1]] == [
        ["tests", "location", "header", "different", "2"],
        ["tests", "name", "value", "different", "2"],
        ["tests", "other", "extra", "different", "2"],
    ]
    kept = "\n".join([metrics, shadow.state.read_text(), result.stdout, *logs])
    assert [each for each in SECRETS if each in kept] == []
    assert shadow.state.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("shadow.json")] == [
        "shadow.json"
    ]


def test_repeated_headers_are_compared_as_one(tmp_path: Path) -> None:
    service = RawService({PATH: ok(b"{}", b"Allow: GET", b"Content-Type: text/plain", b"allow: PUT")})
    with service.running() as url, shadowing(tmp_path, url, url) as shadow:
        shadow.fetch(PATH)
        shown = shadow.wait_for('care_shadow_answers_total{application="unknown",outcome="')

    assert 'outcome="same"' in shown


def test_a_state_that_cannot_be_written_is_reported_and_written_later(tmp_path: Path) -> None:
    folder, old = tmp_path / "later", RawService({PATH: GOOD})
    with old.running() as url, shadowing(tmp_path, url, url, "--state", f"{folder}/state.json") as shadow:
        shadow.fetch(PATH)
        shadow.wait_for('outcome="same"')
        folder.mkdir()
        code, lines = shadow.stop()

    counted = "1 answer of 1 day, 0 unexplained differences, 0 dropped, 0 failed, 0 old failed"
    assert (code, lines[-1]) == (0, counted)
    assert f"{folder}/state.json cannot be written: No such file or directory" in lines
    assert [line for line in lines if "Traceback" in line] == []
    result = CliRunner().invoke(main, ["legacy", "shadow", "report", "--state", f"{folder}/state.json"])
    assert result.stdout.splitlines()[-1] == counted
