"""`import --update` applies changes of the old service, and keeps changes of the new one."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from app.care.answers import submitting as submitting_steps
from app.care.sessions import closing as closing_steps
from app.db.admin.erasing import erasing
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.reader.selection import AccessScope
from app.db.session_counters import differences, recomputing_counters
from app.settings import Settings
from tests.callers import load, run_read, run_write
from tests.care.actions import (
    Verb,
    a_catalogue,
    answers_of,
    assigning,
    closing,
    giving,
    reopening,
    saving,
    sessions_with_homework,
    submitting,
    withdrawing,
)
from tests.cli.conftest import Command
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.factories import (
    NOW,
    Record,
    a_book,
    a_caregiver,
    a_client,
    a_module,
    a_session,
    an_assignment,
    lines,
)
from tests.moving_over.conftest import serving
from tests.moving_over.recordings import PATHS, caller_of, in_body, pages, write_lines
from tests.moving_over.two_services import PEOPLE, Rows, change_randomly, record, rows_of


def homework_of_three_relationships() -> Iterator[Record]:
    """Sessions 1 to 4 of caregiver 1, each with four assignments, and 5 of caregiver 2 with assignment 17.
    Session 2 is with client 2, the others are with client 1."""
    for each in sessions_with_homework(4, each=4):
        yield each | {"clientId": 2} if (each["kind"], each["id"]) == ("session", 2) else each
    yield from (a_session(5, caregiver=2, client=1), an_assignment(17, 5))


class Pair:
    """The databases of an old and a new service; the new one has imported a recording of the old one."""

    def __init__(self, old: Settings, new: Settings, command: Command, folder: Path) -> None:
        self.old, self.new = old.database, new.database
        self.settings = {"old": old, "new": new}
        self.folder, self.command = folder, command
        self.count = 0
        load(self.old, [*homework_of_three_relationships()])

    def run(self, *words: str) -> tuple[int, list[str]]:
        result = self.command(*words, database_url=self.new)
        assert result.exit_code in (0, 1), result.output
        return result.exit_code, result.stdout.splitlines()

    def update(self, recording: str, *options: str) -> tuple[int, list[str]]:
        """Removes what is gone, as many rows as a first update says."""
        words = ("import", recording, "--update", "--remove-gone", *options)
        refused = self.command(*words, database_url=self.new)
        if refused.exit_code != 2:
            return refused.exit_code, refused.stdout.splitlines()
        number = re.search(r"--yes-remove (\d+)$", refused.stderr)
        assert number is not None, refused.stderr
        return self.run(*words, "--yes-remove", number[1])

    def record(self) -> str:
        self.count += 1
        return str(record(self.settings["old"], self.folder / f"recording-{self.count}.jsonl"))

    def import_first(self) -> None:
        assert self.run("import", self.record())[0] == 0
        questions = self.folder / "books.jsonl"
        questions.write_bytes(b"\n".join(lines(books())))
        assert self.run("books", "import", str(questions))[0] == 0

    def pages(self, side: str) -> dict[str, bytes]:
        with serving(self.settings[side]) as gateway:
            return {
                f"{role} {number} {path}": body
                for role in PATHS
                for number in PEOPLE
                for path, body in pages(caller_of(gateway, role, number), role, 5)
            }


def books() -> list[Record]:
    return [record for record in a_catalogue() if record["kind"] in ("module", "book")]


@pytest.fixture
def pair(settings: Settings, new_settings: Settings, command: Command, tmp_path: Path) -> Pair:
    return Pair(settings, new_settings, command, tmp_path)


# --- random worlds --------------------------------------------------------------------------------


def check_followed(pair: Pair, seed: int) -> None:
    """Only the old service changes: afterwards both show the same bytes."""
    rng = Random(seed)
    change_randomly(pair.old, rng, 20)
    pair.import_first()
    change_randomly(pair.old, rng, 25)
    recording = pair.record()

    code, printed = pair.update(recording)

    assert (code, printed[-1].endswith("0 conflicts")) == (0, True), printed
    assert pair.pages("new") == pair.pages("old")
    assert pair.run("legacy", "reconcile", recording)[0] == 0
    check_repeated(pair, recording, printed)


def check_merged(pair: Pair, seed: int) -> None:
    """Both change: a row changed here stays; any other is as in the old service, or a conflict."""
    rng = Random(seed)
    change_randomly(pair.old, rng, 10)
    pair.import_first()
    imported = rows_of(pair.new)
    change_randomly(pair.new, rng, 12)
    before = rows_of(pair.new)
    changed_here = {key for key, row in before.items() if imported.get(key) != row}
    change_randomly(pair.old, rng, 12)
    recording, old = pair.record(), rows_of(pair.old)

    code, printed = pair.update(recording)

    after, conflicts = rows_of(pair.new), conflicts_in(printed)
    assert code == bool(conflicts)
    assert {key: after[key] for key in changed_here} == {key: before[key] for key in changed_here}
    for key in {*old, *after} - conflicts - changed_here:
        if key[0] in ("session", "assignment"):
            assert shown(after, key) == shown(old, key), (key, printed)
    check_repeated(pair, recording, printed)


def check_shown_again(pair: Pair, seed: int) -> None:
    """The old service also hides homework and shows it again: a row with a conflict stays as it is."""
    rng = Random(seed)
    change_randomly(pair.old, rng, 12)
    pair.import_first()
    for _ in range(2):
        change_randomly(pair.new, rng, rng.randrange(4))
        change_randomly(pair.old, rng, rng.randrange(8))
        hide_or_show(pair.old, rng)
        recording, before = pair.record(), rows_of(pair.new)

        _, printed = pair.update(recording)

        after, conflicts = rows_of(pair.new), conflicts_in(printed)
        assert {key: after.get(key) for key in conflicts} == {key: before.get(key) for key in conflicts}
        check_repeated(pair, recording, printed)


def hide_or_show(url: str, rng: Random) -> None:
    numbers = [row[0] for row in raw.run(url, "SELECT id FROM assignment ORDER BY id")]
    chosen = ", ".join(map(str, rng.sample(numbers, 4)))
    change = "CASE WHEN withdraw_date IS NULL THEN start_date END"
    raw.run(url, f"UPDATE assignment SET withdraw_date = {change} WHERE id IN ({chosen})")
    sessions = {row[0]: row[1] for row in raw.run(url, "SELECT id, caregiver_id FROM session")}
    run_write(url, recomputing_counters(sessions))


def check_repeated(pair: Pair, recording: str, printed: list[str]) -> None:
    """A second update changes nothing and reports the same conflicts."""
    rows = rows_of(pair.new)

    _, again = pair.update(recording)

    assert (conflicts_in(again), again[-1]) == (conflicts_in(printed), printed[-1].split(", ")[-1])
    assert rows_of(pair.new) == rows
    assert run_read(pair.new, differences()) == []


def conflicts_in(printed: list[str]) -> set[tuple[str, int]]:
    words = [line.split("\t") for line in printed if line.startswith("conflict\t")]
    return {(kind, int(number)) for _, kind, number, _ in words}


def shown(rows: Rows, key: tuple[str, int]) -> object:
    """What pages show of a row: nothing if it is withdrawn."""
    row = rows.get(key)
    return None if row is None or row.is_withdrawn else row.members


@pytest.mark.parametrize("check", [check_followed, check_merged, check_shown_again])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_world_is_updated(pair: Pair, check: Callable[[Pair, int], None], seed: int) -> None:
    check(pair, seed)


@pytest.mark.soak
@pytest.mark.parametrize("check", [check_followed, check_merged, check_shown_again])
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_worlds_are_updated(pair: Pair, check: Callable[[Pair, int], None], seed: int) -> None:
    check(pair, seed)


# --- one change each ------------------------------------------------------------------------------


def on(pair: Pair, side: str, *verbs: Callable[[Database], Awaitable[object]]) -> None:
    async def run() -> None:
        db = await open_database(pair.old if side == "old" else pair.new)
        try:
            for verb in verbs:
                await verb(db)
        finally:
            await db.close()

    asyncio.run(run())


def test_changes_of_the_old_service_are_applied_counted_and_audited(pair: Pair) -> None:
    pair.import_first()
    on(pair, "old", *(partial(submitting("3"), number=each) for each in (1, 2)), partial(assigning, number=1))
    recording = pair.record()

    first = pair.run("import", recording, "--update")
    again = pair.run("import", recording, "--update")

    assert first == (0, ["1 assignment added, 2 assignments changed, 0 conflicts"])
    assert again == (0, ["0 conflicts"])
    events = "SELECT kind, actor, assignment_id, hand_over_date = moment FROM event ORDER BY id"
    assert [tuple(row) for row in raw.run(pair.new, events)] == [
        ("ASSIGNED", "SERVICE", 18, True),
        ("SUBMITTED", "SERVICE", 2, True),
        ("SUBMITTED", "SERVICE", 1, True),
    ]
    records = raw.run(pair.new, "SELECT actor, operation, about FROM audit_record ORDER BY id")
    assert [tuple(row) for row in records][-2:] == [
        ("OPERATOR", "import", '[[1,1,{"assignments":[18,2,1]}]]'),
        ("OPERATOR", "import", "[]"),
    ]
    counts = "SELECT assignment_count, completed_assignment_count FROM session WHERE id = 1"
    assert [tuple(row) for row in raw.run(pair.new, counts)] == [(5, 2)]
    assert run_read(pair.new, differences()) == []


EVENTS = (
    "SELECT kind, session_id, assignment_id, client_id FROM event ORDER BY session_id, assignment_id, kind"
)
SCHEDULE = (
    "INSERT INTO reminder (caregiver_id, client_id, assignment_id, remind_date, state) "
    "SELECT caregiver_id, client_id, id, start_date, 'SCHEDULED' FROM assignment WHERE id = {}"
)
REMINDERS = "SELECT assignment_id, state FROM reminder ORDER BY assignment_id"


def test_each_change_of_the_old_service_has_its_event_and_skips_its_reminders(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with more rows of a kind than are compared at once."""
    monkeypatch.setattr("app.db.interchange.recorded.BATCH", 2)
    on(pair, "old", *(partial(submitting("3"), number=each) for each in (1, 2)), partial(closing, number=4))
    pair.import_first()
    raw.run(pair.new, *(SCHEDULE.format(each) for each in (3, 4, 5, 9)))
    load(pair.old, [a_session(6)])
    raw.run(
        pair.old,
        "UPDATE session SET title = 'Other' WHERE id IN (3, 4)",
        "UPDATE assignment SET start_date = assign_date WHERE id = 9",
    )
    on(
        pair, "old", partial(giving("Well done", 7), number=1), partial(reopening, number=2),
        partial(submitting("3"), number=3), partial(giving("Well done", 7), number=3),
        partial(closing, number=2), partial(withdrawing, number=4),
    )  # fmt: skip

    updated = pair.update(pair.record())

    added = "1 session added, 3 sessions changed, 4 assignments changed, 1 removed, 0 conflicts"
    assert updated == (0, ["removed\tassignment\t4", added])
    events = [tuple(row) for row in raw.run(pair.new, EVENTS)]
    assert sorted(events, key=str) == sorted(
        [
            ("FEEDBACK_GIVEN", 1, 1, 1), ("REOPENED", 1, 2, 1), ("SUBMITTED", 1, 3, 1),
            ("WITHDRAWN", 1, 4, 1), ("SESSION_CLOSED", 2, None, 2), ("SESSION_UPDATED", 3, None, 1),
            ("EXTENDED", 3, 9, 1), ("SESSION_UPDATED", 4, None, 1), ("SESSION_CREATED", 6, None, 1),
        ],
        key=str,
    )  # fmt: skip
    assert [tuple(row) for row in raw.run(pair.new, REMINDERS)] == [
        (3, "SKIPPED"), (4, "SKIPPED"), (5, "SKIPPED"), (9, "SCHEDULED"),
    ]  # fmt: skip
    about = raw.run(pair.new, "SELECT about FROM audit_record ORDER BY id DESC LIMIT 1")[0][0]
    found = {
        tuple(parties): {name: sorted(ids) for name, ids in rows.items()}
        for *parties, rows in orjson.loads(about)
    }
    assert found == {
        (1, 1): {"sessions": [3, 4, 6], "assignments": [1, 2, 3, 4, 9]},
        (1, 2): {"sessions": [2]},
    }


# The change here, the change in the old service, and the reported conflict.
CONFLICTS: dict[str, tuple[str, str, str]] = {
    "a draft": ("saving", "submitting", "1\tsubmitDate, status, score, answers, draft"),
    "a submission": ("submitting", "submitting", "1\tanswers"),
    "a withdrawal": ("withdrawing", "submitting", "1\tsubmitDate, status, score, answers, withdrawDate"),
    "a withdrawal there": ("submitting", "withdrawing", "1\tgone from the old service, changed here"),
    "homework": ("assigning", "assigning_other", "18\tthe id belongs to another row here, sessionId"),
}
VERBS: dict[str, Verb] = {
    "saving": saving("1"),
    "submitting": submitting("2"),
    "withdrawing": withdrawing,
    "assigning": assigning,
    "assigning_other": lambda db, number: assigning(db, number + 1),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_what_was_changed_here_is_a_conflict_and_stays(pair: Pair, case: str) -> None:
    here, there, reported = CONFLICTS[case]
    pair.import_first()
    on(pair, "new", partial(VERBS[here], number=1))
    if case == "a submission":
        on(pair, "new", partial(submitting("0"), number=2))
        on(pair, "old", partial(submitting("0"), number=3))
    on(pair, "old", partial(VERBS[there], number=1))
    before = rows_of(pair.new)

    code, printed = pair.update(pair.record())

    assert (code, printed[-1].split(", ")[-1][2:]) == (1, "conflict" + "s" * (case == "a submission"))
    assert f"conflict\tassignment\t{reported}" in printed
    taken = "conflict\tassignment\t3\tthe id belongs to another row here, answers"
    assert (taken in printed) == (case == "a submission")
    after = rows_of(pair.new)
    assert {key: after[key] for key in before} == before


def rewrite_assignment(recording: str, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the item of the assignment on each page."""
    lines = [orjson.loads(line) for line in Path(recording).read_bytes().splitlines()]
    for line in lines:
        page = orjson.loads(line["answer"])
        for item in page["content"]:
            if line["path"].startswith(PATHS["caregiver"]) and item["id"] == number:
                change(item)
        line["answer"] = orjson.dumps(page).decode()
    write_lines(Path(recording), lines)


def without_date(item: dict[str, Any]) -> None:
    item["answers"][0].update(submitDate=None)


def doubled(item: dict[str, Any]) -> None:
    item["answers"] *= 2


@pytest.mark.parametrize(
    ("is_known", "change"),
    [(False, doubled), (False, without_date), (True, without_date)],
    ids=["two with one id", "one without a date", "a known one without a date"],
)
def test_submissions_that_cannot_be_imported_change_nothing(
    pair: Pair, is_known: bool, change: Callable[[dict[str, Any]], None]
) -> None:
    submit = partial(submitting("3"), number=1)
    on(pair, "old", *[submit] * is_known)
    pair.import_first()
    on(pair, "old", *[submit] * (not is_known))
    recording, before = pair.record(), rows_of(pair.new)
    rewrite_assignment(recording, 1, change)

    updated = pair.run("import", recording, "--update", "--partial")

    assert updated == (0, ["0 conflicts"])
    assert rows_of(pair.new) == before


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("more", "event"),
    [({}, "REOPENED"), ({"startDate": "2026/11/20 09:00"}, "EXTENDED")],
    ids=["which is as before", "which starts later"],
)
def test_a_submission_that_was_reopened_before_it_was_recorded_is_an_earlier_attempt(
    pair: Pair, more: dict[str, str], event: str
) -> None:
    """The old service shows it with the reopened assignment."""
    pair.import_first()
    on(pair, "old", partial(submitting("3"), number=1))
    recording = pair.record()
    reopened = {"status": "PENDING", "submitDate": None, "score": 0, **more}
    rewrite_assignment(recording, 1, lambda item: item.update(reopened))

    updated = [pair.run("import", recording, "--update") for _ in range(2)]

    assert updated == [(0, ["1 assignment changed, 0 conflicts"]), (0, ["0 conflicts"])]
    assert pair.run("legacy", "reconcile", recording)[0] == 0
    assignment = "SELECT status, attempt FROM assignment WHERE id = 1"
    assert [tuple(row) for row in raw.run(pair.new, assignment)] == [("PENDING", 2)]
    sets = "SELECT attempt, score FROM answer_set WHERE assignment_id = 1"
    assert [tuple(row) for row in raw.run(pair.new, sets)] == [(1, None)]
    assert [row[0] for row in raw.run(pair.new, EVENTS)] == [event]


@pytest.mark.parametrize(
    ("verbs", "expected"),
    [
        ([giving("Well done", 7)], (1, ["conflict\tassignment\t1\tanswers", "1 conflict"])),
        ([], (0, ["0 conflicts"])),
    ],
    ids=["with another change", "alone"],
)
def test_a_submission_that_appears_before_a_known_one_is_not_added(
    pair: Pair, verbs: list[Any], expected: tuple[int, list[str]]
) -> None:
    on(pair, "old", partial(submitting("3"), number=1))
    raw.run(pair.old, "UPDATE answer_set SET id = 9")
    pair.import_first()
    on(pair, "old", *(partial(verb, number=1) for verb in verbs))
    recording, before = pair.record(), rows_of(pair.new)
    rewrite_assignment(recording, 1, lambda item: item["answers"].append({**item["answers"][0], "id": 5}))

    updated = pair.run("import", recording, "--update")

    assert updated == expected
    assert rows_of(pair.new) == before


@pytest.mark.sqlite_only
def test_submissions_of_reopened_homework_that_appear_between_known_ones_are_not_added(pair: Pair) -> None:
    """Submission 13, which appears after the known ones 9 and 12, is added without the one between them."""
    on(pair, "old", partial(submitting("3"), number=1))
    raw.run(pair.old, "UPDATE answer_set SET id = 9")
    pair.import_first()

    def reopened(item: dict[str, Any], others: tuple[int, ...]) -> None:
        item.update(status="PENDING", submitDate=None, score=0)
        item["answers"] += [{**item["answers"][0], "id": each} for each in others]

    updated = []
    for others in ((12,), (10, 12, 13), (12, 13)):
        recording = pair.record()
        rewrite_assignment(recording, 1, partial(reopened, others=others))
        updated.append(pair.run("import", recording, "--update"))

    changed = (0, ["1 assignment changed, 0 conflicts"])
    assert updated == [changed, (0, ["0 conflicts"]), changed]
    assert raw.run(pair.new, "SELECT id, attempt FROM answer_set ORDER BY id") == [(9, 1), (12, 2), (13, 3)]


@pytest.mark.sqlite_only
def test_new_homework_is_not_added_if_one_of_its_submissions_has_a_taken_id(pair: Pair) -> None:
    """Submission 1 is of assignment 2 here. The page of the new homework shows submission 7."""
    pair.import_first()
    on(pair, "new", partial(submitting("0"), number=2))
    on(pair, "old", partial(assigning, number=1), partial(submitting("3"), number=18))
    recording, before = pair.record(), rows_of(pair.new)
    rewrite_assignment(recording, 18, lambda item: item["answers"].append({**item["answers"][0], "id": 7}))

    updated = pair.run("import", recording, "--update")

    conflict = "conflict\tassignment\t18\tthe id belongs to another row here, answers"
    assert updated == (1, [conflict, "1 conflict"])
    assert rows_of(pair.new) == before


def test_a_row_that_is_shown_again_with_a_conflict_stays_removed(pair: Pair) -> None:
    on(pair, "old", partial(submitting("3"), number=1))
    raw.run(pair.old, "UPDATE answer_set SET id = 9")
    pair.import_first()
    again = pair.record()
    rewrite_assignment(again, 1, lambda item: item["answers"].append({**item["answers"][0], "id": 5}))
    on(pair, "old", partial(reopening, number=1), partial(withdrawing, number=1))
    assert pair.update(pair.record()) == (0, ["removed\tassignment\t1", "1 removed, 0 conflicts"])
    before = rows_of(pair.new)

    updated = pair.run("import", again, "--update")

    assert updated == (1, ["conflict\tassignment\t1\tanswers", "1 conflict"])
    assert rows_of(pair.new) == before
    assert run_read(pair.new, differences()) == []


def test_what_is_gone_is_listed_and_withdrawn_only_with_the_option(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.new, *map(SCHEDULE.format, (2, 3)))
    on(pair, "old", partial(withdrawing, number=2))
    recording = pair.record()

    listed = pair.run("import", recording, "--update")
    compared = pair.run("legacy", "reconcile", recording)
    removed = pair.update(recording)

    assert listed == (0, ["gone\tassignment\t2", "1 gone, 0 conflicts"])
    assert (compared[0], compared[1][-2:]) == (1, ["only here\tassignment\t2", "1 difference"])
    assert removed == (0, ["removed\tassignment\t2", "1 removed, 0 conflicts"])
    assert pair.run("legacy", "reconcile", recording)[0] == 0
    assert [row[0] for row in raw.run(pair.new, "SELECT kind FROM event")] == ["WITHDRAWN"]
    assert [tuple(row) for row in raw.run(pair.new, REMINDERS)] == [(2, "SKIPPED"), (3, "SCHEDULED")]


@pytest.mark.sqlite_only
def test_of_homework_that_is_gone_a_draft_is_kept_and_a_withdrawal_is_not_repeated(pair: Pair) -> None:
    pair.import_first()
    on(pair, "new", partial(saving("1"), number=1), partial(withdrawing, number=2))
    before, events = rows_of(pair.new), raw.run(pair.new, EVENTS)
    on(pair, "old", *(partial(withdrawing, number=each) for each in (1, 2)))
    recording = pair.record()

    updated = [pair.update(recording) for _ in range(2)]

    gone = "conflict\tassignment\t1\tgone from the old service, changed here"
    assert updated == [(1, [gone, "1 conflict"])] * 2
    assert (rows_of(pair.new), raw.run(pair.new, EVENTS)) == (before, events)
    marks = "SELECT kind, id FROM imported_row WHERE id IN (1, 2) AND kind LIKE '%assignment' ORDER BY kind"
    assert raw.run(pair.new, marks) == [("assignment", 1), ("conflict assignment", 1)]


@pytest.mark.sqlite_only
def test_a_session_that_the_old_service_reopened_gets_its_homework(pair: Pair) -> None:
    on(pair, "old", partial(closing, number=4))
    pair.import_first()
    raw.run(pair.old, "UPDATE session SET is_closed = FALSE, close_date = NULL WHERE id = 4")
    on(pair, "old", partial(assigning, number=4))

    updated = pair.run("import", pair.record(), "--update")

    assert updated == (0, ["1 assignment added, 1 session changed, 0 conflicts"])


MEANWHILE: dict[str, tuple[Verb, str]] = {  # in the old service, and the reported conflict
    "submitted": (submitting("3"), "score, answers"),
    "gone": (withdrawing, "gone from the old service, changed here"),
}


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("is_first", [True, False], ids=["a first import", "an update"])
def test_an_import_waits_for_an_erasure_and_leaves_out_the_rows_of_the_client(
    pair: Pair, is_first: bool
) -> None:
    """A first import may find the client here."""
    if is_first:
        load(pair.new, [a_client(1)])
    else:
        pair.import_first()
    on(pair, "old", partial(submitting("3"), number=1))
    words = ("import", pair.record(), *["--update"] * (not is_first))

    async def run() -> tuple[int, list[str]]:
        async with uncommitted(pair.new, erasing(1, NOW)):
            done = asyncio.create_task(asyncio.to_thread(pair.run, *words))
            assert await until_blocked(pair.new, done)
        return await done

    printed = "2 caregivers, 1 client, 1 module, 1 book, 1 session, 4 assignments"
    assert asyncio.run(run()) == (0, [printed if is_first else "18 of erased clients skipped, 0 conflicts"])
    assert raw.run(pair.new, "SELECT * FROM answer_set") == []


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("there", MEANWHILE)
def test_a_submission_that_is_committed_while_an_update_waits_for_its_session_stays(
    pair: Pair, there: str
) -> None:
    verb, conflict = MEANWHILE[there]
    pair.import_first()
    on(pair, "old", partial(verb, number=1))
    recording = pair.record()

    async def update() -> tuple[int, list[str]]:
        async with uncommitted(pair.new, submitting_steps(AccessScope(NOW, client=1), answers_of(1, "2"))):
            words = ("import", recording, "--update", "--remove-gone")
            updated = asyncio.create_task(asyncio.to_thread(pair.run, *words))
            assert await until_blocked(pair.new, updated)
        return await updated

    assert asyncio.run(update()) == (1, [f"conflict\tassignment\t1\t{conflict}", "1 conflict"])
    answers = raw.run(pair.new, "SELECT answers FROM answer_set WHERE assignment_id = 1")
    assert [orjson.loads(row[0])[0][-1] for row in answers] == ["2"]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_homework_of_a_session_that_is_closed_while_an_update_waits_for_it_is_a_conflict(pair: Pair) -> None:
    pair.import_first()
    on(pair, "old", partial(assigning, number=1))
    recording = pair.record()

    async def update() -> tuple[int, list[str]]:
        async with uncommitted(pair.new, closing_steps(AccessScope(NOW, caregiver=1), 1)):
            updated = asyncio.create_task(asyncio.to_thread(pair.run, "import", recording, "--update"))
            assert await until_blocked(pair.new, updated)
        return await updated

    conflict = "conflict\tassignment\t18\tthe session was closed here"
    assert asyncio.run(update()) == (1, [conflict, "1 conflict"])


def test_the_score_of_a_session_is_not_of_a_removed_assignment(pair: Pair) -> None:
    """A submission of a later assignment was removed. The earlier assignment is submitted afterwards."""
    on(pair, "old", partial(submitting("3"), number=2))
    pair.import_first()
    on(pair, "old", partial(reopening, number=2), partial(withdrawing, number=2))
    assert pair.update(pair.record())[1] == ["removed\tassignment\t2", "1 removed, 0 conflicts"]

    on(pair, "new", partial(submitting("2"), number=1))

    counters = "SELECT completed_assignment_count, last_assignment_score FROM session WHERE id = 1"
    assert [tuple(row) for row in raw.run(pair.new, counters)] == [(1, 2)]
    assert run_read(pair.new, differences()) == []


def test_what_is_gone_is_removed_once_and_restored_if_it_is_there_again(pair: Pair) -> None:
    """Assignment 18 was added here. No client is reminded of homework in a session that is gone."""
    pair.import_first()
    before = pair.record()
    raw.run(pair.old, "DELETE FROM assignment WHERE session_id = 5", "DELETE FROM session WHERE id = 5")
    load(pair.new, [an_assignment(18, 5)])
    raw.run(pair.new, *map(SCHEDULE.format, (17, 18)))
    pair.update(pair.record())

    again = pair.update(pair.record())
    states = raw.run(pair.new, REMINDERS)
    restored = pair.update(before)

    assert again == (0, ["0 conflicts"])
    assert [tuple(row) for row in states] == [(17, "SKIPPED"), (18, "SKIPPED")]
    assert sorted(tuple(row)[:3] for row in raw.run(pair.new, EVENTS)) == [
        ("ASSIGNED", 5, 17),
        ("SESSION_CLOSED", 5, None),
        ("SESSION_UPDATED", 5, None),
        ("WITHDRAWN", 5, 17),
    ]
    assert restored == (0, ["1 session changed, 1 assignment changed, 0 conflicts"])
    assert raw.run(pair.new, "SELECT id FROM session WHERE close_date IS NOT NULL") == []
    compared = pair.run("legacy", "reconcile", before)[1]
    assert compared[-2:] == ["only here\tassignment\t18", "1 difference"]


def test_new_homework_of_a_session_that_is_restored_is_added(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.old, "DELETE FROM assignment WHERE session_id = 5", "DELETE FROM session WHERE id = 5")
    recording = pair.record()
    pair.update(recording)
    reconciled = run_with_lists(pair, "legacy", "reconcile", recording)
    load(pair.old, [a_session(5, 2, 1), an_assignment(17, 5), an_assignment(18, 5)])
    recording = pair.record()

    restored = pair.update(recording)

    assert reconciled[::2] == (0, [])  # people without rows keep their accounts
    assert restored == (0, ["1 assignment added, 1 session changed, 1 assignment changed, 0 conflicts"])
    assert pair.run("legacy", "reconcile", recording)[0] == 0
    assert sorted((tuple(row)[:3] for row in raw.run(pair.new, EVENTS)), key=str) == [
        ("ASSIGNED", 5, 17),
        ("ASSIGNED", 5, 18),
        ("SESSION_CLOSED", 5, None),
        ("SESSION_UPDATED", 5, None),
        ("WITHDRAWN", 5, 17),
    ]


def test_a_session_that_is_gone_sends_no_reminders_of_what_was_changed_here(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.new, SCHEDULE.format(1))
    on(pair, "new", partial(saving("1"), number=1))
    of_session = "DELETE FROM {} WHERE assignment_id IN (SELECT id FROM assignment WHERE session_id = 1)"
    raw.run(
        pair.old,
        of_session.format("reminder"),
        "DELETE FROM assignment WHERE session_id = 1",
        "DELETE FROM session WHERE id = 1",
    )

    code, printed = pair.update(pair.record())

    assert (code, printed[3:]) == (
        1,
        [
            "removed\tsession\t1",
            "conflict\tassignment\t1\tgone from the old service, changed here",
            "4 removed, 1 conflict",
        ],
    )
    assert [row[0] for row in raw.run(pair.new, "SELECT state FROM reminder")] == ["SKIPPED"]


def test_a_conflict_that_people_have_ended_is_not_open(pair: Pair) -> None:
    marks = "SELECT kind, id FROM imported_row WHERE kind LIKE 'conflict%'"
    pair.import_first()
    raw.run(pair.new, "UPDATE session SET title = 'Here' WHERE id = 2")
    raw.run(pair.old, "UPDATE session SET title = 'There' WHERE id = 2")
    recording = pair.record()

    updated = pair.run("import", recording, "--update")
    opened = [tuple(row) for row in raw.run(pair.new, marks)]
    raw.run(pair.new, "UPDATE session SET title = 'There' WHERE id = 2")
    again = pair.run("import", recording, "--update")

    assert updated == (1, ["conflict\tsession\t2\ttitle", "1 conflict"])
    assert opened == [("conflict session", 2)]
    assert again == (0, ["0 conflicts"])
    assert raw.run(pair.new, marks) == []


def test_a_row_that_was_deleted_here_does_not_come_back(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.new, "DELETE FROM assignment WHERE id IN (1, 2, 3)")
    on(
        pair,
        "old",
        partial(submitting("3"), number=1),
        *(partial(withdrawing, number=each) for each in (2, 3)),
    )

    rows = "SELECT id FROM imported_row WHERE kind = 'assignment' AND id < 5 ORDER BY id"
    updated, known = [], []
    for _ in range(2):
        updated.append(pair.run("import", pair.record(), "--update", "--remove-gone"))
        known.append([row[0] for row in raw.run(pair.new, rows)])

    assert updated == [(1, ["conflict\tassignment\t1\tremoved here", "1 conflict"])] * 2
    assert known == [[1, 4]] * 2


def test_a_session_that_is_gone_keeps_its_date_of_closing(pair: Pair) -> None:
    """Homework of a session that both services have closed is added."""
    raw.run(pair.old, "UPDATE session SET is_closed = TRUE WHERE id = 5")
    pair.import_first()
    load(pair.old, [an_assignment(18, 5)])
    assert pair.run("import", pair.record(), "--update") == (0, ["1 assignment added, 0 conflicts"])
    raw.run(pair.new, "UPDATE session SET close_date = start_date WHERE id = 5")
    raw.run(pair.old, "DELETE FROM assignment WHERE session_id = 5", "DELETE FROM session WHERE id = 5")
    dates = "SELECT close_date = start_date FROM session WHERE id = 5"
    recording = pair.record()

    removed, again = (pair.update(recording) for _ in range(2))

    lines = [f"removed\t{each}" for each in ("assignment\t17", "assignment\t18", "session\t5")]
    assert removed == (0, [*lines, "3 removed, 0 conflicts"])
    assert again == (0, ["0 conflicts"])
    assert [bool(row[0]) for row in raw.run(pair.new, dates)] == [True]
    kinds = [row[0] for row in raw.run(pair.new, "SELECT kind FROM event ORDER BY id")]
    assert kinds == ["ASSIGNED", "WITHDRAWN", "WITHDRAWN"]


def test_an_erased_client_is_not_imported_again(pair: Pair) -> None:
    """Assignment 17, of caregiver 2, was gone before."""
    pair.import_first()
    raw.run(pair.old, "UPDATE assignment SET withdraw_date = assign_date WHERE id = 17")
    run_write(pair.old, recomputing_counters({5: 2}))
    assert pair.update(pair.record()) == (0, ["removed\tassignment\t17", "1 removed, 0 conflicts"])
    assert pair.run("erase", "--id", "1", "--yes")[0] == 0
    on(pair, "old", partial(submitting("3"), number=1), partial(assigning, number=1))
    before = rows_of(pair.new)

    code, printed = pair.run("import", pair.record(), "--update")

    assert (code, printed) == (0, ["18 of erased clients skipped, 0 conflicts"])
    assert rows_of(pair.new) == before
    gone = "kind = 'assignment' AND id = 17"
    fingerprints = f"SELECT DISTINCT fingerprint FROM imported_row WHERE client_id = 1 OR {gone}"
    assert [tuple(row) for row in raw.run(pair.new, fingerprints)] == [("",)]
    person = "SELECT fingerprint FROM imported_row WHERE kind = 'client' AND id = 1"
    assert [tuple(row) for row in raw.run(pair.new, person)] == [("",)]


TOKENS = "people without an account; add it with `care-gateway account link`:"
BOOKS = "books without questions; add them with `care-gateway books import`:"


def run_with_lists(pair: Pair, *words: str) -> tuple[int, list[str], list[str]]:
    """The exit code, the output, and the lists on standard error."""
    result = pair.command(*words, database_url=pair.new)
    shown = [
        line
        for line in result.stderr.splitlines()
        if not line.startswith(("reading", "importing", "comparing"))
    ]
    return result.exit_code, result.stdout.splitlines(), shown


def add_people_and_a_book(pair: Pair) -> None:
    """Caregiver 3 and client 3, who both have tokens, client 4, whose token is unknown, and a book."""
    load(
        pair.old,
        [
            a_caregiver(3), a_client(3), a_client(4), a_book(9), a_session(6, 3, 3), a_session(7, 2, 4),
            an_assignment(18, 6, book=9),
        ],
    )  # fmt: skip


def test_new_people_get_accounts_and_what_remains_is_listed(pair: Pair) -> None:
    pair.import_first()
    add_people_and_a_book(pair)
    recording = str(record(pair.settings["old"], pair.folder / "new.jsonl", (1, 2, 3)))

    code, printed, lists = run_with_lists(pair, "import", recording, "--update", "--partial")
    reconciled = run_with_lists(pair, "legacy", "reconcile", recording)

    accounts = pair.run("account", "list")[1]
    added = [f"1 {kind} added" for kind in ("caregiver", "client", "book", "session", "assignment")]
    assert (code, printed) == (0, [", ".join([*added, "0 conflicts"])])
    assert [line.split("\t")[:3] for line in accounts if "\t3\t" in line] == [
        ["caregiver", "3", "caregiver-3"],
        ["client", "3", "client-3"],
    ]
    assert lists[-2:] == [BOOKS, "  book 9"]
    assert (reconciled[0], reconciled[1][-1], reconciled[2][-2:]) == (0, "0 differences", lists[-2:])


def test_reconcile_finds_a_missing_account(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.new, "UPDATE caregiver SET user_name = NULL WHERE id = 2")
    recording = pair.record()

    updated = run_with_lists(pair, "import", recording, "--update")
    reconciled = run_with_lists(pair, "legacy", "reconcile", recording)
    as_json = orjson.loads(
        pair.command("legacy", "reconcile", recording, "--json", database_url=pair.new).stdout
    )
    assert pair.run("account", "link", "--role", "caregiver", "--id", "2", "--user", "caregiver-2")[0] == 0

    listed = [TOKENS, "  caregiver 2"]
    assert updated == (0, ["0 conflicts"], listed)
    assert (reconciled[0], reconciled[1][-2:], reconciled[2]) == (
        1,
        ["different\tcaregiver\t2\tuserName", "1 difference"],
        listed,
    )
    assert as_json["peopleWithoutAccount"] == [{"role": "CAREGIVER", "id": 2}]
    assert (as_json["usersWithoutPerson"], as_json["booksWithoutQuestions"]) == ([], [])
    assert run_with_lists(pair, "legacy", "reconcile", recording)[::2] == (0, [])


def test_a_caregiver_with_the_id_of_an_erased_client_needs_an_account(pair: Pair) -> None:
    pair.import_first()
    assert pair.run("erase", "--id", "2", "--yes")[0] == 0
    raw.run(pair.new, "UPDATE caregiver SET user_name = NULL WHERE id = 2")
    recording = pair.record()

    updated = run_with_lists(pair, "import", recording, "--update")

    listed = ["erased clients, whose rows were skipped:", "  client 2", TOKENS, "  caregiver 2"]
    assert updated == (0, ["6 of erased clients skipped, 0 conflicts"], listed)
    assert run_with_lists(pair, "legacy", "reconcile", recording)[2] == listed


def test_clients_who_were_erased_before_a_restore_are_not_imported(pair: Pair) -> None:
    """The restored database has neither the clients nor a fingerprint of an imported row."""
    erased = pair.folder / "erased"
    erased.write_text("3\n1\n")
    assert pair.run("tombstones", "apply", str(erased))[0] == 0
    load(pair.old, [a_caregiver(3), a_client(3), a_session(6, 3, 3)])
    recording = str(record(pair.settings["old"], pair.folder / "new.jsonl", (1, 2, 3)))
    listed = ["erased clients, whose rows were skipped:", "  client 1", "  client 3"]

    imported = run_with_lists(pair, "import", recording)
    updated = run_with_lists(pair, "import", recording, "--update")
    reconciled = run_with_lists(pair, "legacy", "reconcile", recording)

    shown = pair.command("legacy", "reconcile", recording, "--json", database_url=pair.new)
    as_json = orjson.loads(shown.stdout)

    counts = "3 caregivers, 1 client, 1 module, 1 book, 1 session, 4 assignments"
    found = [as_json[name] for name in ("equal", "erased", "resolved", "erasedClients")]
    assert found == [True, 20, 0, [1, 3]]
    skipped = "20 of erased clients skipped, 0 conflicts"
    assert (imported[:2], imported[2][:3]) == ((0, [counts]), listed)
    assert (updated[:2], updated[2][:3]) == ((0, [skipped]), listed)
    assert (reconciled[0], reconciled[1][-2:]) == (0, ["20 of erased clients not compared", "0 differences"])
    clients = raw.run(pair.new, "SELECT client_id FROM session UNION SELECT client_id FROM imported_row")
    assert {row[0] for row in clients} == {2, None}


def test_reconcile_leaves_out_an_erased_client_who_is_gone_from_the_old_service(pair: Pair) -> None:
    pair.import_first()
    assert pair.run("erase", "--id", "1", "--yes")[0] == 0
    raw.run(
        pair.old,
        *(f"DELETE FROM {table} WHERE client_id = 1" for table in ("reminder", "assignment", "session")),
    )

    recording = pair.record()

    code, printed, lists = run_with_lists(pair, "legacy", "reconcile", recording)
    updated = run_with_lists(pair, "import", recording, "--update", "--remove-gone")

    assert (code, printed[-1]) == (0, "0 differences"), printed
    assert lists == [USERS, "  client client-1"]
    assert updated == (0, ["0 conflicts"], lists)


def test_rows_of_people_without_an_account_here_are_gone_if_their_lists_were_recorded(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.new, *(f"UPDATE {table} SET user_name = NULL WHERE id = 1" for table in PATHS))
    on(pair, "old", partial(withdrawing, number=2))

    updated = run_with_lists(pair, "import", pair.record(), "--update")

    listed = [TOKENS, "  caregiver 1", "  client 1"]
    assert updated == (0, ["gone\tassignment\t2", "1 gone, 0 conflicts"], listed)


def test_rows_of_a_client_whose_token_was_not_recorded_are_neither_gone_nor_changed(pair: Pair) -> None:
    """Session 6 is without homework. Caregiver 3, whose only client is another one, is unknown here."""
    load(pair.old, [a_session(6, 1, 2)])
    pair.import_first()
    load(pair.old, [a_caregiver(3), a_client(3), a_session(7, 3, 3), an_assignment(18, 7)])
    raw.run(pair.old, "UPDATE assignment SET start_date = assign_date WHERE id = 5")
    recording = record(pair.settings["old"], pair.folder / "recording.jsonl", (1, 2, 3))
    lines = [orjson.loads(line) for line in recording.read_bytes().splitlines()]
    write_lines(recording, [each for each in lines if each["userName"] not in ("client-2", "client-3")])
    before = rows_of(pair.new)

    code, printed, lists = run_with_lists(
        pair, "import", str(recording), "--update", "--partial", "--remove-gone"
    )
    taken = pair.command(
        "legacy", "resolve", "take-old", str(recording), "assignment:5", database_url=pair.new
    )

    skipped = "sessions on no client's page, skipped with their assignments:"
    assert (code, printed) == (0, ["0 conflicts"])
    assert lists == [
        skipped, "  session 7 of client 3", "  session 2 of client 2", UNSEEN, "  session 6"
    ]  # fmt: skip
    assert (taken.exit_code, taken.stderr.splitlines()[-1]) == (
        2, "care-gateway: assignment:5 is neither in this recording nor here"
    )  # fmt: skip
    assert rows_of(pair.new) == before


def test_rows_of_a_person_whose_user_name_is_of_another_one_now_are_not_gone(pair: Pair) -> None:
    """Caregiver 2 has the user name of caregiver 1 now. The recording has no pages of caregiver 1."""
    pair.import_first()
    recording = Path(pair.record())
    lines = [orjson.loads(line) for line in recording.read_bytes().splitlines()]
    lines = [each for each in lines if each["userName"] != "caregiver-1"]
    for each in lines:
        each["userName"] = each["userName"].replace("caregiver-2", "caregiver-1")
    write_lines(recording, lines)

    updated = run_with_lists(pair, "import", str(recording), "--update", "--partial", "--remove-gone")

    assert updated[:2] == (0, ["0 conflicts"])
    unseen = updated[2][updated[2].index(UNSEEN) + 1 :]
    assert unseen[-1] == "  and 6 more"


def test_rows_of_a_caregiver_whose_pages_show_rows_of_a_colleague_can_be_gone(pair: Pair) -> None:
    load(pair.old, [an_assignment(18, 5), an_assignment(19, 5)])
    pair.import_first()
    counters = "UPDATE session SET assignment_count = 2, latest_assignment_id = 18 WHERE id = 5"
    raw.run(pair.old, "DELETE FROM assignment WHERE id = 19", counters)
    recording = Path(pair.record())
    lines = [orjson.loads(line) for line in recording.read_bytes().splitlines()]
    for each in lines:
        page = orjson.loads(each["answer"])
        for item in page["content"]:
            if item["id"] == 18 and each["userName"] == "caregiver-2":
                item |= {"caregiverId": 1, "caregiverName": "Caregiver 1"}
        each["answer"] = orjson.dumps(page).decode()
    write_lines(recording, lines)

    updated = run_with_lists(pair, "import", str(recording), "--update", "--partial")

    contradictions = ["session 5: caregiverId", "caregiver caregiver-2: pages of several people"]
    assert updated == (
        0,
        ["gone\tassignment\t19", "1 gone, 0 conflicts"],
        [
            "contradictions; the last value is used:",
            *(f"  {each}" for each in (*contradictions, "caregiver 1: two user names")),
        ],
    )


USERS = "user names that match no person; use `care-gateway account link` or `add`:"


SAME_MINUTE = [
    ("Europe/Berlin", "2026-10-25T00:30:00.000000Z"),  # 2026/10/25 02:30
    ("Europe/Berlin", "2026-10-25T01:30:00.000000Z"),  # an hour later, again
    ("Africa/Monrovia", "1970-01-01T09:45:10.000000Z"),  # 1970/01/01 09:00, 40 s after its beginning
]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("zone", "moment"), SAME_MINUTE)
def test_a_moment_is_equal_to_the_local_minute_of_its_page(pair: Pair, zone: str, moment: str) -> None:
    """Also in a repeated hour, and with an offset from UTC that has seconds."""
    raw.run(pair.old, f"UPDATE assignment SET assign_date = '{moment}' WHERE id = 1")
    there = pair.settings["old"].model_copy(update={"time_zone": zone})
    recording = str(record(there, pair.folder / "recording.jsonl"))

    result = pair.command("legacy", "reconcile", recording, database_url=pair.old, time_zone=zone)

    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "0 differences")


@pytest.mark.sqlite_only
def test_every_command_reads_local_times_in_the_zone_of_the_old_service(pair: Pair) -> None:
    there = pair.settings["old"].model_copy(update={"time_zone": "Europe/Berlin"})
    dates = "SELECT create_date, start_date FROM session ORDER BY id"

    def run(*words: str) -> list[str]:
        result = pair.command(*words, database_url=pair.new, time_zone="Europe/Berlin")
        return [*result.stdout.splitlines(), *result.stderr.splitlines()[2:]]

    first = str(record(there, pair.folder / "first.jsonl"))
    imported = run("import", first)
    at_first = raw.run(pair.new, dates)
    raw.run(pair.old, "UPDATE session SET title = 'There' WHERE id = 2")
    raw.run(pair.new, "UPDATE session SET title = 'Here' WHERE id = 2")
    second = str(record(there, pair.folder / "second.jsonl"))
    updated = run("import", second, "--update")
    resolved = run("legacy", "resolve", "take-old", second, "session:2", "session:3")
    ready = run("legacy", "ready", second)

    assert imported[0].endswith(" 5 sessions, 17 assignments")
    assert at_first == raw.run(pair.old, dates)
    assert updated[:2] == ["conflict\tsession\t2\ttitle", "1 conflict"]
    assert resolved == ["2 conflicts resolved"]
    assert "ok\tall rows are equal" in ready
    assert raw.run(pair.new, dates) == at_first


def test_feedback_without_a_score_keeps_a_score_that_an_update_has_changed(pair: Pair) -> None:
    on(pair, "old", partial(submitting("3", client=2), number=5))
    pair.import_first()
    on(pair, "old", partial(giving("Well done", 7), number=5))
    assert pair.run("import", pair.record(), "--update") == (0, ["1 assignment changed, 0 conflicts"])
    scores = "SELECT score, own_score FROM answer_set"
    updated = [tuple(row) for row in raw.run(pair.new, scores)]

    on(pair, "new", partial(giving("Thank you"), number=5))

    assert [tuple(row) for row in raw.run(pair.new, "SELECT score FROM assignment WHERE id = 5")] == [(7,)]
    assert [updated, [tuple(row) for row in raw.run(pair.new, scores)]] == [[(7, 7)]] * 2


def test_a_database_without_fingerprints_takes_equal_rows_as_imported(pair: Pair) -> None:
    """Fingerprints are missing after an import by an earlier version."""
    first = pair.record()
    pair.import_first()
    raw.run(pair.new, "DELETE FROM imported_row")
    on(pair, "old", partial(submitting("3"), number=1))
    second = pair.record()

    unknown = pair.run("import", second, "--update")
    raw.run(pair.new, "DELETE FROM imported_row")
    known = [pair.run("import", each, "--update") for each in (first, second)]

    assert unknown == (1, ["conflict\tassignment\t1\tsubmitDate, status, score, answers", "1 conflict"])
    assert known == [(0, ["0 conflicts"]), (0, ["1 assignment changed, 0 conflicts"])]
    assert [tuple(row) for row in raw.run(pair.new, EVENTS)] == [("SUBMITTED", 1, 1, 1)]


def test_reconcile_names_what_differs_without_a_change(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with more rows of a kind than are compared at once."""
    for module in ("app.db.interchange.recorded", "moving_over.reconciliation"):
        monkeypatch.setattr(f"{module}.BATCH", 1)
    pair.import_first()
    recording = pair.record()
    assert pair.run("legacy", "reconcile", recording) == (
        0,
        [
            "not compared: seconds, end dates, close dates, reminders, drafts, feedback texts, earlier "
            "attempts, scores of answer sets, questions, retired books, disabled accounts",
            "caregiver\t2 recorded\t2 here",
            "client\t2 recorded\t2 here",
            "module\t1 recorded\t1 here",
            "book\t1 recorded\t1 here",
            "session\t5 recorded\t5 here",
            "assignment\t17 recorded\t17 here",
            "0 differences",
        ],
    )
    raw.run(
        pair.new,
        "UPDATE session SET title = 'Other', start_date = create_date WHERE id = 2",
        "UPDATE assignment SET withdraw_date = assign_date WHERE id IN (12, 17)",
    )
    on(pair, "new", partial(submitting("1"), number=1), *[partial(assigning, number=3)] * 4)
    on(pair, "new", partial(withdrawing, number=21))
    before = rows_of(pair.new)

    code, printed = pair.run("legacy", "reconcile", recording)
    as_json = pair.command("legacy", "reconcile", recording, "--json", database_url=pair.new)

    assert (code, printed[6:]) == (
        1,
        [
            "assignment\t17 recorded\t18 here",
            "answer_set\t0 recorded\t1 here",
            "caregiver 1\tanswer_set\t0 recorded\t1 here",
            "caregiver 1\tassignment\t16 recorded\t18 here",
            "caregiver 2\tassignment\t1 recorded\t0 here",
            "missing here\tassignment\t12",
            "missing here\tassignment\t17",
            "only here\tassignment\t18",
            "only here\tassignment\t19",
            "only here\tassignment\t20",
            "different\tsession\t2\ttitle, startDate",
            "different\tassignment\t1\tsubmitDate, status, score, answers",
            "verify\tsession\t5\tassignment_count",
            "verify\tsession\t5\tlatest_assignment_id",
            "9 differences",
        ],
    )
    found = orjson.loads(as_json.stdout)
    assert as_json.exit_code == 1
    assert found["equal"] is False
    counters = ("assignment_count", "latest_assignment_id")
    assert found["counters"] == [{"session": 5, "name": name} for name in counters]
    assert [found[name] for name in ("setAside", "erased", "resolved", "erasedClients")] == [[], 0, 0, []]
    assert found["missingHere"] == [{"kind": "assignment", "id": number} for number in (12, 17)]
    assert found["onlyHere"] == [{"kind": "assignment", "id": number} for number in (18, 19, 20)]
    assert found["different"][0] == {"kind": "session", "id": 2, "members": ["title", "startDate"]}
    assert found["kinds"] == {
        "caregiver": {"recorded": 2, "here": 2}, "client": {"recorded": 2, "here": 2},
        "module": {"recorded": 1, "here": 1}, "book": {"recorded": 1, "here": 1},
        "session": {"recorded": 5, "here": 5}, "assignment": {"recorded": 17, "here": 18},
        "answer_set": {"recorded": 0, "here": 1},
    }  # fmt: skip
    assert found["caregivers"] == {
        "1": {
            "session": {"recorded": 4, "here": 4}, "assignment": {"recorded": 16, "here": 18},
            "answer_set": {"recorded": 0, "here": 1},
        },
        "2": {
            "session": {"recorded": 1, "here": 1}, "assignment": {"recorded": 1, "here": 0},
            "answer_set": {"recorded": 0, "here": 0},
        },
    }  # fmt: skip
    assert rows_of(pair.new) == before


def test_a_book_can_move_to_a_module_that_is_new(pair: Pair) -> None:
    pair.import_first()
    load(pair.old, [a_module(2)])
    raw.run(pair.old, "UPDATE book SET module_id = 2 WHERE id = 1")
    recording = pair.record()

    updated = pair.run("import", recording, "--update")

    assert updated == (0, ["1 module added, 1 book changed, 0 conflicts"])
    assert pair.run("legacy", "reconcile", recording)[0] == 0


# The identifiers of clients 1 and 2 in the old service, and what an update prints.
PASSED: dict[str, tuple[str, str, tuple[int, list[str]]]] = {
    "exchanged": ("OPPT-2", "OPPT-1", (0, ["2 clients changed, 0 conflicts"])),
    "passed on": ("OPPT-3", "OPPT-1", (0, ["2 clients changed, 0 conflicts"])),
    "passed back": ("OPPT-2", "OPPT-3", (0, ["2 clients changed, 0 conflicts"])),
}


@pytest.mark.parametrize("case", PASSED)
def test_clients_can_take_identifiers_of_each_other(
    pair: Pair, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if there are more clients than rows of a kind that are compared at once."""
    monkeypatch.setattr("app.db.interchange.recorded.BATCH", 1)
    one, other, printed = PASSED[case]
    pair.import_first()
    set_identifiers(pair.old, one, other)

    assert pair.run("import", pair.record(), "--update") == printed
    assert identifiers(pair.new) == [(1, one), (2, other)]


@pytest.mark.sqlite_only
def test_a_new_client_can_take_an_identifier_that_another_one_gave_up(pair: Pair) -> None:
    pair.import_first()
    set_identifiers(pair.old, "OPPT-9", "OPPT-2")
    load(pair.old, [a_caregiver(3), a_client(3, opptId="OPPT-1"), a_session(6, 3, 3), an_assignment(18, 6)])
    people = record(pair.settings["old"], pair.folder / "new.jsonl", (1, 2, 3))

    code, printed = pair.run("import", str(people), "--update", "--partial")

    assert (code, printed[-1].split(", ")[-1]) == (0, "0 conflicts")
    assert identifiers(pair.new) == [(1, "OPPT-9"), (2, "OPPT-2"), (3, "OPPT-1")]


@pytest.mark.sqlite_only
def test_clients_keep_their_identifiers_if_an_operator_decides_so(pair: Pair) -> None:
    pair.import_first()
    set_identifiers(pair.old, "OPPT-2", "OPPT-1")

    recording = pair.record()
    resolved = pair.run("legacy", "resolve", "keep-here", recording, "client:1", "client:2")
    compared = pair.run("legacy", "reconcile", recording)

    assert resolved == (0, ["2 conflicts resolved"])
    assert (compared[0], compared[1][-2:]) == (
        0, ["2 not compared, because they were resolved", "0 differences"]
    )  # fmt: skip
    assert identifiers(pair.new) == [(1, "OPPT-1"), (2, "OPPT-2")]


def test_an_identifier_of_a_client_who_keeps_it_is_a_conflict(pair: Pair) -> None:
    """Client 2 was changed here. Both are decided together."""
    pair.import_first()
    raw.run(pair.new, "UPDATE client SET name = 'Other' WHERE id = 2")
    set_identifiers(pair.old, "OPPT-2", "OPPT-1")
    recording = pair.record()

    updated = pair.run("import", recording, "--update")
    kept = identifiers(pair.new)
    resolved = pair.run("legacy", "resolve", "take-old", recording, "client:1", "client:2")

    assert updated == (
        1,
        [
            "conflict\tclient\t1\topptId: exists already",
            "conflict\tclient\t2\tname, opptId",
            "2 conflicts",
        ],
    )
    assert kept == [(1, "OPPT-1"), (2, "OPPT-2")]
    assert resolved == (0, ["2 conflicts resolved"])
    assert identifiers(pair.new) == [(1, "OPPT-2"), (2, "OPPT-1")]


def test_a_client_whose_new_identifier_is_rejected_keeps_the_old_one(pair: Pair) -> None:
    pair.import_first()
    set_identifiers(pair.old, "erased-9", "OPPT-1")

    assert pair.run("import", pair.record(), "--update") == (
        1,
        [
            "conflict\tclient\t1\topptId: can only be that of an erased client",
            "conflict\tclient\t2\topptId: exists already",
            "2 conflicts",
        ],
    )
    assert identifiers(pair.new) == [(1, "OPPT-1"), (2, "OPPT-2")]


@pytest.mark.sqlite_only
def test_clients_who_take_identifiers_in_turn_keep_theirs_if_the_last_one_is_taken(pair: Pair) -> None:
    load(pair.old, [a_caregiver(3), a_client(3, opptId="OPPT-3"), a_session(6, 3, 3), an_assignment(18, 6)])
    recording = record(pair.settings["old"], pair.folder / "before.jsonl", (1, 2, 3))
    assert pair.run("import", str(recording))[0] == 0
    load(pair.new, [a_client(4, opptId="OPPT-4")])
    set_identifiers(pair.old, "OPPT-2", "OPPT-3", "OPPT-4")
    recording = record(pair.settings["old"], pair.folder / "after.jsonl", (1, 2, 3))

    updated = pair.run("import", str(recording), "--update")

    taken = [f"conflict\tclient\t{number}\topptId: exists already" for number in (1, 2, 3)]
    assert updated == (1, [*taken, "3 conflicts"])
    assert identifiers(pair.new) == [(number, f"OPPT-{number}") for number in (1, 2, 3, 4)]


@pytest.mark.sqlite_only
def test_clients_whose_pages_have_one_identifier_keep_theirs(pair: Pair) -> None:
    """The pages were recorded before and after client 1 gave it to client 2."""
    load(pair.old, [a_caregiver(3), a_client(3), a_session(6, 3, 3), an_assignment(18, 6)])
    recording = record(pair.settings["old"], pair.folder / "before.jsonl", (1, 2, 3))
    assert pair.run("import", str(recording))[0] == 0
    set_identifiers(pair.old, "OPPT-9", "OPPT-3", "OPPT-2")
    recording = record(pair.settings["old"], pair.folder / "after.jsonl", (1, 2, 3))
    recording.write_text(recording.read_text().replace("OPPT-9", "OPPT-3"))

    updated = pair.run("import", str(recording), "--update")

    taken = [f"conflict\tclient\t{number}\topptId: exists already" for number in (1, 2, 3)]
    assert updated == (1, [*taken, "3 conflicts"])
    assert identifiers(pair.new) == [(number, f"OPPT-{number}") for number in (1, 2, 3)]


@pytest.mark.sqlite_only
def test_a_new_client_whose_identifier_is_taken_is_a_conflict(pair: Pair) -> None:
    """Beside a client who gets another identifier. The command also lists the remaining work."""
    pair.import_first()
    set_identifiers(pair.old, "OPPT-9", "OPPT-2")
    load(pair.new, [a_client(4, opptId="OPPT-3")])
    people = [a_caregiver(3), a_client(3), a_book(9)]
    load(pair.old, [*people, a_session(6, 3, 3), an_assignment(18, 6, book=9)])
    recording = record(pair.settings["old"], pair.folder / "new.jsonl", (1, 2, 3))

    updated = run_with_lists(pair, "import", str(recording), "--update")

    assert updated[:2] == (
        1,
        [
            "conflict\tassignment\t18\tsessionId",
            "conflict\tclient\t3\topptId: exists already",
            "conflict\tsession\t6\tclientId",
            "1 caregiver added, 1 book added, 1 client changed, 3 conflicts",
        ],
    )
    assert updated[2][:2] == [BOOKS, "  book 9"]


def set_identifiers(url: str, *of_clients: str) -> None:
    for values in ([f"free-{each}" for each in of_clients], of_clients):
        raw.run(
            url,
            *(f"UPDATE client SET oppt_id = '{each}' WHERE id = {id}" for id, each in enumerate(values, 1)),
        )


def identifiers(url: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in raw.run(url, "SELECT id, oppt_id FROM client ORDER BY id")]


def test_people_and_modules_are_renamed(pair: Pair) -> None:
    """A client keeps the identifier."""
    pair.import_first()
    for table in ("caregiver", "client", "module"):
        raw.run(pair.old, f"UPDATE {table} SET name = 'New {table}' WHERE id = 1")
    recording = pair.record()

    updated = pair.run("import", recording, "--update")

    changed = "1 caregiver changed, 1 client changed, 1 module changed, 0 conflicts"
    assert (updated, pair.run("legacy", "reconcile", recording)[0]) == ((0, [changed]), 0)


def test_a_renamed_book_is_found_by_its_new_words(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.old, "UPDATE book SET name = 'Evening walk' WHERE id = 1")

    updated = pair.run("import", pair.record(), "--update")

    assert updated == (0, ["1 book changed, 0 conflicts"])
    words = "SELECT word FROM book_word WHERE book_id = 1 ORDER BY word"
    assert [tuple(row) for row in raw.run(pair.new, words)] == [("evening",), ("walk",)]


def test_a_score_of_0_counts_in_a_book_that_becomes_a_test_in_the_same_update(pair: Pair) -> None:
    """A score of 0 is no score once the book is no test."""
    pair.import_first()
    scores = "SELECT assignment_id, score FROM answer_set ORDER BY assignment_id"
    found = []
    for number, is_test in ((1, False), (2, True)):
        raw.run(pair.old, f"UPDATE book SET is_test = {is_test}")
        on(pair, "old", partial(submitting("3"), number=number))
        raw.run(pair.old, "UPDATE assignment SET score = 0")

        updated = pair.run("import", pair.record(), "--update")

        assert updated == (0, ["1 book changed, 1 assignment changed, 0 conflicts"])
        found.append([tuple(row) for row in raw.run(pair.new, scores)])
    assert found == [[(1, None)], [(1, None), (2, 0)]]


def test_a_session_without_the_name_of_its_homework_changes_no_book(pair: Pair) -> None:
    pair.import_first()
    recording = Path(pair.record())
    lines = [orjson.loads(line) for line in recording.read_bytes().splitlines()]
    for number, line in enumerate(lines, 1):
        if PATHS["client"] in line["path"]:
            in_body(number, forget_names)(lines)
    write_lines(recording, lines)

    assert pair.run("import", str(recording), "--update") == (0, ["0 conflicts"])
    assert [tuple(row) for row in raw.run(pair.new, "SELECT id, name FROM book")] == [(1, "Book 1")]


def forget_names(page: Any) -> None:
    for item in page["content"]:
        del item["assignmentName"]


def test_no_client_is_reminded_of_homework_that_they_submitted_in_the_old_service(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.new, *map(SCHEDULE.format, (5, 6)))
    on(pair, "old", partial(submitting("3", client=2), number=5))

    updated = pair.run("import", pair.record(), "--update")

    assert updated == (0, ["1 assignment changed, 0 conflicts"])
    assert [tuple(row) for row in raw.run(pair.new, REMINDERS)] == [(5, "SKIPPED"), (6, "SCHEDULED")]


def test_a_page_of_several_people_does_not_show_all_rows_of_each(pair: Pair) -> None:
    """Caregiver 1 supervises caregiver 2, and sees one of two assignments."""
    load(pair.old, [an_assignment(18, 5)])
    pair.import_first()
    recording = Path(pair.record())
    lines = [orjson.loads(line) for line in recording.read_bytes().splitlines()]
    of = {
        user: [each for each in lines if each["userName"] == user] for user in ("caregiver-1", "caregiver-2")
    }
    item = orjson.loads(of["caregiver-2"][0]["answer"])["content"][1]
    assert item["id"] == 17
    for number in (1, 2, 3):
        in_body(number, lambda page: page.update(totalElements=17))(of["caregiver-1"])
    in_body(3, lambda page: page["content"].append(item))(of["caregiver-1"])
    write_lines(recording, [each for each in lines if each not in of["caregiver-2"]])

    updated = pair.command("import", str(recording), "--update", "--partial", database_url=pair.new)

    assert (updated.exit_code, updated.stdout) == (0, "0 conflicts\n")
    assert updated.stderr.partition(f"{UNSEEN}\n")[2].splitlines()[0] == "  assignment 18"


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("user", ["{}-1", "one"], ids=["two names", "one name of a caregiver and a client"])
def test_an_incomplete_recording_removes_nothing(pair: Pair, user: str) -> None:
    pair.import_first()
    lines = Path(pair.record()).read_text().splitlines(keepends=True)
    cut = pair.folder / "cut.jsonl"
    text = "".join(lines[1:])
    for role in PATHS:
        text = text.replace(f'"{role}-1"', f'"{user.format(role)}"')
    cut.write_text(text)

    refused = pair.command("import", str(cut), "--update", database_url=pair.new)
    partly = pair.command("import", str(cut), "--update", "--partial", "--remove-gone", database_url=pair.new)

    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (
        2,
        "care-gateway: the recording is incomplete; nothing was imported (--partial imports the rest)",
    )
    kept = [f"  assignment {number}" for number in (12, 13, 14, 15, 16, 5, 6)]
    assert (partly.exit_code, partly.stdout) == (0, "0 conflicts\n")
    assert UNSEEN in partly.stderr.splitlines(), partly.stderr + str(kept)


UNSEEN = "not seen, like the lists of their person, and kept:"
