"""Separate PostgreSQL servers with syncs enabled: killed, started again, and replicated to a standby."""

import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from tests.db import raw
from tests.live.processes import PATIENCE
from tests.postgres import (
    VERSION,
    copy_of_wheel,
    folder_in_memory,
    free_ports,
    hand_over,
    nobody_can_run,
    start,
    wheel,
)

# The timeline is that after 14 promotions. Names of WAL files have it in hexadecimal: 0F, and then 10.
MAKE = """
"$1/initdb" --pgdata=data --no-sync --no-instructions --encoding=UTF8 --locale=C \\
    --username=care --auth=scram-sha-256 --pwfile=password \\
    --set listen_addresses=127.0.0.1 --set unix_socket_directories= --set shared_buffers=16MB || exit
: > data/pg_wal/0000000F.history
"$1/pg_resetwal" --pgdata=data --next-wal-file=0000000F0000000000000002
"""
# The shell ends the server when we are gone. A start is refused while processes of the dead one are left.
KEEP = """
while :; do
    : > log  # an earlier server was ready, too
    "$1/postgres" -D data -p "$2" > log 2>&1 &
    until grep -qs 'ready to accept' log; do
        sleep 0.02
        kill -0 $! 2> /dev/null && continue
        grep -qs 'still in use\\|lock file' log && continue 2
        cat log
        exit 1
    done
    echo $!
    read -r _
    kill -INT $! 2> /dev/null
    wait
    exit
done
"""


@dataclass
class Server:
    folder: Path
    binaries: Path
    port: str
    keeper: subprocess.Popen[str] | None = None
    process_id: int = 0

    def start(self) -> None:
        self.keeper = start(["/bin/sh", "-c", KEEP, "keeper", str(self.binaries), self.port], self.folder)
        assert self.keeper.stdout is not None
        line = self.keeper.stdout.readline()
        assert line.strip().isdigit(), line + self.keeper.stdout.read()
        self.process_id = int(line)

    def kill(self) -> None:
        os.kill(self.process_id, signal.SIGKILL)
        self.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops every process of the server, as if its disk hung. The kernel still acknowledges packets."""
        resuming = Timer(PATIENCE, self.send, [signal.SIGCONT])  # a test that waits for it would hang
        resuming.start()
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            resuming.cancel()
            self.send(signal.SIGCONT)

    def send(self, number: int) -> None:
        for process in [self.process_id, *children_of(self.process_id)]:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def stop(self) -> None:
        if self.keeper is not None:
            self.keeper.communicate("stop\n", timeout=PATIENCE)
            self.keeper = None

    def run(self, *command: str) -> str:
        """Runs one of PostgreSQL's programs in the folder of the server, as its user."""
        process = start([str(self.binaries / command[0]), *command[1:]], self.folder)
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
        return output


def children_of(process: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True)
    return [int(one) for one in listed.stdout.split()]


@contextmanager
def own_postgres(in_memory: bool = False) -> Iterator[tuple[Server, str]]:
    package = wheel()
    runs_in_place = os.geteuid() != 0 or nobody_can_run(package / VERSION / "bin" / "initdb")
    place = folder_in_memory() if in_memory and runs_in_place else None  # it may not hold programs
    with tempfile.TemporaryDirectory(prefix="care-postgres-", dir=place, ignore_cleanup_errors=True) as name:
        folder, password = Path(name), secrets.token_urlsafe(24)
        (folder / "password").write_text(password)
        if not runs_in_place:
            package = copy_of_wheel(package, folder / "wheel")
        hand_over(folder)
        server = Server(folder, package / VERSION / "bin", free_ports()[0])
        made = start(["/bin/sh", "-c", MAKE, "make", str(server.binaries)], folder)
        line, _ = made.communicate(timeout=PATIENCE)
        assert made.returncode == 0, line
        server.start()
        try:
            yield server, f"postgresql://care:{password}@127.0.0.1:{server.port}/postgres"
        finally:
            server.stop()


@contextmanager
def standby_of(primary: Server, url: str) -> Iterator[Server]:
    """A standby that the primary waits for at each commit."""
    folder = primary.folder / "standby"
    folder.mkdir()
    hand_over(folder)
    standby = Server(folder, primary.binaries, free_ports()[0])
    standby.run(
        "pg_basebackup", "--pgdata=data", "--write-recovery-conf", "--checkpoint=fast", "--dbname", url
    )
    standby.start()
    try:
        raw.run(url, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        until = time.monotonic() + PATIENCE
        while raw.run(url, "SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < until, "the standby does not replicate"
        yield standby
    finally:
        standby.stop()
