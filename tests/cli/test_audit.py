"""Promise: operators can list and verify the audit log, and their own commands are recorded in it."""

import errno
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import orjson
import pytest

from app.care.context import utc_now
from app.db.audit.records import recording
from app.db.tables import AuditActor
from app.settings import Settings
from tests.audit.audit_log import audited
from tests.audit.test_chain import records, seal_all
from tests.callers import load, run_write
from tests.cli.conftest import Command
from tests.db import raw
from tests.factories import DAY, NOW, a_book, a_client, a_module, a_world, lines, starting_with

OUTCOMES = ("NOT_FOUND", "DONE", "REFUSED")


def test_records_are_printed_oldest_first(command: Command, settings: Settings) -> None:
    first = records(1, about='[[2,3,{"answerSets":[4,1]}]]')[0]._replace(actor_id=2)
    run_write(settings.database, recording([first, *records(1)]))

    result = command("audit", "list")

    assert (result.exit_code, result.stderr) == (0, "")
    printed, second = map(orjson.loads, result.stdout.splitlines())
    assert printed == {
        "id": 1,
        "moment": "2026-11-21T09:00:00.000000Z",
        "actor": "CAREGIVER",
        "actorId": 2,
        "contract": "GRAPHQL",
        "operation": "assignment",
        "outcome": "DONE",
        "about": [{"caregiver": 2, "client": 3, "answerSets": [4, 1]}],
        "requestId": "request-0",
    }
    assert second["id"] == 2


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), [1, 2, 3, 4]),
        (("--client", "1"), [1, 3]),
        (("--client", "2"), [2]),
        (("--client", "4"), [4]),
        (("--caregiver", "1"), [1, 3, 4]),
        (("--caregiver", "2"), [2, 4]),
        (("--client", "2", "--caregiver", "1"), []),
        (("--actor", "caregiver"), [1, 3]),
        (("--actor", "client"), [2]),
        (("--actor", "operator"), [4]),
        (("--actor-id", "1"), [1, 3]),
        (("--actor-id", "2"), [2]),
        (("--since", "2026-11-22"), [3]),
        (("--since", "2026-11-21"), [1, 2, 3, 4]),
        (("--refused",), []),
    ],
)
def test_records_can_be_filtered(
    command: Command,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    found: list[int],
) -> None:
    """On several pages. The last record is an operator's, about two clients."""
    monkeypatch.setattr("app.cli.audit.PAGE_SIZE", 2)
    run_write(settings.database, recording(records(1)))
    [second] = records(1, about="[[2,2,{}]]")
    run_write(settings.database, recording([second._replace(actor=AuditActor.CLIENT, actor_id=2)]))
    run_write(settings.database, recording(records(1, moment=NOW + DAY)))
    [last] = records(1, about="[[2,3,{}],[1,4,{}]]")
    run_write(settings.database, recording([last._replace(actor=AuditActor.OPERATOR, actor_id=None)]))

    result = command("audit", "list", *words)

    assert [orjson.loads(line)["id"] for line in result.stdout.splitlines()] == found


def test_a_day_begins_at_midnight(command: Command, settings: Settings) -> None:
    midnight = datetime(2026, 11, 22, tzinfo=UTC)
    for moment in (midnight - timedelta(microseconds=1), midnight):
        run_write(settings.database, recording(records(1, moment=moment)))

    result = command("audit", "list", "--since", "2026-11-22")

    assert [orjson.loads(line)["id"] for line in result.stdout.splitlines()] == [2]


@pytest.mark.parametrize(
    "words", ["--actor-id 1", "--actor caregiver", "--client 1", "--caregiver 1", "--since 2026-11-21"]
)
def test_rejected_requests_can_be_listed_alone(command: Command, settings: Settings, words: str) -> None:
    refused = [one._replace(outcome=outcome) for one, outcome in zip(records(3), OUTCOMES, strict=True)]
    run_write(settings.database, recording(refused))

    result = command("audit", "list", "--refused", *words.split())

    assert [orjson.loads(line)["outcome"] for line in result.stdout.splitlines()] == ["NOT_FOUND", "REFUSED"]


def test_a_list_whose_reader_leaves_ends_silently(
    command: Command, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are printed while the database is read, and this is not an error of the database."""
    run_write(settings.database, recording(records(1)))

    def echo(text: str, err: bool = False) -> None:
        if not err:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        print(text, file=sys.stderr)

    monkeypatch.setattr(click, "echo", echo)
    result = command("audit", "list")

    assert (result.exit_code, result.output) == (1, "")


def test_an_intact_log_is_verified_and_its_last_seal_printed(command: Command, settings: Settings) -> None:
    empty = command("audit", "verify")
    assert (empty.exit_code, empty.output) == (0, "0 records under 0 seals, 0 faults\n")
    run_write(settings.database, recording(records(3)))

    result = command("audit", "verify")

    [(hash,)] = raw.run(settings.database, "SELECT hash FROM audit_seal")
    assert (result.exit_code, result.stdout) == (0, f"3 records under 1 seal, 0 faults\n1:{hash}\n")
    assert command("audit", "verify", *("--noted", f"1:{hash}") * 2).exit_code == 0


@pytest.mark.sqlite_only
def test_each_difference_from_the_noted_seals_is_reported(command: Command, settings: Settings) -> None:
    run_write(settings.database, recording(records(3)))

    result = command("audit", "verify", "--noted", f"1:{'0' * 64}", "--noted", f"2:{'0' * 64}")

    [(hash,)] = raw.run(settings.database, "SELECT hash FROM audit_seal")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "seal 1 differs from the noted hash",
        "seal 2 is missing",
        "3 records under 1 seal, 2 faults",
        f"1:{hash}",
    ]


@pytest.mark.sqlite_only
def test_all_removals_are_printed_together(command: Command, settings: Settings) -> None:
    """Retention has removed records twice, because the period was shortened."""
    for count, days in ((2, 600), (1, 400), (1, 0)):
        moment = utc_now() - days * DAY
        run_write(settings.database, recording(records(count, moment=moment)))
        seal_all(settings.database, moment)
    (first,), (hash,) = raw.run(settings.database, "SELECT hash FROM audit_seal WHERE id <= 2 ORDER BY id")
    removed = [command("retention", retention_audit=days).stdout for days in ("500", "365", "365")]

    result = command("audit", "verify")

    begins = "the audit log now begins after this seal; store it: "
    assert [text.partition(begins)[2] for text in removed] == [f"1:{first}\n", f"2:{hash}\n", ""]
    sealed, last, counts, _ = result.stdout.splitlines()
    assert sealed.startswith(
        f"removed by retention: 3 records, sealed until {utc_now() - 400 * DAY:%Y-%m-%d}T"
    )
    assert last == f"the last seal of these was 2:{hash}"
    assert (result.exit_code, counts) == (0, "3 records under 3 seals, 0 faults")


@pytest.mark.sqlite_only
def test_commands_of_operators_are_recorded(command: Command, settings: Settings, tmp_path: Path) -> None:
    load(settings.database, [*a_world(), a_client(9, userName=None)])
    catalogue = tmp_path / "books.jsonl"
    catalogue.write_bytes(b"\n".join(lines([a_module(7), a_book(9, moduleId=7), a_book(8, moduleId=7)])))
    person = ("--role", "caregiver", "--user", "new@example.test")
    for words in (
        ("account", "add", *person, "--name", "New", "--position", "Psychologist"),
        ("account", "disable", *person),
        ("account", "enable", "--role", "client", "--user", "client-2"),
        ("account", "link", "--role", "client", "--id", "9", "--user", "new@example.test"),
        *[("books", "import", str(catalogue))] * 2,  # adds it, then replaces it
        ("books", "retire", "2"),
        ("books", "restore", "2"),
        ("export", "--id", "2", "--format", "json"),
        ("erase", "--id", "2", "--yes"),
    ):
        assert command(*words).exit_code == 0, words

    assert audited(settings.database) == [
        ("OPERATOR", None, "account add", "DONE", [[3, None, {}]]),
        ("OPERATOR", None, "account disable", "DONE", [[3, None, {}]]),
        ("OPERATOR", None, "account enable", "DONE", [[None, 2, {}]]),
        ("OPERATOR", None, "account link", "DONE", [[None, 9, {}]]),
        *[("OPERATOR", None, "books import", "DONE", [[None, None, {"books": [9, 8]}]])] * 2,
        ("OPERATOR", None, "books retire", "DONE", [[None, None, {"books": [2]}]]),
        ("OPERATOR", None, "books restore", "DONE", [[None, None, {"books": [2]}]]),
        ("OPERATOR", None, "export", "DONE", [[1, 2, {}], [2, 2, {}]]),
        ("OPERATOR", None, "erase", "DONE", [[1, 2, {}], [2, 2, {}]]),
    ]
    assert command("audit", "verify").exit_code == 0


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_a_rejected_command_is_not_recorded(command: Command, settings: Settings) -> None:

    assert command("books", "retire", "99").exit_code == 2
    assert command("account", "disable", "--role", "client", "--user", "nobody").exit_code == 2
    assert command("erase", "--id", "99", "--yes").exit_code == 2
    assert command("export", "--id", "99", "--format", "json").exit_code == 2

    assert audited(settings.database) == []
