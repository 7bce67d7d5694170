"""Promise: `legacy record` writes down everything that the people with tokens can see, for `import` to take
and `legacy compare` to ask again; its files are the owner's alone, and what breaks off leaves nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.settings import Settings
from tests import keys
from tests.callers import load
from tests.cli.conftest import Command, assert_rejected
from tests.factories import a_world
from tests.legacy_migration.conftest import serving
from tests.legacy_migration.services import Answering, Asked, Said, handing_on, listening

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

TOKENS = ("--caregivers", "env:CAREGIVERS", "--clients", "env:CLIENTS")


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("CAREGIVER", "CLIENT"):
        people = [keys.token(role, f"{role.lower()}-{number}") for number in (1, 2)]
        monkeypatch.setenv(f"{role}S", "\n".join(people))


@pytest.fixture
def old(settings: Settings) -> Iterator[str]:
    load(settings.database, a_world())
    with serving(settings) as gateway, listening(handing_on(gateway.client)) as address:
        yield address


def test_a_service_is_recorded_imported_and_compared_by_commands_alone(
    old: str, new_settings: Settings, command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"

    recorded = command("legacy", "record", "--old", old, "--to", str(folder), "--size", "1", *TOKENS)
    imported = command("import", str(folder), database_url=new_settings.database)
    with serving(new_settings) as gateway, listening(handing_on(gateway.client)) as new:
        compared = command("legacy", "compare", "--old", old, "--new", new, *TOKENS, str(folder))
        with_files = command("legacy", "compare", "--recorded", "--new", new, *TOKENS, str(folder))

    assert (recorded.exit_code, recorded.stdout) == (0, f"15 responses to 4 people, in {folder}\n")
    assert (imported.exit_code, imported.stdout) == (
        0,
        "2 caregivers, 2 clients, 2 modules, 3 books, 5 sessions, 5 assignments, 3 answer sets\n",
    )
    for one in (compared, with_files):
        assert (one.exit_code, one.stdout) == (0, "15 same, 0 different\n")


def written_otherwise(answer: Answering) -> Answering:
    """The old service as it may well be: pages of its own size, members in another order, and indented."""

    def write(asked: Asked) -> Said:
        said = answer(replace(asked, path=asked.path.replace("size=100", "size=20")))
        assert said is not None
        told = orjson.dumps(orjson.loads(said.body), option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)
        return Said(said.status, told, {"Content-Type": "application/json;charset=UTF-8"})

    return write


def test_a_service_that_writes_its_answers_otherwise_is_taken_over_too(
    settings: Settings, new_settings: Settings, command: Command, tmp_path: Path
) -> None:
    load(settings.database, a_world())
    folder = str(tmp_path / "recording")
    loosely = ("--loose", "--mask", "header:Content-Type")

    with serving(settings) as gateway, listening(written_otherwise(handing_on(gateway.client))) as old:
        recorded = command("legacy", "record", "--old", old, "--to", folder, *TOKENS)
        imported = command("import", folder, database_url=new_settings.database)
        with serving(new_settings) as other, listening(handing_on(other.client)) as new:
            strict, loose = (
                command("legacy", "compare", "--old", old, "--new", new, *TOKENS, *more, folder)
                for more in (("--mask", "size"), (*loosely, "--mask", "size"))
            )

    assert (recorded.exit_code, imported.exit_code) == (0, 0)
    assert [*strict.stdout.splitlines()[1:3], strict.stdout.splitlines()[-1]] == [
        '  header content-type: "application/json;charset=UTF-8" -> "application/json"',
        "  body: different order of members",
        "0 same, 12 different",
    ]
    assert (loose.exit_code, loose.stdout) == (0, "12 same, 0 different\n")


def test_the_files_are_the_owners_alone_and_hold_the_bytes_as_they_came(
    old: str, command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    command("legacy", "record", "--old", old, "--to", str(folder), *TOKENS)

    files = sorted(folder.iterdir())
    lines = [orjson.loads(line) for line in (folder / "index.jsonl").read_bytes().splitlines()]

    assert {oct(path.stat().st_mode & 0o777) for path in (folder, *files)} == {"0o700", "0o600"}
    assert {path.name for path in files} == {"index.jsonl", *(line["file"] for line in lines)}
    assert [(line["userName"], line["path"].partition("?")[2]) for line in lines] == [
        (f"{role}-{number}", f"time-state={state}&page=0&size=100")
        for role in ("caregiver", "client")
        for number in (1, 2)
        for state in ("RUNNING", "FUTURE", "COMPLETED")
    ]
    assert (folder / lines[7]["file"]).read_bytes().startswith(b'{"content":[{"id":2,"title":"Session 2",')
    assert not any(b"bearer" in path.read_bytes() or b"eyJ" in path.read_bytes() for path in files)


def page(number: int, of_all: int, *content: Any, total: int = 2) -> Said:
    envelope = {"content": content, "totalElements": total, "totalPages": of_all, "number": number}
    return Said(body=orjson.dumps(envelope))


def test_a_list_that_changes_is_walked_again_and_hidden_answers_are_asked_for(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    running = iter([page(0, 2), page(1, 2, total=3), page(0, 2), page(1, 2, {"id": 7, "status": "COMPLETE"})])
    asked: list[str] = []

    def answer(one: Asked) -> Said:
        asked.append(one.path.removeprefix("/gateway/profile/caregiver/session/assignment"))
        assert (one.headers["offset"], one.headers["authorization"]) == ("1", "bearer a-token")
        return next(running) if "RUNNING" in one.path else page(0, 0)

    with listening(answer) as address:
        said = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (said.exit_code, said.stdout) == (0, f"5 responses to 1 person, in {tmp_path}/r\n")
    assert len(list((tmp_path / "r").iterdir())) == 6
    assert asked == [
        *(f"?time-state=RUNNING&page={number}&size=100" for number in (0, 1, 0, 1)),
        "/7",
        "?time-state=FUTURE&page=0&size=100",
        "?time-state=COMPLETED&page=0&size=100",
    ]


LIST = "/gateway/profile/caregiver/session/assignment?time-state=RUNNING&page=0&size=100"
FAILING: dict[str, tuple[Answering, str]] = {
    "a token that is refused": (
        lambda asked: Said(401),
        "env:CAREGIVERS, line 1: the service refuses this token (401)",
    ),
    "a fault": (lambda asked: Said(500), f"{LIST} is answered with 500"),
    "no page": (lambda asked: Said(body=b"<html>"), f"{LIST} is not answered with a page"),
    "always the same page": (
        lambda asked: page(0, 2),
        f"{LIST.replace('page=0', 'page=1')} is answered with another page: it cannot be walked by `page`",
    ),
    "no answer": (lambda asked: None, f"{LIST} is not answered: the connection broke off"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILING)
def test_what_cannot_be_recorded_is_told_in_one_line_and_leaves_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    answer, sentence = FAILING[what]
    monkeypatch.setenv("CAREGIVERS", "someone a-token")

    with listening(answer) as address:
        refused = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == f"recording\ncare-gateway: {sentence}\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("r")] == []


def test_a_service_without_room_is_asked_again_when_it_says(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    busy = iter([Said(503, headers={"Retry-After": "0"}), Said(429, headers={"Retry-After": "0"})])

    with listening(lambda asked: next(busy, page(0, 0))) as address:
        said = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (said.exit_code, said.stdout) == (0, f"3 responses to 1 person, in {tmp_path}/r\n")


def test_a_recording_is_never_written_over_and_needs_somebody(command: Command, tmp_path: Path) -> None:
    where = ("--old", "http://127.0.0.1:1", "--to", str(tmp_path))

    refused = command("legacy", "record", *where, *TOKENS)

    assert refused.stderr == (
        f"recording\ncare-gateway: {tmp_path} is there already; recordings are not mixed\n"
    )
    assert_rejected(
        command("legacy", "record", *where[:2], "--to", str(tmp_path / "new")),
        "no tokens; give files with --caregivers and --clients",
    )
