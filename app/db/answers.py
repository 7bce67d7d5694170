"""The answers of an answer set: a JSON array of [question id, question text, answer], in the book's order."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson


class Answer(NamedTuple):
    question_id: int | None  # None if only the old service has the question
    question_text: str
    answer: str


def as_document(answers: Iterable[Answer]) -> str:
    return orjson.dumps(list(map(tuple, answers))).decode()


def read_answers(stored: Any) -> list[Answer]:
    return list(map(Answer._make, read_json(stored)))


def read_json(stored: Any) -> Any:
    """The array in a JSON column, which a read of PostgreSQL returns parsed; or None."""
    return orjson.loads(stored) if isinstance(stored, str) else stored
