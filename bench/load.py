"""Load on a running server with wrk, and the figures of one operation."""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any, NamedTuple

from comparison import SUBMISSIONS, WRITES, WRITTEN
from servers import SUBMITTED, WORK, Request, Server, Target, on_core, raw

# Each response is checked: GraphQL has errors with status 200.
LUA = """
local requests, next_one = {}, -1
bad, first_bad = 0, ""

function init()
  for request in io.open("%s", "rb"):read("*a"):gmatch("%%Z+") do table.insert(requests, request) end
end

-- wrk calls this once before it connects, so the first request is returned twice.
function request()
  local chosen = requests[math.max(next_one, 0) %% #requests + 1]
  next_one = next_one + 1
  return chosen
end

-- wrk drops a request that it cannot write at once. The next draft of the assignment is then a conflict.
function response(status, headers, body)
  if status == 200 and body:upper():find("DRAFT.CONFLICT") then return end
  if status ~= 200 or body:find('"errors":[', 1, true) or body:find('"userErrors":[{', 1, true) then
    bad = bad + 1
    if bad == 1 then first_bad = status .. " " .. body:sub(1, 300) end
  end
end

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function done(summary, latency)
  local failed, e = 0, summary.errors
  for _, thread in ipairs(threads) do
    failed = failed + thread:get("bad")
    io.write("\\n" .. thread:get("first_bad") .. "\\n")
  end
  failed = failed + e.connect + e.read + e.write + e.timeout
  io.write(string.format('\\nJSON{"requests":%%d,"us":%%d,"p50_us":%%d,"p99_us":%%d,"failed":%%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failed))
end
"""


MOST_PER_SECOND = 4000  # requests of an evening, whose submissions cannot be repeated

NextRequests = Callable[[int], list[tuple[str, Request]]]  # with their operations


class Pace(NamedTuple):
    warm: int
    seconds: int
    connections: int


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def measure(
    target: Target, server: Server, operation: str, next_requests: NextRequests, pace: Pace
) -> dict[str, Any]:
    """The figures of one operation; `wrong` is there when they do not count."""
    is_write = operation in WRITES
    rows = target.rows_written() if is_write else {}
    confirmed: Counter[str] = Counter()
    run, cpu = {}, 0.0
    for seconds in filter(None, (pace.warm, pace.seconds)):
        requests = next_requests(seconds * MOST_PER_SECOND)
        (WORK / "requests").write_bytes(
            b"\0".join(raw(each, server.url.removeprefix("http://")) for _, each in requests)
        )
        cpu = server.cpu_seconds()
        run = wrk(server, seconds, pace.connections)
        cpu = server.cpu_seconds() - cpu
        confirmed.update(name for name, _ in islice(cycle(requests), run["requests"]))

    figures = {
        "per_second": run["requests"] / (run["us"] / 1e6),
        "per_cpu_second": run["requests"] / max(cpu, 0.01),
        "p50_ms": run["p50_us"] / 1000,
        "p99_ms": run["p99_us"] / 1000,
        "memory_mib": server.memory_mib(),
    }
    if run["failed"]:
        figures["wrong"] = f"{run['failed']} of {run['requests']} requests failed: {run['first_bad']}"
    elif is_write:
        after = target.rows_at_rest()
        new = {table: after[table] - rows[table] for table in after}
        homework = confirmed["R4"] + confirmed["G4"]
        expected = {"assignment": WRITTEN["assignment"] * homework, SUBMITTED: confirmed[SUBMISSIONS]}
        # When wrk stops, one request of each connection may be carried out uncounted; it has run twice.
        surplus = 2 * WRITTEN["assignment"] * pace.connections
        if any(not -surplus <= new[table] - number <= surplus for table, number in expected.items()):
            figures["wrong"] = f"{confirmed} requests confirmed, but {new} rows written"
    return figures


def wrk(server: Server, seconds: int, connections: int) -> dict[str, Any]:
    script = WORK / "requests.lua"
    script.write_text(LUA % (WORK / "requests"))
    arguments = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "5s", "-s", str(script), server.url]
    done = subprocess.run([*on_core(1), "wrk", *arguments], capture_output=True, text=True, check=True)
    printed, _, figures = done.stdout.rpartition("JSON")
    return {**json.loads(figures), "first_bad": printed.splitlines()[-2]}
