"""Validation of answers against their questions, and scores.

An answer is text: `true` or `false` for YES_NO, a plain number in its range for NUMBER, one option for
SINGLE_CHOICE and SCALE, distinct options, one per line, for MULTIPLE_CHOICE. A blank answer is missing.
"""

import json
from dataclasses import replace

import pytest

from app.care.bounds import MAX_TEXT
from app.care.errors import InvalidValue, WrongAnswer, WrongAnswers
from app.care.questions import (
    MAX_ANSWERS,
    GivenAnswer,
    Question,
    check_count,
    check_fit,
    match_answers,
    mismatch,
    read_questions,
    score_of,
)
from app.db.tables import QuestionKind

OPTIONS = ["Never", "Now and then", "Always – immer"]
TEXT = Question(1, 1, "How was it?", QuestionKind.TEXT, [], True, None, None, None)
YES_NO = replace(TEXT, id=2, position=2, kind=QuestionKind.YES_NO)
NUMBER = replace(TEXT, id=3, position=3, kind=QuestionKind.NUMBER)
SINGLE = replace(TEXT, id=4, position=4, kind=QuestionKind.SINGLE_CHOICE, options=OPTIONS)
MULTIPLE = replace(SINGLE, id=5, position=5, kind=QuestionKind.MULTIPLE_CHOICE)
SCALE = replace(TEXT, id=6, position=6, kind=QuestionKind.SCALE, options=["1", "2", "3"])
EVERY_KIND = [TEXT, YES_NO, NUMBER, SINGLE, MULTIPLE, SCALE]
OF_KIND = {question.kind: question for question in EVERY_KIND}

FIT = {
    "TEXT": ["x", "two\nlines", "1", "true", " around ", "😀", "x" * MAX_TEXT],
    "YES_NO": ["true", "false"],
    "NUMBER": ["0", "7", "-7", "7.5", "-0.000001", "007", "999999999999999", "0.123456"],
    "SINGLE_CHOICE": OPTIONS,
    "MULTIPLE_CHOICE": [*OPTIONS, "Never\nAlways – immer", "Always – immer\nNever", "\n".join(OPTIONS)],
    "SCALE": ["1", "2", "3"],
}
SHOULD_BE = {
    "YES_NO": "true or false",
    "NUMBER": "a number such as 7 or 7.5",
    "SINGLE_CHOICE": "one of its options",
    "MULTIPLE_CHOICE": "some of its options, each once, one per line",
    "SCALE": "one of its options",
}
MISFIT = {
    "YES_NO": ["yes", "True", "TRUE", "1", " true", "true ", "true\n", "true\nfalse"],
    "NUMBER": [
        *("seven", "7,5", "7.", ".5", "+7", "--7", "- 7", " 7", "7 ", "7\n", "7\n8", "1e3", "0x7", "1_000"),
        *("NaN", "Infinity", "1000000000000000", "0.1234567", "٧", "７", "½"),
    ],
    "SINGLE_CHOICE": ["never", "Never ", " Never", "Never\n", "Never\nAlways – immer", "Sometimes", "1"],
    "MULTIPLE_CHOICE": [
        *("never", "Never\n", "\nNever", "Never\nNever", "Never\nSometimes", "Never, Now and then"),
        *("Never\r\nNow and then", "Never\u2028Now and then"),
    ],
    "SCALE": ["0", "4", "1.0", "01", "1 ", "1\n2", "-1"],
}


def pairs(cases: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(kind, answer) for kind, answers in cases.items() for answer in answers]


def shown(value: str) -> str:
    return ascii(value)[:24]


@pytest.mark.parametrize(("kind", "answer"), pairs(FIT), ids=shown)
def test_an_answer_of_the_right_kind_is_valid(kind: str, answer: str) -> None:
    question = OF_KIND[QuestionKind(kind)]

    check_fit([question], {question.id: answer})


@pytest.mark.parametrize(("kind", "answer"), pairs(MISFIT), ids=shown)
def test_an_answer_of_the_wrong_kind_is_rejected_with_what_it_must_be(kind: str, answer: str) -> None:
    question = OF_KIND[QuestionKind(kind)]

    with pytest.raises(WrongAnswers) as refused:
        check_fit([question], {question.id: answer})

    message = f"the answer to question {question.position} must be {SHOULD_BE[kind]}"
    assert refused.value.wrong == [WrongAnswer("UNREADABLE", question.id, message)]
    assert refused.value.members == ("answers",)


@pytest.mark.parametrize(
    ("minimum", "maximum", "answer", "reason"),
    [
        (0.0, 24.0, "0", None),
        (0.0, 24.0, "24", None),
        (0.0, 24.0, "-0", None),
        (0.0, 24.0, "24.000000", None),
        (0.0, 24.0, "-0.000001", "at least 0"),
        (0.0, 24.0, "24.000001", "at most 24"),
        (0.1, 0.3, "0.1", None),
        (0.1, 0.3, "0.3", None),
        (0.1, 0.3, "0.300001", "at most 0.3"),
        (0.1, 0.3, "0.099999", "at least 0.1"),
        (5.0, 5.0, "5", None),
        (5.0, 5.0, "6", "at most 5"),
        (None, 12_345_678.0, "12345679", "at most 12345678"),
        (1_000_000.0, None, "999999.5", "at least 1000000"),
        (None, -1.0, "-999999999999999", None),
        (-10.0, 0.0, "0", None),
        (-10.0, 0.0, "5", "at most 0"),
        (1.0, None, "999999999999999", None),
    ],
)
def test_a_number_outside_its_range_is_rejected(
    minimum: float | None, maximum: float | None, answer: str, reason: str | None
) -> None:
    assert mismatch(replace(NUMBER, minimum=minimum, maximum=maximum), answer) == reason


@pytest.mark.parametrize("answer", [None, "", " ", "\n", "\t \u00a0"], ids=ascii)
@pytest.mark.parametrize("question", EVERY_KIND, ids=lambda question: question.kind)
def test_a_required_question_needs_an_answer(question: Question, answer: str | None) -> None:
    given = {} if answer is None else {question.id: answer}

    check_fit([replace(question, is_required=False)], given)
    with pytest.raises(WrongAnswers) as refused:
        check_fit([question], given)

    message = f"question {question.position} must be answered"
    assert refused.value.wrong == [WrongAnswer("INCOMPLETE", question.id, message)]


def test_every_invalid_answer_is_named_in_the_order_of_the_book() -> None:
    with pytest.raises(WrongAnswers) as refused:
        check_fit(EVERY_KIND, {6: "9", 3: "x", 1: "well", 4: "Never"})

    assert [(one.code, one.question_id) for one in refused.value.wrong] == [
        ("INCOMPLETE", 2),
        ("UNREADABLE", 3),
        ("INCOMPLETE", 5),
        ("UNREADABLE", 6),
    ]
    assert refused.value.code == "INCOMPLETE"  # that of the first


def test_a_wrong_answer_to_a_required_question_is_named_once() -> None:
    wrong = WrongAnswer("UNREADABLE", 2, "an answer may have at most 10000 characters")

    with pytest.raises(WrongAnswers) as refused:
        check_fit(EVERY_KIND, {1: "well", 3: "1", 4: "Always", 5: "x", 6: "9"}, [wrong])

    assert [one.question_id for one in refused.value.wrong] == [2, 4, 5, 6]


def test_questions_are_read_in_the_order_of_the_book() -> None:
    """A database may return them in any order."""
    rows = [[7, 2, "Then?", "TEXT", None, 0, None, None, None], [9, 1, "First?", "TEXT", None, 1, 0, 1, None]]

    assert read_questions(json.dumps(rows)) == [
        Question(9, 1, "First?", QuestionKind.TEXT, [], True, 0, 1, None),
        Question(7, 2, "Then?", QuestionKind.TEXT, [], False, None, None, None),
    ]
    assert read_questions(None) == []


# --- answers of a whole book -------------------------------------------------------------------------


def test_answers_are_sorted_in_the_order_of_the_book() -> None:
    answers = [GivenAnswer(6, "1"), GivenAnswer(1, "x"), GivenAnswer(3, "")]

    assert list(match_answers(EVERY_KIND, answers).items()) == [(1, "x"), (3, ""), (6, "1")]
    assert match_answers(EVERY_KIND, []) == {}


def test_all_errors_of_the_answers_are_reported_together() -> None:
    answers = [
        GivenAnswer(99, "x"),
        GivenAnswer(None, "x"),
        GivenAnswer(1, "a"),
        GivenAnswer(1, "a"),
        GivenAnswer(2, "x" * (MAX_TEXT + 1)),
        GivenAnswer(3, "\0"),
        GivenAnswer(4, "x" * MAX_TEXT),
    ]

    with pytest.raises(WrongAnswers) as refused:
        match_answers(EVERY_KIND, answers)

    assert refused.value.wrong == [
        WrongAnswer("NOT_FOUND", 99, "the book has no such question"),
        WrongAnswer("NOT_FOUND", None, "the book has no such question"),
        WrongAnswer("UNREADABLE", 1, "the question is answered twice"),
        WrongAnswer("UNREADABLE", 2, "an answer may have at most 10000 characters"),
        WrongAnswer("UNREADABLE", 3, "the answer holds a character that cannot be stored"),
    ]


def test_the_number_of_answers_is_limited() -> None:
    check_count([GivenAnswer(1, "")] * MAX_ANSWERS)
    with pytest.raises(InvalidValue, match=r"^answers may hold at most 500 answers$"):
        check_count([GivenAnswer(1, "")] * (MAX_ANSWERS + 1))


# --- what they score -------------------------------------------------------------------------------

WEIGHED = [
    TEXT,
    replace(YES_NO, weights=[3, -1]),
    NUMBER,
    replace(SINGLE, weights=[0, 2, 5]),
    replace(MULTIPLE, weights=[1, 20, 300]),
    replace(SCALE, weights=[-4, 0, 4]),
]


@pytest.mark.parametrize(
    ("given", "score"),
    [
        ({}, 0),
        ({1: "true", 3: "300"}, 0),
        ({2: "true"}, 3),
        ({2: "false"}, -1),
        ({2: ""}, 0),
        ({4: "Always – immer"}, 5),
        ({4: " "}, 0),
        ({5: "Never"}, 1),
        ({5: "Always – immer\nNever"}, 301),
        ({5: "\n".join(OPTIONS)}, 321),
        ({6: "1"}, -4),
        ({2: "true", 4: "Now and then", 5: "Now and then", 6: "3"}, 29),
    ],
)
def test_the_score_is_the_sum_of_the_weights_of_the_chosen_options(given: dict[int, str], score: int) -> None:
    assert score_of(WEIGHED, given) == score


def test_weights_of_zero_score_zero() -> None:
    assert score_of([replace(YES_NO, weights=[0, 0])], {2: "true"}) == 0


def test_without_weights_there_is_no_score() -> None:
    assert score_of(EVERY_KIND, {2: "true", 4: "Never", 5: "Never", 6: "3"}) is None
