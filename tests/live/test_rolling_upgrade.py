"""Gateways of neighbouring versions serve one database while it is upgraded, and no request fails."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import ClientConnection

from app.db.admin.migrate import newest_version
from tests import keys
from tests.crash.writers import a_world
from tests.db.next_version import NEXT, make_next_program
from tests.factories import starting_with
from tests.live.processes import PATIENCE, run, serving
from tests.live.subscribers import assign, change, receive, subscribe_by_websocket

pytestmark = [pytest.mark.live, starting_with(lambda: a_world(1))]


def care_of(url: str, folder: Path) -> dict[str, str]:
    return {"env": "development", "database_url": url, "token_key": keys.public_pem(), "var": str(folder)}


@contextmanager
def assigning(url: str) -> Iterator[list[str]]:
    """Assigns homework again and again during the block; a request that fails ends it with its error."""
    made: list[str] = []
    faults: list[Exception] = []
    ended = threading.Event()

    def assign_until_ended() -> None:
        try:
            while not ended.is_set():
                made.append(assign(url))
        except Exception as fault:
            faults.append(fault)

    thread = threading.Thread(target=assign_until_ended)
    thread.start()
    try:
        yield made
    finally:
        ended.set()
        thread.join(PATIENCE)
    assert (faults, len(made) > 0) == ([], True)


def status(url: str) -> tuple[int, str]:
    response = httpx2.get(f"{url}/readyz")
    return response.status_code, response.json()["status"]


def test_two_versions_serve_one_database_while_it_is_upgraded(database_url: str, tmp_path: Path) -> None:
    care = care_of(database_url, tmp_path)
    folder = make_next_program(tmp_path / "next")

    def run_next(*words: str) -> "subprocess.CompletedProcess[str]":
        return run(*words, module="app", folder=folder, **care)

    with serving(tmp_path / "old.log", **care) as old:
        too_early = run_next("serve", "--port", "1")
        with assigning(old.url) as made:
            expanded = run_next("migrate", "--expand")
            with serving(tmp_path / "new.log", module="app", folder=folder, **care) as new:
                assert (status(old.url), status(new.url)) == ((200, "ready"), (200, "ready"))
                with (
                    subscribe_by_websocket(old.url, "client") as first,
                    subscribe_by_websocket(new.url, "client") as second,
                ):
                    for one in (first, second):
                        receive(one)  # an event of before shows that the subscription has begun
                    by_new = assign(new.url)
                    seen = [events_until(one, by_new) for one in (first, second)]
                assert all(each[-1] == by_new for each in seen)
        assert made
        with serving(tmp_path / "again.log", **care) as again:  # the way back is open
            assert status(again.url) == (200, "ready")
        command = run("verify", **care)
        with serving(tmp_path / "last.log", module="app", folder=folder, **care) as new:
            contracted = run_next("migrate", "--contract")
            assert (status(new.url), status(old.url)) == (
                (200, "ready"),
                (503, "the database has the tables of a newer version"),
            )
            assert assign(new.url)
            assert run_next("deliveries", "list").returncode == 0  # reads the column under its new name

    too_late = run("serve", **care)
    assert too_early.stderr.endswith(f"needs {NEXT}c; back up, then run `care-gateway migrate`\n")
    assert expanded.stdout.splitlines()[0].endswith(f"from version {newest_version()} to version {NEXT}")
    assert command.stderr.startswith(f"care-gateway: the database has the newer schema version {NEXT};")
    assert contracted.stdout.endswith(f"from version {NEXT} to version {NEXT}c\n")
    assert too_late.returncode == 2
    assert too_late.stderr.startswith(f"care-gateway: the database has the newer schema version {NEXT}c;")


def events_until(subscriber: ClientConnection, assignment: str) -> list[str]:
    found: list[str] = []
    while assignment not in found:
        found.append(change(receive(subscriber))[2])
    return found
