"""Questions of imported books: ranges, options and weights, and the questions that are rejected."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from app.db.interchange.import_format import CATALOGUE_LINE, IMPORT_LINE, LineRejected
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
        NUMBER | {"minimum": 0},
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
        ("NUMBER", 0.0, None, None),
        ("NUMBER", None, None, None),
        ("TEXT", None, None, None),
    ]


def stored(url: str) -> list[tuple[Any, ...]]:
    rows = raw.run(url, "SELECT kind, minimum, maximum, weights FROM question ORDER BY position")
    return [(*row[:3], None if row[3] is None else orjson.loads(row[3])) for row in rows]


def test_options_of_other_kinds_are_stored_and_ignored(database_url: str) -> None:
    """Files from before options were validated must still be imported."""
    load(database_url, [a_module(1), a_book(9, questions=[TEXT | {"options": ["a"]}])])

    assert raw.run(database_url, "SELECT kind, options FROM question") == [("TEXT", '["a"]')]


def weighing(total: int, sign: int = 1) -> Iterator[Record]:
    """Questions of 1000 options whose weights have this sum."""
    weights = [sign * 1_000_000] * (total // 1_000_000) + [sign * (total % 1_000_000)]
    for start in range(0, len(weights), 1000):
        part = weights[start : start + 1000]
        yield MANY | {"options": [str(number) for number in range(len(part))], "weights": part}


TOO_LARGE = "the weights of all questions exceed 2,147,483,647"
ONE_PER_ANSWER = "questions[0]: weights must be {}, one for each possible answer"
SINGLE_LINES = "questions[0]: options must be single lines that are not blank"
RANGE_OF_NUMBERS = "questions[0]: minimum and maximum are for NUMBER only"
INVALID: dict[str, tuple[Record, str]] = {
    "scale without options": (
        a_test(SCALE | {"options": []}),
        "questions[0]: options are required for SCALE",
    ),
    "choice without options": (
        a_test({"text": "?", "kind": "SINGLE_CHOICE"}),
        "questions[0]: options are required for SINGLE_CHOICE",
    ),
    "choices with null": (
        a_test(MANY | {"options": None}),
        "questions[0]: options are required for MULTIPLE_CHOICE",
    ),
    "blank option": (a_test(MANY | {"options": ["a", " "]}), SINGLE_LINES),
    "empty option": (a_test(MANY | {"options": ["a", ""]}), SINGLE_LINES),
    "option of two lines": (a_test(MANY | {"options": ["a", "b\nc"]}), SINGLE_LINES),
    "option with a line separator": (a_test(MANY | {"options": ["a", "b\u2028c"]}), SINGLE_LINES),
    "option with NUL": (
        a_test(MANY | {"options": ["a\0"]}),
        "questions[0].options[0]: must not contain NUL, because PostgreSQL cannot store it",
    ),
    "equal options": (
        a_test(MANY | {"options": ["a", "b", "a"]}),
        "questions[0]: options must differ from each other",
    ),
    "text as minimum": (
        a_test(NUMBER | {"minimum": "1"}),
        "questions[0].minimum: Input should be a valid number",
    ),
    "flag as maximum": (
        a_test(NUMBER | {"maximum": True}),
        "questions[0].maximum: Input should be a valid number",
    ),
    "maximum below minimum": (
        a_test(NUMBER | {"minimum": 2, "maximum": 1.5}),
        "questions[0]: maximum is less than minimum",
    ),
    "maximum below a minimum of zero": (
        a_test(NUMBER | {"minimum": 0, "maximum": -10}),
        "questions[0]: maximum is less than minimum",
    ),
    "maximum of zero below minimum": (
        a_test(NUMBER | {"minimum": 5, "maximum": 0}),
        "questions[0]: maximum is less than minimum",
    ),
    "minimum of a text": (a_test(TEXT | {"minimum": 1}), RANGE_OF_NUMBERS),
    "maximum of a scale": (a_test(SCALE | {"maximum": 1}), RANGE_OF_NUMBERS),
    "weights in a book that is no test": (
        a_book(9, questions=[SCALE | {"weights": [1, 2, 3]}]),
        "weights are only for a book with isTest",
    ),
    "weights of a number": (a_test(NUMBER | {"weights": [1]}), "questions[0]: weights are not for NUMBER"),
    "weights of a text": (a_test(TEXT | {"weights": []}), "questions[0]: weights are not for TEXT"),
    "no weights in the list": (a_test(SCALE | {"weights": []}), ONE_PER_ANSWER.format(3)),
    "too few weights": (a_test(SCALE | {"weights": [1, 2]}), ONE_PER_ANSWER.format(3)),
    "too many weights": (a_test(SINGLE | {"weights": [1, 2, 3]}), ONE_PER_ANSWER.format(2)),
    "one weight for yes or no": (a_test(YES_NO | {"weights": [1]}), ONE_PER_ANSWER.format(2)),
    "fraction as weight": (
        a_test(YES_NO | {"weights": [1, 0.5]}),
        "questions[0].weights[1]: Input should be a valid integer",
    ),
    "flag as weight": (
        a_test(YES_NO | {"weights": [1, True]}),
        "questions[0].weights[1]: Input should be a valid integer",
    ),
    "weights without a list": (
        a_test(YES_NO | {"weights": 1}),
        "questions[0].weights: Input should be a valid array",
    ),
    "weight too large": (
        a_test(YES_NO | {"weights": [0, 1_000_001]}),
        "questions[0].weights[1]: Input should be less than or equal to 1000000",
    ),
    "weight too small": (
        a_test(YES_NO | {"weights": [-1_000_001, 0]}),
        "questions[0].weights[0]: Input should be greater than or equal to -1000000",
    ),
    "weights that exceed the score columns": (a_test(*weighing(2**31)), TOO_LARGE),
    "negative weights that exceed them": (a_test(*weighing(2**31, sign=-1)), TOO_LARGE),
    "positive and negative weights whose scores may exceed them": (
        a_test(*weighing(2**31 - 1), *weighing(2**30, sign=-1)),
        TOO_LARGE,
    ),
    "too many questions": (
        a_test(*[TEXT] * 501),
        "questions: List should have at most 500 items after validation, not 501",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_question_that_cannot_be_answered_or_scored_is_rejected(name: str) -> None:
    book, sentence = INVALID[name]

    for adapter in (IMPORT_LINE, CATALOGUE_LINE):
        with pytest.raises(ValidationError) as invalid:
            adapter.validate_json(orjson.dumps(book))
        assert str(LineRejected.of(invalid.value)) == sentence


def test_infinite_numbers_are_rejected() -> None:
    """JSON has none, but parsers read them."""
    for number in ("NaN", "Infinity", "1e400"):
        line = orjson.dumps(a_test(NUMBER | {"minimum": 0})).replace(
            b'"minimum":0', f'"minimum":{number}'.encode()
        )
        with pytest.raises(ValidationError, match="finite"):
            IMPORT_LINE.validate_json(line)


def test_a_book_may_have_the_largest_weights_that_can_be_stored(database_url: str) -> None:
    load(database_url, [a_module(1), a_test(*weighing(2**31 - 1))])

    assert raw.row_counts(database_url)["question"] == 3


def test_a_book_may_be_imported_as_retired(database_url: str) -> None:
    load(database_url, [a_module(1), a_book(1, retireDate=NOW), a_book(2), a_book(3, retireDate=None)])

    rows = raw.run(database_url, "SELECT id, retire_date FROM book ORDER BY id")
    assert [(number, as_moment(moment)) for number, moment in rows] == [(1, NOW), (2, None), (3, None)]


def test_the_submission_of_the_current_attempt_has_the_score_of_the_assignment(database_url: str) -> None:
    """The scores of earlier attempts are unknown; a draft has no score."""
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
