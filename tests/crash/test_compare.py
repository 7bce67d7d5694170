"""The comparison that the crash tests stand on finds what they look for."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.crash.asked import Asked, Draft, Effect, Homework, Submission, compare

START = datetime(2010, 1, 1, tzinfo=UTC)
WHOLE = Homework(1, START, ((1, 1, 1), (2, 1, 1)))
SAVED = Draft(7, ((2, "Draft 2"),), 2)
SENT = Submission(8, "COMPLETE", ("Answer",), 1)


def asked(effect: Effect, answer: bytes | None = b"{}") -> Asked:
    return Asked(effect, "CLIENT", "client-1", "POST", "/graphql", b"", None, answer)


ASKED = [asked(WHOLE), asked(Draft(7, ((1, "Draft 1"),), 1)), asked(SAVED), asked(SENT)]
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
    "never asked for": lambda: [WHOLE, SAVED, SENT, SENT._replace(assignment=9)],
}


def test_nothing_is_wrong_where_all_is_there() -> None:
    assert compare(ASKED, [SENT, SAVED, WHOLE]) == []


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_wrong_is_found(name: str) -> None:
    assert compare(ASKED, PLANTED[name]()) != []


@pytest.mark.parametrize("found", [[], [WHOLE]], ids=["absent", "whole"])
def test_what_was_not_acknowledged_may_be_there_or_not(found: list[Effect]) -> None:
    assert compare([asked(WHOLE, answer=None)], found) == []


def test_what_was_not_acknowledged_is_not_there_in_part() -> None:
    assert compare([asked(WHOLE, answer=None)], [WHOLE._replace(books=WHOLE.books[:1])]) != []
