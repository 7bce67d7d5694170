"""The servers that are timed: their requests and tokens, their copies of the data, their processes."""

import asyncio
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import dataset
import httpx2
import jwt
import postgres
from expected import Values
from postgres import Postgres

BENCH = Path(__file__).resolve().parent
HOME = Path(os.environ.get("BENCH_HOME") or Path(tempfile.gettempdir()) / "care-gateway-bench").absolute()
WORK = HOME / "work"
SECRET = "yardstick-secret-yardstick-secret-0123456789"
PEOPLE = {
    "client": ("client", dataset.HOT_CLIENT),
    "caregiver": ("caregiver", dataset.HOT_CAREGIVER),
    "writer": ("caregiver", dataset.WRITER),
}
SUBMITTED = "assignment WHERE status = 'COMPLETE'"
PEER_CLAIMS = {"sub": "{id}", "role": "{role}"}


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: str | None


@dataclass(frozen=True)
class Target:
    name: str
    spec: dict[str, Any]  # its block in targets.toml
    operations: dict[str, dict[str, Any]]  # R1.. G4: its block in requests/*.toml
    postgres: Postgres | None = None  # instead of SQLite

    @property
    def database(self) -> Path | str:
        """The file or the URL of its copy of the data."""
        return self.postgres.url_of(self.name) if self.postgres else WORK / f"{self.name}.db"

    def rows_at_rest(self) -> dict[str, int]:
        """The rows once nothing is being written any more: wrk leaves without its last answers."""
        before: dict[str, int] = {}
        rows = self.rows_written()
        while rows != before:
            time.sleep(0.3)
            rows, before = self.rows_written(), rows
        return rows

    def rows_written(self) -> dict[str, int]:
        tables = ("assignment", "reminder", SUBMITTED)
        if isinstance(self.database, str):
            return postgres.count_rows(self.database, tables)
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as db:
            return {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


@dataclass(frozen=True)
class Server:
    """A started target."""

    url: str
    pid: int
    postgres: Postgres | None = None

    def cpu_seconds(self) -> float:
        """Of its processes and of PostgreSQL, which works for no other server meanwhile."""
        ticks = 0
        for pid in family(self.pid) + (family(self.postgres.pid) if self.postgres else []):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                ticks += sum(int(field) for field in fields[11:15])  # its own and those of ended children
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        return sum(resident_kib(pid) for pid in family(self.pid)) / 1024


# --- requests --------------------------------------------------------------------------------------------


def read_targets(database: str = "sqlite") -> tuple[dict[str, Target], dict[str, Any]]:
    """The targets by name, and the bars."""
    config = tomllib.loads((BENCH / "targets.toml").read_text())
    changed = config.pop("postgresql")
    if database == "postgresql":
        bars = changed.pop("bars")
        config = {name: merged(config.get(name, {}), spec) for name, spec in changed.items()} | {"bars": bars}
    bars = config.pop("bars")
    targets = {}
    for name, spec in config.items():
        operations: dict[str, dict[str, Any]] = {}
        for requests in spec["requests"]:
            operations |= tomllib.loads((BENCH / "requests" / f"{requests}.toml").read_text())
        targets[name] = Target(name, spec, operations)
    return targets, bars


def merged(spec: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The block of a target with the keys that differ on another database."""
    return {**spec, **changes, "env": {**spec.get("env", {}), **changes.get("env", {})}}


def new_token(target: Target, role: str, i: int) -> str:
    words = {"id": i, "role": role, "ROLE": role.upper()}
    now = int(time.time())
    claims = filled(target.spec.get("claims", PEER_CLAIMS), words)
    return jwt.encode(
        {**claims, "jti": f"bench-{role}-{i}", "iat": now - 60, "exp": now + 12 * 3600}, SECRET, "HS256"
    )


def new_request(
    target: Target, operation: str, values: Values, person: tuple[str, int] | None = None
) -> Request:
    """Of the person that the operation names, or of another one."""
    spec = target.operations[operation]
    token = new_token(target, *(person or PEOPLE[spec["role"]]))
    headers = {"Accept": "*/*", "offset": "1", "Authorization": f"bearer {token}"}
    body = None
    if "document" in spec:
        text = re.sub(r"\s+", " ", spec["document"]).strip()
        body = {"query": text, "variables": filled(spec.get("variables", {}), values)}
    elif "body" in spec:
        body = filled(spec["body"], values)
    if body is not None:
        headers["Content-Type"] = "application/json"
    path = filled(spec.get("path", "/graphql"), values)
    return Request(spec.get("method", "POST"), path, headers, None if body is None else json.dumps(body))


def raw(request: Request, host: str) -> bytes:
    headers = {"Host": host, **request.headers}
    body = (request.body or "").encode()
    if body:
        headers["Content-Length"] = str(len(body))
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def filled(value: Any, words: dict[str, Any]) -> Any:
    """The value with '@name' replaced by that word as it is and '{name}' by its text."""
    if isinstance(value, dict):
        return {key: filled(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, words) for item in value]
    if value.startswith("@"):
        return words[value[1:]]
    return value.format(**words)


# --- data ------------------------------------------------------------------------------------------------


def data_folder(scale: int) -> Path:
    """The folder of the data set, which is written anew when dataset.py has changed."""
    folder = HOME / "data" / f"scale-{scale}"
    version, written = digest((BENCH / "dataset.py").read_bytes()), folder / "version"
    if not written.exists() or written.read_text() != version:
        print(f"writing the data set of scale {scale}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        dataset.write(folder, scale)
        written.write_text(version)
    return folder


def master_database(target: Target, data: Path, fresh: bool) -> Path | str:
    """What each start gets a copy of: the data set's own database, or the one the target made of it."""
    if target.postgres:
        return master_on_postgres(target, target.postgres, data, fresh)
    if "import" not in target.spec:
        return data / "dataset.db"
    empty = WORK / f"{target.name}-empty.db"
    remove_database(empty)
    run_command(target, "migrate", empty, data)
    imported = data / f"{target.name}-{schema_of(empty)}.db"
    if fresh or not imported.exists():
        print(f"  {target.name}: importing the data set", flush=True)
        started = time.monotonic()
        run_command(target, "import", empty, data)
        fold_journal(empty)
        remove_database(imported)
        empty.rename(imported)
        print(f"  {target.name}: imported in {time.monotonic() - started:.1f} s", flush=True)
    return imported


def master_on_postgres(target: Target, server: Postgres, data: Path, fresh: bool) -> str:
    """The name of the database; the peers share one."""
    imports = "import" in target.spec
    owner = target.name if imports else "peers"
    empty = postgres.recreate(server, f"{owner}-empty")
    if imports:
        run_command(target, "migrate", empty, data)
    else:
        postgres.create_tables(empty)
    version = digest(((data / "version").read_text() + postgres.schema_of(empty)).encode())
    imported = f"{owner}-{data.name}-{version}"
    if fresh or not postgres.exists(server, imported):
        print(f"  {owner}: importing the data set", flush=True)
        started = time.monotonic()
        if imports:
            run_command(target, "import", empty, data)
        else:
            asyncio.run(postgres.fill_tables(empty, data / "dataset.db"))
        postgres.settle(server, f"{owner}-empty", imported)
        print(f"  {owner}: imported in {time.monotonic() - started:.1f} s", flush=True)
    return imported


def schema_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as db:
        return digest(repr(db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()).encode())


def fold_journal(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def remove_database(database: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


# --- processes -------------------------------------------------------------------------------------------


def words_of(target: Target, database: Path | str, data: Path, port: int) -> dict[str, Any]:
    own_node = HOME / "peers/node/node_modules/node/bin/node"
    return {
        "python": sys.executable,
        "node": os.environ.get("BENCH_NODE") or (own_node if own_node.exists() else "node"),
        "project": BENCH.parent,
        "bench": BENCH,
        "home": HOME,
        "port": port,
        "secret": SECRET,
        "dataset": data / "dataset.jsonl",
        "database": database,
    }


def environment(target: Target, words: dict[str, Any]) -> dict[str, str]:
    """The caller's, so that its CARE_* switches reach the service, and what the yardstick needs."""
    return {
        "BENCH_TOKEN_CACHE": "1",
        **os.environ,
        "PORT": str(words["port"]),
        "BENCH_DB": str(words["database"]),
        "BENCH_JWT_SECRET": SECRET,
        "NODE_ENV": "production",
        "PYTHONDONTWRITEBYTECODE": "1",
        **filled(target.spec.get("env", {}), words),
    }


def command(target: Target, verb: str, words: dict[str, Any]) -> list[str]:
    return [filled(part, words) for part in shlex.split(target.spec[verb])]


def run_command(target: Target, verb: str, database: Path | str, data: Path) -> None:
    words = words_of(target, database, data, 0)
    done = subprocess.run(
        command(target, verb, words),
        cwd=filled(target.spec["cwd"], words),
        env=environment(target, words),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"`{target.spec[verb]}` failed: {(done.stderr or done.stdout).strip()[-2000:]}")


def copy_database(target: Target, master: Path | str) -> None:
    if target.postgres:
        postgres.recreate(target.postgres, target.name, template=str(master))
    else:
        remove_database(Path(target.database))
        shutil.copyfile(master, target.database)


@contextmanager
def running(target: Target, master: Path | str, data: Path) -> Iterator[Server]:
    """The target on a fresh copy of its database; it is ended on the way out."""
    copy_database(target, master)
    os.sync()  # or the copy is still being written while the first operation is timed
    port = free_port()
    words = words_of(target, target.database, data, port)
    log = WORK / f"{target.name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*on_core(0), *command(target, "start", words)],
            cwd=filled(target.spec["cwd"], words),
            env=environment(target, words),
            stdout=output,
            stderr=output,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process, log)
        yield Server(url, process.pid, target.postgres)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended at once: {log.read_text()[-2000:]}")
        try:
            httpx2.get(url, timeout=1)
            return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"the server does not answer, see {log}")


def on_core(number: int) -> list[str]:
    """What to put before a command to keep it on one core of two: 0 is the server's, 1 the load's."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 or not shutil.which("taskset"):
        return []
    return ["taskset", "-c", str(cores[number])]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def family(pid: int) -> list[int]:
    """The process and its descendants; none of a process that has just ended."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


def resident_kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0
