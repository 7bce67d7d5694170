"""The legacy answers, member by member in the documented order (docs/legacy-contract.md)."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

Node = dict[str, Any]
Shape = Callable[[Node, ZoneInfo], dict[str, Any]]


def wall_time(text: str | None, zone: ZoneInfo) -> str | None:
    """A moment of the schema as the legacy contract writes it, truncated to the minute."""
    return None if text is None else wall_minute(text[:16], zone)


@lru_cache(maxsize=8192)
def wall_minute(utc: str, zone: ZoneInfo) -> str:
    local = datetime.fromisoformat(f"{utc}Z").astimezone(zone)
    return f"{local.year:04d}/{local.month:02d}/{local.day:02d} {local.hour:02d}:{local.minute:02d}"


def page(content: list[dict[str, Any]], total: int, number: int, size: int) -> dict[str, Any]:
    total_pages = -(-total // size)
    return {
        "content": content,
        "first": number == 0,
        "last": number + 1 >= total_pages,
        "totalElements": total,
        "totalPages": total_pages,
        "numberOfElements": len(content),
        "size": size,
        "number": number,
        "sort": None,
    }


def session(node: Node, zone: ZoneInfo) -> dict[str, Any]:
    latest = node["latestAssignment"]
    return {
        "id": int(node["legacyId"]),
        "title": node["title"],
        "description": node["description"],
        "caregiverId": int(node["caregiver"]["legacyId"]),
        "caregiverName": node["caregiver"]["name"],
        "caregiverPosition": node["caregiver"]["position"],
        "clientId": int(node["client"]["legacyId"]),
        "clientOpptId": node["client"]["opptId"],
        "clientName": node["client"]["name"],
        "createDate": wall_time(node["createDate"], zone),
        "startDate": wall_time(node["startDate"], zone),
        "chatId": node["chatId"],
        "assignmentId": int(latest["legacyId"]) if latest else None,
        "assignmentName": latest["name"] if latest else None,
        "bookId": int(latest["book"]["legacyId"]) if latest else None,
        "assignmentCount": node["assignmentCount"],
        "completedAssignmentCount": node["completedAssignmentCount"],
        "pendingAssignmentCount": node["pendingAssignmentCount"],
        "lastAssignmentScore": node["lastAssignmentScore"],
        "isClosed": node["isClosed"],
        "runningStatus": node["runningStatus"],
        "documents": [],
        "assignments": [],
        "feedbacks": [],
    }


def assignment(node: Node, zone: ZoneInfo) -> dict[str, Any]:
    return {
        "id": int(node["legacyId"]),
        "bookId": int(node["book"]["legacyId"]),
        "name": node["name"],
        "sessionTitle": node["session"]["title"],
        "sessionId": int(node["session"]["legacyId"]),
        "moduleId": int(node["module"]["legacyId"]),
        "moduleName": node["module"]["name"],
        "caregiverId": int(node["caregiver"]["legacyId"]),
        "caregiverName": node["caregiver"]["name"],
        "clientId": int(node["client"]["legacyId"]),
        "clientName": node["client"]["name"],
        "assignDate": wall_time(node["assignDate"], zone),
        "submitDate": wall_time(node["submitDate"], zone),
        "feedbackStatus": node["feedbackStatus"],
        "feedbackSubmitDate": wall_time(node["feedbackSubmitDate"], zone),
        "startDate": wall_time(node["startDate"], zone),
        "status": node["status"],
        "isTest": node["isTest"],
        "score": node["score"],
        "drafts": [],
        "answers": [answer_set(each, node, zone) for each in submitted(node)],
        "autoSaveAnswers": [],
        "feedbacks": [],
    }


def submitted(node: Node) -> list[Node]:
    """The submission of the current attempt: none while pending, whatever earlier attempts hold."""
    if node["status"] != "COMPLETE":
        return []
    return [each for each in node["answerSets"] if each["attempt"] == node["attempt"]][:1]


def answer_set(node: Node, owner: Node, zone: ZoneInfo) -> dict[str, Any]:
    return {
        "id": int(node["legacyId"]),
        "saveType": node["saveType"],
        "metadata": None,
        "assignmentId": int(owner["legacyId"]),
        "submitDate": wall_time(node["submitDate"], zone),
        "answers": [answer(each) for each in node["answers"]],
    }


def answer(node: Node) -> dict[str, Any]:
    return {
        "questionText": node["questionText"],
        "answer": node["answer"],
        "metadata": None,
        "highlights": [],
    }
