"""Ports of tests: no two processes get the same one."""

import subprocess
import sys

from tests.ports import BLOCK, end_of_range, free_port

SCRIPT = f"""
from tests.ports import free_port
print(*[free_port() for _ in range({BLOCK + 10})], flush=True)
input()
"""


def test_processes_get_different_ports() -> None:
    """While they run: a server may be started again on its port."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    try:
        lists = [[int(port) for port in one.stdout.readline().split()] for one in processes if one.stdout]
    finally:
        for one in processes:
            one.communicate("")
    found = [free_port(), *(port for each in lists for port in each)]

    assert len(set(found)) == len(found) == 4 * (BLOCK + 10) + 1
    assert all(port < end_of_range() for port in found)
