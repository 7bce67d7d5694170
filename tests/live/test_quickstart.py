"""Quickstart: the commands that `demo` prints work in a shell, and the data survives a restart and a
killed process."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from app.db.session_counters import differences
from app.dev.tokens import KEY_FILE, public_key
from app.settings import Environment, Settings
from tests.callers import run_read
from tests.db import raw
from tests.live.processes import PATIENCE, Served, environment, run, serving, start
from tests.ports import free_port

pytestmark = pytest.mark.live
ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
CURL = re.compile(r"^curl .*$", re.MULTILINE)


def development(folder: Path) -> dict[str, str]:
    return {"env": "development", "var": str(folder / "var"), "port": str(free_port())}


SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh") if shutil.which(shell)]


def run_in_shell(output: str, line: str, shell: str = "sh") -> tuple[int, str]:
    """Runs a printed curl line after the printed variables and returns status and body. Without curl,
    httpx2 replaces it."""
    assert "ey" not in line  # a token is in its variable alone
    variables = re.findall(r"^[A-Z]+=\S+$", output, re.MULTILINE)
    if shutil.which("curl"):
        command = "\n".join([*variables, line + " -w '\\n%{http_code}'"])
        done = subprocess.run([shell], input=command, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, "")
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body
    values = dict(each.split("=", 1) for each in variables)
    words = [re.sub(r"\$([A-Z]+)", lambda name: values[name[1]], word) for word in shlex.split(line)]
    headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
    content = words[words.index("-d") + 1] if "-d" in words else None
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if content else "GET"
    response = httpx2.request(method, words[-1], headers=headers, content=content)
    return response.status_code, response.text


def test_the_printed_commands_work_and_the_data_survives_a_restart(tmp_path: Path) -> None:
    care = development(tmp_path)
    demo = run("demo", module="app", **care)
    assert (demo.returncode, demo.stderr) == (0, "")
    assert len(demo.stdout) < 3000
    sessions, assignments, assignment, assign, graphql = CURL.findall(demo.stdout)

    with serving(tmp_path / "first", **care) as served:
        lines = (sessions, assignments, assignment, assign, assign, graphql)
        responses = [run_in_shell(demo.stdout, line) for line in lines]
        for shell in SHELLS:
            assert run_in_shell(demo.stdout, graphql, shell) == responses[-1]
            assert run_in_shell(demo.stdout, sessions, shell)[0] == 200
        for role in ("CAREGIVER", "CLIENT"):
            assert viewer(served.url, token_of(demo.stdout, role)) == {"role": role}
        before = run_in_shell(demo.stdout, assignments)
        assert [status for status, _ in [*responses, before]] == [200] * 7
        assert '"message":' in responses[3][1]
        assert before[1] != responses[1][1]
        assert json.loads(responses[-1][1])["data"]["assignments"]["totalCount"] > 0
        assert_stops(served, signal.SIGTERM)

    with serving(  # as `make run` does it
        tmp_path / "second", "--serve", command="demo", module="app", **care
    ) as served:
        assert run_in_shell(demo.stdout, assignments) == before
        port = care["port"]
        once_more = run("demo", "--serve", **care)
        advice = "set another port with CARE_PORT or `make run PORT=8001`"
        sentence = f"cannot listen on 127.0.0.1, port {port}: Address already in use; {advice}"
        assert (once_more.returncode, once_more.stdout) == (2, "")
        assert once_more.stderr == f"care-gateway: {sentence}\n"
        assert_stops(served, signal.SIGINT)  # Ctrl-C


def assert_stops(served: Served, number: signal.Signals) -> None:
    """The exit code is 0 and the log has no traceback."""
    code, output = served.stop(number)

    assert (code, "Traceback" in output) == (0, False)
    assert "Application shutdown complete." in output


def token_of(output: str, role: str) -> str:
    found = re.search(rf"^{role}=(\S+)$", output, re.MULTILINE)
    assert found
    return found[1]


def viewer(url: str, token: str) -> object:
    headers = {"authorization": f"bearer {token}"}
    response = httpx2.post(f"{url}/graphql", json={"query": "{ viewer { role } }"}, headers=headers)
    return response.json()["data"]["viewer"]


@pytest.mark.parametrize(
    "command", [[sys.executable, "-m", "app"], [str(Path(sys.executable).with_name("care-gateway"))]]
)
def test_demo_prints_the_command_for_another_token_as_it_was_started(
    tmp_path: Path, command: list[str]
) -> None:
    care = development(tmp_path)

    output = run_program([*command, "demo"], care)

    [line] = re.findall(r"^A new token, in the service's folder: (.*)$", output, re.MULTILINE)
    assert line == f"CARE_ENV=development {shlex.join(command)} token --role caregiver"
    token = run_program(["sh", "-c", line], care).strip()
    assert claims_of(token, care)["authorities"] == ["CAREGIVER"]


def run_program(words: list[str], care: dict[str, str]) -> str:
    done = subprocess.run(words, env=environment(**care), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def claims_of(token: str, care: dict[str, str]) -> dict[str, Any]:
    key = public_key(Settings(env=Environment.DEVELOPMENT, var=care["var"]))
    return jwt.decode(token, key, algorithms=["RS256"])


def test_several_workers_share_a_database_and_stop_together(tmp_path: Path) -> None:
    care = development(tmp_path)
    demo = run("demo", **care)
    *_, assign, _ = CURL.findall(demo.stdout)

    with serving(tmp_path / "log", "--workers", "2", **care) as served:
        responses = [run_in_shell(demo.stdout, assign) for _ in range(6)]
        code, output = served.stop(signal.SIGTERM)

    assert [status for status, _ in responses] == [200] * 6
    database = f"sqlite:///{care['var']}/care.db"
    assert run_read(database, differences()) == []
    calls = raw.run(database, "SELECT role, application, requests FROM legacy_usage")
    assert calls == [("CAREGIVER", "development", 6)]  # of both together
    assert output.count("Application startup complete.") == 2
    assert output.count("Application shutdown complete.") == 2
    assert (code, "Traceback" in output) == (0, False)


def test_processes_that_start_at_once_share_one_signing_key(tmp_path: Path) -> None:
    care = development(tmp_path)
    words = ("token", "--role", "client", "--user", "jonas.berg@example.test")

    tokens = [
        one.communicate(timeout=PATIENCE)[0].strip() for one in [start(*words, **care) for _ in range(3)]
    ]

    users = [claims_of(token, care)["user_name"] for token in tokens]
    assert users == ["jonas.berg@example.test"] * 3
    assert [path.name for path in (tmp_path / "var").iterdir()] == [KEY_FILE]


def test_a_confirmed_change_survives_a_killed_process(tmp_path: Path) -> None:
    """The process is killed twice, each time right after the response to a PUT with three books."""
    care = development(tmp_path)
    headers = {"authorization": f"bearer {token_of(run('demo', **care).stdout, 'CAREGIVER')}"}
    page = f"{ASSIGNMENTS}?time-state=RUNNING&size=100"
    before = []

    for day in range(1, 3):
        with serving(tmp_path / f"life {day}", **care) as served:
            before.append(httpx2.get(f"{served.url}{page}", headers=headers).json())
            done = httpx2.put(f"{served.url}{ASSIGNMENTS}", json=homework(day), headers=headers)
            served.process.kill()
        assert done.status_code == 200
    with serving(tmp_path / "after", **care) as served:
        found = httpx2.get(f"{served.url}{page}", headers=headers).json()

    assert found["totalElements"] == before[0]["totalElements"] + 6
    newest = [(item["startDate"], item["bookId"]) for item in found["content"][:6]]
    assert sorted(newest) == [(f"2030/01/0{day} 08:00", book) for day in range(1, 3) for book in (1, 2, 3)]
    assert found["content"][6:] == before[0]["content"]
    assert run_read(f"sqlite:///{care['var']}/care.db", differences()) == []


def homework(day: int) -> dict[str, object]:
    return {
        "bookIds": [1, 2, 3],
        "startDate": f"2030/01/0{day}",
        "startTime": "08:00",
        "endDate": f"2030/01/1{day}",
        "endTime": "20:00",
        "remindDates": [{"date": f"2030/01/0{day}", "time": "09:00"}],
        "sessionId": 1,
    }
