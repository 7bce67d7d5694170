"""Homework needs a running session of the caregiver and known books; otherwise nothing is written."""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.database_rows import stored
from tests.rest_compat.legacy import ASSIGNMENTS, homework, rejection_of

Changed = dict[str, Any]
LARGEST = 2**63 - 1

CASES: dict[str, tuple[Changed, int, str]] = {
    "an unknown session": ({"sessionId": 999999}, 404, "session not found"),
    "another caregiver's session": ({"sessionId": 5}, 404, "session not found"),
    "session 0": ({"sessionId": 0}, 404, "session not found"),
    "the largest session id": ({"sessionId": LARGEST}, 404, "session not found"),
    "an unknown book": ({"bookIds": [999999]}, 404, "book not found: bookIds[0]"),
    "an unknown book among others": ({"bookIds": [1, 2, 2, 999999, 3]}, 404, "book not found: bookIds[3]"),
    "an unknown book after ten others": (
        {"bookIds": [*[1, 2] * 6, 999999]},
        404,
        "book not found: bookIds[12]",
    ),
    "book 0": ({"bookIds": [0]}, 404, "book not found: bookIds[0]"),
    "the largest book id": ({"bookIds": [LARGEST, 1]}, 404, "book not found: bookIds[0]"),
    "50 books, most unknown": ({"bookIds": list(range(1, 51))}, 404, "book not found: bookIds[3]"),
    "a closed session": ({"sessionId": 3}, 409, "the session is not running"),
    "a future session": ({"sessionId": 2}, 409, "the session is not running"),
}


@pytest.mark.parametrize(("changed", "status", "message"), CASES.values(), ids=CASES)
def test_homework_needs_an_own_running_session_and_known_books(
    standing: Gateway, changed: Changed, status: int, message: str
) -> None:
    before = stored(standing)

    refused = rejection_of(standing.as_caregiver(1).put(ASSIGNMENTS, json=homework(**changed)))

    assert refused == (status, message)
    assert stored(standing) == before
