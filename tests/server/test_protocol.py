"""A connection of a process whose only slot is occupied, without a socket."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from app.care.budgets import Budget
from app.server.admission import AdmissionControl
from app.server.protocol import EdgeProtocol
from app.settings import Environment, Settings


def test_a_request_is_not_deferred_while_the_process_ends() -> None:
    """Its rejection closes the connection, which the process would close without a word."""
    sent = bytearray()
    transport = SimpleNamespace(
        get_extra_info=lambda name: None,
        get_write_buffer_size=lambda: 0,
        is_closing=lambda: False,
        write=sent.extend,
        write_eof=lambda: None,
        abort=lambda: None,
    )

    async def send() -> None:
        admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=1))
        admission.enqueue(cast(Any, object()), Budget())
        config = uvicorn.Config(Starlette(), log_config=None)
        one = EdgeProtocol(config, ServerState(), {"admission": admission}, asyncio.get_running_loop())
        one.connection_made(cast(Any, transport))
        admission.start_draining()
        one.data_received(b"GET / HTTP/1.1\r\nhost: care\r\n\r\n")
        one.cancel_timer()

    asyncio.run(send())

    assert sent.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nconnection: close\r\n" in sent
