"""Reads the questions of a book, and rejects questions that cannot be answered or scored."""

from math import isfinite
from typing import Any

import orjson

from app.db.admin.records import Problem, Record
from app.db.tables import QuestionKind

QUESTION_COLUMNS = (
    "book_id", "position", "text", "kind", "options", "is_required", "minimum", "maximum", "weights",
)  # fmt: skip
CHOSEN = (QuestionKind.SINGLE_CHOICE, QuestionKind.MULTIPLE_CHOICE, QuestionKind.SCALE)
MOST_QUESTIONS = 500  # the maximum number of answers in one request
LARGEST_WEIGHT = 1_000_000
LARGEST_SCORE = 2**31 - 1  # the maximum of the score columns

QuestionRow = tuple[Any, ...]  # the values after the book's id, in the order of the columns


def read_questions(book: Record, is_test: bool) -> list[QuestionRow]:
    records = book.records("questions", [])
    if len(records) > MOST_QUESTIONS:
        raise Problem(book.path + "questions", f"may be at most {MOST_QUESTIONS}")
    questions = [read_question(record, position, is_test) for position, record in enumerate(records, 1)]
    weights = [weight for *_, stored in questions if stored for weight in orjson.loads(stored)]
    if sum(map(abs, weights)) > LARGEST_SCORE:
        raise Problem(book.path + "questions", f"have weights of more than {LARGEST_SCORE:,} together")
    return questions


def read_question(record: Record, position: int, is_test: bool) -> QuestionRow:
    kind = record.one_of("kind", QuestionKind, QuestionKind.TEXT)
    options = read_options(record, kind)
    minimum, maximum = read_range(record, kind)
    weights = read_weights(record, kind, len(options), is_test)
    stored = None if weights is None else as_json(weights)
    text, is_required = record.text("text"), record.flag("required")
    record.finish()
    return (position, text, kind, as_json(options), is_required, minimum, maximum, stored)


def as_json(value: object) -> str:
    return orjson.dumps(value).decode()


def read_options(record: Record, kind: str) -> list[str]:
    """Answers contain the texts of options, one per line."""
    options = record.texts("options")
    member = record.path + "options"
    if kind in CHOSEN and not options:
        raise Problem(member, "are missing: there is nothing to choose from")
    if any(not option.strip() or option.splitlines() != [option] for option in options):
        raise Problem(member, "must be lines of text, none of them blank")
    if len(set(options)) < len(options):
        raise Problem(member, "must differ from each other")
    return options


def read_range(record: Record, kind: str) -> tuple[float | None, float | None]:
    minimum, maximum = (record.take(name, "a number", is_number, None) for name in ("minimum", "maximum"))
    for member, value in (("minimum", minimum), ("maximum", maximum)):
        if value is not None and kind != QuestionKind.NUMBER:
            raise Problem(record.path + member, "belongs to a NUMBER only")
    if minimum is not None and maximum is not None and maximum < minimum:
        raise Problem(record.path + "maximum", "is less than minimum")
    return minimum, maximum


def read_weights(record: Record, kind: str, options: int, is_test: bool) -> list[int] | None:
    """One per option; for YES_NO two, for true and for false."""
    weights: list[int] | None = record.take("weights", "a list of integers", is_list_of_integers, None)
    member = record.path + "weights"
    if weights is None:
        return None
    if not is_test:
        raise Problem(member, "belong to a book that isTest only")
    if kind not in (*CHOSEN, QuestionKind.YES_NO):
        raise Problem(member, f"do not belong to a {kind}")
    wanted = 2 if kind == QuestionKind.YES_NO else options
    if len(weights) != wanted:
        raise Problem(member, f"must be {wanted}, one for each answer that can be given")
    if any(abs(weight) > LARGEST_WEIGHT for weight in weights):
        raise Problem(member, f"must lie between -{LARGEST_WEIGHT:,} and {LARGEST_WEIGHT:,}")
    return weights


def is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value)


def is_list_of_integers(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)
