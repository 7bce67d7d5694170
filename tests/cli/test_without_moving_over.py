"""Without the package `moving_over`, its commands report that it is not installed, and the others work."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.processes import environment

pytestmark = pytest.mark.sqlite_only

COMMANDS = (
    "report Report the usage of the legacy paths; exit code 0: unused, 1: used, 3: unknown. "
    "switch Declare that people use this service instead of the old one: it accepts their changes."
)
NOT_INSTALLED = "moving over needs the package moving_over, which is not installed"


PROGRAM = """
import sys

class Missing:
    def find_spec(name, *_):
        if name == "MODULE":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
from app.cli import main
main()
"""


def run(*words: str, missing: str = "moving_over") -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a process that cannot import the module."""
    line = [sys.executable, "-c", PROGRAM.replace("MODULE", missing), *words]
    found = subprocess.run(line, capture_output=True, text=True, env=environment(env="development"))
    return found.returncode, found.stdout, found.stderr


def test_the_report_and_the_switch_are_left() -> None:
    code, shown, errors = run("legacy", "--help")

    assert (code, errors) == (0, "")
    assert " ".join(shown.partition("Commands:")[2].split()) == f"{COMMANDS} {NOT_INSTALLED}"
    assert run("legacy", "report", "--help")[0] == 0


def test_a_command_of_the_package_is_rejected() -> None:
    assert run("legacy", "record") == (2, "", f"care-gateway: {NOT_INSTALLED}\n")


def test_a_recording_is_rejected(tmp_path: Path) -> None:
    assert run("import", str(tmp_path)) == (2, "", f"care-gateway: {NOT_INSTALLED}\n")


def test_a_part_of_the_package_that_is_missing_is_named() -> None:
    """That is a damaged installation: without the package, the command would say so."""
    missing = "moving_over.tokens"

    code, _, errors = run("legacy", "record", missing=missing)

    assert code != 0
    assert errors.splitlines()[-1] == f"ModuleNotFoundError: No module named {missing!r}"
