"""Promise: operators list, show, add, replace, retire and restore books. An assigned book keeps its
questions, and a rejected command changes nothing."""

from pathlib import Path

import orjson
import pytest

from app.settings import Settings
from tests.callers import load
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import HOUR, NOW, Record, a_book, a_module, a_world, an_assignment, lines

DIARY = {"kind": "book", "id": 8, "moduleId": 1, "name": "Dream diary"}
SCORED = [
    {"text": "Rested?", "kind": "SCALE", "options": ["1", "2"], "required": True, "weights": [0, 5]},
    {"text": "Hours?", "kind": "NUMBER", "options": [], "required": False, "minimum": 0.0, "maximum": 24.0},
]


def catalogue(settings: Settings) -> None:
    """`a_world`, whose books 1 to 3 are assigned, and two books that are not."""
    load(
        settings.database,
        [
            *a_world(),
            a_book(4, name="Evening\twalk", moduleId=2, questions=SCORED, isTest=True),
            a_book(5, name="Old diary", retireDate=NOW - 9.5 * HOUR),
        ],
    )


def imported(command: Command, folder: Path, *records: Record) -> str:
    result = command("books", "import", str(written(folder, *records)))
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def written(folder: Path, *records: Record) -> Path:
    file = folder / "books.jsonl"
    file.write_bytes(b"\n".join(lines(records)))
    return file


def shown(command: Command, number: int) -> Record:
    result = command("books", "show", str(number))
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    record: Record = orjson.loads(line)
    return record


def listed(command: Command, *words: str) -> list[str]:
    result = command("books", "list", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


# --- list and show ---

ALL = [
    "4\tEvening walk\t2 Module 2\ttest\t-",
    "3\tMood check\t2 Module 2\ttest\t-",
    "2\tEvening routine\t1 Module 1\t-\t-",
    "1\tSleep diary\t1 Module 1\t-\t-",
]
LISTS: dict[tuple[str, ...], list[str]] = {
    (): ALL,
    ("--search", "evening"): [ALL[0], ALL[2]],
    ("--search", "DIA"): [ALL[3]],
    ("--search", "even rou"): [ALL[2]],
    ("--search", "!"): [],
    ("--module", "2"): ALL[:2],
    ("--module", "2", "--search", "mood"): [ALL[1]],
    ("--module", "1", "--search", "mood"): [],
    ("--module", "77"): [],
    ("--retired",): ["5\tOld diary\t1 Module 1\t-\tretired 2026-11-20"],
    ("--retired", "--search", "evening"): [],
}


def test_books_are_listed_by_the_filters(command: Command, settings: Settings) -> None:
    catalogue(settings)

    assert {words: listed(command, *words) for words in LISTS} == LISTS


@pytest.mark.sqlite_only
def test_a_list_has_all_books(command: Command, settings: Settings) -> None:
    """The pages of GraphQL are shorter."""
    load(settings.database, [a_module(1), *map(a_book, range(1, 1102))])

    assert len(listed(command)) == 1101


@pytest.mark.sqlite_only
def test_an_empty_catalogue_prints_nothing(command: Command) -> None:
    assert listed(command) == []


@pytest.mark.sqlite_only
def test_a_search_with_too_many_words_is_rejected(command: Command) -> None:
    assert_rejected(command("books", "list", "--search", "a b c d e f"), "search may hold at most 5 words")


def test_a_book_is_printed_in_the_format_of_import(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    catalogue(settings)
    test = {
        "kind": "book", "id": 4, "moduleId": 2, "name": "Evening\twalk", "isTest": True, "questions": SCORED,
    }  # fmt: skip
    question = {"text": "How was it?", "kind": "TEXT", "options": [], "required": True}
    retired = {
        "kind": "book", "id": 5, "moduleId": 1, "name": "Old diary", "isTest": False,
        "retireDate": "2026-11-20T23:30:00Z", "questions": [question],
    }  # fmt: skip

    assert (shown(command, 4), shown(command, 5)) == (test, retired)
    assert imported(command, tmp_path, test, retired) == (
        "replaced\tbook\t4\tEvening walk\nreplaced\tbook\t5\tOld diary\n"
    )
    assert (shown(command, 4), shown(command, 5)) == (test, retired)


def test_the_names_of_a_book_and_its_module_control_no_terminal(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    catalogue(settings)
    module = {"kind": "module", "id": 40, "name": "Dr\x1b[2Jeams"}

    added = imported(command, tmp_path, module, {"kind": "book", "id": 6, "moduleId": 40, "name": "A\nnight"})

    assert added.splitlines() == ["added\tmodule\t40\tDr [2Jeams", "added\tbook\t6\tA night"]
    assert listed(command, "--module", "40") == ["6\tA night\t40 Dr [2Jeams\t-\t-"]


# --- import ---


def test_books_and_modules_are_added_with_new_or_given_ids(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    """A module and a book can have the same id."""
    catalogue(settings)

    result = imported(
        command,
        tmp_path,
        {"kind": "book", "moduleId": 1, "name": "Without a number"},
        {"kind": "module", "name": "Without a number too"},
        {"kind": "module", "id": 6, "name": "Dreams"},
        {"kind": "book", "id": 6, "moduleId": 6, "name": "Numbered"},
        {"kind": "book", "moduleId": 6, "name": "And one more"},
    )

    assert result.splitlines() == [
        "added\tbook\t7\tWithout a number",
        "added\tmodule\t7\tWithout a number too",
        "added\tmodule\t6\tDreams",
        "added\tbook\t6\tNumbered",
        "added\tbook\t8\tAnd one more",
    ]
    assert listed(command, "--module", "6") == [
        "8\tAnd one more\t6 Dreams\t-\t-",
        "6\tNumbered\t6 Dreams\t-\t-",
    ]


def test_an_existing_book_and_module_are_replaced(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    catalogue(settings)

    result = imported(
        command,
        tmp_path,
        {"kind": "module", "id": 2, "name": "Moods"},
        {"kind": "book", "id": 4, "moduleId": 1, "name": "Morning walk", "questions": [{"text": "Where?"}]},
    )

    assert result == "replaced\tmodule\t2\tMoods\nreplaced\tbook\t4\tMorning walk\n"
    assert shown(command, 4) == {
        "kind": "book",
        "id": 4,
        "moduleId": 1,
        "name": "Morning walk",
        "isTest": False,
        "questions": [{"text": "Where?", "kind": "TEXT", "options": [], "required": False}],
    }
    assert listed(command, "--search", "evening") == ["2\tEvening routine\t1 Module 1\t-\t-"]
    assert listed(command, "--search", "morning") == ["4\tMorning walk\t1 Module 1\t-\t-"]
    assert listed(command, "--module", "2") == ["3\tMood check\t2 Moods\ttest\t-"]


@pytest.mark.parametrize(
    ("given", "date"),
    [({}, "2026-11-20"), ({"retireDate": None}, "2026-11-20"), ({"retireDate": NOW}, "2026-11-21")],
    ids=["no date", "null", "another date"],
)
def test_a_replaced_book_stays_retired(
    command: Command, settings: Settings, tmp_path: Path, given: Record, date: str
) -> None:
    """A date of the line replaces the stored one."""
    catalogue(settings)

    imported(command, tmp_path, {"kind": "book", "id": 5, "moduleId": 1, "name": "Older diary", **given})

    assert listed(command, "--retired") == [f"5\tOlder diary\t1 Module 1\t-\tretired {date}"]


@pytest.mark.sqlite_only
def test_an_empty_file_changes_nothing(command: Command, settings: Settings, tmp_path: Path) -> None:
    catalogue(settings)

    assert imported(command, tmp_path) == ""
    assert listed(command) == ALL


ASSIGNED = "book {} was assigned and cannot be changed"
INVALID: dict[str, tuple[list[Record], str]] = {
    "an assigned book": ([a_book(1)], f"line 1: id: {ASSIGNED.format(1)}"),
    "a book that is assigned in a closed session": ([a_book(3)], f"line 1: id: {ASSIGNED.format(3)}"),
    "after a valid line": ([a_module(5), DIARY, a_book(2)], f"line 3: id: {ASSIGNED.format(2)}"),
    "an unknown module": ([DIARY | {"moduleId": 9}], "line 1: moduleId: 9 does not exist before this line"),
    "a module on a later line": (
        [DIARY | {"moduleId": 9}, a_module(9)],
        "line 1: moduleId: 9 does not exist before this line",
    ),
    "a module that gets its id from the database": (
        [{"kind": "module", "name": "Dreams"}, DIARY | {"moduleId": 3}],
        "line 2: moduleId: 3 does not exist before this line",
    ),
    "a duplicate id": ([DIARY, DIARY], "line 2: id: 8 is the id of an earlier line"),
    "a duplicate module id": ([a_module(9), a_module(9)], "line 2: id: 9 is the id of an earlier line"),
    "another kind": ([{"kind": "client", "id": 9}], "line 1: kind is missing, or is not a kind of this file"),
    "no kind": ([{"id": 9}], "line 1: kind is missing, or is not a kind of this file"),
    "no name": ([{"kind": "book", "moduleId": 1}], "line 1: name: Field required"),
    "no module": ([{"kind": "book", "name": "x"}], "line 1: moduleId: Field required"),
    "an invalid id": ([DIARY | {"id": 0}], "line 1: id: Input should be greater than or equal to 1"),
    "an unknown member": ([DIARY | {"nmae": "x"}], "line 1: nmae: Extra inputs are not permitted"),
    "an invalid question": (
        [DIARY | {"questions": [{"text": "?"}, {"text": "?", "kind": "SCALE"}]}],
        "line 1: questions[1]: options are required for SCALE",
    ),
    "weights of a book without a score": (
        [DIARY | {"questions": SCORED}],
        "line 1: weights are only for a book with isTest",
    ),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_line_is_reported_and_nothing_is_changed(
    command: Command, settings: Settings, tmp_path: Path, name: str
) -> None:
    catalogue(settings)
    before = raw.row_counts(settings.database)
    records, sentence = INVALID[name]

    rejected = command("books", "import", str(written(tmp_path, *records)))

    assert_rejected(rejected, f"{tmp_path}/books.jsonl, {sentence}")
    assert raw.row_counts(settings.database) == before
    assert listed(command) == ALL


@pytest.mark.sqlite_only
def test_every_mistake_is_reported(command: Command, settings: Settings, tmp_path: Path) -> None:
    catalogue(settings)
    unnamed = {"kind": "book", "moduleId": 1}
    invalid = [DIARY | {"moduleId": 9}, a_module(5), a_book(1), unnamed, DIARY, DIARY, unnamed]

    rejected = command("books", "import", str(written(tmp_path, *invalid)))

    file = f"care-gateway: {tmp_path}/books.jsonl"
    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert rejected.stderr.splitlines() == [
        f"{file}, line 3: id: {ASSIGNED.format(1)}",
        f"{file}, line 4: name: Field required",
        f"{file}, line 5: id: 8 is the id of an earlier line",
        f"{file}, line 6: id: 8 is the id of an earlier line",
        f"{file}, line 7: name: Field required",
    ]
    assert listed(command) == ALL


@pytest.mark.sqlite_only
def test_the_first_twenty_mistakes_are_reported(command: Command, tmp_path: Path) -> None:
    """One of each line."""
    rejected = command("books", "import", str(written(tmp_path, *[a_book(9, moduleId=77)] * 40)))

    file = f"care-gateway: {tmp_path}/books.jsonl"
    assert rejected.stderr.splitlines() == [
        f"{file}, line 1: moduleId: 77 does not exist before this line",
        *(f"{file}, line {number}: id: 9 is the id of an earlier line" for number in range(2, 21)),
        "care-gateway: reading stopped after 20 mistakes; there may be more",
    ]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "Invalid JSON: EOF while parsing an object at line 1 column 1"),
        (b"[]", "Input should be an object"),
    ],
)
def test_a_line_without_a_json_object_is_rejected(
    command: Command, tmp_path: Path, line: bytes, reason: str
) -> None:
    file = tmp_path / "books.jsonl"
    file.write_bytes(b"\n" + line)

    assert_rejected(command("books", "import", str(file)), f"{file}, line 2: {reason}")


def test_a_book_of_withdrawn_homework_cannot_be_replaced(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    catalogue(settings)
    withdrawn = "UPDATE assignment SET withdraw_date = assign_date WHERE book_id = 3"
    raw.run(settings.database, withdrawn)

    rejected = command("books", "import", str(written(tmp_path, a_book(3))))

    assert_rejected(rejected, f"{tmp_path}/books.jsonl, line 1: id: {ASSIGNED.format(3)}")


@pytest.mark.sqlite_only
def test_only_questions_can_be_added_to_an_assigned_book_without_questions(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    """Books imported from a recording of the old service have no questions."""
    bare = a_book(9, name="Sleep log", questions=[])
    load(settings.database, [*a_world(), bare, an_assignment(9, book=9)])
    with_questions = bare | {"questions": [{"text": "How long?"}]}

    for changed in ({"name": "Another"}, {"isTest": True}, {"moduleId": 2}):
        rejected = command("books", "import", str(written(tmp_path, with_questions | changed)))
        assert_rejected(rejected, f"{tmp_path}/books.jsonl, line 1: id: {ASSIGNED.format(9)}")
    added = imported(command, tmp_path, with_questions)
    again = command("books", "import", str(written(tmp_path, with_questions)))

    assert added == "replaced\tbook\t9\tSleep log\n"
    assert [question["text"] for question in shown(command, 9)["questions"]] == ["How long?"]
    assert_rejected(again, f"{tmp_path}/books.jsonl, line 1: id: {ASSIGNED.format(9)}")


# --- retire and restore ---


def test_a_book_is_retired_and_restored(command: Command, settings: Settings) -> None:
    catalogue(settings)

    result = [command("books", verb, "2") for verb in ("retire", "retire")]
    retired, left = listed(command, "--retired"), listed(command)
    again = [command("books", verb, "2") for verb in ("restore", "restore")]

    retired_message = "book 2 is retired: it cannot be assigned anymore; existing assignments stay\n"
    assert [(one.exit_code, one.output) for one in result] == [(0, retired_message)] * 2
    assert [(one.exit_code, one.output) for one in again] == [(0, "book 2 can be assigned\n")] * 2
    assert [line.split("\t")[0] for line in retired] == ["5", "2"]
    assert left == [line for line in ALL if not line.startswith("2\t")]
    assert listed(command) == ALL


@pytest.mark.sqlite_only
def test_retiring_again_keeps_the_first_retirement_date(command: Command, settings: Settings) -> None:
    catalogue(settings)

    command("books", "retire", "5")

    assert listed(command, "--retired") == ["5\tOld diary\t1 Module 1\t-\tretired 2026-11-20"]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("verb", ["show", "retire", "restore"])
def test_an_unknown_book_is_rejected(command: Command, settings: Settings, verb: str) -> None:
    catalogue(settings)

    assert_rejected(command("books", verb, "77"), "there is no book 77")
