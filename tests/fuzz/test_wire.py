"""No bytes at the port cause an internal error or end the server: malformed request lines, headers,
lengths and chunks."""

import random
import re
import selectors
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests import keys
from tests.fuzz.counts import SOAK_WIRE
from tests.fuzz.handwritten_bytes import RIGHT, SENT
from tests.live.processes import PATIENCE, Served, serving

QUIET = 2  # seconds without a word from anybody
AT_ONCE = 100
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")


@pytest.fixture(scope="module")
def server(wide_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("wire")
    (folder / "care.db").write_bytes(wide_world.read_bytes())
    care = {"env": "development", "var": str(folder), "token_key": keys.public_pem(), "dispatcher": "off"}
    with serving(folder / "log", **care) as one:
        yield one


def statuses(server: Served, sent: Sequence[bytes]) -> list[list[int]]:
    """The responses to all requests, sent at once, until the server closes the connection or stays silent."""
    where = urlsplit(server.url)
    came = [b""] * len(sent)
    with ExitStack() as stack:
        waiting = stack.enter_context(selectors.DefaultSelector())
        for number, content in enumerate(sent):
            one = stack.enter_context(socket.create_connection((where.hostname, where.port), PATIENCE))
            with suppress(ConnectionResetError, BrokenPipeError):  # the server closed the connection early
                one.sendall(content)
            waiting.register(one, selectors.EVENT_READ, number)
        while waiting.get_map() and (ready := waiting.select(QUIET)):
            for key, _ in ready:
                more = b""
                with suppress(ConnectionResetError):
                    more = key.fileobj.recv(65536)  # type: ignore[union-attr]
                came[key.data] += more
                if not more:
                    waiting.unregister(key.fileobj)
    return [[int(status) for status in STATUS.findall(each)] for each in came]


def assert_unharmed(server: Served) -> None:
    assert server.process.poll() is None
    assert httpx2.get(f"{server.url}/readyz").status_code == 200
    server.output.seek(0)
    output = server.output.read()
    assert "Traceback" not in output
    assert "fault in request" not in output


@pytest.mark.live
def test_generated_bytes_cause_no_internal_error(server: Served) -> None:
    *response, of_the_right_one = statuses(server, [*SENT, RIGHT])

    assert [sent for sent, output in zip(SENT, response, strict=True) if 500 in output] == []
    assert {400, 401, 404} <= {status for output in response for status in output}
    assert of_the_right_one == [200]
    assert_unharmed(server)


@pytest.mark.live
@pytest.mark.soak
def test_damaged_requests_cause_no_internal_error(server: Served) -> None:
    """The requests above and valid ones, each with a few bytes changed, repeated or removed."""
    rng = random.Random()

    for _ in range(SOAK_WIRE // AT_ONCE):
        sent = [damaged(rng, rng.choice([*SENT, *[RIGHT] * 40])) for _ in range(AT_ONCE)]
        response = statuses(server, sent)
        assert [each for each, output in zip(sent, response, strict=True) if 500 in output] == []
        assert_unharmed(server)


def damaged(rng: random.Random, right: bytes) -> bytes:
    sent = bytearray(right)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, min(len(sent), 600))
        put = rng.choice((b"", rng.randbytes(1), b"\r\n", b"\x00", bytes(sent[at : at + 9])))
        sent[at : at + rng.choice((0, 0, 1, 4))] = put
    return bytes(sent)
