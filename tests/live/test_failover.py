"""The primary of PostgreSQL dies under load and a synchronous standby is promoted. The service reconnects by
itself, and every acknowledged change is stored exactly once."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import httpx2
import pytest

from app.db.admin.migrate import migrate
from app.db.session_counters import differences
from tests import keys
from tests.callers import run_read
from tests.crash.changes import compare, effects
from tests.crash.conftest import made
from tests.crash.server import Server, own_postgres, standby_of
from tests.crash.writers import Unavailable, Writer
from tests.live.processes import run
from tests.patience import PATIENCE

pytestmark = pytest.mark.live
FAILOVERS = int(os.environ.get("SOAK_FAILOVERS", "20"))
BETWEEN_ATTEMPTS = 0.05  # seconds; clients wait for Retry-After, a second


def both(primary: Server, standby: Server, url: str) -> str:
    """The URL that names both hosts, the first one dead after the failover."""
    return url.replace(f":{primary.port}/", f":{primary.port},127.0.0.1:{standby.port}/")


def write_until(stopped: Event, writer: Writer, port: int) -> None:
    """Repeats what was not answered, as a client does that receives 503."""
    while not stopped.wait(BETWEEN_ATTEMPTS):
        with suppress(Unavailable):
            writer.write(port)


def fail_over(folder: Path) -> tuple[float, int]:
    """Returns the seconds from the command to promote to the first acknowledged change, and the number of
    acknowledged changes."""
    with own_postgres(in_memory=True) as (primary, single), standby_of(primary, single) as standby:
        url = both(primary, standby, single)
        asyncio.run(migrate(url))
        crashes = made(url, folder)
        stopped = Event()
        with (
            ThreadPoolExecutor(len(crashes.writers)) as pool,
            crashes.started() as (process, port),
        ):
            try:
                crashes.wait_until_ready(process, port)
                futures = [pool.submit(write_until, stopped, writer, port) for writer in crashes.writers]
                crashes.wait_for(100, futures)
                primary.kill()
                rejected = post(port)
                while crashes.acknowledged.acquire(blocking=False):
                    pass
                promoted = time.monotonic()
                standby.run("pg_ctl", "promote", "--pgdata=data")
                crashes.wait_for(1, futures)
                seconds = time.monotonic() - promoted
                crashes.wait_for(100, futures)
            finally:
                stopped.set()
                process.kill()  # a writer stops when the service is gone
        for one in futures:
            one.result()
        crashes.wait_until_alone()
        wrong = [*compare(crashes.requests, effects(url)), *run_read(url, differences())]
        assert wrong == [], wrong
        assert "Traceback" not in crashes.log.read_text()
        assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "1")
        return seconds, crashes.acknowledgements


def post(port: int) -> httpx2.Response:
    return httpx2.post(
        f"http://127.0.0.1:{port}/graphql",
        json={"query": "{ viewer { name } }"},
        headers={"authorization": f"bearer {keys.token('CAREGIVER', 'caregiver-1')}"},
        timeout=PATIENCE,
    )


def test_acknowledged_changes_survive_a_failover(tmp_path: Path) -> None:
    seconds, _ = fail_over(tmp_path)

    assert seconds < 60


@pytest.mark.soak
def test_acknowledged_changes_survive_many_failovers(tmp_path: Path) -> None:
    found = []
    for number in range(FAILOVERS):
        (tmp_path / str(number)).mkdir()
        found.append(fail_over(tmp_path / str(number)))
    seconds = sorted(one for one, _ in found)
    print(f"{FAILOVERS} failovers, {sum(count for _, count in found)} acknowledgements; changes are accepted")
    print(
        f"{seconds[len(seconds) // 2]:.2f} s (median), {seconds[-1]:.2f} s (longest) after `pg_ctl promote`"
    )


def test_a_standby_alone_is_rejected_with_one_sentence(tmp_path: Path) -> None:
    with own_postgres(in_memory=True) as (primary, url), standby_of(primary, url) as standby:
        asyncio.run(migrate(url))
        alone = url.replace(f":{primary.port}/", f":{standby.port}/")
        refused = run("serve", env="development", database_url=alone, var=str(tmp_path))

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"care-gateway: the PostgreSQL database cannot be opened: 127.0.0.1:{standby.port} is a standby or "
        "read-only (name the primary in CARE_DATABASE_URL, or all hosts)\n"
    )
