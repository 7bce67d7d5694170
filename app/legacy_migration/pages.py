"""Reads what the legacy paths answered: pages and single assignments, into what `import` knows."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import orjson

from app.care.context import Role
from app.db.admin.records import Problem, Record
from app.db.moments import is_storable
from app.db.tables import AssignmentStatus, FeedbackStatus, SaveType, TimeState
from app.http.paths import ASSIGNMENTS, ROOT, SESSIONS
from app.legacy_migration.recorded_calls import Call

ASSIGNMENT = re.compile(rf"{ASSIGNMENTS}/[0-9]+")
WALL_TIME = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2}) ([0-9]{2}):([0-9]{2})")

Odd = Callable[[str], None]  # receives what is not imported


class Envelope(NamedTuple):
    state: TimeState
    total: int
    pages: int
    size: int
    number: int


@dataclass(frozen=True)
class Answered:
    """A recorded answer of a legacy path: an envelope and its items, or one assignment."""

    role: Role
    envelope: Envelope | None
    items: list[Record]


def read_answer(call: Call) -> Answered | None:
    """None of a call that the four paths do not answer with something to keep."""
    address = urlsplit(call.path)
    path = address.path[address.path.rfind(f"{ROOT}/") :]  # the old service may lie below a prefix
    is_list = path in (SESSIONS, ASSIGNMENTS)
    if call.method != "GET" or not (is_list or ASSIGNMENT.fullmatch(path)):
        return None
    if call.status != 200:
        raise Problem("status", f"is {call.status}: there is nothing to take over")
    body = call.answered()
    if body is None:
        raise Problem("answer", "is missing, and so is file")
    try:
        record = Record(orjson.loads(body))
    except orjson.JSONDecodeError:
        raise Problem("the answer", "is not JSON") from None
    role = Role.CLIENT if path == SESSIONS else Role.CAREGIVER
    if not is_list:
        return Answered(role, None, [record])
    return Answered(role, *read_page(record, address.query))


def read_page(page: Record, query: str) -> tuple[Envelope, list[Record]]:
    asked = parse_qs(query).get("time-state", [])
    if len(asked) != 1 or asked[0] not in list(TimeState):
        raise Problem("path", "does not say which time-state was asked for")
    items = page.records("content")
    total, pages, number = (page.number(name, 0) for name in ("totalElements", "totalPages", "number"))
    size = page.number("size", 1)
    if page.number("numberOfElements", 0) != len(items):
        raise Problem("numberOfElements", "is not the number of items in content")
    if pages != -(-total // size):
        raise Problem("totalPages", "does not fit totalElements and size")
    return Envelope(TimeState(asked[0]), total, pages, size, number), items


# --- items ----------------------------------------------------------------------------------------


def read_session(item: Record, zone: ZoneInfo, odd: Odd) -> dict[str, Any]:
    """By the names of the contract; moments as `import` reads them."""
    read = {
        "id": item.id("id"),
        "title": item.text("title"),
        "description": item.text("description"),
        "caregiverId": item.id("caregiverId"),
        "caregiverName": item.text("caregiverName"),
        "caregiverPosition": item.text("caregiverPosition"),
        "clientId": item.id("clientId"),
        "clientOpptId": item.text("clientOpptId"),
        "clientName": item.text("clientName"),
        "createDate": moment(item, "createDate", zone),
        "startDate": moment(item, "startDate", zone),
        "chatId": item.text("chatId"),
        "assignmentId": item.optional_id("assignmentId"),
        "assignmentName": item.take("assignmentName", "text", lambda v: isinstance(v, str), None),
        "bookId": item.optional_id("bookId"),
        "assignmentCount": item.number("assignmentCount", 0),
        "completedAssignmentCount": item.number("completedAssignmentCount", 0),
        "pendingAssignmentCount": item.number("pendingAssignmentCount", 0),
        "lastAssignmentScore": item.take("lastAssignmentScore", "an integer", lambda v: type(v) is int, None),
        "isClosed": item.flag("isClosed"),
        "runningStatus": item.one_of("runningStatus", TimeState, TimeState.RUNNING),
    }
    leave_out(item, "session", ("documents", "assignments", "feedbacks"), odd)
    return read


def read_assignment(item: Record, zone: ZoneInfo, odd: Odd) -> dict[str, Any]:
    number = item.id("id")
    sets = list(read_answer_sets(item.records("answers", []), number, zone, odd))
    read = {
        "id": number,
        "bookId": item.id("bookId"),
        "name": item.text("name"),
        "sessionTitle": item.text("sessionTitle"),
        "sessionId": item.id("sessionId"),
        "moduleId": item.id("moduleId"),
        "moduleName": item.text("moduleName"),
        "caregiverId": item.id("caregiverId"),
        "caregiverName": item.text("caregiverName"),
        "clientId": item.id("clientId"),
        "clientName": item.text("clientName"),
        "assignDate": moment(item, "assignDate", zone),
        "submitDate": optional_moment(item, "submitDate", zone),
        "feedbackStatus": item.one_of("feedbackStatus", FeedbackStatus, FeedbackStatus.WAITING),
        "feedbackSubmitDate": optional_moment(item, "feedbackSubmitDate", zone),
        "startDate": moment(item, "startDate", zone),
        "status": item.one_of("status", AssignmentStatus, AssignmentStatus.PENDING),
        "isTest": item.flag("isTest"),
        "score": item.number("score", 0),
        "answers": sets,
    }
    if (read["status"] == AssignmentStatus.COMPLETE) != (read["submitDate"] is not None):
        raise Problem(f"{item.path}submitDate", "belongs to a COMPLETE assignment, and to no other")
    if (read["feedbackStatus"] == FeedbackStatus.SUBMITTED) != (read["feedbackSubmitDate"] is not None):
        raise Problem(f"{item.path}feedbackSubmitDate", "belongs to a SUBMITTED feedbackStatus")
    if len(sets) > (read["status"] == AssignmentStatus.COMPLETE):
        odd("answers of earlier attempts: kept, but no longer shown on the legacy paths")
    leave_out(item, "assignment", ("drafts", "autoSaveAnswers", "feedbacks"), odd)
    return read


def read_answer_sets(
    sets: list[Record], assignment: int, zone: ZoneInfo, odd: Odd
) -> Iterator[dict[str, Any]]:
    for one in sets:
        save_type = one.one_of("saveType", SaveType, SaveType.FINAL)
        if one.id("assignmentId") != assignment:
            raise Problem(f"{one.path}assignmentId", "is that of another assignment")
        read = {
            "id": one.id("id"),
            "submitDate": optional_moment(one, "submitDate", zone),
            "answers": [read_one_answer(answer, odd) for answer in one.records("answers")],
        }
        leave_out(one, "answer set", ("metadata",), odd)
        if save_type == SaveType.FINAL:
            yield read
        else:
            odd(f"answers that are a {save_type}")


def read_one_answer(answer: Record, odd: Odd) -> dict[str, str]:
    read = {"questionText": answer.text("questionText"), "answer": answer.text("answer")}
    leave_out(answer, "answer", ("metadata", "highlights"), odd)
    return read


def leave_out(item: Record, thing: str, empty: tuple[str, ...], odd: Odd) -> None:
    """What the contract says is always empty, and what it does not say at all."""
    for name in empty:
        item.left.discard(name)
        if item.given.get(name) not in (None, []):
            odd(f"{name} of the {thing}, which are not empty")
    for name in sorted(item.left):
        odd(f"{name} of the {thing}, which nobody knows here")


# --- moments --------------------------------------------------------------------------------------


def moment(item: Record, member: str, zone: ZoneInfo) -> str:
    return read_wall_time(item.path + member, item.text(member), zone)


def optional_moment(item: Record, member: str, zone: ZoneInfo) -> str | None:
    text = item.optional_text(member)
    return None if text is None else read_wall_time(item.path + member, text, zone)


def read_wall_time(member: str, text: str, zone: ZoneInfo) -> str:
    found = as_utc(text, zone)
    if found is None:
        raise Problem(member, "must be a date like 2026/11/21 09:00, of the years 1900 to 2999")
    if not found:
        raise Problem(
            member, f"is skipped by a clock change in {zone.key}: is CARE_TIME_ZONE that of the old service?"
        )
    return found


@lru_cache(maxsize=8192)
def as_utc(text: str, zone: ZoneInfo) -> str | None:
    """None of what is no wall time, "" of what clocks never showed; the first of two that they showed."""
    found = WALL_TIME.fullmatch(text)
    if found is None:
        return None
    try:
        local = datetime(*map(int, found.groups()), tzinfo=zone)  # type: ignore[misc,arg-type]
        utc = local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if not is_storable(utc):
        return None
    if utc.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        return ""
    return utc.isoformat()
