"""The legacy response bodies, member by member in the documented order (docs/legacy-contract.md)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

MAX_CACHED = 8192

Node = dict[str, Any]


class LocalTimes(dict[str | None, str | None]):
    """Maps a DateTime of the schema to local time in the service zone, truncated to the minute. A cache, as
    a page has up to some hundred of them."""

    def __init__(self, zone: ZoneInfo) -> None:
        super().__init__({None: None})
        self.zone = zone

    def __missing__(self, moment: str) -> str:
        if len(self) > MAX_CACHED:
            self.clear()
            self[None] = None
        local = datetime.fromisoformat(f"{moment[:16]}Z").astimezone(self.zone)
        text = local.isoformat(" ", "minutes")[:16].replace("-", "/")
        self[moment] = text
        return text


Body = Callable[[Node, LocalTimes], dict[str, Any]]


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


def session(node: Node, local_times: LocalTimes) -> dict[str, Any]:
    caregiver, client, latest = node["caregiver"], node["client"], node["latestAssignment"]
    return {
        "id": int(node["legacyId"]),
        "title": node["title"],
        "description": node["description"],
        "caregiverId": int(caregiver["legacyId"]),
        "caregiverName": caregiver["name"],
        "caregiverPosition": caregiver["position"],
        "clientId": int(client["legacyId"]),
        "clientOpptId": client["opptId"],
        "clientName": client["name"],
        "createDate": local_times[node["createDate"]],
        "startDate": local_times[node["startDate"]],
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


def assignment(node: Node, local_times: LocalTimes) -> dict[str, Any]:
    session, module = node["session"], node["module"]
    caregiver, client = node["caregiver"], node["client"]
    number = int(node["legacyId"])
    return {
        "id": number,
        "bookId": int(node["book"]["legacyId"]),
        "name": node["name"],
        "sessionTitle": session["title"],
        "sessionId": int(session["legacyId"]),
        "moduleId": int(module["legacyId"]),
        "moduleName": module["name"],
        "caregiverId": int(caregiver["legacyId"]),
        "caregiverName": caregiver["name"],
        "clientId": int(client["legacyId"]),
        "clientName": client["name"],
        "assignDate": local_times[node["assignDate"]],
        "submitDate": local_times[node["submitDate"]],
        "feedbackStatus": node["feedbackStatus"],
        "feedbackSubmitDate": local_times[node["feedbackSubmitDate"]],
        "startDate": local_times[node["startDate"]],
        "status": node["status"],
        "isTest": node["isTest"],
        "score": node["score"],
        "drafts": [],
        "answers": [answer_set(each, number, local_times) for each in submitted(node)],
        "autoSaveAnswers": [],
        "feedbacks": [],
    }


def submitted(node: Node) -> list[Node]:
    """The submission of the current attempt; earlier attempts are not shown while pending."""
    if node["status"] != "COMPLETE":
        return []
    return [each for each in node["answerSets"] if each["attempt"] == node["attempt"]][:1]


def answer_set(node: Node, assignment_id: int, local_times: LocalTimes) -> dict[str, Any]:
    return {
        "id": int(node["legacyId"]),
        "saveType": node["saveType"],
        "metadata": None,
        "assignmentId": assignment_id,
        "submitDate": local_times[node["submitDate"]],
        "answers": [
            {
                "questionText": each["questionText"],
                "answer": each["answer"],
                "metadata": None,
                "highlights": [],
            }
            for each in node["answers"]
        ],
    }
