"""Acknowledged changes survive the death of the PostgreSQL server. Meanwhile requests get a 503, and the
service continues when the server is back."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from app.db.admin.migrate import migrate
from app.db.session_counters import differences
from tests.callers import run_read
from tests.crash.changes import compare, effects
from tests.crash.conftest import made
from tests.crash.server import own_postgres
from tests.crash.writers import Unavailable, Writer

pytestmark = [pytest.mark.live, pytest.mark.soak]
KILLS = int(os.environ.get("SOAK_SERVER_KILLS", "20"))


def until_unavailable(writer: Writer, port: int) -> None:
    with suppress(Unavailable):
        writer.write(port)


def test_acknowledged_changes_survive_a_killed_database_server(tmp_path: Path) -> None:
    with own_postgres() as (server, url):
        asyncio.run(migrate(url))
        crashes = made(url, tmp_path)
        with crashes.started() as (process, port):
            crashes.wait_until_ready(process, port)
            for _ in range(KILLS):
                with ThreadPoolExecutor(len(crashes.writers)) as pool:
                    futures = [pool.submit(until_unavailable, writer, port) for writer in crashes.writers]
                    crashes.wait_for(100, futures)
                    server.kill()
                for one in futures:
                    one.result()
                server.start()
                crashes.began = time.monotonic()
                crashes.wait_until_ready(process, port)
                wrong = [*compare(crashes.requests, effects(url)), *run_read(url, differences())]
                assert wrong == [], wrong
    print(
        f"{KILLS} kills, {crashes.acknowledgements} acknowledgements, {crashes.unanswered} without a response"
    )
