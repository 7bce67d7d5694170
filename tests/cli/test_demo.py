"""Promise: `demo` loads its data only into an empty database, and only in development."""

import re
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.care.context import Role, utc_now
from app.db.admin.demo import CAREGIVER, CLIENT, MEETINGS, demo_lines
from app.db.admin.migrate import newest_version, stored_version
from app.db.interchange.load import reading_users
from app.db.moments import moment_as_text
from app.dev.quickstart import homework, quickstart_text
from app.dev.tokens import KEY_FILE
from app.settings import Settings
from tests.callers import load, run_read
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import HOUR, NOW, a_caregiver

SECOND = timedelta(seconds=1)
KINDS = ("book", "session", "assignment", "answer_set")
YES_NO = ("true", "false")

SECRET = "a development secret of 32 bytes"


def test_demo_loads_its_data_once(command: Command, settings: Settings) -> None:
    first = command("demo")
    before = raw.row_counts(settings.database)
    second = command("demo")

    assert [(one.exit_code, one.stderr) for one in (first, second)] == [(0, "")] * 2
    assert raw.row_counts(settings.database) == before
    accounts = command("account", "list").stdout
    assert f"caregiver\t1\t{CAREGIVER}\tenabled" in accounts
    assert f"client\t1\t{CLIENT}\tenabled" in accounts
    assert command("verify").stdout == "0 differences\n"


@pytest.mark.sqlite_only
def test_the_demo_data_is_consistent_with_itself() -> None:
    """The dates are relative to a full hour, the scores are those of the answers, and no list is empty."""
    records = [orjson.loads(line) for line in demo_lines(NOW + HOUR - SECOND)]
    of = {kind: {each["id"]: each for each in records if each["kind"] == kind} for kind in KINDS}
    weights = {
        (question["text"], option): weight
        for book in of["book"].values()
        for question in book["questions"]
        for option, weight in zip(question["options"] or YES_NO, question.get("weights", ()), strict=False)
    }
    now = moment_as_text(NOW)
    assert records == [orjson.loads(line) for line in demo_lines(NOW)]

    scores = {
        each["assignmentId"]: sum(
            weights.get((one["questionText"], one["answer"]), 0) for one in each["answers"]
        )
        for each in of["answer_set"].values()
    }
    submitted = {each["assignmentId"]: each["submitDate"] for each in of["answer_set"].values()}
    complete = [each for each in of["assignment"].values() if each["status"] == "COMPLETE"]
    assert {each["id"]: each["score"] for each in complete} == scores == {1: 0, 2: 60, 5: 80}
    assert {each["id"]: each["submitDate"] for each in complete} == submitted
    own = [each for each in of["session"].values() if each["clientId"] == 1]
    closed = sum(each["isClosed"] for each in own)
    future = sum(each["startDate"] > now for each in own)
    assert (closed, future, len(own) - closed - future) == (MEETINGS, 1, 2)
    for each in of["session"].values():
        assert each["createDate"] < each["startDate"] < (each["closeDate"] or "9")
    for each in of["assignment"].values():
        session = of["session"][each["sessionId"]]
        assert session["createDate"] < each["assignDate"] < each["startDate"] < each["endDate"]
        assert each["startDate"] < (each["submitDate"] or "9") and session["startDate"] < each["startDate"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("host", "written"), [("127.0.0.9", "127.0.0.9"), ("::1", "[::1]"), ("2001:db8::1", "[2001:db8::1]")]
)
def test_demo_migrates_a_new_database(command: Command, tmp_path: Path, host: str, written: str) -> None:
    url = f"sqlite:///{tmp_path}/new/care.db"

    result = command("demo", database_url=url, host=host, port="8123")

    assert (result.exit_code, result.stderr) == (0, "")
    assert f"http://{written}:8123/graphql" in result.stdout.split()
    assert run_read(url, stored_version()) == newest_version()
    assert run_read(url, reading_users()) != {}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("zone", ["Etc/GMT-14", "Etc/GMT+12"])
def test_the_printed_homework_begins_tomorrow_in_any_time_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    earliest = homework(utc_now())
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        text = quickstart_text("http://localhost:8000", {role: "token" for role in Role})
    time.tzset()

    [body] = re.findall(r"-X PUT .* -d '(.*)' ", text)
    assert orjson.loads(body) in (earliest, homework(utc_now()))


@pytest.mark.sqlite_only
def test_demo_works_with_a_shared_secret(command: Command, tmp_path: Path) -> None:
    result = command("demo", token_secret=SECRET, var=str(tmp_path / "var"))

    assert (result.exit_code, result.stderr) == (0, "")
    assert not (tmp_path / "var").exists()  # no key is made


@pytest.mark.sqlite_only
def test_demo_with_a_port_in_use_creates_nothing(command: Command, tmp_path: Path) -> None:
    var = tmp_path / "var"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rejected = command("demo", "--serve", database_url="", var=str(var), port=str(port))

    advice = "set another port with CARE_PORT or `make run PORT=8001`"
    assert_rejected(rejected, f"cannot listen on 127.0.0.1, port {port}: Address already in use; {advice}")
    assert not var.exists()


@pytest.mark.sqlite_only
def test_demo_with_a_damaged_key_creates_no_database(command: Command, tmp_path: Path) -> None:
    var = tmp_path / "var"
    var.mkdir()
    (var / KEY_FILE).write_text("damaged")

    rejected = command("demo", database_url="", var=str(var))

    assert_rejected(rejected, f"the development key at {var / KEY_FILE} cannot be used; remove it")
    assert [path.name for path in var.iterdir()] == [KEY_FILE]


@pytest.mark.sqlite_only
def test_a_port_in_use_at_the_second_address_of_a_host_is_reported(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_addresses(host: str, port: int, type: socket.SocketKind) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, type, 0, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rejected = command("demo", "--serve", var=str(tmp_path / "var"), host="here", port=str(port))

    assert rejected.exit_code == 2
    assert rejected.stderr.startswith(f"care-gateway: cannot listen on here, port {port}: Address already")


@pytest.mark.sqlite_only
def test_demo_loads_nothing_into_a_database_with_rows(command: Command, settings: Settings) -> None:
    load(settings.database, [a_caregiver(1)])
    before = raw.row_counts(settings.database)

    result = command("demo")

    assert (result.exit_code, result.stderr) == (0, "")
    assert raw.row_counts(settings.database) == before


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "changed",
    [
        {"env": "production"},
        {"env": "production", "token_secret": SECRET},
        {"token_key": "issuer.pem"},
        {"token_jwks": "keys.json"},
    ],
)
def test_demo_creates_nothing_when_it_is_rejected(
    command: Command, tmp_path: Path, changed: dict[str, str]
) -> None:
    var = tmp_path / "var"

    rejected = command("demo", database_url="", var=str(var), **changed)

    assert_rejected(
        rejected,
        "`care-gateway demo` creates demo users and tokens, so it needs CARE_ENV=development and no "
        "CARE_TOKEN_KEY or CARE_TOKEN_JWKS; for production see docs/guides/operator.md",
    )
    assert not var.exists()
