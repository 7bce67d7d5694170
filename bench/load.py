"""Load on a running server with wrk, and the figures of one operation."""

import json
import shutil
import subprocess
from typing import Any, NamedTuple

from comparison import WRITES, WRITTEN
from servers import WORK, Request, Server, Target, on_core

# Every reply is looked at: GraphQL says its errors with status 200.
LUA = """
local requests, next_one = {}, 0
bad = 0

function init()
%s
end

function request()
  next_one = next_one %% #requests + 1
  return requests[next_one]
end

function response(status, headers, body)
  if status ~= 200 or body:find('"errors":[', 1, true) or body:find('"userErrors":[{', 1, true) then
    bad = bad + 1
  end
end

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function done(summary, latency)
  local failed, e = 0, summary.errors
  for _, thread in ipairs(threads) do failed = failed + thread:get("bad") end
  failed = failed + e.connect + e.read + e.write + e.timeout
  io.write(string.format('\\nJSON{"requests":%%d,"us":%%d,"p50_us":%%d,"p99_us":%%d,"failed":%%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failed))
end
"""


class Pace(NamedTuple):
    warm: int
    seconds: int
    connections: int


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def measure(
    target: Target, server: Server, operation: str, requests: list[Request], pace: Pace
) -> dict[str, Any]:
    """The figures of one operation; `wrong` is there when they do not count."""
    script = WORK / f"{target.name}-{operation}.lua"
    script.write_text(LUA % "\n".join(lua_request(request) for request in requests))
    rows = target.rows_written() if operation in WRITES else {}

    warm = wrk(server, str(script), pace.warm, pace.connections) if pace.warm else {}
    cpu = server.cpu_seconds()
    run = wrk(server, str(script), pace.seconds, pace.connections)
    cpu = server.cpu_seconds() - cpu

    figures = {
        "per_second": run["requests"] / (run["us"] / 1e6),
        "per_cpu_second": run["requests"] / max(cpu, 0.01),
        "p50_ms": run["p50_us"] / 1000,
        "p99_ms": run["p99_us"] / 1000,
        "memory_mib": server.memory_mib(),
    }
    if run["failed"]:
        figures["wrong"] = f"{run['failed']} of {run['requests']} requests failed"
    elif operation in WRITES:
        confirmed = run["requests"] + warm.get("requests", 0)
        new = target.rows_at_rest()["assignment"] - rows["assignment"]
        # When wrk stops, one request of each connection may be carried out uncounted; it has run twice.
        surplus = new - WRITTEN["assignment"] * confirmed
        if not 0 <= surplus <= 2 * WRITTEN["assignment"] * pace.connections:
            figures["wrong"] = f"{confirmed} requests confirmed, but {new} assignments written"
    return figures


def wrk(server: Server, script: str, seconds: int, connections: int) -> dict[str, Any]:
    arguments = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "5s", "-s", script, server.url]
    done = subprocess.run([*on_core(1), "wrk", *arguments], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.rsplit("JSON", 1)[1])
    return result


def lua_request(request: Request) -> str:
    headers = ", ".join(f"[{lua_text(name)}] = {lua_text(value)}" for name, value in request.headers.items())
    body = lua_text(request.body) if request.body else "nil"
    method, path = lua_text(request.method), lua_text(request.path)
    return f"  table.insert(requests, wrk.format({method}, {path}, {{ {headers} }}, {body}))"


def lua_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
