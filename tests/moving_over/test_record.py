"""`legacy record` writes every page of every user into a private folder, which exists only when complete."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.settings import Settings
from tests import keys
from tests.callers import load
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import a_world
from tests.moving_over.conftest import serving
from tests.moving_over.recordings import PATHS
from tests.moving_over.services import BUSY, Handler, Request, Response, fake_service, forwarding_to
from tests.patience import PATIENCE

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
    with serving(settings) as gateway, fake_service(forwarding_to(gateway.client)) as address:
        yield address


def test_a_recorded_and_imported_service_compares_equal(
    old: str, new_settings: Settings, command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"

    recorded = command("legacy", "record", "--old", old, "--to", str(folder), "--size", "1", *TOKENS)
    imported = command("import", str(folder), database_url=new_settings.database)
    with serving(new_settings) as gateway, fake_service(forwarding_to(gateway.client)) as new:
        compared = command("legacy", "compare", "--old", old, "--new", new, *TOKENS, str(folder))
        with_recording = command("legacy", "compare", "--recorded", "--new", new, *TOKENS, str(folder))

    assert (recorded.exit_code, recorded.stdout) == (0, f"15 responses for 4 users, in {folder}\n")
    assert (imported.exit_code, imported.stdout) == (
        0,
        "2 caregivers, 2 clients, 2 modules, 3 books, 5 sessions, 5 assignments, 3 answer sets\n",
    )
    for result in (compared, with_recording):
        assert (result.exit_code, result.stdout) == (0, "15 same, 0 different\n")


def rewriting(handler: Handler) -> Handler:
    """An old service with its own page size, order of members and indentation."""

    def rewritten(request: Request) -> Response:
        response = handler(replace(request, path=request.path.replace("size=100", "size=20")))
        assert response is not None
        body = orjson.dumps(orjson.loads(response.body), option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)
        return Response(response.status, body, {"Content-Type": "application/json;charset=UTF-8"})

    return rewritten


def test_a_service_with_another_json_format_can_be_migrated(
    settings: Settings, new_settings: Settings, command: Command, tmp_path: Path
) -> None:
    load(settings.database, a_world())
    folder = str(tmp_path / "recording")
    loosely = ("--loose", "--mask", "header:Content-Type")

    with serving(settings) as gateway, fake_service(rewriting(forwarding_to(gateway.client))) as old:
        recorded = command("legacy", "record", "--old", old, "--to", folder, *TOKENS)
        imported = command("import", folder, database_url=new_settings.database)
        with serving(new_settings) as other, fake_service(forwarding_to(other.client)) as new:
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


def test_the_files_are_private_and_contain_the_exact_bytes(
    old: str, command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    command("legacy", "record", "--old", old, "--to", str(folder), *TOKENS)

    files = sorted(folder.iterdir())
    lines = [orjson.loads(line) for line in (folder / "index.jsonl").read_bytes().splitlines()]
    future = next(each for each in lines if each["userName"] == "client-1" and "FUTURE" in each["path"])

    assert {oct(path.stat().st_mode & 0o777) for path in (folder, *files)} == {"0o700", "0o600"}
    assert {path.name for path in files} == {"index.jsonl", *(line["file"] for line in lines)}
    assert [(line["userName"], line["path"].partition("?")[2]) for line in lines] == [
        (user, f"time-state={state}&page=0&size=100")
        for user in dict.fromkeys(line["userName"] for line in lines)
        for state in ("FUTURE", "RUNNING", "COMPLETED")
    ]
    assert (folder / future["file"]).read_bytes().startswith(b'{"content":[{"id":2,"title":"Session 2",')
    assert not any(b"bearer" in path.read_bytes() or b"eyJ" in path.read_bytes() for path in files)


def page(number: int, pages: int, *content: Any, total: int = 2) -> Response:
    envelope = {"content": content, "totalElements": total, "totalPages": pages, "number": number}
    return Response(body=orjson.dumps(envelope))


@pytest.mark.parametrize(
    "omitted",
    [{"status": "COMPLETE"}, {"status": "COMPLETE", "answers": []}, {"status": "DONE", "answers": None}],
)
def test_a_changing_list_is_read_again_and_omitted_answers_are_requested(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, omitted: dict[str, Any]
) -> None:
    """Of any status but PENDING: --map may translate it."""
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    one, other = {"id": 6, "status": "PENDING"}, {"id": 7, **omitted}
    running = iter(
        [page(0, 2, one), page(1, 2, other, total=3), page(2, 2), page(0, 2, one), page(1, 2, other)]
    )
    paths: list[str] = []

    def handler(request: Request) -> Response:
        paths.append(request.path.removeprefix("/gateway/profile/caregiver/session/assignment"))
        assert (request.headers["offset"], request.headers["authorization"]) == ("1", "bearer a-token")
        if "RUNNING" in request.path:
            return next(running)
        return Response() if request.path.endswith("/7") else page(0, 0, total=0)

    with fake_service(handler) as address:
        result = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (result.exit_code, result.stdout) == (0, f"5 responses for 1 user, in {tmp_path}/r\n")
    assert len(list((tmp_path / "r").iterdir())) == 6
    assert paths == [
        "?time-state=FUTURE&page=0&size=100",
        *(f"?time-state=RUNNING&page={number}&size=100" for number in (0, 1, 2, 0, 1)),
        "/7",
        "?time-state=COMPLETED&page=0&size=100",
    ]


def test_the_status_of_a_session_requests_no_assignment(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may read no assignment by its id; the import lists the unknown member."""
    monkeypatch.setenv("CLIENTS", "someone a-token")

    def handler(request: Request) -> Response:
        if "time-state" not in request.path:
            return Response(403)
        return page(0, 1, {"id": 7, "status": "ACTIVE"}, total=1)

    with fake_service(handler) as address:
        result = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[2:])

    assert (result.exit_code, result.stdout) == (0, f"3 responses for 1 user, in {tmp_path}/r\n")


LIST = "/gateway/profile/caregiver/session/assignment?time-state=FUTURE&page=0&size=100"
NO_PAGE = f"{LIST}: the response is not a page"


def with_body(body: bytes) -> Handler:
    return lambda request: Response(body=body)


# The response, the reason, and the number of calls with two attempts each.
FAILURES: dict[str, tuple[Handler, str, int]] = {
    **{
        f"a token that is rejected with {status}": (
            lambda request, status=status: Response(status),
            f"{LIST}: the service rejects the token of env:CAREGIVERS, line 1 ({status})", 1,
        )
        for status in (401, 403)
    },
    "an error": (lambda request: Response(500), f"{LIST}: status 500", 2),
    "too many requests": (lambda request: Response(429), f"{LIST}: status 429", 2),
    "a redirect": (lambda request: Response(302), f"{LIST}: status 302", 1),
    "a list that does not exist": (lambda request: Response(404), f"{LIST}: status 404", 1),
    "text": (with_body(b"<html>"), f"{LIST}: the response is not JSON", 2),
    "not a page": (with_body(b"{}"), NO_PAGE, 2),
    "a page without a list": (
        with_body(b'{"content": 5, "totalElements": 1, "totalPages": 1, "number": 0}'), NO_PAGE, 2
    ),
    "a page without the number of pages": (with_body(b'{"totalElements": 0, "number": 0}'), NO_PAGE, 2),
    "a page without a total": (
        with_body(b'{"totalElements": false, "totalPages": 0, "number": 0}'), NO_PAGE, 2
    ),
    "always the same page": (
        lambda request: page(0, 2, {"id": 1}),
        f"{LIST.replace('page=0', 'page=1')}: the response is another page; see --paging and --first-page",
        3,
    ),
    "no response": (lambda request: None, f"{LIST}: connection closed", 2),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_recording_is_reported_in_one_line_and_leaves_no_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    handler, sentence, expected = FAILURES[case]
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    requests: list[Request] = []

    def counting(request: Request) -> Response | None:
        requests.append(request)
        return handler(request)

    with fake_service(counting) as address:
        where = ("--old", address, "--to", str(tmp_path / "r"))
        rejected = command("legacy", "record", *where, *TOKENS[:2], "--attempts", "2")

    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert rejected.stderr == f"recording\ncare-gateway: caregiver someone: {sentence}\n"
    assert len(requests) == expected
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("r")] == []


def test_a_recording_that_fails_for_many_users_stops(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third user waits, as the service requests. The command does not wait for this user."""
    monkeypatch.setattr("moving_over.recorder.MAX_ERRORS", 2)
    users = ("one", "two", "three", "four")
    monkeypatch.setenv("CAREGIVERS", "\n".join(f"{each} token-{each}" for each in users))
    is_waiting = threading.Event()

    def old(request: Request) -> Response:
        if request.headers["authorization"] == "bearer token-three":
            is_waiting.set()
            return Response(503, headers={"Retry-After": "60"})
        is_waiting.wait(PATIENCE)
        return Response(401)

    with fake_service(old) as address:
        where = ("--old", address, "--to", str(tmp_path / "r"))
        rejected = command("legacy", "record", *where, *TOKENS[:2], "--at-once", "3")

    rejection = "the service rejects the token of env:CAREGIVERS, line"
    assert (rejected.exit_code, rejected.stderr.splitlines()[1:]) == (
        2,
        [
            f"care-gateway: caregiver {each}: {LIST}: {rejection} {number} (401)"
            for number, each in enumerate(users[:2], 1)
        ],
    )


def test_a_recording_that_cannot_be_written_leaves_no_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    file = tmp_path / "r.part" / "000001.json"

    def old(request: Request) -> Response:
        file.touch()
        return page(0, 0, total=0)

    with fake_service(old) as address:
        result = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (result.exit_code, result.stderr) == (2, f"recording\ncare-gateway: {file}: File exists\n")
    assert not file.parent.exists()


def test_no_more_users_are_recorded_at_once_than_given(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAREGIVERS", "one a-token\nanother b-token")
    together, met = threading.Barrier(2), []

    def old(request: Request) -> Response:
        with suppress(threading.BrokenBarrierError):
            met.append(together.wait(0.2))
        return page(0, 0, total=0)

    with fake_service(old) as address:
        where = ("--old", address, "--to", str(tmp_path / "r"), "--at-once", "1")
        recorded = command("legacy", "record", *where, *TOKENS[:2])

    assert (recorded.stdout.partition(",")[0], met) == ("6 responses for 2 users", [])


def test_a_call_that_is_not_answered_in_the_given_time_fails(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    answered = threading.Event()

    def old(request: Request) -> Response:
        answered.wait(5)  # with a longer timeout, the call would succeed
        return page(0, 0, total=0)

    with fake_service(old) as address:
        where = ("--old", address, "--to", str(tmp_path / "r"), "--timeout", "0.1", "--attempts", "1")
        failed = command("legacy", "record", *where, *TOKENS[:2])
        answered.set()

    assert failed.stderr.splitlines()[1:] == [
        f"care-gateway: caregiver someone: {LIST}: no complete response in time"
    ]


def test_items_that_are_no_objects_are_recorded_with_their_list(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import sets them aside. An empty list may be null."""
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    running = iter([page(0, 1, 7, {"id": 6}), page(1, 1)])
    empty = Response(body=b'{"content": null, "totalElements": 0, "totalPages": 0, "number": 0}')

    with fake_service(lambda request: next(running) if "RUNNING" in request.path else empty) as address:
        result = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (result.exit_code, result.stdout) == (0, f"4 responses for 1 user, in {tmp_path}/r\n")


def test_a_recording_names_its_users_by_the_claim_of_the_settings(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAREGIVERS", keys.token("CAREGIVER", "caregiver-1", login="caregiver-9"))

    with fake_service(lambda request: page(0, 0, total=0)) as address:
        where = ("--old", address, "--to", str(tmp_path / "r"))
        command("legacy", "record", *where, *TOKENS[:2], claim_user="login")

    lines = (tmp_path / "r" / "index.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["userName"] for line in lines] == ["caregiver-9"] * 3


def test_tokens_that_are_sent_unencrypted_are_a_warning(command: Command, tmp_path: Path) -> None:
    where = ("--old", f"http://{'a' * 64}.example.test", "--to", str(tmp_path / "r"))

    result = command("legacy", "record", *where, *TOKENS, "--attempts", "1")

    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "warning: tokens are sent to the old service unencrypted"


def test_an_overloaded_service_gets_the_request_again(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    busy = iter([Response(503, headers=BUSY), Response(429, headers=BUSY)])

    with fake_service(lambda request: next(busy, page(0, 0, total=0))) as address:
        result = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (result.exit_code, result.stdout) == (0, f"3 responses for 1 user, in {tmp_path}/r\n")


def test_a_session_that_begins_meanwhile_is_recorded_twice(
    settings: Settings, command: Command, tmp_path: Path
) -> None:
    load(settings.database, a_world())
    folder = str(tmp_path / "recording")
    with serving(settings) as gateway:
        forward = forwarding_to(gateway.client)

        def begin(request: Request) -> Response | None:
            """After the first list of a client."""
            response = forward(request)
            if request.path.startswith(PATHS["client"]):
                raw.run(settings.database, "UPDATE session SET start_date = create_date WHERE id = 2")
            return response

        with fake_service(begin) as old:
            command("legacy", "record", "--old", old, "--to", folder, *TOKENS, "--at-once", "1")
        reconciled = command("legacy", "reconcile", folder)

    assert reconciled.stderr.splitlines()[2:5] == [
        "contradictions; the last value is used:",
        "  session 2: startDate",
        "  session 2: runningStatus",
    ]
    assert reconciled.stdout.splitlines()[-1] == "0 differences"


def test_a_list_that_repeats_its_items_is_not_read_for_ever(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service numbers the pages, but ignores the number."""
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    numbers: list[int] = []

    def handler(request: Request) -> Response:
        numbers.append(int(request.path.partition("&page=")[2].partition("&")[0]))
        return page(numbers[-1], 1, {"id": 6}, {"id": 7}, total=1)

    with fake_service(handler) as address:
        result = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (result.exit_code, numbers) == (0, [0, 1] * 9)
    assert len(list((tmp_path / "r").glob("*.json"))) == 2 * 3


@pytest.mark.parametrize("first", [0, 1])
def test_a_service_may_number_the_pages_from_0_that_are_requested_from_1(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setenv("CAREGIVERS", "someone a-token")
    numbers: list[int] = []

    def handler(request: Request) -> Response:
        numbers.append(int(request.path.partition("&page=")[2].partition("&")[0]))
        return page(numbers[-1] - 1 + first, 2, {"id": numbers[-1]})

    with fake_service(handler) as address:
        where = ("--old", address, "--to", str(tmp_path / "r"))
        result = command("legacy", "record", *where, *TOKENS[:2], "--first-page", "1", "--attempts", "1")

    assert (result.exit_code, numbers) == (0, [1, 2] * 3)


@pytest.mark.parametrize("row_id", [None, "missing", "a b", "ü", -1])
def test_an_item_without_a_valid_id_is_recorded_with_its_list(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_id: Any
) -> None:
    """The import sets it aside."""
    monkeypatch.setenv("CAREGIVERS", "someone a-token")

    def handler(request: Request) -> Response:
        if "RUNNING" in request.path:
            item = {"id": row_id, "status": "COMPLETE", "answers": []}
            if row_id == "missing":
                del item["id"]
            return page(0, 1, item, total=1)
        return page(0, 0, total=0) if "time-state" in request.path else Response(400)

    with fake_service(handler) as address:
        result = command("legacy", "record", "--old", address, "--to", str(tmp_path / "r"), *TOKENS[:2])

    assert (result.exit_code, result.stdout) == (0, f"3 responses for 1 user, in {tmp_path}/r\n")


def test_a_recording_needs_a_new_folder_and_tokens(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    where = ("--old", "http://127.0.0.1:1", "--to")

    for folder in (str(tmp_path), ".", "/"):
        rejected = command("legacy", "record", *where, folder, *TOKENS)
        assert rejected.stderr == (
            f"recording\ncare-gateway: {folder} exists already; a recording needs a new folder\n"
        )
    missing = command("legacy", "record", *where, str(tmp_path / "none" / "r"), *TOKENS)
    assert missing.stderr == (
        f"recording\ncare-gateway: {tmp_path}/none/r.part cannot be created: No such file or directory\n"
    )
    assert_rejected(
        command("legacy", "record", *where, str(tmp_path / "new")),
        "no tokens; give files with --caregivers and --clients",
    )
