"""`make pythons` finds the other versions of Python, and says clearly if there are none."""

import sys
from pathlib import Path

import pytest

from supply.lock import ROOT
from supply.pythons import FAST_PART, candidates, find_others, main, version_of

OWN = (3, 12, 4)


def an_interpreter(path: Path, prints: str, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_the_latest_release_of_each_other_version_is_found(tmp_path: Path) -> None:
    old, own = an_interpreter(tmp_path / "old", "3 10 14"), an_interpreter(tmp_path / "own", "3 12 9")
    first, latest = (
        an_interpreter(tmp_path / "first", "3 13 2"),
        an_interpreter(tmp_path / "latest", "3 13 11"),
    )
    oldest = an_interpreter(tmp_path / "oldest", "3 11 0")

    found = find_others([first, latest, old, own, oldest, tmp_path / "missing"], OWN)

    assert list(found.items()) == [((3, 11, 0), oldest), ((3, 13, 11), latest)]


def test_an_interpreter_that_cannot_run_is_left_out(tmp_path: Path) -> None:
    broken = an_interpreter(tmp_path / "broken", "3 13 0", status=127)
    silent = an_interpreter(tmp_path / "silent", "")  # another implementation, or no release
    text = tmp_path / "text"
    text.write_text("3 13 0")

    assert find_others([broken, silent, text, tmp_path], OWN) == {}


def test_a_real_interpreter_reports_its_version() -> None:
    assert version_of(Path(sys.executable)) == sys.version_info[:3]


def test_the_fast_part_exists() -> None:
    assert [path for path in FAST_PART if not (ROOT / path).exists()] == []


def test_the_path_and_pyenv_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = an_interpreter(tmp_path / "bin" / "python3.13", "3 13 1")
    in_pyenv = an_interpreter(tmp_path / "pyenv" / "versions" / "3.11.9" / "bin" / "python", "3 11 9")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{tmp_path / 'empty'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))

    assert find_others(candidates(), OWN) == {(3, 11, 9): in_pyenv, (3, 13, 1): on_path}


def test_without_another_version_the_run_is_skipped_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([tmp_path / "python3.13", Path(sys.executable)], []) == 0

    assert capsys.readouterr().out == (
        "skipped: no other Python of at least 3.11 was found on the PATH or in pyenv\n"
    )


def test_a_version_on_which_the_installation_fails_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supply.pythons.ENVIRONMENTS", tmp_path / "pythons")
    other = tmp_path / "python3.99"
    other.write_text('#!/bin/sh\n[ "$1" = -c ] && echo 3 99 1\n')
    other.chmod(0o755)

    assert main([other], []) == 1

    assert capsys.readouterr().out.splitlines()[-1] == "FAILED on Python 3.99.1"
