"""`import --update` removes only what was seen to be gone, and refuses recordings in the wrong order."""

import re
from pathlib import Path

import pytest

from tests import keys
from tests.db import raw
from tests.moving_over.moves import Move

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

UPDATE = ("--update", "--remove-gone")


@pytest.fixture
def moved(move: Move) -> Move:
    """With an imported recording."""
    assert move.run("import", move.record()).exit_code == 0
    return move


def test_empty_lists_remove_nothing_without_their_number(moved: Move) -> None:
    with moved.old.misbehaving("empties lists"):
        empty = moved.record()

    listed = moved.lines("import", empty, "--update")
    refused = moved.run("import", empty, *UPDATE)
    wrong = [moved.run("import", empty, *UPDATE, "--yes-remove", number) for number in ("9", "11")]
    removed = moved.lines("import", empty, *UPDATE, "--yes-remove", "10")
    again = moved.record()
    restored = moved.lines("import", again, "--update")

    assert listed[1][-1] == "10 gone, 0 conflicts"
    for each in (refused, *wrong):
        assert (each.exit_code, each.stdout) == (2, "")
        assert each.stderr.splitlines()[-1] == (
            "care-gateway: 10 of 10 rows are gone from the old service, of 2 caregivers; nothing was "
            "imported. List them without --remove-gone. If people deleted them there, add --yes-remove 10"
        )
    assert removed[1][-1] == "10 removed, 0 conflicts"
    assert restored == (0, ["5 sessions changed, 5 assignments changed, 0 conflicts"])
    assert moved.lines("legacy", "reconcile", again)[1][-1] == "0 differences"
    dates = "SELECT count(*) FROM assignment WHERE withdraw_date IS NOT NULL"
    assert [tuple(row) for row in raw.run(moved.database, dates)] == [(0,)]


def test_few_rows_of_many_are_removed_without_their_number(
    moved: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are a number of rows and a share of each caregiver's rows."""
    moved.old.hidden = {2, 4, 5}  # two of the 8 rows of caregiver 1, one of the 2 of caregiver 2
    with moved.old.misbehaving("hides rows"):
        hidden = moved.record()
    codes = []
    for number, share in ((2, 1), (3, 0.3), (3, 0.5)):
        monkeypatch.setattr("app.db.interchange.merge.MAX_REMOVED", number)
        monkeypatch.setattr("app.db.interchange.merge.MAX_SHARE", share)
        codes.append(moved.run("import", hidden, "--partial", *UPDATE).exit_code)

    assert codes == [2, 2, 0]


def test_a_row_that_reappears_is_restored_or_a_conflict(moved: Move) -> None:
    moved.old.hidden = {2, 4}
    with moved.old.misbehaving("hides rows"):
        hidden = moved.record()
    removed = moved.lines("import", hidden, "--partial", *UPDATE, "--yes-remove", "2")
    without_rows = moved.lines("legacy", "reconcile", hidden)
    raw.run(moved.database, "UPDATE assignment SET start_date = assign_date WHERE id = 4")

    restored = moved.lines("import", moved.record(), "--update")

    assert removed == (0, ["removed\tassignment\t2", "removed\tassignment\t4", "2 removed, 0 conflicts"])
    assert without_rows[1][-1] == "0 differences"
    assert restored == (
        1,
        ["conflict\tassignment\t4\tstartDate", "1 assignment changed, 1 conflict"],
    )
    rows = "SELECT id FROM assignment WHERE withdraw_date IS NULL ORDER BY id"
    assert [row[0] for row in raw.run(moved.database, rows)] == [1, 2, 3, 5]


def test_a_closed_session_that_reappears_keeps_its_close_date(moved: Move) -> None:
    closed = "SELECT id, close_date FROM session WHERE is_closed ORDER BY id"
    raw.run(moved.database, "UPDATE session SET close_date = start_date WHERE is_closed")
    before = [tuple(row) for row in raw.run(moved.database, closed)]
    with moved.old.misbehaving("empties lists"):
        empty = moved.record()

    moved.lines("import", empty, *UPDATE, "--yes-remove", "10")
    moved.lines("import", moved.record(), "--update")

    assert len(before) == 1 and before[0][1] is not None
    assert [tuple(row) for row in raw.run(moved.database, closed)] == before


def test_people_without_tokens_lose_nothing(moved: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens of a department are missing; one of its clients is in another one, too."""
    monkeypatch.setenv("CAREGIVERS", keys.token("CAREGIVER", "caregiver-2"))
    monkeypatch.setenv("CLIENTS", keys.token("CLIENT", "client-2"))
    folder = moved.record()

    updated = moved.run("import", folder, *UPDATE, "--partial")

    assert (updated.exit_code, updated.stdout) == (0, "0 conflicts\n")
    kept = updated.stderr.partition("not seen, like the lists of their person, and kept:\n")[2].splitlines()
    assert sorted(kept[:7]) == [
        "  assignment 1", "  assignment 2", "  assignment 3", "  assignment 4", "  session 1", "  session 2",
        "  session 3",
    ]  # fmt: skip


def test_an_older_recording_is_refused(move: Move) -> None:
    """One that began when the newest one ended is not older. One without moments changes nothing."""
    first, second, third, undated, overlapping = (move.record() for _ in range(5))
    rewrite(first, "2026-11-01T10:00:00Z")
    rewrite(first, "2026-11-01T09:30:00Z", 1)
    rewrite(second, "2026-11-02T10:00:00Z")
    rewrite(second, "2026-11-02T09:00:00Z", 1)
    rewrite(third, "2026-11-03T10:00:00Z")
    rewrite(third, "2026-11-02T10:00:00Z", 1)
    index = Path(undated) / "index.jsonl"
    index.write_text(re.sub(r',"moment":"[^"]*"', "", index.read_text()))
    rewrite(overlapping, "2026-11-04T10:00:00Z")
    rewrite(overlapping, "2026-11-03T09:59:59Z", 1)
    assert move.run("import", second).exit_code == 0

    repeated = [move.lines("import", each, "--update") for each in (second, third, undated)]
    refused = [move.run("import", each, "--update") for each in (first, overlapping)]

    assert repeated == [(0, ["0 conflicts"])] * 3
    for each, start in zip(refused, ("2026-11-01 09:30:00", "2026-11-03 09:59:59"), strict=True):
        assert (each.exit_code, each.stderr.splitlines()[-1]) == (
            2,
            f"care-gateway: this recording began {start} UTC, before the end of one that was imported "
            "already; nothing was imported. Record again",
        )


def test_the_recording_before_is_no_longer_the_one_that_was_imported_last(moved: Move) -> None:
    before, newest = (str(moved.folder / f"recording-{moved.count}"), moved.record())
    rewrite(newest, "2999-01-01T00:00:00Z")

    def checks() -> list[str]:
        return [moved.lines("legacy", "ready", each)[1][2] for each in (before, newest)]

    assert moved.run("legacy", "resolve", "keep-here", newest, "session:5").exit_code == 0
    at_first = checks()
    assert moved.run("import", newest, "--update").exit_code == 0

    no, ok = "NO\tit was imported last\t`import RECORDING --update`", "ok\tit was imported last"
    assert (at_first, checks()) == ([ok, no], [no, ok])


def rewrite(folder: str, moment: str, lines: int = 0) -> None:
    """All lines of the index get this moment, or the first ones."""
    index = Path(folder) / "index.jsonl"
    index.write_text(re.sub(r'"moment":"[^"]*"', f'"moment":"{moment}"', index.read_text(), count=lines))


def test_a_session_that_was_closed_here_gets_no_homework_silently(moved: Move) -> None:
    raw.run(moved.database, "UPDATE session SET is_closed = TRUE WHERE id = 1")
    raw.run(moved.database, "DELETE FROM imported_row WHERE kind = 'assignment' AND id = 2")
    raw.run(
        moved.database, "DELETE FROM reminder WHERE assignment_id = 2", "DELETE FROM assignment WHERE id = 2"
    )

    updated = moved.lines("import", moved.record(), "--update")

    assert updated == (1, ["conflict\tassignment\t2\tthe session was closed here", "1 conflict"])


def test_reconcile_lists_what_was_set_aside(moved: Move) -> None:
    with moved.old.misbehaving("has a null title", user=keys.token("CLIENT", "client-2"), path="RUNNING"):
        folder = moved.record()

    code, printed = moved.lines("legacy", "reconcile", folder)

    assert (code, printed[-3:]) == (
        1, ["only here\tassignment\t5", "set aside\tsession\t5", "2 differences"]
    )  # fmt: skip
