"""A service that is killed repeatedly, during writes and during its start."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from threading import Semaphore
from typing import Any

from app.db.drivers.interface import sqlite_path
from app.db.session_counters import differences
from tests.callers import run_read
from tests.crash.changes import Homework, Request, compare, effects, is_sound
from tests.crash.writers import GONE, SESSIONS_PATH, Writer, tried_patiently
from tests.db import raw
from tests.live.processes import PATIENCE, Process
from tests.ports import free_port

AT_ONCE = 16


@dataclass
class Crashes:
    care: dict[str, str]  # the settings of the service
    folder: Path
    writers: list[Writer]
    acknowledged: Semaphore
    chance: Random
    seconds_until_ready: list[float] = field(default_factory=list)
    began: float = 0  # when the process was started

    @property
    def url(self) -> str:
        return self.care["database_url"]

    @property
    def requests(self) -> list[Request]:
        return [one for writer in self.writers for one in writer.requests]

    @property
    def acknowledgements(self) -> int:
        return sum(one.answer is not None for one in self.requests)

    @property
    def unanswered(self) -> int:
        """The number of requests without a response, even after a retry."""
        return len(self.requests) - self.acknowledgements

    def run_and_kill(self, acknowledgements: int) -> None:
        """Runs the service until about this number of further responses, then kills it."""
        with self.running() as (_, futures):
            self.wait_for(acknowledgements, futures)
            time.sleep(self.chance.random() / 100)  # a random moment, not one just after a response
        self.check()

    @contextmanager
    def running(self) -> Iterator[tuple[int, list[Future[None]]]]:
        """Runs writers and a service on this port, which is killed at the end of the block."""
        with self.started() as (process, port), ThreadPoolExecutor(len(self.writers)) as pool:
            try:
                self.wait_until_ready(process, port)
                self.check_counts(port)
                self.check_retries(port)
                futures = [pool.submit(writer.write_patiently, port) for writer in self.writers]
                yield port, futures
            finally:
                process.kill()
        for one in futures:
            one.result()

    def wait_for(self, acknowledgements: int, futures: list[Future[None]]) -> None:
        for _ in range(acknowledgements):
            while not self.acknowledged.acquire(timeout=1):
                if any(one.done() for one in futures):
                    return  # their errors are raised at the end

    def kill_during_start(self) -> None:
        """Kills the service during its start, usually while it opens the files of the last
        one."""
        moment = time.monotonic() + self.chance.random() * 0.5
        is_hasty = self.can_be_watched and self.chance.random() < 0.7
        with self.started() as (process, _):
            if is_hasty:
                while process.poll() is None and not has_database_open(process):
                    pass
                moment = time.monotonic() + self.chance.random() / 200
            time.sleep(max(0, moment - time.monotonic()))
            assert process.poll() is None, self.log.read_text()
        self.check()

    @property
    def can_be_watched(self) -> bool:
        """Whether the system shows which files a process has open, as Linux does."""
        return self.url.startswith("sqlite:") and Path("/proc/self/fd").is_dir()

    # --- the process ---

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @contextmanager
    def started(self) -> Iterator[tuple[Process, int]]:
        """Kills the process at the end of the block in any case."""
        port = free_port()
        self.began = time.monotonic()
        with self.log.open("w+") as log:
            process = Process(["serve"], self.care | {"port": str(port)}, log)
            try:
                yield process, port
            finally:
                process.kill()
                process.wait()

    def wait_until_ready(self, process: Process, port: int) -> None:
        while process.poll() is None and time.monotonic() < self.began + PATIENCE:
            connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            try:
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    self.seconds_until_ready.append(time.monotonic() - self.began)
                    return
            except GONE:
                time.sleep(0.005)  # polls until ready
            finally:
                connection.close()
        raise AssertionError(f"not ready:\n{self.log.read_text()}")

    # --- stored data ---

    def check(self) -> None:
        """Checks a copy of the files, since the next process must recover the originals itself."""
        url = self.url
        if url.startswith("sqlite:"):
            url = self.copied()
            assert is_sound(sqlite_path(url)), "damaged"
        else:
            self.wait_until_alone()
        wrong = [*compare(self.requests, effects(url)), *run_read(url, differences())]
        assert wrong == [], wrong

    def copied(self) -> str:
        path, copy = sqlite_path(self.url), self.folder / "copy" / "care.db"
        copy.parent.mkdir(exist_ok=True)
        copy.with_name("care.db-shm").unlink(missing_ok=True)
        for name in ("care.db", "care.db-wal"):
            copy.with_name(name).unlink(missing_ok=True)
            if path.with_name(name).exists():
                shutil.copyfile(path.with_name(name), copy.with_name(name))
        return f"sqlite:///{copy}"

    def wait_until_alone(self) -> None:
        """The server may still be committing what the killed process sent last."""
        until = time.monotonic() + PATIENCE
        while raw.run(self.url, OTHERS) != [(0,)]:
            assert time.monotonic() < until, "the server keeps the connections of a dead process"

    # --- through the service ---

    def check_counts(self, port: int) -> None:
        counted = dict(raw.run(self.url, "SELECT session_id, count(*) FROM assignment GROUP BY session_id"))
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for session in sorted({writer.session for writer in self.writers}):
            read = Request(None, "CLIENT", f"client-{session}", "GET", SESSIONS_PATH, b"", None)
            status, answer, _ = tried_patiently(connection, read)
            [shown] = json_of(answer)["content"]
            found = (status, shown["assignmentCount"])
            assert found == (200, counted.get(session, 0)), (session, found, counted)
        connection.close()

    def check_retries(self, port: int) -> None:
        """Sends concurrent retries of one interrupted request; one of them is performed."""
        unanswered = [
            one.unanswered
            for one in self.writers
            if one.unanswered is not None and one.unanswered.key is not None
        ]
        if not unanswered:
            return
        one = self.chance.choice(unanswered)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: tried_alone(port, one), range(AT_ONCE)))
        assert {status for status, _, _ in answers} <= {200, 409}, answers
        done = {answer for status, answer, _ in answers if status == 200}
        status, again, is_again = tried_alone(port, one)
        assert (status, is_again, done) == (200, True, {again}), (answers, status, again, is_again)
        if isinstance(one.effect, Homework):
            found = [each for each in effects(self.url) if isinstance(each, Homework)]
            assert found.count(one.effect) == 1, (one.effect, found)


def has_database_open(process: Process) -> bool:
    names = []
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            names.append(os.readlink(each))
    return any(name.endswith("care.db-shm") for name in names)


OTHERS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    AND application_name NOT LIKE 'citus%'"""


def tried_alone(port: int, request: Request) -> tuple[int, bytes, bool]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        return tried_patiently(connection, request)
    finally:
        connection.close()


def json_of(body: bytes) -> dict[str, Any]:
    return dict(json.loads(body))
