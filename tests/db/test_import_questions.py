"""What a question may be: a range for numbers, options to choose from, weights where a test is scored."""

from typing import Any

import orjson
import pytest

from app.db.admin.importing import ImportRefused
from app.db.moments import as_moment
from tests.callers import load
from tests.db import raw
from tests.factories import (
    NOW,
    Record,
    a_book,
    a_complete_assignment,
    a_module,
    a_world,
    an_answer_set,
    an_assignment,
)

SCALE = {"text": "How?", "kind": "SCALE", "options": ["1", "2", "3"]}
SINGLE = {"text": "Which?", "kind": "SINGLE_CHOICE", "options": ["tea", "wine"]}
MANY = {"text": "What?", "kind": "MULTIPLE_CHOICE", "options": ["reading", "a bath", "music"]}
YES_NO = {"text": "Did you?", "kind": "YES_NO"}
NUMBER = {"text": "How many?", "kind": "NUMBER"}
TEXT = {"text": "Why?"}


def a_test(*questions: Record) -> Record:
    return a_book(9, isTest=True, questions=list(questions))


def test_ranges_and_weights_are_stored_with_their_questions(database_url: str) -> None:
    book = a_test(
        SCALE | {"weights": [0, 1, -2]},
        SINGLE | {"weights": [0, 1_000_000]},
        MANY | {"weights": [1, 1, 1]},
        YES_NO | {"weights": [3, 0]},
        YES_NO | {"weights": None},
        NUMBER | {"minimum": -1.5, "maximum": 24},
        NUMBER | {"minimum": 7, "maximum": 7},
        NUMBER | {"maximum": 1e3},
        NUMBER,
        TEXT,
    )

    load(database_url, [a_module(1), book])

    assert stored(database_url) == [
        ("SCALE", None, None, [0, 1, -2]),
        ("SINGLE_CHOICE", None, None, [0, 1_000_000]),
        ("MULTIPLE_CHOICE", None, None, [1, 1, 1]),
        ("YES_NO", None, None, [3, 0]),
        ("YES_NO", None, None, None),
        ("NUMBER", -1.5, 24.0, None),
        ("NUMBER", 7.0, 7.0, None),
        ("NUMBER", None, 1000.0, None),
        ("NUMBER", None, None, None),
        ("TEXT", None, None, None),
    ]


def stored(url: str) -> list[tuple[Any, ...]]:
    rows = raw.run(url, "SELECT kind, minimum, maximum, weights FROM question ORDER BY position")
    return [(*row[:3], None if row[3] is None else orjson.loads(row[3])) for row in rows]


def test_options_of_other_kinds_mean_nothing_and_are_taken(database_url: str) -> None:
    """Worlds of the time when nobody looked at them must still be read."""
    load(database_url, [a_module(1), a_book(9, questions=[TEXT | {"options": ["a"]}])])

    assert raw.run(database_url, "SELECT kind, options FROM question") == [("TEXT", '["a"]')]


ONE_PER_ANSWER = "must be {}, one for each answer that can be given"
RANGE = "must lie between -1,000,000 and 1,000,000"
MISSING = "are missing: there is nothing to choose from"
LINES = "must be lines of text, none of them blank"
REFUSED: dict[str, tuple[Record, str, str]] = {
    "a scale without options": (a_test(SCALE | {"options": []}), "options", MISSING),
    "a choice without options": (a_test({"text": "?", "kind": "SINGLE_CHOICE"}), "options", MISSING),
    "choices without options": (a_test(MANY | {"options": None}), "options", MISSING),
    "a blank option": (a_test(MANY | {"options": ["a", " "]}), "options", LINES),
    "an empty option": (a_test(MANY | {"options": ["a", ""]}), "options", LINES),
    "an option of two lines": (a_test(MANY | {"options": ["a", "b\nc"]}), "options", LINES),
    "an option that ends its line": (a_test(MANY | {"options": ["a", "b\u2028c"]}), "options", LINES),
    "an option twice": (
        a_test(MANY | {"options": ["a", "b", "a"]}),
        "options",
        "must differ from each other",
    ),
    "a text as minimum": (a_test(NUMBER | {"minimum": "1"}), "minimum", "must be a number"),
    "a flag as maximum": (a_test(NUMBER | {"maximum": True}), "maximum", "must be a number"),
    "a range upside down": (
        a_test(NUMBER | {"minimum": 2, "maximum": 1.5}),
        "maximum",
        "is less than minimum",
    ),
    "a minimum of a text": (a_test(TEXT | {"minimum": 1}), "minimum", "belongs to a NUMBER only"),
    "a maximum of a scale": (a_test(SCALE | {"maximum": 1}), "maximum", "belongs to a NUMBER only"),
    "weights where nothing is scored": (
        a_book(9, questions=[SCALE | {"weights": [1, 2, 3]}]),
        "weights",
        "belong to a book that isTest only",
    ),
    "weights of a number": (a_test(NUMBER | {"weights": [1]}), "weights", "do not belong to a NUMBER"),
    "weights of a text": (a_test(TEXT | {"weights": []}), "weights", "do not belong to a TEXT"),
    "too few weights": (a_test(SCALE | {"weights": [1, 2]}), "weights", ONE_PER_ANSWER.format(3)),
    "too many weights": (a_test(SINGLE | {"weights": [1, 2, 3]}), "weights", ONE_PER_ANSWER.format(2)),
    "one weight for yes or no": (a_test(YES_NO | {"weights": [1]}), "weights", ONE_PER_ANSWER.format(2)),
    "a weight that is no integer": (
        a_test(YES_NO | {"weights": [1, 0.5]}),
        "weights",
        "must be a list of integers",
    ),
    "a flag as weight": (a_test(YES_NO | {"weights": [1, True]}), "weights", "must be a list of integers"),
    "a weight alone": (a_test(YES_NO | {"weights": 1}), "weights", "must be a list of integers"),
    "a weight too large": (a_test(YES_NO | {"weights": [0, 1_000_001]}), "weights", RANGE),
    "a weight too small": (a_test(YES_NO | {"weights": [-1_000_001, 0]}), "weights", RANGE),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", REFUSED)
def test_a_question_that_cannot_be_answered_or_scored_is_refused(database_url: str, name: str) -> None:
    book, member, reason = REFUSED[name]

    with pytest.raises(ImportRefused) as refused:
        load(database_url, [a_module(1), book])

    assert str(refused.value) == f"line 2: questions[0].{member} {reason}"
    assert set(raw.row_counts(database_url).values()) == {0}


def test_a_score_that_could_not_be_stored_is_refused(database_url: str) -> None:
    question = MANY | {"options": [str(n) for n in range(1000)], "weights": [1_000_000] * 999 + [-1_000_000]}
    load(database_url, [a_module(1), a_test(question, question)])

    with pytest.raises(ImportRefused) as refused:
        load(database_url, [a_test(question, question, question) | {"id": 10}])

    assert str(refused.value) == "line 1: questions have weights of more than 2,147,483,647 together"


def test_a_book_may_be_retired_from_the_start(database_url: str) -> None:
    load(database_url, [a_module(1), a_book(1, retireDate=NOW), a_book(2), a_book(3, retireDate=None)])

    rows = raw.run(database_url, "SELECT id, retire_date FROM book ORDER BY id")
    assert [(number, as_moment(moment)) for number, moment in rows] == [(1, NOW), (2, None), (3, None)]


def test_the_score_of_an_assignment_is_that_of_its_last_submission(database_url: str) -> None:
    """Of earlier attempts nobody knows any more how they were scored; a draft has no score."""
    load(database_url, [*a_world(), a_complete_assignment(9, attempt=2, score=12), an_assignment(8)])

    load(
        database_url,
        [
            an_answer_set(11, 9, attempt=2),
            an_answer_set(12, 9, attempt=1),
            an_answer_set(13, 8, saveType="DRAFT"),
        ],
    )

    assert raw.run(database_url, "SELECT id, score, own_score FROM answer_set ORDER BY id") == [
        (1, 70, 70),
        (2, 55, 55),
        (3, 70, 70),
        (11, 12, 12),
        (12, None, None),
        (13, None, None),
    ]
