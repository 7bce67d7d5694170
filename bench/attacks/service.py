"""The attacked service: `serve` of a checkout with production settings, on a fresh database."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from servers import Server, free_port

from tests import factories, keys
from tests.postgres import create_database, drop_database

ATTACKER, OTHER, CROWD = 1, 2, range(3, 11)  # caregivers
FOREIGN_SESSION = 101  # the first of the other caregiver
SESSIONS, CLIENTS, BOOKS = 100, 5, 50


def world() -> list[factories.Record]:
    """The attacker has 100 sessions with three assignments each, the other caregiver five."""
    records = [factories.a_caregiver(number) for number in (ATTACKER, OTHER, *CROWD)]
    records += [factories.a_client(number) for number in range(1, CLIENTS + 1)]
    records += [factories.a_module(), *map(factories.a_book, range(1, BOOKS + 1))]
    for number in range(1, SESSIONS + 6):
        caregiver = ATTACKER if number < FOREIGN_SESSION else OTHER
        records.append(factories.a_session(number, caregiver, client=number % CLIENTS + 1))
    for number in range(1, 3 * SESSIONS + 1):
        session = (number - 1) // 3 + 1
        records.append(factories.a_complete_assignment(number, session, book=number % BOOKS + 1))
        records.append(factories.an_answer_set(number, assignment=number))
    return [record for kind in order(records) for record in records if record["kind"] == kind]


def order(records: list[factories.Record]) -> list[str]:
    return list(dict.fromkeys(record["kind"] for record in records))


@dataclass
class Master:
    """A migrated database with the world, which each attack gets a copy of."""

    project: Path
    folder: Path
    postgres: str = ""  # URL of its server, instead of SQLite

    def create(self) -> None:
        url = (
            create_database(self.postgres, "master")
            if self.postgres
            else f"sqlite:///{self.folder}/master.db"
        )
        records = self.folder / "world.jsonl"
        records.write_bytes(b"\n".join(factories.lines(world())))
        for arguments in (["migrate"], ["import", str(records)]):
            command = [sys.executable, "-m", "app", *arguments]
            done = subprocess.run(
                command, cwd=self.project, env=environment(database_url=url), capture_output=True
            )
            if done.returncode:
                raise RuntimeError(f"{arguments[0]} failed: {done.stderr.decode()[-2000:]}")
        if not self.postgres:
            with closing(sqlite3.connect(self.folder / "master.db")) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def copy(self) -> Iterator["Database"]:
        if self.postgres:
            yield Database(create_database(self.postgres, "attacked", template="master"))
            drop_database(self.postgres, "attacked")
        else:
            folder = self.folder / "attacked"
            folder.mkdir()
            shutil.copyfile(self.folder / "master.db", folder / "care.db")
            yield Database(f"sqlite:///{folder}/care.db")
            shutil.rmtree(folder)


@dataclass
class Database:
    url: str

    def bytes(self) -> int:
        """Of tables and indexes; on SQLite with the write-ahead log, which PostgreSQL limits."""
        if self.url.startswith("sqlite"):
            file = Path(self.url.removeprefix("sqlite:///"))
            return sum(each.stat().st_size for each in file.parent.glob(file.name + "*"))
        return int(self.value("SELECT pg_database_size(current_database())"))

    def value(self, query: str) -> Any:
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30)) as db:
                return db.execute(query).fetchone()[0]
        return asyncio.run(select_value(self.url, query))


async def select_value(url: str, query: str) -> Any:
    import asyncpg  # here, because SQLite does without the driver

    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@dataclass
class Service:
    port: int
    spare_port: int  # of the webhook's receiver
    database: Database
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def server(self) -> Server:
        return Server(f"http://127.0.0.1:{self.port}", self.process.pid)

    def stop(self) -> dict[str, Any]:
        """Sends SIGTERM. The exit code, the seconds, and what the service logged meanwhile."""
        logged, started = self.log.stat().st_size, time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code: int | None = self.process.wait(40)
        except subprocess.TimeoutExpired:
            code = None
            self.process.kill()
            self.process.wait()
        lines = self.log.read_bytes()[logged:].decode(errors="replace").splitlines()
        return {"code": code, "seconds": time.monotonic() - started, "log": lines[:50]}


def environment(**care: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CARE_")}
    return kept | {f"CARE_{name.upper()}": value for name, value in care.items()}


@contextmanager
def serving(project: Path, database: Database, folder: Path, settings: dict[str, str]) -> Iterator[Service]:
    port, spare_port = free_port(), free_port()
    care = {
        "database_url": database.url,
        "var": str(folder),
        "port": str(port),
        "token_key": keys.public_pem(),
        "drain_seconds": "0",
        **{name: value.format(spare_port=spare_port) for name, value in settings.items()},
    }
    log = folder / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "app", "serve"]
        process = subprocess.Popen(
            command, cwd=project, env=environment(**care), stdout=output, stderr=output
        )
    try:
        service = Service(port, spare_port, database, process, log)
        wait_until_ready(service)
        yield service
    finally:
        process.kill()
        process.wait()


def wait_until_ready(service: Service) -> None:
    for _ in range(600):
        try:
            if httpx2.get(f"{service.server.url}/readyz", verify=False).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.05)
        if service.process.poll() is not None:
            break
    raise RuntimeError(f"the service is not ready: {service.log.read_text()[-2000:]}")


def token(caregiver: int) -> str:
    return keys.token("CAREGIVER", f"caregiver-{caregiver}")
