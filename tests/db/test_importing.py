"""`import` stores every kind of line with its ids, and derives relationships, counters and search words."""

from datetime import timedelta
from typing import Any

import pytest

from app.care.homework import Homework, assigning
from app.db.admin.tombstones import Mark, saving_tombstone
from app.db.interchange import load as importer
from app.db.interchange.load import importing
from app.db.moments import as_moment
from app.db.reader.selection import AccessScope
from app.db.session_counters import differences
from app.db.tables import TombstoneState
from tests.callers import Gateway, load, run_read, run_write
from tests.db import raw
from tests.factories import (
    DAY,
    NOW,
    Record,
    a_book,
    a_caregiver,
    a_client,
    a_complete_assignment,
    a_module,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    lines,
)

BIG = 9_000_000_000
MOMENTS = {"create_date", "start_date", "close_date", "assign_date", "end_date", "submit_date"}
MOMENTS |= {"feedback_submit_date", "remind_date"}


def stored(url: str, table: str, *columns: str, order: str = "1, 2") -> list[tuple[Any, ...]]:
    rows = raw.run(url, f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")
    return [
        tuple(
            as_moment(value) if name in MOMENTS else value for name, value in zip(columns, row, strict=True)
        )
        for row in rows
    ]


DESCRIPTION = "Übung:\r\n\t– täglich\x1f 😀"


def a_big_world() -> list[Record]:
    """One of each kind, with ids beyond 32 bits."""
    questions = [
        {"text": "How?", "kind": "SCALE", "options": ["1", "zwölf"], "required": True},
        {"text": "Why?"},
    ]
    return [
        a_caregiver(BIG + 1, name="Zoë", position="Ärztin"),
        a_client(BIG + 2, userName=None),
        a_module(BIG + 3),
        a_book(BIG + 4, moduleId=BIG + 3, name="Sleep – über Nacht", isTest=True, questions=questions),
        a_session(BIG + 5, BIG + 1, BIG + 2, isClosed=True, closeDate=NOW - DAY, description=DESCRIPTION),
        a_complete_assignment(
            BIG + 6,
            BIG + 5,
            BIG + 4,
            attempt=2,
            feedbackStatus="SUBMITTED",
            feedbackSubmitDate=NOW,
            reminders=[{"remindDate": NOW, "state": "SENT"}, {"remindDate": NOW + DAY}],
        ),
        an_answer_set(BIG + 7, BIG + 6, attempt=2, revision=3),
    ]


def test_a_reminder_is_skipped_at_its_moment(database_url: str) -> None:
    """The dispatcher would send it at that moment. Later reminders of the same homework stay."""
    dates = [NOW + timedelta(seconds=seconds) for seconds in (1, 0, 2)]
    homework = an_assignment(9, session=1, reminders=[{"remindDate": each} for each in dates])

    run_write(database_url, importing(lines([*a_world(), homework]), NOW))

    states = "SELECT state FROM reminder WHERE assignment_id = 9 ORDER BY remind_date"
    assert raw.run(database_url, states) == [("SKIPPED",), ("SCHEDULED",), ("SCHEDULED",)]


def test_every_kind_is_stored_with_its_ids(database_url: str) -> None:
    counts = run_write(database_url, importing(lines(a_big_world())))

    kinds = ("caregiver", "client", "module", "book", "session", "assignment", "answer_set")
    parties = (BIG + 1, BIG + 2)
    assert counts == dict.fromkeys(kinds, 1)
    assert stored(database_url, "caregiver", "id", "name", "position", "user_name", "is_disabled") == [
        (BIG + 1, "Zoë", "Ärztin", f"caregiver-{BIG + 1}", False)
    ]
    assert stored(database_url, "client", "id", "name", "oppt_id", "user_name", "is_disabled") == [
        (BIG + 2, f"Zoë Client {BIG + 2}", f"OPPT-{BIG + 2}", None, False)
    ]
    assert stored(database_url, "module", "id", "name") == [(BIG + 3, f"Module {BIG + 3}")]
    assert stored(database_url, "book", "id", "module_id", "name", "is_test") == [
        (BIG + 4, BIG + 3, "Sleep – über Nacht", True)
    ]
    assert stored(database_url, "book_word", "word", "book_id") == [
        (word, BIG + 4) for word in ("nacht", "sleep", "über")
    ]
    assert stored(
        database_url, "question", "book_id", "position", "text", "kind", "options", "is_required"
    ) == [(BIG + 4, 1, "How?", "SCALE", '["1","zwölf"]', True), (BIG + 4, 2, "Why?", "TEXT", "[]", False)]
    assert stored(database_url, "relationship", "caregiver_id", "client_id") == [parties]
    assert stored(
        database_url, "session", "id", "caregiver_id", "client_id", "title", "description", "chat_id",
        "create_date", "start_date", "is_closed", "close_date", "assignment_count",
        "completed_assignment_count", "latest_assignment_id", "last_assignment_score",
    ) == [
        (
            BIG + 5, *parties, f"Session {BIG + 5}", DESCRIPTION, f"chat-{BIG + 5}",
            NOW - 40 * DAY, NOW - 30 * DAY, True, NOW - DAY, 1, 1, BIG + 6, 70,
        )
    ]  # fmt: skip
    assert stored(
        database_url, "assignment", "id", "caregiver_id", "client_id", "session_id", "book_id", "assign_date",
        "start_date", "end_date", "submit_date", "status", "attempt", "score", "feedback_status",
        "feedback_submit_date",
    ) == [
        (
            BIG + 6, *parties, BIG + 5, BIG + 4, NOW - 10 * DAY, NOW - 9 * DAY, NOW + 5 * DAY, NOW - 2 * DAY,
            "COMPLETE", 2, 70, "SUBMITTED", NOW,
        )
    ]  # fmt: skip
    assert stored(
        database_url, "reminder", "caregiver_id", "client_id", "assignment_id", "remind_date", "state",
        order="remind_date",
    ) == [(*parties, BIG + 6, NOW, "SENT"), (*parties, BIG + 6, NOW + DAY, "SCHEDULED")]  # fmt: skip
    assert stored(
        database_url, "answer_set", "id", "caregiver_id", "client_id", "assignment_id", "save_type",
        "attempt", "revision", "submit_date", "answers",
    ) == [
        (
            BIG + 7, *parties, BIG + 6, "FINAL", 2, 3, NOW - 2 * DAY,
            '[[null,"How was it?","Better – über Nacht"],[null,"Did you practise?","true"]]',
        )
    ]  # fmt: skip


def test_lines_may_be_in_any_order_after_the_lines_they_refer_to(database_url: str) -> None:
    records = [
        a_module(), a_book(), a_client(), a_caregiver(),
        a_session(1), an_assignment(1), an_answer_set(1, 1, saveType="DRAFT"),
        a_book(2), a_caregiver(2, userName=None), a_caregiver(3, userName=None),
        a_session(2, caregiver=2), an_assignment(2, 2, book=2),
    ]  # fmt: skip

    load(database_url, records)

    assert stored(database_url, "assignment", "id", "caregiver_id", "session_id") == [(1, 1, 1), (2, 2, 2)]
    assert stored(database_url, "relationship", "client_id", "caregiver_id") == [(1, 1), (1, 2)]


def test_blank_lines_are_skipped_and_text_is_accepted(database_url: str) -> None:
    first, second = (line.decode() for line in lines([a_caregiver(1), a_client(1)]))

    counts = run_write(database_url, importing(["", first, "  \t\n", second + "\r\n", "\n"]))

    assert counts == {"caregiver": 1, "client": 1}


def test_an_empty_file_is_valid(database_url: str) -> None:
    assert run_write(database_url, importing([])) == {}
    assert set(raw.row_counts(database_url).values()) == {0}


def test_session_counters_are_correct_after_an_import(database_url: str) -> None:
    load(database_url, a_world())

    assert run_read(database_url, differences()) == []
    assert stored(
        database_url, "session", "id", "assignment_count", "completed_assignment_count",
        "latest_assignment_id", "last_assignment_score",
    ) == [
        (1, 2, 1, 2, 70), (2, 0, 0, None, None), (3, 1, 1, 3, 55), (4, 1, 0, 4, None), (5, 1, 1, 5, 70),
    ]  # fmt: skip


def test_a_book_is_known_to_be_assigned_after_an_import(database_url: str) -> None:
    load(database_url, [*a_world(), a_book(8), a_book(9)])
    load(database_url, [an_assignment(9, book=8)])

    assert stored(database_url, "book", "id", "is_assigned") == [
        (1, True), (2, True), (3, True), (8, True), (9, False),
    ]  # fmt: skip


def test_people_whose_accounts_were_disabled_stay_disabled(database_url: str) -> None:
    """A backup that contains them is older than their tombstones."""
    for role, person in (("CAREGIVER", 1), ("CAREGIVER", 3), ("CLIENT", 2), ("CLIENT", 3)):
        run_write(database_url, saving_tombstone(role, person, Mark(TombstoneState.DISABLED, NOW)))

    load(database_url, [*a_world(), a_caregiver(3), a_client(3)])

    assert stored(database_url, "caregiver", "id", "is_disabled") == [(1, True), (2, False), (3, True)]
    assert stored(database_url, "client", "id", "is_disabled") == [(1, False), (2, True), (3, True)]


def test_a_second_import_may_refer_to_stored_rows(database_url: str) -> None:
    load(database_url, a_world())

    load(
        database_url,
        [
            a_book(9, moduleId=2),
            a_session(9, caregiver=2, client=1),
            a_complete_assignment(9, session=4, book=9, score=90),
            an_answer_set(9, assignment=4, saveType="DRAFT"),
        ],
    )

    assert run_read(database_url, differences()) == []
    assert stored(database_url, "relationship", "client_id", "caregiver_id") == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    assert stored(database_url, "session", "id", "assignment_count", "last_assignment_score")[3] == (4, 2, 90)
    for table in ("assignment", "answer_set"):
        assert raw.run(database_url, f"SELECT caregiver_id, client_id FROM {table} WHERE id = 9") == [(1, 2)]


@pytest.mark.parametrize(
    "stored", [0, 2, 4], ids=["in the same file", "of a stored book", "of stored homework"]
)
def test_a_score_of_0_counts_for_a_test(database_url: str, stored: int) -> None:
    records = [
        a_book(8, isTest=True),
        a_book(9),
        a_complete_assignment(8, session=1, book=9, score=0),
        a_complete_assignment(9, session=1, book=8, score=0),
        *(an_answer_set(number, assignment=number) for number in (8, 9)),
    ]

    load(database_url, [*a_world(), *records[:stored]])
    load(database_url, records[stored:])

    scores = "SELECT id, score FROM answer_set WHERE id IN (8, 9) ORDER BY id"
    assert raw.run(database_url, scores) == [(8, None), (9, 0)]


@pytest.mark.parametrize("max_rows", [1, 3, 7])
def test_rows_may_be_inserted_in_several_batches(
    database_url: str, max_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database_url, a_world()[:4])
    monkeypatch.setattr(importer, "MAX_ROWS_IN_MEMORY", max_rows)

    load(database_url, a_world()[4:])

    assert run_read(database_url, differences()) == []
    found = raw.row_counts(database_url)
    assert {name: found[name] for name in ("book", "session", "assignment", "answer_set")} == {
        "book": 3, "session": 5, "assignment": 5, "answer_set": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (a_caregiver(1), "id: 1 exists already"),
        (a_client(9, opptId="OPPT-2"), "opptId: exists already"),
        (an_answer_set(9, assignment=1), "attempt: 1 of the assignment exists already"),
        (an_answer_set(9, assignment=4, saveType="DRAFT"), "saveType: assignment 4 has a draft already"),
    ],
)
def test_an_inserted_batch_is_rolled_back_when_a_later_line_is_rejected(
    database_url: str, monkeypatch: pytest.MonkeyPatch, line: Record, reason: str
) -> None:
    monkeypatch.setattr(importer, "MAX_ROWS_IN_MEMORY", 2)
    batches = [*a_world(), an_answer_set(4, assignment=4, saveType="DRAFT"), a_module(8), a_module(9)]

    with pytest.raises(importer.ImportRejected, match=f"^line 26: {reason}$"):
        load(database_url, [*batches, line])

    assert set(raw.row_counts(database_url).values()) == {0}


def test_reading_stops_at_the_twentieth_mistake(database_url: str) -> None:
    given = iter(lines({"kind": "module", "id": number} for number in range(1, 40)))

    with pytest.raises(importer.ImportRejected, match="reading stopped after 20 mistakes"):
        run_write(database_url, importing(given))

    assert len(list(given)) == 19


# --- ids after an import ---------------------------------------------------------------------------


def assigned(url: str, session: int = 1) -> list[int]:
    """Assigns two books and returns the new ids."""
    homework = Homework(session, (1, 2), NOW, NOW + DAY, (NOW,))
    before = {row[0] for row in raw.run(url, "SELECT id FROM assignment")}
    run_write(url, assigning(AccessScope(NOW, caregiver=1), homework))
    return sorted({row[0] for row in raw.run(url, "SELECT id FROM assignment")} - before)


def test_new_ids_follow_the_ids_of_the_file(database_url: str) -> None:
    load(database_url, a_world())
    assert assigned(database_url) == [6, 7]

    load(database_url, [an_assignment(BIG), an_assignment(100)])

    assert assigned(database_url) == [BIG + 1, BIG + 2]
    assert run_read(database_url, differences()) == []


def test_the_ids_of_deleted_rows_are_not_assigned_again(database_url: str) -> None:
    load(database_url, a_world())
    assert assigned(database_url) == [6, 7]
    raw.run(database_url, "DELETE FROM reminder", "DELETE FROM assignment WHERE id > 5")

    load(database_url, [a_module(9)])

    assert assigned(database_url) == [8, 9]


def test_a_session_with_the_largest_id_is_listed(gateway: Gateway) -> None:
    gateway.import_records([*a_world(), a_session(2**63 - 2)])

    answer = gateway.as_caregiver(1).data("{ sessions(first: 1) { nodes { legacyId } } }")

    assert answer == {"sessions": {"nodes": [{"legacyId": str(2**63 - 2)}]}}
