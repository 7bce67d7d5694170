"""`legacy shadow` changes nothing for clients, whatever the new service does, and keeps no values."""

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from app.cli import main
from tests import keys
from tests.moving_over.shadows import RawService, RunningShadow, fetch, shadowing

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
    "/hop": ok(b"{}", b"X-Hop: 1", b"Keep-Alive: timeout=5", b"Connection: keep-alive, X-Hop", b"X-End: 2"),
    "/empty": ok(b""),
    "/none": b"HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n",
    "/unchanged": b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 12\r\n\r\n",
    "/moved": ok(b"", b"Location: https://old.example/x?y=%20", status=b"302 Found"),
    "/missing": ok(b"{\"status\":404}", b"Content-Type: application/json", status=b"404 Not Found"),
    "/failed": ok(b"\xff\x00<html>", status=b"500 Oops"),
    "/latin": ok(b"{}", b"X-Name: Zo\xeb"),
    "/large": ok(bytes(3_000_000)),
}  # fmt: skip
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nContent-Type: application/json\r\n\r\n"


@pytest.fixture(scope="module")
def old() -> RawService:
    return RawService(
        {**ANSWERS, "/head": HEAD, "/echo": ok(b"{}"), "/short": ok(b"{}", b"Connection: close")[:-1]}
    )


@pytest.fixture(scope="module")
def passed(old: RawService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShadow]:
    """A shadow whose new service is down."""
    with old.running() as url, shadowing(tmp_path_factory.mktemp("shadow"), url, NOWHERE) as shadow:
        yield shadow


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
    with socket.create_connection(("127.0.0.1", int(passed.url.rpartition(":")[2]))) as client:
        client.sendall(b"GET /chunked HTTP/1.0\r\n\r\n")
        received = client.makefile("rb").read()

    assert received.partition(b"\r\n\r\n")[2] == b'{"a":1}'
    assert b"ransfer-" not in received


def test_the_request_arrives_with_its_headers_and_body(old: RawService, passed: RunningShadow) -> None:
    old.requests.clear()
    headers = {"Authorization": TOKEN, "Offset": "1", "Connection": "X-Hop", "X-Hop": "1", "TE": "trailers"}

    passed.fetch("/echo", "PUT", b'{"a": 1}', **headers)

    head, _, body = old.requests[0].partition(b"\r\n\r\n")
    assert body == b'{"a": 1}'
    assert head.startswith(b"PUT /echo HTTP/1.1\r\n")
    sent = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert {name.lower(): value for name, value in sent.items()} == {
        "host": sent["Host"],
        "accept-encoding": "identity",
        "content-length": "8",
        "authorization": TOKEN,
        "offset": "1",
    }


def problem(received: tuple[int, list[tuple[str, str]], bytes]) -> tuple[int, str, str, str]:
    status, headers, content = received
    body = orjson.loads(content)
    assert list(body) == ["timestamp", "status", "error", "message", "path"]
    assert body["status"] == status
    assert dict(headers)["content-type"] == "application/json"
    return status, body["error"], body["message"], body["path"]


def test_a_request_that_is_too_large_is_rejected(old: RawService, passed: RunningShadow) -> None:
    old.requests.clear()

    assert problem(passed.fetch("/echo", "PUT", bytes(1024 * 1024 + 1))) == (
        413,
        "Request Entity Too Large",
        "the body may have at most 1048576 bytes",
        "/echo",
    )
    assert old.requests == []


def test_an_incomplete_answer_of_the_old_service_is_a_502(passed: RunningShadow) -> None:
    assert problem(passed.fetch("/short")) == (502, "Bad Gateway", "the service did not answer", "/short")


def test_an_old_service_that_is_down_is_a_502(tmp_path: Path) -> None:
    with shadowing(tmp_path, NOWHERE, NOWHERE) as shadow:
        assert problem(shadow.fetch(PATH)) == (502, "Bad Gateway", "the service did not answer", PATH)


def test_an_old_service_that_is_slow_is_a_504(tmp_path: Path) -> None:
    with silent_service() as old, shadowing(tmp_path, old, NOWHERE, "--timeout", "0.1") as shadow:
        assert problem(shadow.fetch(PATH)) == (504, "Gateway Timeout", "the service did not answer", PATH)
        shadow.wait_for('outcome="old failed"')


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
        shadow.wait_for('outcome="failed",path="GET /gateway/profile/caregiver/session/assignment/{id}"} 5.0')
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


# --- what is sent to the new service, and what is kept ---


def test_the_put_is_mirrored_only_on_request_and_in_order(tmp_path: Path) -> None:
    old, new = RawService({PATH: GOOD}), RawService({PATH: GOOD})
    for options, expected in (((), [b"GET"]), (("--mirror-writes",), [b"PUT", b"GET", b"PUT"])):
        new.requests.clear()
        with (
            old.running() as old_url,
            new.running() as new_url,
            shadowing(tmp_path, old_url, new_url, *options) as shadow,
        ):
            for method in ("PUT", "GET", "PUT"):
                shadow.fetch(PATH, method, b"{}" if method == "PUT" else None, Authorization=TOKEN)
            shadow.wait_for(*(f'"same",path="{each.decode()} {PATH}"' for each in set(expected)))
            assert shadow.stop()[0] == 0
        (tmp_path / "shadow.json").unlink()

        assert [each.split(b" ")[0] for each in new.requests][: len(expected)] == expected
        assert all(TOKEN.encode() in each for each in new.requests)


SECRETS = ("Mara-Lind", "4711", "kitchen", "secret-cookie", "secret-query", TOKEN.split()[1])


def test_no_value_is_kept_and_counts_continue_after_a_restart(tmp_path: Path) -> None:
    path = f"{PATH}/4711"
    old = RawService(
        {f"{path}?q=secret-query": ok(b'{"id":4711,"name":"Mara-Lind"}', b"Location: /secret-cookie")}
    )
    new = RawService({f"{path}?q=secret-query": ok(b'{"name":"kitchen","Mara-Lind x":1,"id":4711}')})
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
