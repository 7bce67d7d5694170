"""Validation of homework before the database is read: required members and limits."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.care.bounds import BLANK_ID, check_required
from app.care.errors import Incomplete, InvalidValue, Rejected
from app.care.homework import MAX_BOOKS, MAX_REMINDERS, Homework, check_homework
from tests.factories import DAY, NOW

NO_YEAR = "must lie between the years 1900 and 2999"
INSTANT = timedelta(microseconds=1)
HOMEWORK = Homework(1, (1, 2), NOW, NOW + DAY, (NOW + DAY / 2,))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="usual"),
        pytest.param({"book_ids": tuple(range(1, MAX_BOOKS + 1))}, id="as many books as may be"),
        pytest.param({"book_ids": (1, 1)}, id="a book twice"),
        pytest.param({"end_date": NOW, "remind_dates": ()}, id="end equal to start"),
        pytest.param({"start_date": NOW - 9 * DAY, "end_date": NOW - 8 * DAY, "remind_dates": ()}, id="past"),
        pytest.param({"remind_dates": ()}, id="no reminders"),
        pytest.param({"remind_dates": (NOW, NOW + DAY)}, id="reminders at start and end"),
        pytest.param({"remind_dates": (NOW,) * MAX_REMINDERS}, id="as many reminders as may be"),
    ],
)
def test_valid_homework_is_accepted(changed: dict[str, Any]) -> None:
    check_homework(replace(HOMEWORK, **changed))


@pytest.mark.parametrize(
    ("changed", "refusal", "message"),
    [
        pytest.param(
            {"book_ids": tuple(range(1, MAX_BOOKS + 2))},
            InvalidValue,
            "bookIds may hold at most 50 books",
            id="too many books",
        ),
        pytest.param(
            {"end_date": NOW - INSTANT, "remind_dates": ()},
            InvalidValue,
            "endDate is before startDate",
            id="end before start",
        ),
        pytest.param(
            {"remind_dates": (NOW,) * (MAX_REMINDERS + 1)},
            InvalidValue,
            "remindDates may hold at most 50 moments",
            id="too many reminders",
        ),
        pytest.param(
            {"remind_dates": (NOW, NOW - INSTANT)},
            InvalidValue,
            "remindDates must lie between startDate and endDate",
            id="a reminder before the start",
        ),
        pytest.param(
            {"remind_dates": (NOW + DAY + INSTANT,)},
            InvalidValue,
            "remindDates must lie between startDate and endDate",
            id="a reminder after the end",
        ),
        pytest.param(
            {"start_date": datetime(1, 1, 1, tzinfo=UTC)}, InvalidValue, f"startDate {NO_YEAR}", id="1"
        ),
        pytest.param(
            {"start_date": datetime(1899, 12, 31, tzinfo=UTC)},
            InvalidValue,
            f"startDate {NO_YEAR}",
            id="1899",
        ),
        pytest.param(
            {"end_date": datetime(3000, 1, 1, tzinfo=UTC)}, InvalidValue, f"endDate {NO_YEAR}", id="3000"
        ),
        pytest.param(
            {"end_date": datetime(9999, 12, 31, tzinfo=UTC)}, InvalidValue, f"endDate {NO_YEAR}", id="9999"
        ),
    ],
)
def test_invalid_homework_is_rejected(changed: dict[str, Any], refusal: type[Rejected], message: str) -> None:
    with pytest.raises(refusal) as refused:
        check_homework(replace(HOMEWORK, **changed))

    assert refused.value.message == message
    [member] = refused.value.members
    assert message.count(member.partition(".")[0]) == 1


@pytest.mark.parametrize(
    ("book_ids", "missing"),
    [
        ((), ("bookIds",)),
        ((BLANK_ID,), ("bookIds.0",)),
        ((1, BLANK_ID, BLANK_ID), ("bookIds.1", "bookIds.2")),
        ((BLANK_ID,) * 1000, tuple(f"bookIds.{index}" for index in range(50))),
    ],
)
def test_homework_without_books_is_incomplete(book_ids: tuple[int, ...], missing: tuple[str, ...]) -> None:
    with pytest.raises(Incomplete) as refused:
        check_required(bookIds=book_ids, sessionId=1, text=" ", title="Weekly")

    assert refused.value.members == (*missing, "text")


def test_an_id_that_is_not_valid_is_given() -> None:
    check_required(bookIds=(1, None), sessionId=None)
