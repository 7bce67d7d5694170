"""Promise: a request that cannot be parsed for lack of memory is rejected as overload, on each contract.
Clients can retry it."""

import subprocess
import sys

import orjson
import pytest
from starlette.websockets import WebSocketDisconnect

from tests.callers import Gateway
from tests.factories import a_world, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, homework, rejection_of

pytestmark = [starting_with(a_world), pytest.mark.sqlite_only]

MESSAGE = "the server has not enough memory to parse the request; nothing was changed"
OF_THE_LIBRARY = "Not enough memory to allocate buffer for parsing"


@pytest.fixture
def short_of_memory(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    def loads(text: bytes | str) -> None:
        raise orjson.JSONDecodeError(OF_THE_LIBRARY, "", 0)

    monkeypatch.setattr("app.http.messages.orjson.loads", loads)
    return gateway


def test_the_legacy_contract_answers_503(short_of_memory: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    response = short_of_memory.as_caregiver(1).put(
        ASSIGNMENTS, json=homework(), headers={"x-request-id": "mine"}
    )

    assert rejection_of(response) == (503, MESSAGE)
    assert response.headers["retry-after"]
    [line] = [each for each in caplog.messages if MESSAGE in each]
    assert line.startswith(f"request mine: {MESSAGE} ({OF_THE_LIBRARY}")


def test_graphql_answers_503(short_of_memory: Gateway) -> None:
    response = short_of_memory.as_caregiver(1).request(
        "POST",
        "/graphql",
        content=b'{"query": "{ viewer { role } }"}',
        headers={"content-type": "application/json"},
    )

    assert (response.status_code, response.content.count(MESSAGE.encode())) == (503, 1)
    assert b'"code":"OVERLOADED"' in response.content
    assert response.headers["retry-after"]


def test_a_websocket_closes_with_1013(short_of_memory: Gateway) -> None:
    client = short_of_memory.client
    with (
        client.websocket_connect("/graphql", ["graphql-transport-ws"]) as session,
        pytest.raises(WebSocketDisconnect) as closed,
    ):
        session.send_text('{"type": "connection_init"}')
        session.receive_text()

    assert (closed.value.code, closed.value.reason) == (1013, MESSAGE)


LIMITED = """
import resource, orjson
long = b'"%b"' % (b"x" * 20_000_000)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 40_000_000, -1))
try:
    orjson.loads(long)
except orjson.JSONDecodeError as fault:
    print(fault.msg)
"""


def test_the_library_calls_it_invalid_json() -> None:
    found = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)

    assert found.stdout == f"{OF_THE_LIBRARY}\n"


LIMITED_SQLITE = """
import sqlite3
from app.db.drivers.interface import DatabaseUnavailable
from app.db.drivers.sqlite import run_in_transaction
from app.db.sql import OnlyStatement, statement_of_text
text = "SELECT length(hex(zeroblob(:bytes)))"
connection = sqlite3.connect(":memory:", isolation_level=None)
connection.execute("BEGIN")
connection.execute("PRAGMA hard_heap_limit = 10000000")
try:
    run_in_transaction(connection, (statement_of_text(text, text, "bytes"), {"bytes": "100000000"}))
except DatabaseUnavailable as fault:
    print(type(fault.__cause__).__name__)
"""


def test_sqlite_without_memory_is_unavailable() -> None:
    found = subprocess.run([sys.executable, "-c", LIMITED_SQLITE], capture_output=True, text=True)

    assert (found.stdout, found.stderr) == ("MemoryError\n", "")
