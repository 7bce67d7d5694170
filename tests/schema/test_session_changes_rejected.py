"""`createSession`, `updateSession` and `closeSession`, rejected: nothing is written.

Contract: the tables "Who may do what when" and "Refusals"; the limits in the descriptions of the inputs.
"""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.factories import a_book
from tests.schema.changing import Refusal, a_world_to_change, check_refusals
from tests.schema.worlds import global_id

START = "2026-12-01T09:00:00Z"
WINDOW = {"startDate": START, "endDate": "2026-12-08T09:00:00Z"}
TOO_LONG_TITLE = "title may have at most 200 characters"
TOO_LONG_DESCRIPTION = "description may have at most 10000 characters"
UNSTORABLE = "holds a character that cannot be stored"
OUT_OF_TIME = "must lie between the years 1900 and 2999"
TOO_EARLY, TOO_LATE = "1899-12-31T23:59:59.999999Z", "3000-01-01T00:00:00Z"
NO_CLIENT = "client not found"


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.import_records([*a_world_to_change(), *(a_book(n) for n in range(100, 151))])
    return gateway


# --- opening ---------------------------------------------------------------------------------------

ASKED = {"clientOpptId": "OPPT-3", "title": "First steps", "description": "", "startDate": START}
OF_TEXTS: dict[str, Refusal] = {
    "an empty title": ({"title": ""}, "INCOMPLETE", "title", "required and missing: title"),
    "a blank title": ({"title": " \t\n\u2003"}, "INCOMPLETE", "title", "required and missing: title"),
    "a title too long by one": ({"title": "ü" * 201}, "UNREADABLE", "title", TOO_LONG_TITLE),
    "a zero character in the title": ({"title": "A\0b"}, "UNREADABLE", "title", f"title {UNSTORABLE}"),
    "nothing but a zero character": ({"title": "\0"}, "UNREADABLE", "title", f"title {UNSTORABLE}"),
    "a description too long by one": (
        {"description": "ü" * 10_001},
        "UNREADABLE",
        "description",
        TOO_LONG_DESCRIPTION,
    ),
    "a zero character in the description": (
        {"description": "\0"},
        "UNREADABLE",
        "description",
        f"description {UNSTORABLE}",
    ),
}
OF_START: dict[str, Refusal] = {
    "a start before 1900": ({"startDate": TOO_EARLY}, "UNREADABLE", "startDate", f"startDate {OUT_OF_TIME}"),
    "a start after 2999": ({"startDate": TOO_LATE}, "UNREADABLE", "startDate", f"startDate {OUT_OF_TIME}"),
    "a start in the last year of the calendar": (
        {"startDate": "9999-12-31T23:59:59Z"},
        "UNREADABLE",
        "startDate",
        f"startDate {OUT_OF_TIME}",
    ),
}
COMBINED = ("UNREADABLE", "clientId", "clientId cannot be combined with clientOpptId")
MISSING_CLIENT = ("INCOMPLETE", "clientOpptId", "required and missing: clientOpptId")
OF_CLIENT: dict[str, Refusal] = (
    {
        "no client": ({"clientOpptId": ...}, *MISSING_CLIENT),
        "null for a client": ({"clientOpptId": None, "clientId": None}, *MISSING_CLIENT),
        "an empty identifier": ({"clientOpptId": ""}, *MISSING_CLIENT),
        "a blank identifier": ({"clientOpptId": "  "}, *MISSING_CLIENT),
        "both ids": ({"clientId": "1"}, *COMBINED),
        "an id and an empty identifier": ({"clientId": "1", "clientOpptId": ""}, *COMBINED),
        "an identifier and an empty id": (
            {"clientId": ""},
            "INCOMPLETE",
            "clientId",
            "required and missing: clientId",
        ),
        "an unknown identifier": ({"clientOpptId": "OPPT-99"}, "NOT_FOUND", "clientOpptId", NO_CLIENT),
        "an identifier in other letters": (
            {"clientOpptId": "oppt-3"},
            "NOT_FOUND",
            "clientOpptId",
            NO_CLIENT,
        ),
        "a zero character": ({"clientOpptId": "OPPT-3\0"}, "NOT_FOUND", "clientOpptId", NO_CLIENT),
        "a very long one": ({"clientOpptId": "9" * 50_000}, "NOT_FOUND", "clientOpptId", NO_CLIENT),
    }
    | {
        what: ({"clientOpptId": ..., "clientId": client}, "NOT_FOUND", "clientId", NO_CLIENT)
        for what, client in {
            "an unknown client": "99",
            "a client without caregiver": "3",
            "the client of nothing": "0",
            "the id of a book": global_id("Book", 1),
            "an id behind the largest": str(2**63),
        }.items()
    }
    | {
        "a blank id": (
            {"clientOpptId": ..., "clientId": " "},
            "INCOMPLETE",
            "clientId",
            "required and missing: clientId",
        ),
    }
)


def in_homework(changed: dict[str, Any], member: str, message: str, code: str = "UNREADABLE") -> Refusal:
    return {"homework": {"bookIds": ["1"], **WINDOW} | changed}, code, f"homework.{member}", message


def moments(many: int) -> list[str]:
    return [f"2026-12-02T10:{n:02}:00Z" for n in range(many)]


NO_BOOK = ("bookIds.1", "book not found", "NOT_FOUND")
REMINDERS = ("remindDates.0", "homework.remindDates must lie between startDate and endDate")
OF_HOMEWORK: dict[str, Refusal] = {
    "no books": in_homework(
        {"bookIds": []}, "bookIds", "required and missing: homework.bookIds", "INCOMPLETE"
    ),
    "a blank book": in_homework(
        {"bookIds": ["1", ""]}, "bookIds.1", "required and missing: homework.bookIds.1", "INCOMPLETE"
    ),
    "51 books": in_homework(
        {"bookIds": [str(n) for n in range(100, 151)]},
        "bookIds",
        "homework.bookIds may hold at most 50 books",
    ),
    "a book 51 times": in_homework(
        {"bookIds": ["1"] * 51}, "bookIds", "homework.bookIds may hold at most 50 books"
    ),
    "an unknown book": in_homework({"bookIds": ["1", "99"]}, *NO_BOOK),
    "the id of a client": in_homework({"bookIds": ["1", global_id("Client", 1)]}, *NO_BOOK),
    "a retired book": in_homework({"bookIds": ["1", "4"]}, *NO_BOOK),
    "an end before the start": in_homework(
        {"endDate": "2026-12-01T08:59:59Z"}, "endDate", "homework.endDate is before startDate"
    ),
    "a start before the session's": in_homework(
        {"startDate": "2026-12-01T08:59:59Z"}, "startDate", "homework.startDate is before the session's"
    ),
    "homework that starts before 1900": in_homework(
        {"startDate": TOO_EARLY}, "startDate", f"homework.startDate {OUT_OF_TIME}"
    ),
    "homework that ends after 2999": in_homework(
        {"endDate": TOO_LATE}, "endDate", f"homework.endDate {OUT_OF_TIME}"
    ),
    "51 reminders": in_homework(
        {"remindDates": moments(51)},
        "remindDates",
        "homework.remindDates may hold at most 50 moments",
    ),
    "a reminder before the window": in_homework({"remindDates": ["2026-12-01T08:59:59Z"]}, *REMINDERS),
    "a reminder behind the window": in_homework({"remindDates": ["2026-12-08T09:00:01Z"]}, *REMINDERS),
    "an unknown book for an unknown client": (
        {"clientOpptId": "OPPT-99", **in_homework({"bookIds": ["99"]}, "", "")[0]},
        "NOT_FOUND",
        "clientOpptId",
        NO_CLIENT,
    ),
}
COUNT, DAYS = "repeat.count must lie between 1 and 52", "repeat.everyDays must lie between 1 and 366"
OF_REPEAT: dict[str, Refusal] = {
    f"{count} times every {days} days": (
        {"repeat": {"count": count, "everyDays": days}}, "UNREADABLE", member, message,
    )
    for count, days, member, message in [
        (0, 7, "repeat.count", COUNT),
        (-1, 7, "repeat.count", COUNT),
        (53, 7, "repeat.count", COUNT),
        (2**31 - 1, 7, "repeat.count", COUNT),
        (1, 0, "repeat.everyDays", DAYS),
        (2, 0, "repeat.everyDays", DAYS),
        (2, -7, "repeat.everyDays", DAYS),
        (2, 367, "repeat.everyDays", DAYS),
    ]
} | {
    "a repetition after 2999": (
        {"startDate": "2999-12-31T09:00:00Z", "repeat": {"count": 2, "everyDays": 1}},
        "UNREADABLE",
        "repeat",
        f"repeat {OUT_OF_TIME}",
    ),
    "repeated homework at the end of the calendar": (
        {
            "homework": {"bookIds": ["1"], **WINDOW, "endDate": "9999-12-31T23:59:59Z"},
            "repeat": {"count": 2, "everyDays": 1},
        },
        "UNREADABLE",
        "homework.endDate",
        f"homework.endDate {OUT_OF_TIME}",
    ),
    "201 assignments and more": (
        {
            "homework": {"bookIds": [str(n) for n in range(100, 141)], **WINDOW},
            "repeat": {"count": 5, "everyDays": 7},
        },
        "UNREADABLE",
        "homework.bookIds",
        "homework.bookIds may plan at most 200 assignments at once",
    ),
}  # fmt: skip


def test_correctable_errors_of_a_new_session_are_user_errors(world: Gateway) -> None:
    rejections = OF_TEXTS | OF_START | OF_CLIENT | OF_HOMEWORK | OF_REPEAT

    check_refusals(world, "createSession", ASKED, rejections)


# --- changing and closing --------------------------------------------------------------------------

CLOSED = ("NOT_RUNNING", "sessionId", "the session is closed")
NO_SESSION = {
    what: ({"sessionId": session}, "NOT_FOUND", "sessionId", "session not found")
    for what, session in {
        "another's session": "5",
        "an unknown session": "99",
        "the session of nothing": "0",
        "the id of an assignment": global_id("Assignment", 1),
        "no id at all": "!",
        "an id behind the largest": str(2**63),
    }.items()
} | {
    "a blank id": ({"sessionId": " "}, "INCOMPLETE", "sessionId", "required and missing: sessionId"),
}
STARTED = ("WRONG_STATE", "startDate", "the session has started")
OF_UPDATE: dict[str, Refusal] = {
    **NO_SESSION,
    **OF_TEXTS,
    **OF_START,
    "a closed session": ({"sessionId": "3"}, *CLOSED),
    "a closed session that nothing is changed of": ({"sessionId": "3", "title": ...}, *CLOSED),
    "a new start of a closed session": ({"sessionId": "3", "startDate": START}, *CLOSED),
    "a new start of a running session": ({"startDate": START}, *STARTED),
    "an earlier start of a running session": ({"startDate": "2026-01-01T00:00:00Z"}, *STARTED),
    "a start of a running session that is right now": ({"startDate": "2026-11-21T09:00:00Z"}, *STARTED),
}


@pytest.mark.sqlite_only
def test_correctable_errors_of_an_update_are_user_errors(world: Gateway) -> None:
    check_refusals(world, "updateSession", {"sessionId": "1", "title": "Another"}, OF_UPDATE)


@pytest.mark.sqlite_only
def test_correctable_errors_of_closing_are_user_errors(world: Gateway) -> None:
    check_refusals(
        world, "closeSession", {}, {**NO_SESSION, "a closed session": ({"sessionId": "3"}, *CLOSED)}
    )
