"""Calls of the legacy paths that an overloaded process rejects are in the usage report."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.db import raw
from tests.live.edge import ASSIGNMENTS, AUTHORIZATION, homework, request, serve_service, write_lock
from tests.live.processes import PATIENCE

pytestmark = pytest.mark.live


def test_calls_that_an_overloaded_process_rejects_are_counted(tmp_path: Path) -> None:
    calls = (homework(), request("HEAD", ASSIGNMENTS, AUTHORIZATION))
    until, rows = time.monotonic() + PATIENCE, set[Any]()
    with serve_service(tmp_path, most_requests=1) as edge:
        with edge.connection() as first, write_lock(edge.database):
            first.send(homework())
            while edge.fetch(request("GET", "/gateway/nowhere")).status != 503:
                assert time.monotonic() < until
            assert [edge.fetch(each).status for each in calls] == [503, 503]

        while not rows >= {(f"{method} {ASSIGNMENTS}", "UNKNOWN", "unknown") for method in ("GET", "PUT")}:
            rows = set(raw.run(edge.database, "SELECT path, role, application FROM legacy_usage"))
            assert time.monotonic() < until, rows
