"""The comparison that the crash tests use finds errors."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.crash.changes import Draft, Effect, Homework, Request, Submission, compare

START = datetime(2010, 1, 1, tzinfo=UTC)
WHOLE = Homework(1, START, ((1, 1, 1), (2, 1, 1)))
SAVED = Draft(7, ((2, "Draft 2"),), 2)
SENT = Submission(8, "COMPLETE", ("Answer",), 1)


def request(effect: Effect, answer: bytes | None = b"{}") -> Request:
    return Request(effect, "CLIENT", "client-1", "POST", "/graphql", b"", None, answer)


REQUESTS = [request(WHOLE), request(Draft(7, ((1, "Draft 1"),), 1)), request(SAVED), request(SENT)]
PLANTED: dict[str, Callable[[], list[Effect]]] = {
    "lost": lambda: [WHOLE, SAVED],
    "there twice": lambda: [WHOLE, SAVED, SENT, SENT],
    "homework in part": lambda: [WHOLE._replace(books=WHOLE.books[:1]), SAVED, SENT],
    "homework twice": lambda: [WHOLE._replace(books=WHOLE.books * 2), SAVED, SENT],
    "without its event": lambda: [WHOLE, SAVED, SENT._replace(events=0)],
    "without its reminder": lambda: [WHOLE._replace(books=((1, 1, 1), (2, 0, 1))), SAVED, SENT],
    "an older draft": lambda: [WHOLE, Draft(7, ((1, "Draft 1"),), 1), SENT],
    "no draft": lambda: [WHOLE, SENT],
    "submitted twice": lambda: [WHOLE, SAVED, SENT._replace(texts=("Answer", "Answer"))],
    "without a request": lambda: [WHOLE, SAVED, SENT, SENT._replace(assignment=9)],
}


def test_complete_rows_have_no_errors() -> None:
    assert compare(REQUESTS, [SENT, SAVED, WHOLE]) == []


@pytest.mark.parametrize("name", PLANTED)
def test_errors_are_found(name: str) -> None:
    assert compare(REQUESTS, PLANTED[name]()) != []


@pytest.mark.parametrize("found", [[], [WHOLE]], ids=["absent", "whole"])
def test_unacknowledged_changes_may_be_stored_or_not(found: list[Effect]) -> None:
    assert compare([request(WHOLE, answer=None)], found) == []


def test_unacknowledged_changes_are_not_stored_in_part() -> None:
    assert compare([request(WHOLE, answer=None)], [WHOLE._replace(books=WHOLE.books[:1])]) != []
