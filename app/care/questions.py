"""The questions of a book: checks of the answers to them, and the score."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.care.bounds import MAX_TEXT
from app.care.errors import Incomplete, InvalidValue, NotFound, WrongAnswer, WrongAnswers
from app.db.answers import read_json
from app.db.tables import QuestionKind

MAX_ANSWERS = 500
NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,6})?")
YES_NO = ("true", "false")


@dataclass(frozen=True)
class Question:
    id: int
    position: int
    text: str
    kind: QuestionKind
    options: list[str]
    is_required: bool
    minimum: float | None
    maximum: float | None
    weights: list[int] | None


@dataclass(frozen=True)
class GivenAnswer:
    """An answer to one question. The id is None if the request names something that is not a question id."""

    question_id: int | None
    answer: str


def read_questions(document: Any) -> list[Question]:
    """The questions in the order of the book, from a document of LOCK_FOR_ANSWERS."""
    found = [
        Question(id, position, text, QuestionKind(kind), options or [], bool(is_required), low, high, weights)
        for id, position, text, kind, options, is_required, low, high, weights in read_json(document) or []
    ]
    return sorted(found, key=lambda question: question.position)


# --- checks -----------------------------------------------------------------------------------


def check_count(answers: Sequence[GivenAnswer]) -> None:
    if len(answers) > MAX_ANSWERS:
        raise InvalidValue("answers", f"may hold at most {MAX_ANSWERS} answers")


def match_answers(questions: list[Question], answers: Sequence[GivenAnswer]) -> dict[int, str]:
    """Returns the answers by question id, in the order of the book. Raises WrongAnswers."""
    given, wrong = match_storable_answers(questions, answers)
    if wrong:
        raise WrongAnswers(wrong, "answers")
    return given


def match_storable_answers(
    questions: list[Question], answers: Sequence[GivenAnswer]
) -> tuple[dict[int, str], list[WrongAnswer]]:
    """Returns the answers that can be stored, also in a draft, and an error for each of the others."""
    known = {question.id for question in questions}
    given: dict[int, str] = {}
    wrong: list[WrongAnswer] = []
    for one in answers:
        if one.question_id is None or one.question_id not in known:
            wrong.append(WrongAnswer(NotFound.code, one.question_id, "the book has no such question"))
        elif one.question_id in given:
            wrong.append(WrongAnswer(InvalidValue.code, one.question_id, "the question is answered twice"))
        elif reason := storage_problem(one.answer):
            wrong.append(WrongAnswer(InvalidValue.code, one.question_id, reason))
        else:
            given[one.question_id] = one.answer
    return {question.id: given[question.id] for question in questions if question.id in given}, wrong


def storage_problem(answer: str) -> str | None:
    if len(answer) > MAX_TEXT:
        return f"an answer may have at most {MAX_TEXT} characters"
    return "the answer holds a character that cannot be stored" if "\0" in answer else None


def check_fit(
    questions: list[Question], given: dict[int, str], known_wrong: Sequence[WrongAnswer] = ()
) -> None:
    """Raises one WrongAnswers with each answer that does not fit its question, and each required question
    without an answer. Questions of `known_wrong` are not checked again."""
    wrong = list(known_wrong)
    named = {one.question_id for one in wrong}
    for question in questions:
        if question.id in named:
            continue
        answer = given.get(question.id, "")
        if not answer.strip():
            if question.is_required:
                message = f"question {question.position} must be answered"
                wrong.append(WrongAnswer(Incomplete.code, question.id, message))
        elif reason := mismatch(question, answer):
            message = f"the answer to question {question.position} must be {reason}"
            wrong.append(WrongAnswer(InvalidValue.code, question.id, message))
    if wrong:
        raise WrongAnswers(wrong, "answers")


def mismatch(question: Question, answer: str) -> str | None:
    """Returns what the answer must be, or None if it fits the question."""
    match question.kind:
        case QuestionKind.TEXT:
            return None
        case QuestionKind.YES_NO:
            return None if answer in YES_NO else "true or false"
        case QuestionKind.NUMBER:
            return number_mismatch(question, answer)
        case QuestionKind.SINGLE_CHOICE | QuestionKind.SCALE:
            return None if answer in question.options else "one of its options"
        case QuestionKind.MULTIPLE_CHOICE:
            chosen = choices(answer)
            is_fit = set(chosen) <= set(question.options) and len(set(chosen)) == len(chosen)
            return None if is_fit else "some of its options, each once, one per line"


def number_mismatch(question: Question, answer: str) -> str | None:
    if NUMBER.fullmatch(answer) is None:
        return "a number such as 7 or 7.5"
    number = float(answer)
    if question.minimum is not None and number < question.minimum:
        return f"at least {shown(question.minimum)}"
    if question.maximum is not None and number > question.maximum:
        return f"at most {shown(question.maximum)}"
    return None


def shown(limit: float) -> str:
    return repr(limit).removesuffix(".0")  # with all its digits


def choices(answer: str) -> list[str]:
    return answer.split("\n")


# --- scores ---------------------------------------------------------------------------------------


def score_of(questions: list[Question], given: dict[int, str]) -> int | None:
    """The sum of the weights of the chosen options. None if no question has weights."""
    if not any(question.weights for question in questions):
        return None
    return sum(weight_of(question, given.get(question.id, "")) for question in questions)


def weight_of(question: Question, answer: str) -> int:
    if not question.weights:
        return 0
    options: Sequence[Any] = YES_NO if question.kind is QuestionKind.YES_NO else question.options
    weights = dict(zip(options, question.weights, strict=False))
    chosen = choices(answer) if question.kind is QuestionKind.MULTIPLE_CHOICE else [answer]
    return sum(weights.get(option, 0) for option in chosen)
