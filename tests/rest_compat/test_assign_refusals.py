"""The PUT rejects missing and unreadable members. The tables test the function that reads the body; a few
cases go through the service, which writes nothing."""

import json
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.care.errors import Incomplete, InvalidValue, Rejected
from app.rest_compat.homework import read_homework
from tests.callers import Gateway
from tests.database_rows import stored
from tests.rest_compat.legacy import ABSENT, ASSIGNMENTS, homework, rejection_of

pytestmark = pytest.mark.sqlite_only

Changed = dict[str, Any]
REQUIRED = ("bookIds", "startDate", "startTime", "endDate", "endTime", "sessionId")
REMINDER = {"date": "2026/11/23", "time": "09:00"}
STATUS = {Incomplete: 404, InvalidValue: 400}


@pytest.fixture(autouse=True, scope="module")
def nothing_is_written(standing: Gateway) -> Iterator[None]:
    before = stored(standing)
    yield
    assert stored(standing) == before


def read(changed: Changed) -> tuple[int, str]:
    """The status and the message of the function's error."""
    with pytest.raises(Rejected) as refused:
        read_homework(json.dumps(homework(**changed)).encode(), ZoneInfo("UTC"))
    return STATUS[type(refused.value)], str(refused.value)


def put(gateway: Gateway, changed: Changed) -> tuple[int, str]:
    return rejection_of(gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework(**changed)))


# --- missing: 404 ----------------------------------------------------------------------------------

MISSING: dict[str, tuple[Changed, str]] = {
    "bookIds and endTime": ({"endTime": None, "bookIds": ABSENT}, "bookIds, endTime"),
    "all": (dict.fromkeys(REQUIRED, ABSENT), ", ".join(REQUIRED)),
    "all, in every way": (
        dict(zip(REQUIRED, ([], "", " ", None, "\t\n", ABSENT), strict=True)),
        ", ".join(REQUIRED),
    ),
    "a reminder's date": ({"remindDates": [{"time": "09:00"}]}, "remindDates[0].date"),
    "a reminder's time": ({"remindDates": [REMINDER, {"date": "2026/11/23"}]}, "remindDates[1].time"),
    "a reminder's both": (
        {"remindDates": [{}, REMINDER, {"date": [], "time": " "}, REMINDER | {"time": []}]},
        "remindDates[0].date, remindDates[0].time, remindDates[2].date, remindDates[2].time, "
        "remindDates[3].time",
    ),
    "a member and a reminder's": (
        {"endDate": "", "remindDates": [{"date": "x"}]},
        "endDate, remindDates[0].time",
    ),
    "the only book": ({"bookIds": [None]}, "bookIds[0]"),
    "a blank book": ({"bookIds": [""]}, "bookIds[0]"),
    "a book behind another": ({"bookIds": [1, None]}, "bookIds[1]"),
    "two books and an unreadable one": ({"bookIds": [" ", "x", None]}, "bookIds[0], bookIds[2]"),
    "two reminders": ({"remindDates": [None, None]}, "remindDates[0], remindDates[1]"),
    "a blank reminder": ({"remindDates": [REMINDER, " "]}, "remindDates[1]"),
    "a member, a book and reminders": (
        {"endDate": None, "bookIds": [1, ""], "remindDates": [None, {"date": "x"}]},
        "bookIds[1], endDate, remindDates[0], remindDates[1].time",
    ),
}


EMPTY: dict[str, object] = {"absent": ABSENT, "null": None, "empty": "", "blank": "  ", "list": []}


@pytest.mark.parametrize("value", EMPTY.values(), ids=EMPTY)
def test_an_empty_required_member_is_missing(value: object) -> None:
    for member in REQUIRED:
        assert read({member: value}) == (404, f"required and missing: {member}")


@pytest.mark.parametrize(("changed", "members"), MISSING.values(), ids=MISSING)
def test_all_missing_members_are_named(changed: Changed, members: str) -> None:
    assert read(changed) == (404, f"required and missing: {members}")


# --- unreadable: 400 -------------------------------------------------------------------------------

NO_DATE = "must be a date like 2026/11/21 or 2026-11-21"
NO_DAY = "is no date of the calendar"
NO_YEAR = "must lie between the years 1900 and 2999"
NO_TIME = "must be a time like 18:30"
NO_MINUTE = "is no time of the day"
DATES: dict[str, tuple[object, str]] = {
    "30 February": ("2023-02-30", NO_DAY),
    "29 February in 2023": ("2023/02/29", NO_DAY),
    "month 13": ("2023-13-01", NO_DAY),
    "month 0": ("2023-00-01", NO_DAY),
    "day 0": ("2023-01-00", NO_DAY),
    "year 0": ("0000-01-01", NO_DAY),
    "mixed separators": ("2023/02-01", NO_DATE),
    "the other mix": ("2023-02/01", NO_DATE),
    "dots": ("2023.02.01", NO_DATE),
    "no separators": ("20230201", NO_DATE),
    "day first": ("01/02/2023", NO_DATE),
    "one digit": ("2023/2/1", NO_DATE),
    "two-digit year": ("23/02/01", NO_DATE),
    "five-digit year": ("12023/02/01", NO_DATE),
    "a space behind": ("2023/02/01 ", NO_DATE),
    "a line break behind": ("2023/02/01\n", NO_DATE),
    "with its time": ("2023-02-01T08:00", NO_DATE),
    "a week": ("2026-W01", NO_DATE),
    "arabic digits": ("٢٠٢٦/١١/٢٢", NO_DATE),
    "one fullwidth digit": ("2026/11/2２", NO_DATE),
    "text": ("tomorrow", NO_DATE),
    "a number": (20230201, NO_DATE),
    "a fraction": (2023.5, NO_DATE),
    "true": (True, NO_DATE),
    "an object": ({}, NO_DATE),
    "a list": (["2023/02/01"], NO_DATE),
}
TIMES: dict[str, tuple[object, str]] = {
    "25:61": ("25:61", NO_MINUTE),
    "24:00": ("24:00", NO_MINUTE),
    "23:60": ("23:60", NO_MINUTE),
    "one digit": ("9:5", NO_TIME),
    "one-digit hour": ("9:05", NO_TIME),
    "seconds": ("09:05:00", NO_TIME),
    "no colon": ("0905", NO_TIME),
    "a dot": ("09.05", NO_TIME),
    "twelve hours": ("09:05 PM", NO_TIME),
    "a sign": ("-9:05", NO_TIME),
    "a zone": ("09:05Z", NO_TIME),
    "a line break behind": ("09:05\n", NO_TIME),
    "arabic digits": ("٠٩:٠٥", NO_TIME),
    "fullwidth colon": ("09：05", NO_TIME),
    "a number": (905, NO_TIME),
    "false": (False, NO_TIME),
    "an object": ({"hour": 9}, NO_TIME),
}


def test_unreadable_dates_are_rejected() -> None:
    for value, reason in DATES.values():
        for member in ("startDate", "endDate"):
            assert read({member: value}) == (400, f"{member} {reason}")
        reminders = [REMINDER, REMINDER | {"date": value}]
        assert read({"remindDates": reminders}) == (400, f"remindDates[1].date {reason}")


def test_unreadable_times_are_rejected() -> None:
    for value, reason in TIMES.values():
        for member in ("startTime", "endTime"):
            assert read({member: value}) == (400, f"{member} {reason}")
        assert read({"remindDates": [REMINDER | {"time": value}]}) == (400, f"remindDates[0].time {reason}")


NO_ID: dict[str, object] = {
    "text": "1",
    "a fraction": 1.5,
    "a whole fraction": 1.0,
    "an exponent": 1e3,
    "true": True,
    "false": False,
    "an object": {"id": 1},
    "negative": -1,
    "2^63": 2**63,
    "2^64": 2**64,
    "30 digits": 10**29,
}


@pytest.mark.parametrize("value", NO_ID.values(), ids=NO_ID)
def test_an_id_is_a_json_integer_within_the_range_of_ids(value: object) -> None:
    assert read({"sessionId": value}) == (400, "sessionId must be an integer id")
    assert read({"bookIds": [1, value]}) == (400, "bookIds[1] must be an integer id")


@pytest.mark.parametrize("value", [[1], []], ids=["a list", "an empty list"])
def test_an_item_of_book_ids_is_an_id(value: object) -> None:
    assert read({"bookIds": [1, value]}) == (400, "bookIds[1] must be an integer id")


def test_only_the_first_items_of_a_long_list_are_named() -> None:
    """Otherwise a body of 64 KiB would get a response many times as long."""
    books = ", ".join(f"bookIds[{index}]" for index in range(50))
    dates = ", ".join(f"remindDates[{index}].time" for index in range(50))

    assert read({"bookIds": [None] * 5000}) == (404, f"required and missing: {books}")
    assert read({"remindDates": [{"date": "x"}] * 2000}) == (404, f"required and missing: {dates}")


NO_LIST = "bookIds must be an array of integers"
NO_OBJECTS = "remindDates must be an array of objects"
NO_OBJECT = "remindDates[1] must be an object of date and time"
OUTSIDE = "remindDates must lie between startDate and endDate: remindDates[1]"
BOUNDS: dict[str, tuple[Changed, str]] = {
    "bookIds is text": ({"bookIds": "1, 2"}, NO_LIST),
    "bookIds is a number": ({"bookIds": 1}, NO_LIST),
    "bookIds is an object": ({"bookIds": {}}, NO_LIST),
    "bookIds is true": ({"bookIds": True}, NO_LIST),
    "sessionId is a list": ({"sessionId": [1]}, "sessionId must be an integer id"),
    "sessionId is a list of null": ({"sessionId": [None]}, "sessionId must be an integer id"),
    "51 books": ({"bookIds": list(range(1, 52))}, "bookIds may hold at most 50 books"),
    "51 times a book": ({"bookIds": [1] * 51}, "bookIds may hold at most 50 books"),
    "51 reminders": ({"remindDates": [REMINDER] * 51}, "remindDates may hold at most 50 moments"),
    "remindDates is text": ({"remindDates": "2026/11/23 09:00"}, NO_OBJECTS),
    "remindDates is blank": ({"remindDates": ""}, NO_OBJECTS),
    "remindDates is an object": ({"remindDates": REMINDER}, NO_OBJECTS),
    "remindDates is false": ({"remindDates": False}, NO_OBJECTS),
    "remindDates holds text": ({"remindDates": [REMINDER, "2026/11/23"]}, NO_OBJECT),
    "remindDates holds a list": ({"remindDates": [REMINDER, []]}, NO_OBJECT),
}


@pytest.mark.parametrize(("changed", "message"), BOUNDS.values(), ids=BOUNDS)
def test_members_of_the_wrong_type_or_length_are_rejected(changed: Changed, message: str) -> None:
    assert read(changed) == (400, message)


def test_the_first_unreadable_member_in_the_documented_order_is_named() -> None:
    members = ["bookIds", "startDate", "startTime", "endDate", "endTime", "remindDates", "sessionId"]
    for index, member in enumerate(members):
        status, message = read(dict.fromkeys(members[index:], "x"))
        assert (status, message.partition(" ")[0]) == (400, member)


# --- through the service ---------------------------------------------------------------------------

RULES: dict[str, tuple[Changed, str]] = {  # what the rules of homework reject, once the body is read
    "a minute after the end": ({"remindDates": [REMINDER, {"date": "2026/11/29", "time": "18:31"}]}, OUTSIDE),
    "end a minute before start": (
        {"endDate": "2026/11/22", "endTime": "07:59", "remindDates": []},
        "endDate is before startDate",
    ),
    "an early reminder": (
        {"remindDates": [{"date": "1899/12/31", "time": "08:00"}]},
        f"remindDates {NO_YEAR}: remindDates[0]",
    ),
    "an early start": ({"startDate": "1899-12-31"}, f"startDate {NO_YEAR}"),
    "a late end": ({"endDate": "3000-01-01"}, f"endDate {NO_YEAR}"),
}
READ: dict[str, tuple[Changed, str]] = {
    "a date": ({"startDate": "2023-02-30"}, f"startDate {NO_DAY}"),
    "a date in other digits": ({"endDate": "٢٠٢٦/١١/٢٢"}, f"endDate {NO_DATE}"),
    "a time": ({"endTime": "25:61"}, f"endTime {NO_MINUTE}"),
    "a reminder's time": ({"remindDates": [REMINDER | {"time": 905}]}, f"remindDates[0].time {NO_TIME}"),
    "an id": ({"sessionId": 2**64}, "sessionId must be an integer id"),
    "51 books": BOUNDS["51 books"],
}


@pytest.mark.parametrize(("changed", "message"), (RULES | READ).values(), ids=RULES | READ)
def test_the_service_rejects_homework(standing: Gateway, changed: Changed, message: str) -> None:
    assert put(standing, changed) == (400, message)


@pytest.mark.parametrize("name", ["all, in every way", "a member, a book and reminders"])
def test_the_service_names_what_is_missing(standing: Gateway, name: str) -> None:
    changed, members = MISSING[name]

    assert put(standing, changed) == (404, f"required and missing: {members}")
