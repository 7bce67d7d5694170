"""Reads recorded responses of the legacy paths: pages of sessions or assignments, and single assignments."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import orjson

from app.care.context import Role
from app.db.moments import is_storable
from app.db.tables import AssignmentStatus, FeedbackStatus, SaveType, TimeState
from app.http.paths import ASSIGNMENTS, ROOT, SESSIONS
from app.legacy_migration.json_object import Problem, Record
from app.legacy_migration.recorded_calls import Call

ASSIGNMENT = re.compile(rf"{ASSIGNMENTS}/[0-9]+")
LOCAL_TIME = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2}) ([0-9]{2}):([0-9]{2})")

Members = dict[str, Any]  # of an item, with the names of the contract and moments as `import` reads them
Ignored = Counter[str]  # how often something in the recording is not imported


class Envelope(NamedTuple):
    state: TimeState
    total: int
    pages: int
    size: int
    number: int


@dataclass(frozen=True)
class RecordedResponse:
    role: Role  # of the user whose token was used
    envelope: Envelope | None  # None for a single assignment
    items: list[Record]


def read_response(call: Call) -> RecordedResponse | None:
    """None if the call is not a read of a legacy path."""
    address = urlsplit(call.path)
    path = address.path[address.path.rfind(f"{ROOT}/") :]  # the old service may have a path prefix
    is_list = path in (SESSIONS, ASSIGNMENTS)
    if call.method != "GET" or not (is_list or ASSIGNMENT.fullmatch(path)):
        return None
    if call.status != 200:
        raise Problem("status", f"is {call.status}: only responses with 200 can be imported")
    body = call.response_body()
    if body is None:
        raise Problem("answer", "is missing, and so is file")
    try:
        record = Record(orjson.loads(body))
    except orjson.JSONDecodeError:
        raise Problem("the response", "is not JSON") from None
    if call.user is None:
        raise Problem("userName", "is missing: whose token was used?")
    role = Role.CLIENT if path == SESSIONS else Role.CAREGIVER
    return RecordedResponse(role, *(read_page(record, address.query) if is_list else (None, [record])))


def read_page(page: Record, query: str) -> tuple[Envelope, list[Record]]:
    states = parse_qs(query).get("time-state", [])
    if len(states) != 1 or states[0] not in list(TimeState):
        raise Problem("path", "must have one valid time-state")
    items = page.records("content")
    total, pages, number = (page.number(name, 0) for name in ("totalElements", "totalPages", "number"))
    size = page.number("size", 1)
    if page.number("numberOfElements", 0) != len(items):
        raise Problem("numberOfElements", "is not the number of items in content")
    if pages != -(-total // size):
        raise Problem("totalPages", "does not fit totalElements and size")
    return Envelope(TimeState(states[0]), total, pages, size, number), items


# --- items ----------------------------------------------------------------------------------------


def read_session(item: Record, zone: ZoneInfo, ignored: Ignored) -> Members:
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
    ignore_rest(item, "session", ("documents", "assignments", "feedbacks"), ignored)
    return read


def read_assignment(item: Record, zone: ZoneInfo, ignored: Ignored) -> Members:
    number = item.id("id")
    sets = list(read_answer_sets(item.records("answers", []), number, zone, ignored))
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
        raise Problem(f"{item.path}submitDate", "must be present exactly if status is COMPLETE")
    if (read["feedbackStatus"] == FeedbackStatus.SUBMITTED) != (read["feedbackSubmitDate"] is not None):
        raise Problem(
            f"{item.path}feedbackSubmitDate", "must be present exactly if feedbackStatus is SUBMITTED"
        )
    if len(sets) > (read["status"] == AssignmentStatus.COMPLETE):
        ignored["earlier attempts: imported, but only GraphQL shows them"] += 1
    ignore_rest(item, "assignment", ("drafts", "autoSaveAnswers", "feedbacks"), ignored)
    return read


def read_answer_sets(
    sets: list[Record], assignment: int, zone: ZoneInfo, ignored: Ignored
) -> Iterator[Members]:
    for one in sets:
        save_type = one.one_of("saveType", SaveType, SaveType.FINAL)
        if one.id("assignmentId") != assignment:
            raise Problem(f"{one.path}assignmentId", "is the id of another assignment")
        read = {
            "id": one.id("id"),
            "submitDate": optional_moment(one, "submitDate", zone),
            "answers": [read_answer(answer, ignored) for answer in one.records("answers")],
        }
        ignore_rest(one, "answer set", ("metadata",), ignored)
        if save_type == SaveType.FINAL:
            yield read
        else:
            ignored[f"answer sets with saveType {save_type}"] += 1


def read_answer(answer: Record, ignored: Ignored) -> Members:
    read = {"questionText": answer.text("questionText"), "answer": answer.text("answer")}
    ignore_rest(answer, "answer", ("metadata", "highlights"), ignored)
    return read


def ignore_rest(item: Record, kind: str, empty: tuple[str, ...], ignored: Ignored) -> None:
    """Counts the members that the contract documents as always empty but are not, and unknown members."""
    for name in empty:
        item.left.discard(name)
        if item.given.get(name) not in (None, []):
            ignored[f"{name} of the {kind}: not empty"] += 1
    for name in sorted(item.left):
        ignored[f"{name} of the {kind}: unknown member"] += 1


# --- moments --------------------------------------------------------------------------------------


def moment(item: Record, member: str, zone: ZoneInfo) -> str:
    try:
        return as_utc(item.text(member), zone)
    except ValueError as error:
        raise Problem(item.path + member, str(error)) from None


def optional_moment(item: Record, member: str, zone: ZoneInfo) -> str | None:
    return None if item.optional_text(member) is None else moment(item, member, zone)


@lru_cache(maxsize=8192)
def as_utc(text: str, zone: ZoneInfo) -> str:
    """Takes the first moment of a local time that a clock change repeats."""
    local = utc = None
    if found := LOCAL_TIME.fullmatch(text):
        with suppress(ValueError, OverflowError):
            local = datetime(*map(int, found.groups()), tzinfo=zone)  # type: ignore[misc,arg-type]
            utc = local.astimezone(UTC)
    if utc is None or not is_storable(utc):
        raise ValueError("must be a date like 2026/11/21 09:00, of the years 1900 to 2999")
    if utc.astimezone(zone) != local:  # datetimes of one zone compare by their local time
        raise ValueError(
            f"is skipped by a clock change in {zone.key}: is CARE_TIME_ZONE that of the old service?"
        )
    return utc.isoformat()
