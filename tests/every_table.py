"""A database with rows in every table: texts that are hard to copy, an erased client, removed audit records,
and ids of deleted rows."""

from app.db.admin.erasing import erasing
from app.db.audit.records import recording
from app.db.moments import moment_as_text
from app.db.sql import Bulk, Steps
from tests.audit.test_chain import records, seal_all
from tests.audit.test_removing import removed
from tests.callers import load, run_write
from tests.db import raw
from tests.factories import DAY, NOW, Record, a_book, a_client, a_session, an_answer_set, an_assignment
from tests.lifecycle import load_one_client

HARD = 'O\'Hara "quoted" \\N \\x41 tab\tline\r\nnext, 🙂👩‍👧 e\u0301 \u2028 \u202e؟ $1 :name %s {} \x01'
LONG = "ä🙂" * 5000
DELETED = 900  # the id of a deleted module, assignment and session


def fill_every_table(url: str) -> None:
    load_one_client(url)
    load(url, hard_texts())
    run_write(url, inserting_service_rows())
    for count, moment in ((2, NOW - 60 * DAY), (3, NOW), (4, NOW)):
        run_write(url, recording(records(count, moment=moment)))
        seal_all(url, moment)
    removed(url)  # the first seal
    run_write(url, erasing(2, NOW))
    run_write(url, recording(records(1)))  # without a seal
    for table in ("assignment", "session", "module"):
        raw.run(url, f"DELETE FROM {table} WHERE id = {DELETED}")


def hard_texts() -> list[Record]:
    questions = [
        {
            "text": HARD,
            "kind": "SINGLE_CHOICE",
            "options": ["Yes", "🙂"],
            "required": True,
            "weights": [0, 3],
        },
        {"text": "Hours?", "kind": "NUMBER", "options": [], "required": False, "minimum": 0.1, "maximum": 24},
    ]
    answers = [{"questionText": HARD, "answer": LONG}, {"questionText": LONG[:500], "answer": HARD}]
    return [
        a_client(3, name=HARD.strip().replace("\x01", "")),
        a_book(3, name="O'Hara's 🙂 book", isTest=True, questions=questions),
        a_session(5, client=3, title='O\'Hara "again" 🙂', chatId="chat-3"),
        an_assignment(5, session=5, book=3, startDate=NOW - DAY / 7),
        an_answer_set(5, 5, saveType="AUTO_SAVE", revision=2, answers=answers),
        {"kind": "module", "id": DELETED, "name": "Deleted"},
        a_session(DELETED, chatId="chat-deleted"),
        an_assignment(DELETED, session=DELETED),
    ]


def inserting_service_rows() -> Steps[None]:
    yield Bulk("event_removal", ("last_event_id", "moment"), [(0, NOW)])
    usage = ("day", "path", "role", "application", "requests", "last_date")
    yield Bulk("legacy_usage", usage, [("2026-11-20", "GET /path", "", HARD, 2**40, NOW)])
    fingerprints = ("kind", "id", "client_id", "fingerprint")
    yield Bulk("imported_row", fingerprints, [("book", 1, None, "0f"), ("client", 3, 3, "1f")])
    yield Bulk("legacy_hour", ("hour", "minutes"), [("2026-11-20T09", 2**60 - 1)])


def sqlite_rows(url: str, table: str) -> list[tuple[object, ...]]:
    """The rows in their order by value, in the form of SQLite: moments are texts and booleans are numbers."""
    rows = raw.run(url, f"SELECT * FROM {table}")
    return sorted((tuple(map(as_stored, row)) for row in rows), key=repr)


def as_stored(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return moment_as_text(value) if hasattr(value, "tzinfo") else value
