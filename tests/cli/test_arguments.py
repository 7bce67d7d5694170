"""Promise: a command with invalid arguments exits with code 2 and one error, and opens no database."""

import errno
import shlex
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy.exc import SQLAlchemyError

from app.cli import main

CAREGIVER = "account add --role caregiver --user u --name n"
CLIENT = "account add --role client --user u --name n"
CAREGIVER_OPTIONS = "a caregiver needs --position and must not have --oppt-id"
CLIENT_OPTIONS = "a client needs --oppt-id and must not have --position"
ONE_CLIENT = "give either --client or --id"
SEAL = "Invalid value for '--noted': must be a seal as printed by `audit verify`: N:HASH"
HASH = "0" * 64

ERRORS = {
    "sevre": "No such command 'sevre'. Did you mean 'serve'?",
    CAREGIVER: CAREGIVER_OPTIONS,
    f"{CAREGIVER} --position p --oppt-id 1": CAREGIVER_OPTIONS,
    f"{CAREGIVER} --position ''": "Invalid value for '--position': must not be blank",
    CLIENT: CLIENT_OPTIONS,
    f"{CLIENT} --oppt-id 1 --position p": CLIENT_OPTIONS,
    f"{CLIENT} --name ' '": "Invalid value for '--name': must not be blank",
    f"{CLIENT} --user ''": "Invalid value for '--user': must not be blank",
    f"{CLIENT} --name 'a\tb'": "Invalid value for '--name': must not contain control characters",
    f"{CLIENT} --user 'a\n'": "Invalid value for '--user': must not contain control characters",
    f"{CAREGIVER} --position '\tp'": "Invalid value for '--position': must not contain control characters",
    "account add --role client --user u": "Missing option '--name'.",
    "account add --role client --name n": "Missing option '--user'.",
    "account add --user u": "Missing option '--role'. Choose from: caregiver, client",
    "account add --role admin": "Invalid value for '--role': 'admin' is not one of 'caregiver', 'client'.",
    "account link --role client --id 1 --user ''": "Invalid value for '--user': must not be blank",
    "audit verify --noted 1": SEAL,
    "audit verify --noted 1:abc": SEAL,
    f"audit verify --noted x:{HASH}": SEAL,
    f"audit verify --noted -1:{HASH}": SEAL,
    f"audit verify --noted ²:{HASH}": SEAL,
    f"audit verify --noted {'1' * 19}:{HASH}": SEAL,
    f"audit verify --noted 1:{HASH} --noted 1:{'1' * 64} --noted 1:{HASH}": (
        "--noted names a seal with two hashes; verify them one after the other"
    ),
    "books show abc": "Invalid value for 'ID': 'abc' is not a valid whole number.",
    "books show 0": f"Invalid value for 'ID': 0 is not in the range 1<=x<={2**63 - 2}.",
    f"books show {2**63}": f"Invalid value for 'ID': {2**63} is not in the range 1<=x<={2**63 - 2}.",
    "copy --from sqlite:///a.db --to sqlite:///a.db": "--to, or CARE_DATABASE_URL, must begin with postgresql://",
    "copy --from postgresql://h/a --to postgresql://h/a": "--from must begin with sqlite:///",
    "copy --to postgresql://h/a": "Missing option '--from'.",
    "copy --from sqlite:///a.db": "Missing option '--to' (env var: 'CARE_DATABASE_URL').",
    "deliveries retry": "give either EVENT_ID or --all-dead",
    "deliveries retry 1 --all-dead": "give either EVENT_ID or --all-dead",
    "deliveries retry evt_1": "Invalid value for '[EVENT_ID]': 'evt_1' is not a valid whole number.",
    "deliveries retry -- -1": f"Invalid value for '[EVENT_ID]': -1 is not in the range 1<=x<={2**63 - 1}.",
    "erase --yes": ONE_CLIENT,
    "erase --client c --id 1 --yes": ONE_CLIENT,
    "erase --list --id 2": "--list takes no other option",
    "erase --list --client c": "--list takes no other option",
    "erase --list --yes": "--list takes no other option",
    "erase --list --client=": "--list takes no other option",
    "export --format json": ONE_CLIENT,
    "export --client c --id 1 --format json": ONE_CLIENT,
    "export --id 1": "Missing option '--format'. Choose from: json, csv",
    "export --id 1 --format xml": "Invalid value for '--format': 'xml' is not one of 'json', 'csv'.",
    "import none.jsonl": "Invalid value for 'FILE': Path 'none.jsonl' does not exist.",
    "distribute --shards 0": "Invalid value for '--shards': 0 is not in the range 1<=x<=64000.",
    "distribute --shards 64001": "Invalid value for '--shards': 64001 is not in the range 1<=x<=64000.",
    "import . --yes-remove -1": "Invalid value for '--yes-remove': -1 is not in the range x>=0.",
    "legacy report --days 0": "Invalid value for '--days': 0 is not in the range 1<=x<=200.",
    "legacy report --days 201": "Invalid value for '--days': 201 is not in the range 1<=x<=200.",
    "schema usage --days 201": "Invalid value for '--days': 201 is not in the range 1<=x<=200.",
    "serve --port 0": "Invalid value for '--port': 0 is not in the range 1<=x<=65535.",
    "serve --port 65536": "Invalid value for '--port': 65536 is not in the range 1<=x<=65535.",
    "serve --workers 0": "Invalid value for '--workers': 0 is not in the range 1<=x<=64.",
    "serve --workers 65": "Invalid value for '--workers': 65 is not in the range 1<=x<=64.",
    "token": "Missing option '--role'.",
    "token check eyJ": "give the token on standard input: other users can see command lines",
    "token --role client --hours 0": "Invalid value for '--hours': 0 is not in the range 1<=x<=8760.",
    "token --role client --hours 8761": "Invalid value for '--hours': 8761 is not in the range 1<=x<=8760.",
    "token --role client --expired --seconds 5": "give either --expired or --seconds",
    "token --role client --seconds 3601": (
        "Invalid value for '--seconds': 3601 is not in the range 1<=x<=3600."
    ),
    "token --role client --seconds 0": "Invalid value for '--seconds': 0 is not in the range 1<=x<=3600.",
    "token --role client --hours many": "Invalid value for '--hours': 'many' is not a valid whole number.",
}


@pytest.mark.parametrize("line", ERRORS)
def test_invalid_arguments_are_rejected(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert error_of(line) == ERRORS[line]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (OSError("odd"), "odd"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError(errno.EIO, "Input/output error", "a file"), "a file: Input/output error"),
        (SQLAlchemyError("of a row\nwith its values"), "database error: of a row"),
    ],
)
def test_a_fault_of_the_system_is_one_line(
    fault: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(work: Coroutine[Any, Any, Any]) -> None:
        work.close()
        raise fault

    monkeypatch.setattr("asyncio.run", fail)
    result = CliRunner().invoke(main, ["account", "list"])

    assert (result.exit_code, result.output) == (2, f"care-gateway: {message}\n")


def test_a_command_ends_silently_if_the_reader_of_its_output_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in `care-gateway audit list | head`."""

    def fail(work: Coroutine[Any, Any, Any]) -> None:
        work.close()
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("asyncio.run", fail)
    result = CliRunner().invoke(main, ["account", "list"])

    assert (result.exit_code, result.output) == (1, "")


@pytest.mark.parametrize(
    ("fault", "output"),
    [(OSError(errno.EIO, "Input/output error"), "Input/output error\n"), (KeyboardInterrupt(), "aborted\n")],
    ids=["a fault of the system", "Ctrl-C"],
)
def test_a_service_exits_so_that_its_supervisor_starts_it_again(
    fault: BaseException, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(work: Coroutine[Any, Any, Any]) -> None:
        work.close()
        raise fault

    monkeypatch.setattr("asyncio.run", fail)
    service, command = (
        CliRunner().invoke(main, words, env={"CARE_VAR": str(tmp_path), "CARE_ENV": "development"})
        for words in (["worker"], ["account", "list"])
    )

    assert (service.exit_code, "care-gateway: " in service.output) == (1, False)
    assert (command.exit_code, command.output.removeprefix("\n")) == (2, f"care-gateway: {output}")


def error_of(line: str) -> str:
    """The error of a command that prints nothing else; the settings are invalid, too."""
    result = CliRunner().invoke(main, shlex.split(line), env={"CARE_PORT": "invalid"})

    error = " ".join(result.stderr.partition("Error: ")[2].replace("\n\t", " ").split())
    assert (result.exit_code, result.stdout) == (2, "")
    return error
