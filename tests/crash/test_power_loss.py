"""No response is sent before its change is synced to the disk. A killed process cannot show that, because the
system still writes its data; the order of system calls does."""

import re
import shutil
import subprocess
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.crash.crashes import Crashes
from tests.crash.writers import send
from tests.live.processes import PATIENCE

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.parametrize("kind", ["sqlite"], indirect=True)]
TRACER = shutil.which("strace")
WRITES = 60
CALLS = "trace=fsync,fdatasync,write,writev,sendto,sendmsg"
# A call that another thread interrupts has two lines: it ends with the second, and begins with the first.
SYNCED = re.compile(r"f(?:data)?sync\(\d+<[^>]*care\.db-wal>\) += 0|<\.\.\. f(?:data)?sync resumed>\) += 0")
ANSWERED = re.compile(r"(?:write|writev|sendto|sendmsg)\(\d+<.*HTTP/1\.1 200 OK")


@pytest.mark.skipif(TRACER is None, reason="needs strace")
def test_every_response_is_sent_after_a_sync_of_its_change(crashes: Crashes, tmp_path: Path) -> None:
    assert TRACER is not None
    crashes.care["dispatcher"] = "off"  # nothing else writes
    trace = tmp_path / "trace"
    writer = crashes.writers[0]
    with crashes.started() as (process, port):
        crashes.wait_until_ready(process, port)
        tracer = subprocess.Popen(
            [TRACER, "-f", "-y", "-s", "64", "-e", CALLS, "-o", str(trace), "-p", str(process.pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tracer.stderr is not None
        if "attached" not in (line := tracer.stderr.readline()):
            tracer.wait()
            pytest.skip(line)
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for at in range(WRITES):
            request = writer.assign_by_put() if at % 2 else writer.assign()
            send(connection, request)
        connection.close()
        process.kill()
        tracer.communicate()

    syncs = [0]
    for line in trace.read_text().splitlines():
        if SYNCED.search(line):
            syncs[-1] += 1
        elif ANSWERED.search(line):
            syncs.append(0)
    print(f"{WRITES} answers, syncs before each: {min(syncs[:-1])} to {max(syncs[:-1])}")
    assert len(syncs) == WRITES + 1
    assert 0 not in syncs[:-1]
