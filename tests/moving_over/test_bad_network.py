"""`legacy record` survives a network and an old service that fail now and then."""

from pathlib import Path

import orjson
import pytest

from moving_over.recorder import INDEX
from tests import keys
from tests.moving_over.moves import Move
from tests.moving_over.recordings import PATHS
from tests.moving_over.services import Request, Response, fake_service

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

ROWS = "2 caregivers, 2 clients, 2 modules, 3 books, 5 sessions, 5 assignments, 3 answer sets\n"
PATH = "/gateway/profile/caregiver/session/assignment"
FAILURES = (
    "sends 429", "sends 429 without Retry-After", "sends 500", "sends 502", "sends 503 with Retry-After",
    "resets", "truncates", "sends a login page", "is cut in the middle", "compresses", "compresses silently",
    "writes UTF-16", "begins with a byte order mark",
)  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_now_and_then_does_not_end_a_recording(move: Move, name: str) -> None:
    with move.old.misbehaving(name, every=3):
        folder = move.record("--size", "1")

    imported = move.run("import", folder)

    assert (imported.exit_code, imported.stdout) == (0, ROWS)
    assert len(list(Path(folder).iterdir())) == 1 + 15


REASONS = {
    "sends 502": "status 502",
    "resets": "connection closed",
    "compresses silently": "the response is compressed with gzip, which was not requested",
    "writes UTF-16": "the response is not UTF-8 (byte 0)",
    "begins with a byte order mark": "the response begins with a byte order mark",
    "sends a login page": "the response is not JSON",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_lasting_failure_is_reported_with_user_and_call_and_can_be_continued(move: Move, name: str) -> None:
    with move.old.misbehaving(name, path="time-state=COMPLETED", user=keys.token("CLIENT", "client-2")):
        failed = move.record_to("r", "--attempts", "2")
    again = move.record_to("r")
    before = len(move.old.requests)
    (move.folder / "r.part" / "._000001.json").write_text("of another program")
    continued = move.record_to("r", "--continue")

    call = "/gateway/profile/client/session?time-state=COMPLETED&page=0&size=100"
    assert (failed.exit_code, failed.stderr) == (
        2,
        f"recording\ncare-gateway: client client-2: {call}: {REASONS[name]}\n"
        "care-gateway: 3 of 4 users recorded; record the rest with --continue\n",
    )
    part = move.folder / "r.part"
    assert again.stderr.splitlines()[-1] == (
        f"care-gateway: {part} exists already, of an interrupted recording; "
        "continue it with --continue, or remove it"
    )
    assert (continued.exit_code, continued.stdout) == (0, f"12 responses for 4 users, in {move.folder}/r\n")
    assert len(move.old.requests) == before + 6  # those of the last complete user again
    assert move.run("import", str(move.folder / "r")).stdout == ROWS


def test_the_user_of_a_failure_is_printed_without_control_characters(move: Move) -> None:
    file = move.folder / "caregivers"
    file.write_text(f"\x1b[2J {keys.token('CAREGIVER', 'caregiver-1')}")
    with move.old.misbehaving("sends 502"):
        failed = move.record_to("r", "--caregivers", str(file), "--attempts", "1")

    call = f"{PATHS['caregiver']}?time-state=FUTURE&page=0&size=100"
    assert f"care-gateway: caregiver \\u001b[2J: {call}: status 502" in failed.stderr.splitlines()


def test_a_recording_whose_first_list_changed_can_be_continued(move: Move) -> None:
    """The pages that were read before the change are removed, and leave a gap in the names of the files."""
    running = {"path": "RUNNING", "user": keys.token("CAREGIVER", "caregiver-1"), "first": 1}
    with (
        move.old.misbehaving("doubles an item", **running),
        move.old.misbehaving("sends 502", user=keys.token("CLIENT", "client-2")),
    ):
        move.record_to("r", "--attempts", "1", "--at-once", "1")

    continued = move.record_to("r", "--continue")

    assert continued.stdout == f"12 responses for 4 users, in {move.folder}/r\n", continued.stderr
    assert move.run("import", str(move.folder / "r")).stdout == ROWS


NAMES = {"same": "caregiver-1", "other": "caregiver-2"}


def test_a_client_with_the_user_name_of_a_recorded_caregiver_is_recorded_afterwards(move: Move) -> None:
    failing = keys.token("CLIENT", "client-2")
    people = [f"{name} {keys.token('CAREGIVER', user)}" for name, user in NAMES.items()]
    (move.folder / "caregivers").write_text("\n".join(people))
    (move.folder / "clients").write_text(f"other {keys.token('CLIENT', 'client-1')}\nsame {failing}")
    options = [word for role in ("caregivers", "clients") for word in (f"--{role}", str(move.folder / role))]
    with move.old.misbehaving("sends 502", user=failing):
        failed = move.record_to("r", *options, "--attempts", "1")

    move.record_to("r", *options, "--continue")

    assert failed.stderr.splitlines()[-1] == (
        "care-gateway: 3 of 4 users recorded; record the rest with --continue"
    )
    lines = [orjson.loads(line) for line in (move.folder / "r" / INDEX).read_bytes().splitlines()]
    assert [(each["role"], each["userName"]) for each in lines[::3]] == [
        ("CAREGIVER", "same"), ("CAREGIVER", "other"), ("CLIENT", "other"), ("CLIENT", "same"),
    ]  # fmt: skip


@pytest.mark.parametrize("left", ["without its last line", "with a part of its first line", "empty"])
def test_a_user_of_whom_a_part_was_written_is_recorded_again(move: Move, left: str) -> None:
    with move.old.misbehaving("sends 502", user=keys.token("CLIENT", "client-2")):
        move.record_to("r", "--attempts", "2")
    index = move.folder / "r.part" / INDEX
    lines = index.read_bytes().splitlines(keepends=True)
    parts = {"without its last line": b"".join(lines[:-1]), "with a part of its first line": lines[0][:20]}
    index.write_bytes(parts.get(left, b""))

    continued = move.record_to("r", "--continue")

    assert continued.stdout == f"12 responses for 4 users, in {move.folder}/r\n"
    assert move.run("import", str(move.folder / "r")).stdout == ROWS


@pytest.mark.parametrize("change", ["is replaced", "loses the user"])
def test_while_the_file_of_the_tokens_changes_other_users_are_recorded(move: Move, change: str) -> None:
    file, token = move.folder / "tokens", keys.token("CAREGIVER", "caregiver-1")
    file.write_text(f"expired expired\ncaregiver-1 {token}")

    def old(request: Request) -> Response | None:
        if request.headers["authorization"] == "bearer expired":
            file.unlink(missing_ok=True)
            if change == "loses the user":
                file.write_text(f"caregiver-1 {token}")
            return Response(401)
        return move.old(request)

    with fake_service(old) as move.address:
        recorded = move.record_to("r", "--caregivers", str(file), "--at-once", "1", "--attempts", "2")

    call = "/gateway/profile/caregiver/session/assignment?time-state=FUTURE&page=0&size=100"
    assert (recorded.exit_code, recorded.stderr.splitlines()[1:]) == (
        2,
        [
            f"care-gateway: caregiver expired: {call}: the service rejects the token of {file}, line 1 (401)",
            "care-gateway: 1 of 2 users recorded; record the rest with --continue",
        ],
    )


@pytest.mark.parametrize(("attempts", "failures"), [("1", 0), ("8", 0), ("2", 1)])
def test_a_new_token_in_the_file_replaces_one_that_has_expired(
    move: Move, attempts: str, failures: int
) -> None:
    """Of the same role. Another role may have a user of the same name.

    With failures, the file is missing for a moment, and the first response to the new token is no page.
    """
    file, others = move.folder / "tokens", move.folder / "others"
    file.write_text("caregiver-1 expired")
    others.write_text(f"caregiver-1 {keys.token('CLIENT', 'client-1')}")
    token = keys.token("CAREGIVER", "caregiver-1")
    missing, no_page = iter(range(failures)), iter([Response(body=b"{}")] * failures)

    def old(request: Request) -> Response | None:
        given = request.headers["authorization"]
        if given == "bearer expired" and "COMPLETED" in request.path:
            if next(missing, None) is None:
                file.write_text(f"caregiver-1 {token}")
            else:
                file.unlink()
            return Response(401)
        if given == f"bearer {token}" and (response := next(no_page, None)):
            return response
        given = f"bearer {token}" if given == "bearer expired" else given
        return move.old(Request(request.method, request.path, {"authorization": given}, b""))

    with fake_service(old) as move.address:
        recorded = move.record_to(
            "r", "--caregivers", str(file), "--clients", str(others), "--attempts", attempts
        )

    assert (recorded.exit_code, recorded.stdout) == (0, f"6 responses for 2 users, in {move.folder}/r\n")


def test_an_assignment_that_is_deleted_between_list_and_detail_is_a_gap(move: Move) -> None:
    with move.old.misbehaving("omits answers"), move.old.misbehaving("forgets details"):
        folder = move.record()

    refused = move.run("import", folder)
    partial = move.run("import", folder, "--partial")

    lines = refused.stderr.splitlines()
    assert lines[1] == "missing answers: the list omits them, and the assignment was not requested by its id:"
    assert sorted(lines[2:5]) == ["  assignment 1", "  assignment 3", "  assignment 5"]
    assert partial.exit_code == 0, partial.output
    assert move.run("import", move.record(), "--update").exit_code == 0
    with move.old.misbehaving("omits answers"), move.old.misbehaving("forgets details"):
        again = move.lines("import", move.record(), "--update", "--partial")
    conflicts = [f"conflict\tassignment\t{number}\tanswers" for number in (1, 3, 5)]
    assert again == (1, [*conflicts, "3 conflicts"])


LIES = (
    "promises pages", "promises a million pages", "denies pages", "promises items", "denies items",
    "miscounts a page",
)  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_an_envelope_that_lies_costs_no_item(move: Move, name: str) -> None:
    with move.old.misbehaving(name, path="RUNNING"):
        folder = move.record("--size", "1")

    imported = move.run("import", folder)

    assert (imported.exit_code, imported.stdout) == (0, ROWS), imported.output


def test_another_way_of_paging_is_named_by_options(move: Move) -> None:
    with move.old.misbehaving("counts pages from 1 as pageNo"):
        recorded = move.record_to("r", "--paging", "pageNo", "limit", "--first-page", "1", "--size", "1")
        unnamed = move.record_to("s", "--attempts", "1", "--size", "1")

    lines = [orjson.loads(line) for line in (move.folder / "r/index.jsonl").read_bytes().splitlines()]
    imported = move.run("import", str(move.folder / "r"))
    assert recorded.exit_code == 0, recorded.output
    assert "&pageNo=2&limit=1" in "".join(line["path"] for line in lines)
    assert (imported.exit_code, imported.stdout) == (0, ROWS), imported.output
    assert unnamed.stderr.splitlines()[1].endswith(
        ": the response is another page; see --paging and --first-page"
    )


def test_pages_that_are_numbered_from_one_may_state_a_wrong_total(move: Move) -> None:
    with (
        move.old.misbehaving("counts pages from 1 as pageNo"),
        move.old.misbehaving("promises items", path="RUNNING"),
    ):
        folder = move.record("--paging", "pageNo", "limit", "--first-page", "1", "--size", "1")

    imported = move.run("import", folder)

    assert (imported.exit_code, imported.stdout) == (0, ROWS), imported.output
