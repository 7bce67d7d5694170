"""A connection of a process whose only slot is occupied, without a socket."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from app.care.budgets import Budget
from app.server import protocol
from app.server.admission import AdmissionControl
from app.server.protocol import EdgeProtocol
from app.settings import Environment, Settings

REQUEST = b"GET / HTTP/1.1\r\nhost: care\r\n\r\n"


class Client:
    """Call it in a running event loop."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.slot: Any = object()
        self.admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=1))
        self.admission.enqueue(self.slot, Budget())
        config = uvicorn.Config(Starlette(), log_config=None)
        loop = asyncio.get_running_loop()
        self.connection = EdgeProtocol(config, ServerState(), {"admission": self.admission}, loop)
        transport = SimpleNamespace(
            get_extra_info=lambda name: None,
            get_write_buffer_size=lambda: 0,
            is_closing=lambda: False,
            write=self.received.extend,
            write_eof=lambda: None,
            close=lambda: None,
            abort=lambda: None,
        )
        self.connection.connection_made(cast(Any, transport))


def test_a_request_is_not_deferred_while_the_process_ends() -> None:
    """The process closes idle connections, and would close that of a deferred request without a response."""

    async def send() -> bytes:
        client = Client()
        client.admission.start_draining()
        client.connection.data_received(REQUEST)
        client.connection.connection_lost(None)
        return bytes(client.received)

    received = asyncio.run(send())

    assert received.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nconnection: close\r\n" in received


def test_the_decision_comes_after_all_that_is_due_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause of the process many timers are due at once, and one of them may free the slot."""
    monkeypatch.setattr(protocol, "DEFERRED_SECONDS", 0)

    async def send() -> bytes:
        client = Client()
        client.connection.data_received(REQUEST)
        asyncio.get_running_loop().call_later(0, client.admission.leave, client.slot)
        while not client.received:
            await asyncio.sleep(0)
        client.connection.connection_lost(None)
        return bytes(client.received)

    assert asyncio.run(send()).startswith(b"HTTP/1.1 404 ")
