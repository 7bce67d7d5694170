"""A separate PostgreSQL server with syncs enabled, which is killed and started again."""

import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live.processes import PATIENCE
from tests.postgres import VERSION, copy_of_wheel, free_ports, hand_over, nobody_can_run, start, wheel

MAKE = """
"$1/initdb" --pgdata=data --no-sync --no-instructions --encoding=UTF8 --locale=C \\
    --username=care --auth=scram-sha-256 --pwfile=password \\
    --set listen_addresses=127.0.0.1 --set unix_socket_directories= --set shared_buffers=16MB
"""
# The shell ends the server when we are gone. A start is refused while processes of the dead one are left.
KEEP = """
while :; do
    "$1/postgres" -D data -p "$2" > log 2>&1 &
    until grep -qs 'ready to accept connections' log; do
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

    def stop(self) -> None:
        if self.keeper is not None:
            self.keeper.communicate("stop\n", timeout=PATIENCE)
            self.keeper = None


@contextmanager
def own_postgres() -> Iterator[tuple[Server, str]]:
    with tempfile.TemporaryDirectory(prefix="care-postgres-", ignore_cleanup_errors=True) as name:
        folder, password = Path(name), secrets.token_urlsafe(24)
        (folder / "password").write_text(password)
        package = wheel()
        if os.geteuid() == 0 and not nobody_can_run(package / VERSION / "bin" / "initdb"):
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
