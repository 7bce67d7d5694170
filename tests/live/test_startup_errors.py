"""A service that cannot start prints one sentence without secrets. It exits with 1 if a later attempt may
succeed, else with 2."""

import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests import keys
from tests.live.processes import PATIENCE, run, serving, start
from tests.ports import free_port

pytestmark = pytest.mark.live
TABLES = "the database has no tables; run `care-gateway migrate`"
NO_KEY = "no key to verify tokens with: set CARE_TOKEN_KEY or CARE_TOKEN_JWKS (or CARE_ENV=development)"
SECRET = "a shared secret of 32 characters"


@pytest.fixture
def production(sqlite_copy: str) -> dict[str, str]:
    """All settings that a service in production needs."""
    return {"database_url": sqlite_copy, "token_key": keys.public_pem(), "port": str(free_port())}


def result(completed: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return completed.returncode, completed.stdout, completed.stderr


ERRORS = {
    "no key": ({"token_key": ""}, NO_KEY),
    "key file not there": (
        {"token_key": "/nowhere/key.pem"},
        "CARE_TOKEN_KEY is not the path of a readable PEM file: no such file or directory",
    ),
    "key set not there": (
        {"token_key": "", "token_jwks": "/nowhere/keys.json"},
        "CARE_TOKEN_JWKS is not the path of a readable JSON Web Key Set: no such file or directory",
    ),
    "issuer away": (
        {"token_key": "", "token_jwks": "http://127.0.0.1:1/keys"},
        "CARE_TOKEN_JWKS cannot be fetched: connection refused",
    ),
    "secret in production": (
        {"token_key": "", "token_secret": SECRET},
        "CARE_TOKEN_SECRET is for development only; set CARE_TOKEN_KEY or CARE_TOKEN_JWKS",
    ),
    "bad value": (
        {"time_zone": "Mars/Olympus"},
        "CARE_TIME_ZONE is not a known time zone such as Europe/Berlin",
    ),
    "misspelt": (
        {"databse_url": SECRET},
        "CARE_DATABSE_URL is not a setting; did you mean CARE_DATABASE_URL?",
    ),
    "no such way to encrypt": (
        {"database_url": "postgresql://care:my-password@127.0.0.1:1/care?sslmode=verify-ful"},
        "the address of the PostgreSQL database cannot be used: `sslmode` parameter must be one of: "
        "disable, allow, prefer, require, verify-ca, verify-full",
    ),
    "PostgreSQL away": (
        {"database_url": "postgresql://care:my-password@127.0.0.1:1/care"},
        "the PostgreSQL database cannot be opened: 127.0.0.1:1 refuses connections "
        "(check the port, and that PostgreSQL runs and listens there)",
    ),
    "PostgreSQL unknown": (
        {"database_url": "postgresql://care:my-password@nowhere.invalid/care"},
        "the PostgreSQL database cannot be opened: nowhere.invalid:5432 is not known to the name service "
        "(check the host, and write `@` in a password as %40)",
    ),
    "PostgreSQL at an invalid port": (
        {"database_url": "postgresql://care:my#password@127.0.0.1/care"},
        "the address of the PostgreSQL database cannot be read; "
        "write special characters in the user name and password as %XX",
    ),
    "no root certificate": (
        {"database_url": "postgresql://care:my-password@127.0.0.1:1/care?sslmode=verify-full"},
        "the address of the PostgreSQL database needs sslrootcert=FILE: root certificate file "
        f'"{Path.home()}/.postgresql/root.crt" does not exist or cannot be accessed',
    ),
    "root certificate not there": (
        {
            "database_url": "postgresql://care@127.0.0.1:1/care?sslmode=verify-full&sslrootcert=/nowhere/ca.pem"
        },
        "the PostgreSQL database cannot be opened: sslrootcert names /nowhere/ca.pem, which cannot be read: "
        "no such file or directory",
    ),
    "root certificate of another kind": (
        {"database_url": f"postgresql://care@127.0.0.1:1/care?sslmode=verify-full&sslrootcert={__file__}"},
        f"the PostgreSQL database cannot be opened: sslrootcert names {__file__}, which is not a PEM file",
    ),
    "standby wanted": (
        {"database_url": "postgresql://care@127.0.0.1:1/care?target_session_attrs=prefer-standby"},
        "CARE_DATABASE_URL must have target_session_attrs=read-write, or none: the service does not read "
        "from standbys",
    ),
}


LATER = {"issuer away", "PostgreSQL away", "PostgreSQL unknown"}


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_service_without_its_database_exits_with_1_so_that_it_is_started_again(
    command: str, production: dict[str, str], postgres: str
) -> None:
    user, host = postgres.removeprefix("postgresql://").split("@")
    urls = {
        "postgresql://care@127.0.0.1:1/care": 1,
        f"{postgres.rsplit('/', 1)[0]}/none": 2,
        f"postgresql://{user.split(':')[0]}:wrong@{host}": 2,
        f"postgresql://{user}@127.0.0.1:1,{host.replace('/postgres', '/none')}": 1,
    }
    started = {url: start(command, **production | {"database_url": url}) for url in urls}

    results = {url: (*one.communicate(), one.returncode) for url, one in started.items()}

    assert {url: code for url, (_, _, code) in results.items()} == urls
    assert {errors.count("\n") for _, errors, _ in results.values()} == {1}


def test_a_configuration_error_is_reported_in_one_sentence(production: dict[str, str]) -> None:
    started = {name: start("serve", **production | changed) for name, (changed, _) in ERRORS.items()}

    results = {name: (*one.communicate(timeout=PATIENCE), one.returncode) for name, one in started.items()}

    assert results == {
        name: ("", f"care-gateway: {sentence}\n", 1 if name in LATER else 2)
        for name, (_, sentence) in ERRORS.items()
    }


def test_a_missing_database_is_not_created(production: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "none.db"

    completed = run("serve", **production | {"database_url": f"sqlite:///{path}"})

    assert result(completed) == (
        2,
        "",
        f"care-gateway: there is no database at {path}; run `care-gateway migrate` first\n",
    )
    assert not path.exists()


def test_a_database_without_tables_is_rejected(production: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()

    completed = run("serve", **production | {"database_url": f"sqlite:///{path}"})

    assert result(completed) == (2, "", f"care-gateway: {TABLES}\n")


def test_a_file_that_is_no_database_is_rejected_and_unchanged(
    production: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all, this is not a database." * 50)

    completed = run("serve", **production | {"database_url": f"sqlite:///{path}"})

    sentence = f"the database at {path} cannot be opened: file is not a database"
    assert result(completed) == (2, "", f"care-gateway: {sentence}\n")
    assert path.read_text() == "Dear all, this is not a database." * 50


def test_a_port_in_use_is_reported_in_one_sentence(production: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        completed = run("serve", "--port", port, **production)

    sentence = f"care-gateway: cannot listen on 127.0.0.1, port {port}: Address already in use\n"
    assert result(completed) == (2, "", sentence)


def test_a_metrics_port_in_use_is_reported_with_its_setting(production: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        commands = (["serve"], ["serve", "--workers", "2"], ["worker"])
        started = [start(*words, **production, host="0.0.0.0", metrics_port=port) for words in commands]
        results = [(*one.communicate(timeout=PATIENCE), one.returncode) for one in started]

    sentence = (
        f"care-gateway: cannot listen on 127.0.0.1, port {port}: Address already in use (for metrics); "
        "set CARE_METRICS_PORT to another port\n"
    )
    assert results == [("", sentence, 2)] * 3


def test_a_metrics_port_that_is_the_port_of_the_service_is_rejected(production: dict[str, str]) -> None:
    port = str(free_port())

    completed = run("serve", "--port", port, **production, metrics_port=port)

    sentence = "CARE_METRICS_PORT is the port of the service; metrics need another port"
    assert result(completed) == (2, "", f"care-gateway: {sentence}\n")


@pytest.mark.parametrize(
    ("host", "reason"), [("192.0.2.1", "Cannot assign requested address"), ("a..b", "no such address")]
)
def test_a_foreign_address_is_reported_in_one_sentence(
    production: dict[str, str], host: str, reason: str
) -> None:
    completed = run("serve", "--host", host, **production)

    sentence = f"care-gateway: cannot listen on {host}, port {production['port']}: {reason}\n"
    assert result(completed) == (2, "", sentence)


def test_options_replace_the_address_of_the_settings(production: dict[str, str], tmp_path: Path) -> None:
    settings = production | {"host": "192.0.2.1", "port": "1", "log_level": "error"}
    options = ("--host", "127.0.0.1", "--port", production["port"])

    with serving(tmp_path / "log", *options, **settings) as served:
        ended = served.stop(signal.SIGTERM)

    assert ended == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_cannot_be_written_is_reported_in_one_sentence() -> None:
    words = [sys.executable, "-m", "app", "schema"]
    with open("/dev/full", "w") as full:
        completed = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)

    assert (completed.returncode, completed.stderr) == (2, "care-gateway: No space left on device\n")


def test_plain_uvicorn_reports_a_configuration_error() -> None:
    completed = run("app.main:app", module="uvicorn")

    assert result(completed) == (2, "", f"care-gateway: {NO_KEY}\n")


@pytest.mark.parametrize("setting", ["database_url", "var"])
def test_plain_uvicorn_reports_a_missing_database(
    production: dict[str, str], tmp_path: Path, setting: str
) -> None:
    path = tmp_path / "empty" / "care.db"
    path.parent.mkdir()
    named = {"database_url": f"sqlite:///{path}", "var": str(path.parent)}

    completed = run(
        "app.main:app", module="uvicorn", **production | {"database_url": "", setting: named[setting]}
    )

    assert result(completed) == (
        2, "", f"care-gateway: there is no database at {path}; run `care-gateway migrate` first\n"
    )  # fmt: skip
