"""`legacy resolve` decides conflicts of an update: either side can be taken, and nothing else changes."""

from functools import partial
from pathlib import Path

import orjson
import pytest

from app.db.session_counters import differences
from tests.callers import load, run_read
from tests.care.actions import assigning, closing, giving, reopening, saving, submitting, withdrawing
from tests.db import raw
from tests.factories import a_session, an_assignment
from tests.moving_over.recordings import write_lines
from tests.moving_over.test_update import CONFLICTS, VERBS, Pair, on, pair, shown
from tests.moving_over.two_services import rows_of

__all__ = ["pair"]

KEY = ("assignment", 1)
DECIDE = "decide with `care-gateway legacy resolve take-old|keep-here RECORDING KIND:ID`"


def resolve(pair: Pair, choice: str, recording: str, *keys: str) -> tuple[int, list[str]]:
    result = pair.command("legacy", "resolve", choice, recording, *keys, database_url=pair.new)
    lines = [each for each in result.output.splitlines() if each not in ("reading", "importing")]
    return result.exit_code, lines


def conflicting(pair: Pair, case: str) -> str:
    """A recording with which assignment 1 is a conflict."""
    here, there, _ = CONFLICTS[case]
    pair.import_first()
    if case == "a submission":  # which gets the id 2 here, and 1 there
        on(pair, "new", partial(submitting("0"), number=2))
    verb = submitting("1") if case == "a submission" else VERBS[here]
    on(pair, "new", partial(verb, number=1))
    on(pair, "old", partial(VERBS[there], number=1))
    recording = pair.record()
    updated = pair.command("import", recording, "--update", database_url=pair.new)
    assert (updated.exit_code, updated.stderr.splitlines()[2:]) == (1, [DECIDE])
    return recording


SAME = [case for case in CONFLICTS if case != "homework"]  # the same homework on both sides


@pytest.mark.parametrize("case", SAME)
def test_the_old_row_can_be_taken(pair: Pair, case: str) -> None:
    recording = conflicting(pair, case)

    resolved = resolve(pair, "take-old", recording, "assignment:1")

    assert resolved == (0, ["1 conflict resolved"])
    here, there = shown(rows_of(pair.new), KEY), shown(rows_of(pair.old), KEY)
    assert without_ids(here) == without_ids(there)
    assert pair.run("import", recording, "--update") == (0, ["0 conflicts"])
    assert is_equal_to(pair, recording)
    assert run_read(pair.new, differences()) == []
    records = raw.run(pair.new, "SELECT operation, about FROM audit_record ORDER BY id")
    assert [tuple(row) for row in records][-2:] == [
        ("resolve", '[[1,1,{"assignments":[1]}]]'), ("import", "[]")
    ]  # fmt: skip


def is_equal_to(pair: Pair, recording: str) -> bool:
    """Except for assignment 2, which only one case changes."""
    found = pair.run("legacy", "reconcile", recording)[1]
    return [line for line in found if "\tassignment\t1" in line] == []


def test_a_row_that_is_named_twice_is_one_conflict(pair: Pair) -> None:
    recording = conflicting(pair, "a draft")

    resolved = resolve(pair, "take-old", recording, "assignment:1", "assignment:01")

    assert resolved == (0, ["1 conflict resolved"])


def without_ids(members: object) -> object:
    """A submission that is taken beside one of another id gets its own."""
    if isinstance(members, dict) and members["answers"]:
        return {**members, "answers": {**members["answers"], "id": None}}
    return members


@pytest.mark.parametrize("case", SAME)
def test_the_row_here_can_be_kept_until_the_old_one_changes_again(pair: Pair, case: str) -> None:
    recording, before = conflicting(pair, case), rows_of(pair.new)

    resolved = resolve(pair, "keep-here", recording, "assignment:1")

    assert resolved == (0, ["1 conflict resolved"])
    assert rows_of(pair.new) == before
    assert pair.run("import", recording, "--update") == (0, ["0 conflicts"])
    assert is_equal_to(pair, recording)
    as_json = pair.command("legacy", "reconcile", recording, "--json", database_url=pair.new)
    found = orjson.loads(as_json.stdout)
    assert (found["erased"], found["resolved"]) == (0, case != "a withdrawal there")
    later = pair.record()
    assert pair.run("import", later, "--update") == (0, ["0 conflicts"])
    if case != "a withdrawal there":
        on(pair, "old", partial(giving("Well done", 7), number=1))
        changed = pair.record()
        assert not is_equal_to(pair, changed)
        assert pair.run("import", changed, "--update")[0] == 1
    assert rows_of(pair.new) == before


def test_a_row_that_was_kept_here_and_is_gone_later_is_a_conflict_again(pair: Pair) -> None:
    """Until its client is erased."""
    recording, before = conflicting(pair, "a submission"), rows_of(pair.new)
    resolve(pair, "keep-here", recording, "assignment:1")
    on(pair, "old", partial(reopening, number=1), partial(withdrawing, number=1))
    later = pair.record()

    reconciled = pair.run("legacy", "reconcile", later)
    updated = pair.run("import", later, "--update", "--remove-gone")

    assert (reconciled[0], "only here\tassignment\t1" in reconciled[1]) == (1, True)
    assert updated == (
        1, ["conflict\tassignment\t1\tgone from the old service, changed here", "1 conflict"]
    )  # fmt: skip
    assert rows_of(pair.new) == before
    assert pair.run("erase", "--id", "1", "--yes")[0] == 0
    code, [printed] = pair.run("import", later, "--update", "--remove-gone")
    assert (code, printed.rpartition(", ")[2]) == (0, "0 conflicts")


def test_nothing_that_was_submitted_is_lost_if_the_old_row_is_taken(pair: Pair) -> None:
    """The submission here becomes an earlier attempt, and the one of the old service the current one."""
    recording = conflicting(pair, "a submission")
    sets = "SELECT attempt, answers FROM answer_set WHERE assignment_id = 1 ORDER BY attempt"
    before = [tuple(row) for row in raw.run(pair.new, sets)]

    resolve(pair, "take-old", recording, "assignment:1")
    on(pair, "old", partial(giving("Well done", 7), number=1))
    changed = pair.record()
    again = pair.run("import", changed, "--update")
    resolved = resolve(pair, "take-old", changed, "assignment:1")

    after = [tuple(row) for row in raw.run(pair.new, sets)]
    assert (len(before), len(after), after[0]) == (1, 2, before[0])
    assert (again[0], resolved[0]) == (1, 0)
    assert shown(rows_of(pair.new), KEY)["feedbackStatus"] == "SUBMITTED"  # type: ignore[index]


def test_a_submission_with_an_older_id_than_the_one_here_gets_a_new_one(pair: Pair) -> None:
    pair.import_first()
    on(pair, "new", partial(submitting("0"), number=1))
    raw.run(pair.new, "UPDATE answer_set SET id = 9")
    on(pair, "old", partial(submitting("1"), number=1))
    recording = pair.record()

    resolved, again = (resolve(pair, "take-old", recording, "assignment:1") for _ in range(2))

    assert resolved == again == (0, ["1 conflict resolved"])
    here, there = shown(rows_of(pair.new), KEY), shown(rows_of(pair.old), KEY)
    assert without_ids(here) == without_ids(there)
    sets = raw.run(pair.new, "SELECT id, attempt FROM answer_set WHERE assignment_id = 1 ORDER BY id")
    assert [tuple(row) for row in sets] == [(9, 1), (10, 2)]


@pytest.mark.sqlite_only
def test_a_submission_that_both_services_have_is_written_over(pair: Pair) -> None:
    """Its text was changed here, for example by a command in the database, and its date there."""
    on(pair, "old", partial(submitting("3"), number=1))
    pair.import_first()
    raw.run(pair.new, "UPDATE answer_set SET answers = '[]'")
    on(pair, "old", partial(giving("Well done", 7), number=1))
    raw.run(pair.old, "UPDATE answer_set SET submit_date = '2026-11-20T08:00:00.000000Z'")

    resolved = resolve(pair, "take-old", pair.record(), "assignment:1")

    assert resolved == (0, ["1 conflict resolved"])
    assert shown(rows_of(pair.new), KEY) == shown(rows_of(pair.old), KEY)
    assert raw.run(pair.new, "SELECT count(*) FROM answer_set")[0][0] == 1


WAY_OUT = (
    "ids that both services use for different rows; for a submission, `legacy resolve take-old` assigns "
    "another id; enter other rows again in the old service, record, and run `legacy resolve keep-here`:"
)


def test_ids_that_both_services_gave_away_have_a_way_out(pair: Pair) -> None:
    """Assignment 18 is other homework on each side; submission 1 is of assignment 2 here, and of 3 there."""
    pair.import_first()
    on(pair, "new", partial(assigning, number=1), partial(submitting("0"), number=2))
    on(pair, "old", partial(assigning, number=2), partial(submitting("1"), number=3))
    recording, before = pair.record(), rows_of(pair.new)

    listed = pair.command("import", recording, "--update", database_url=pair.new)
    refused = resolve(pair, "take-old", recording, "assignment:18", "assignment:3")
    unchanged = rows_of(pair.new)
    submission = resolve(pair, "take-old", recording, "assignment:3")
    marks = raw.run(pair.new, "SELECT id FROM imported_row WHERE kind = 'conflict assignment'")
    kept = resolve(pair, "keep-here", recording, "assignment:18")
    on(pair, "old", partial(assigning, number=2))  # again, with a new id
    again = pair.record()
    added = pair.run("import", again, "--update")

    assert listed.stdout.splitlines() == [
        "conflict\tassignment\t3\tthe id belongs to another row here, answers",
        "conflict\tassignment\t18\tthe id belongs to another row here, sessionId",
        "2 conflicts",
    ]
    errors = listed.stderr.splitlines()
    assert errors[errors.index(WAY_OUT) :][:3] == [WAY_OUT, "  assignment 3", "  assignment 18"]
    assert refused == (
        2,
        [
            "care-gateway: assignment:18: the id belongs to another row here, sessionId",
            "care-gateway: nothing was changed",
        ],
    )
    assert unchanged == before
    assert (submission[0], kept[0]) == (0, 0)
    assert [row[0] for row in marks] == [18]
    assert added == (0, ["1 assignment added, 0 conflicts"])
    rows, old = rows_of(pair.new), rows_of(pair.old)
    assert without_ids(shown(rows, ("assignment", 3))) == without_ids(shown(old, ("assignment", 3)))
    assert rows["assignment", 18] == before["assignment", 18]
    assert rows["assignment", 19] == old["assignment", 19]
    assert rows["assignment", 2] == before["assignment", 2]


def test_a_session_whose_id_is_of_another_here_gets_no_homework_of_the_old_service(pair: Pair) -> None:
    """Session 6 is of other people on each side."""
    pair.import_first()
    load(pair.new, [a_session(6, 1, 1)])
    load(pair.old, [a_session(6, 2, 2)])
    kept = resolve(pair, "keep-here", pair.record(), "session:6")
    before = rows_of(pair.new)
    load(pair.old, [an_assignment(18, 6)])
    recording = pair.record()

    updated = pair.run("import", recording, "--update")
    reconciled = pair.run("legacy", "reconcile", recording)
    raw.run(pair.old, "DELETE FROM assignment WHERE id = 18", "DELETE FROM session WHERE id = 6")
    gone = [pair.run("import", pair.record(), "--update", "--remove-gone") for _ in range(2)]

    assert kept == (0, ["1 conflict resolved"])
    assert updated == (1, ["conflict\tassignment\t18\tsessionId", "1 conflict"])
    assert reconciled[1][-3:] == [
        "missing here\tassignment\t18", "1 not compared, because they were resolved", "1 difference"
    ]  # fmt: skip
    assert gone == [(0, ["0 conflicts"])] * 2
    assert rows_of(pair.new) == before


def test_a_session_that_is_kept_gets_homework_of_the_old_service(pair: Pair) -> None:
    """It is the same session on both sides."""
    pair.import_first()
    for side, title in ((pair.new, "Here"), (pair.old, "There")):
        raw.run(side, f"UPDATE session SET title = '{title}' WHERE id = 2")
    kept = resolve(pair, "keep-here", pair.record(), "session:2")
    on(pair, "old", partial(assigning, number=2))

    updated = pair.run("import", pair.record(), "--update")

    assert (kept, updated) == ((0, ["1 conflict resolved"]), (0, ["1 assignment added, 0 conflicts"]))


def test_a_session_that_is_kept_although_it_is_gone_is_noted_with_its_client(pair: Pair) -> None:
    """An erasure of the client finds the note."""
    pair.import_first()
    raw.run(pair.new, "UPDATE session SET title = 'Here' WHERE id = 5")
    raw.run(pair.old, "DELETE FROM assignment WHERE session_id = 5", "DELETE FROM session WHERE id = 5")

    kept = resolve(pair, "keep-here", pair.record(), "session:5")

    noted = "SELECT client_id, fingerprint FROM imported_row WHERE kind = 'session' AND id = 5"
    assert (kept, raw.run(pair.new, noted)) == ((0, ["1 conflict resolved"]), [(1, "kept ")])


def test_several_submissions_with_taken_ids_get_others(pair: Pair) -> None:
    """Submissions 1 and 2 are of assignments 1 and 2 here, and of 3 and 4 in the old service."""
    pair.import_first()
    on(pair, "new", *(partial(submitting("0"), number=each) for each in (1, 2)))
    on(pair, "old", *(partial(submitting("1"), number=each) for each in (3, 4)))
    recording = pair.record()

    resolved = resolve(pair, "take-old", recording, "assignment:3", "assignment:4")

    assert resolved == (0, ["2 conflicts resolved"])
    rows, old = rows_of(pair.new), rows_of(pair.old)
    for key in (("assignment", 3), ("assignment", 4)):
        assert without_ids(shown(rows, key)) == without_ids(shown(old, key))
    sets = raw.run(pair.new, "SELECT assignment_id FROM answer_set ORDER BY assignment_id")
    assert [row[0] for row in sets] == [1, 2, 3, 4]


def test_a_submission_of_the_old_service_follows_all_submissions_here(pair: Pair) -> None:
    """It has an id between those of two submissions here, and gets the next one."""
    pair.import_first()
    verbs = (submitting("0"), reopening, submitting("2"))
    on(pair, "new", *(partial(each, number=1) for each in verbs))
    raw.run(pair.new, "UPDATE answer_set SET id = 9 WHERE id = 2")
    on(pair, "old", partial(submitting("1"), number=1))
    raw.run(pair.old, "UPDATE answer_set SET id = 5 WHERE id = 1")

    resolved = resolve(pair, "take-old", pair.record(), "assignment:1")

    assert resolved == (0, ["1 conflict resolved"])
    sets = "SELECT id, attempt FROM answer_set WHERE assignment_id = 1 ORDER BY attempt"
    assert [tuple(row) for row in raw.run(pair.new, sets)] == [(1, 1), (9, 2), (10, 3)]
    assert without_ids(shown(rows_of(pair.new), KEY)) == without_ids(shown(rows_of(pair.old), KEY))


@pytest.mark.parametrize("number", [1, 18])
def test_new_homework_whose_submission_has_a_taken_id_is_added_when_it_is_decided(
    pair: Pair, number: int
) -> None:
    """The submission is of assignment 2 here, and of new homework in the old service, perhaps with its id."""
    pair.import_first()
    on(pair, "new", partial(submitting("0"), number=2))
    on(pair, "old", partial(assigning, number=1), partial(submitting("1"), number=18))
    for url in (pair.new, pair.old):
        raw.run(url, f"UPDATE answer_set SET id = {number}")
    recording, before = pair.record(), rows_of(pair.new)

    updated, unchanged = pair.run("import", recording, "--update"), rows_of(pair.new)
    resolved = resolve(pair, "take-old", recording, "assignment:18")

    conflict = "conflict\tassignment\t18\tthe id belongs to another row here, answers"
    assert (updated, unchanged) == ((1, [conflict, "1 conflict"]), before)
    assert resolved == (0, ["1 conflict resolved"])
    rows, key = rows_of(pair.new), ("assignment", 18)
    assert without_ids(shown(rows, key)) == without_ids(shown(rows_of(pair.old), key))
    assert rows["assignment", 2] == before["assignment", 2]


def test_homework_of_a_session_that_was_closed_here(pair: Pair) -> None:
    pair.import_first()
    on(pair, "new", *(partial(closing, number=each) for each in (1, 3)))
    on(pair, "old", partial(assigning, number=3))
    recording = pair.record()
    assert pair.run("import", recording, "--update")[1][0] == (
        "conflict\tassignment\t18\tthe session was closed here"
    )

    taken = resolve(pair, "take-old", recording, "session:1", "session:3", "assignment:18")

    assert taken == (0, ["3 conflicts resolved"])
    assert pair.run("legacy", "reconcile", recording)[0] == 0
    closed = "SELECT is_closed, close_date FROM session WHERE id IN (1, 3)"
    assert [(bool(row[0]), row[1]) for row in raw.run(pair.new, closed)] == [(False, None)] * 2


def test_a_session_that_is_taken_and_stays_closed_keeps_its_close_date(pair: Pair) -> None:
    on(pair, "old", partial(closing, number=2))
    pair.import_first()
    raw.run(pair.new, "UPDATE session SET close_date = start_date, title = 'Here' WHERE id = 2")
    raw.run(pair.old, "UPDATE session SET title = 'There' WHERE id = 2")

    taken = resolve(pair, "take-old", pair.record(), "session:2")

    found = "SELECT title, is_closed, close_date = start_date FROM session WHERE id = 2"
    assert taken == (0, ["1 conflict resolved"])
    assert [tuple(row) for row in raw.run(pair.new, found)] == [("There", True, True)]


def test_homework_can_be_taken_although_its_session_stays_closed_here(pair: Pair) -> None:
    pair.import_first()
    on(pair, "new", partial(closing, number=1))
    on(pair, "old", partial(assigning, number=1))

    taken = resolve(pair, "take-old", pair.record(), "assignment:18")

    assert taken == (0, ["1 conflict resolved"])
    rows = rows_of(pair.new)
    assert shown(rows, ("assignment", 18)) == shown(rows_of(pair.old), ("assignment", 18))
    assert shown(rows, ("session", 1))["isClosed"]  # type: ignore[index]


def test_a_draft_here_ends_with_the_submission_of_the_old_service(pair: Pair) -> None:
    recording = conflicting(pair, "a draft")

    resolve(pair, "take-old", recording, "assignment:1")

    kinds = raw.run(pair.new, "SELECT save_type FROM answer_set WHERE assignment_id = 1")
    assert [row[0] for row in kinds] == ["FINAL"]


def test_a_draft_here_ends_beside_the_submission_that_was_reopened_here(pair: Pair) -> None:
    on(pair, "old", partial(submitting("1"), number=1))
    pair.import_first()
    on(pair, "new", partial(reopening, number=1), partial(saving("2"), number=1))
    on(pair, "old", partial(giving("Well done", 7), number=1))
    recording = pair.record()

    resolved = resolve(pair, "take-old", recording, "assignment:1")

    assert resolved == (0, ["1 conflict resolved"])
    assert shown(rows_of(pair.new), KEY) == shown(rows_of(pair.old), KEY)
    assert not rows_of(pair.new)[KEY].has_draft


def test_every_difference_can_be_resolved(pair: Pair) -> None:
    """Also of rows that only one side has, or that only people here have changed."""
    pair.import_first()
    on(pair, "new", partial(assigning, number=1), partial(submitting("0"), number=2))
    recording = pair.record()
    before = rows_of(pair.new)
    differences = pair.run("legacy", "reconcile", recording)

    kept = resolve(pair, "keep-here", recording, "assignment:2", "assignment:18")
    after_keeping, rows = pair.run("legacy", "reconcile", recording), rows_of(pair.new)
    later = pair.record()
    updated = pair.run("import", later, "--update")
    taken = resolve(pair, "take-old", later, "assignment:2")

    assert differences[1][-3:] == [
        "only here\tassignment\t18",
        "different\tassignment\t2\tsubmitDate, status, answers",
        "2 differences",
    ]
    assert (kept[0], taken[0], rows) == (0, 0, before)
    assert (after_keeping[0], after_keeping[1][-2:]) == (
        0, ["1 not compared, because they were resolved", "0 differences"]
    )  # fmt: skip
    assert updated == (0, ["0 conflicts"])
    assert pair.run("legacy", "reconcile", later)[0] == 0
    sets = raw.run(pair.new, "SELECT count(*) FROM answer_set WHERE assignment_id = 2")
    assert sets[0][0] == 1  # as an earlier attempt


@pytest.mark.sqlite_only
def test_a_row_that_was_deleted_here_is_added_only_if_the_old_one_is_taken(pair: Pair) -> None:
    pair.import_first()
    raw.run(pair.new, "DELETE FROM assignment WHERE id = 17")
    raw.run(pair.old, "UPDATE assignment SET start_date = assign_date WHERE id = 17")
    recording = pair.record()

    updated = pair.run("import", recording, "--update")
    taken = resolve(pair, "take-old", recording, "assignment:17")

    assert updated == (1, ["conflict\tassignment\t17\tremoved here", "1 conflict"])
    assert taken == (0, ["1 conflict resolved"])
    assert pair.run("legacy", "reconcile", recording)[0] == 0
    assert raw.run(pair.new, "SELECT * FROM imported_row WHERE kind LIKE 'conflict %'") == []


def test_a_row_that_only_this_service_has_can_be_removed(pair: Pair) -> None:
    pair.import_first()
    on(pair, "new", partial(assigning, number=1))
    recording = pair.record()

    taken = resolve(pair, "take-old", recording, "assignment:18")

    assert taken == (0, ["1 conflict resolved"])
    assert pair.run("legacy", "reconcile", recording)[0] == 0
    assert shown(rows_of(pair.new), ("assignment", 18)) is None


@pytest.mark.parametrize("choice", ["keep-here", "take-old"])
def test_an_assignment_is_counted_although_its_session_is_not_compared(pair: Pair, choice: str) -> None:
    pair.import_first()
    raw.run(pair.old, "DELETE FROM assignment WHERE session_id = 5", "DELETE FROM session WHERE id = 5")
    recording = pair.record()
    pair.run("import", recording, "--update")
    resolve(pair, choice, recording, "session:5")

    code, printed = pair.run("legacy", "reconcile", recording)

    assert (code, printed[5:]) == (
        1,
        [
            "session\t4 recorded\t4 here",
            "assignment\t16 recorded\t17 here",
            "caregiver 2\tassignment\t0 recorded\t1 here",
            "only here\tassignment\t17",
            "1 difference",
        ],
    )


def test_a_user_name_is_not_taken(pair: Pair) -> None:
    """An account is a decision of its own."""
    pair.import_first()
    raw.run(pair.new, "UPDATE caregiver SET user_name = NULL, position = 'Other' WHERE id = 2")
    recording, before = pair.record(), rows_of(pair.new)

    refused = resolve(pair, "take-old", recording, "caregiver:2")
    kept = resolve(pair, "keep-here", recording, "caregiver:2")
    unchanged = rows_of(pair.new)
    assert pair.run("account", "link", "--role", "caregiver", "--id", "2", "--user", "caregiver-2")[0] == 0
    taken = resolve(pair, "take-old", recording, "caregiver:2")

    assert refused == (
        2,
        [
            "care-gateway: caregiver:2: userName stays: `account link` adds a missing one, else keep-here",
            "care-gateway: nothing was changed",
        ],
    )
    assert (unchanged, kept, taken) == (before, (0, ["1 conflict resolved"]), kept)
    assert pair.run("legacy", "reconcile", recording)[0] == 0


def test_the_row_of_a_person_whose_token_was_not_recorded_can_be_taken(pair: Pair) -> None:
    """Their account stays."""
    pair.import_first()
    raw.run(pair.new, "UPDATE caregiver SET position = 'Here' WHERE id = 2")
    recording = Path(pair.record())
    lines = [orjson.loads(line) for line in recording.read_bytes().splitlines()]
    write_lines(recording, [each for each in lines if each["userName"] != "caregiver-2"])

    assert resolve(pair, "take-old", str(recording), "caregiver:2") == (0, ["1 conflict resolved"])

    assert rows_of(pair.new)["caregiver", 2] == rows_of(pair.old)["caregiver", 2]
    users = raw.run(pair.new, "SELECT user_name FROM caregiver ORDER BY id")
    assert [row[0] for row in users] == ["caregiver-1", "caregiver-2"]


REFUSALS = {
    ("take-old", "assignment:99"): "care-gateway: assignment:99 is neither in this recording nor here",
    ("take-old", "session:1", "session:9999", "session:999"): (
        "care-gateway: session:999 is neither in this recording nor here"
    ),
    ("keep-here", "session:99"): "care-gateway: session:99 is neither in this recording nor here",
}


@pytest.mark.parametrize("words", REFUSALS)
def test_an_unknown_row_is_refused(pair: Pair, words: tuple[str, ...]) -> None:
    recording, before = conflicting(pair, "a submission"), rows_of(pair.new)

    refused = resolve(pair, words[0], recording, "assignment:1", *words[1:])

    assert refused == (2, [REFUSALS[words]])
    assert rows_of(pair.new) == before


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("key", ["assignment 1", "assignment:", "assignment:-1", "answer_set:1", ":1"])
def test_a_key_of_another_form_is_refused(pair: Pair, key: str) -> None:
    unknown = resolve(pair, "take-old", pair.record(), key)

    assert unknown[0] == 2
    assert unknown[1][-1] == "Error: Invalid value for 'KIND:ID...': must be like assignment:17"


def test_an_erased_client_stays_erased(pair: Pair) -> None:
    recording = conflicting(pair, "a submission")
    assert pair.run("erase", "--id", "1", "--yes")[0] == 0
    before = rows_of(pair.new)

    refused = resolve(pair, "take-old", recording, "assignment:1")

    assert refused == (2, ["care-gateway: assignment:1 is neither in this recording nor here"])
    assert rows_of(pair.new) == before


def test_after_the_switch_nothing_is_taken_from_the_old_service(pair: Pair) -> None:
    recording = conflicting(pair, "a submission")
    assert pair.run("legacy", "switch")[0] == 0

    refused = resolve(pair, "take-old", recording, "assignment:1")
    updated = pair.command("import", recording, "--update", database_url=pair.new)

    sentence = (
        "care-gateway: the switch was declared, so people use this service; nothing was imported "
        "(legacy switch --back)"
    )
    assert refused == (2, [sentence])
    assert (updated.exit_code, updated.stderr.splitlines()[-1]) == (2, sentence)
