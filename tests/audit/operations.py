"""A query or mutation for each field that leads to answers, and the audit records that it must leave. The
caregiver and the client have different ids."""

from typing import Any

from app.care.context import Role

IDS = {Role.CAREGIVER: 1, Role.CLIENT: 101}  # of the viewer of each role
ANSWERS = "answerSets { answers { answer } }"
ASSIGNMENT = f"assignment {{ {ANSWERS} }}"
OF_1: list[Any] = [[1, 101, {"answerSets": [1]}]]
OF_2: list[Any] = [[1, 101, {"answerSets": [2]}]]
NODE = '{ node(id: "QW5zd2VyU2V0OjE=") { ... on AnswerSet { answers { answer } } } }'
NODES = f'{{ nodes(ids: ["QXNzaWdubWVudDox"]) {{ ... on Assignment {{ {ANSWERS} }} }} }}'
SCORES = f"scoreHistory(bookId: 3) {{ {ASSIGNMENT} }}"

# By root field: a query that reads answers, the role, and the operation and content of its record.
READS: dict[str, tuple[str, Role, str, list[Any]]] = {
    "session": (
        f"{{ session(id: 1) {{ assignments {{ nodes {{ {ANSWERS} }} }} }} }}",
        Role.CAREGIVER,
        "session",
        OF_1,
    ),
    "sessions": (
        f"{{ sessions {{ nodes {{ assignments {{ nodes {{ {ANSWERS} }} }} }} }} }}",
        Role.CLIENT,
        "sessions",
        [[1, 101, {"answerSets": [2, 1]}]],
    ),
    "assignment": (f"{{ assignment(id: 1) {{ {ANSWERS} }} }}", Role.CLIENT, "assignment", OF_1),
    "assignments": (
        f"{{ assignments {{ nodes {{ {ANSWERS} }} }} }}",
        Role.CAREGIVER,
        "assignments",
        [[1, 101, {"answerSets": [2, 1]}]],
    ),
    "submissions": (
        "{ submissions { edges { node { answers { answer } } } } }",
        Role.CAREGIVER,
        "submissions",
        [[1, 101, {"answerSets": [2, 1]}]],
    ),
    "node": (NODE, Role.CAREGIVER, "answerSet", OF_1),
    "nodes": (NODES, Role.CAREGIVER, "assignment", OF_1),
    "clients": (f"{{ clients {{ nodes {{ {SCORES} }} }} }}", Role.CAREGIVER, "clients", OF_2),
    "viewer": (f"{{ viewer {{ client {{ {SCORES} }} }} }}", Role.CLIENT, "viewer", OF_2),
}

SESSION = f"session {{ assignments {{ nodes {{ {ANSWERS} }} }} }}"
START = "2026-12-01T09:00:00Z"
WINDOW = {"startDate": START, "endDate": "2026-12-08T09:00:00Z"}

# By mutation: the role, the input, the selection, the content of its record, and the record of the read
# that follows.
CHANGES: dict[str, tuple[Role, dict[str, Any], str, list[Any], str, list[Any]]] = {
    "createSession": (
        Role.CAREGIVER,
        {"clientId": 101, "title": "Anew", "startDate": START},
        f"sessions {{ client {{ {SCORES} }} }}",
        [[1, 101, {"sessions": [6]}]],
        "session",
        OF_2,
    ),
    "updateSession": (
        Role.CAREGIVER,
        {"sessionId": 1, "title": "Anew"},
        SESSION,
        [[1, 101, {"sessions": [1]}]],
        "session",
        OF_1,
    ),
    "closeSession": (
        Role.CAREGIVER,
        {"sessionId": 1},
        SESSION,
        [[1, 101, {"sessions": [1]}]],
        "session",
        OF_1,
    ),
    "assignHomework": (
        Role.CAREGIVER,
        {"sessionId": 1, "bookIds": [1, 2], **WINDOW},
        f"assignments {{ client {{ {SCORES} }} }}",
        [[1, 101, {"assignments": [6, 7]}]],
        "assignment",
        OF_2,
    ),
    "extendAssignment": (
        Role.CAREGIVER,
        {"assignmentId": 2, "endDate": "2027-12-08T09:00:00Z"},
        f"assignment {{ client {{ {SCORES} }} }}",
        [[1, 101, {"assignments": [2]}]],
        "assignment",
        OF_2,
    ),
    "withdrawAssignment": (
        Role.CAREGIVER,
        {"assignmentId": 2},
        SESSION,
        [[1, 101, {"assignments": [2]}]],
        "session",
        OF_1,
    ),
    "setReminders": (
        Role.CAREGIVER,
        {"assignmentId": 2, "remindDates": []},
        f"assignment {{ client {{ {SCORES} }} }}",
        [[1, 101, {"assignments": [2]}]],
        "assignment",
        OF_2,
    ),
    "reopenAssignment": (
        Role.CAREGIVER,
        {"assignmentId": 1},
        ASSIGNMENT,
        [[1, 101, {"assignments": [1]}]],
        "assignment",
        OF_1,
    ),
    "giveFeedback": (
        Role.CAREGIVER,
        {"answerSetId": 1, "text": "Thank you."},
        "feedback { answerSet { answers { answer } } }",
        [[1, 101, {"assignments": [1]}]],
        "feedback",
        OF_1,
    ),
    "saveAnswers": (
        Role.CLIENT,
        {"assignmentId": 2, "revision": 0, "answers": []},
        "draft { answers { answer } }",
        [[1, 101, {"drafts": [4]}]],
        "answerSet",
        [[1, 101, {"drafts": [4]}]],
    ),
    "submitAnswers": (
        Role.CLIENT,
        {"assignmentId": 2, "revision": 0, "answers": [{"questionId": 2, "answer": "Well"}]},
        "answerSet { answers { answer } }",
        [[1, 101, {"assignments": [2]}]],
        "answerSet",
        [[1, 101, {"answerSets": [4]}]],
    ),
}
