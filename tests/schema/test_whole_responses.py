"""Whole responses with all fields, as a caregiver and a client see the same data.

Contract: the fields have the stored values, times are UTC with `Z`, lists are newest first, and both roles
see the same rows.
"""

from typing import Any

from tests.callers import Gateway
from tests.schema.worlds import global_id

PERSON = "caregiver { id legacyId name position } client { id legacyId name opptId }"
BOOK = "id legacyId name isTest module { id legacyId name } questions { text kind options required }"
SESSION = f"""id legacyId title description {PERSON} createDate startDate closeDate chatId isClosed
    runningStatus assignmentCount completedAssignmentCount pendingAssignmentCount lastAssignmentScore
    latestAssignment {{ legacyId }} assignments {{ totalCount nodes {{ legacyId }} }}"""
ASSIGNMENT = f"""id legacyId name book {{ {BOOK} }} module {{ name }} isTest session {{ legacyId }} {PERSON}
    assignDate startDate endDate submitDate status lateness {{ state seconds }} score feedbackStatus
    feedbackSubmitDate answerSets {{ legacyId }} draft {{ legacyId }}
    feedbacks {{ id text score author {{ legacyId }} submitDate answerSet {{ legacyId }} }}
    reminders {{ remindDate state }}"""
ANSWER_SET = """id legacyId saveType submitDate attempt revision assignment { legacyId }
    answers { questionText answer }"""

CAREGIVER_1 = {
    "id": global_id("Caregiver", 1),
    "legacyId": "1",
    "name": "Caregiver 1",
    "position": "Clinical psychologist",
}
CLIENT_1 = {"id": global_id("Client", 1), "legacyId": "1", "name": "Zoë Client 1", "opptId": "OPPT-1"}
SESSION_1 = {
    "id": global_id("Session", 1),
    "legacyId": "1",
    "title": "Session 1",
    "description": "Description 1",
    "caregiver": CAREGIVER_1,
    "client": CLIENT_1,
    "createDate": "2026-10-12T09:00:00Z",
    "startDate": "2026-10-22T09:00:00Z",
    "closeDate": None,
    "chatId": "chat-1",
    "isClosed": False,
    "runningStatus": "RUNNING",
    "assignmentCount": 3,
    "completedAssignmentCount": 2,
    "pendingAssignmentCount": 1,
    "lastAssignmentScore": 12,
    "latestAssignment": {"legacyId": "7"},
    "assignments": {"totalCount": 3, "nodes": [{"legacyId": "7"}, {"legacyId": "2"}, {"legacyId": "1"}]},
}
SESSION_2 = {
    **SESSION_1,
    "id": global_id("Session", 2),
    "legacyId": "2",
    "title": "Session 2",
    "description": "Description 2",
    "startDate": "2026-11-24T09:00:00Z",
    "chatId": "chat-2",
    "runningStatus": "FUTURE",
    "assignmentCount": 0,
    "completedAssignmentCount": 0,
    "pendingAssignmentCount": 0,
    "lastAssignmentScore": None,
    "latestAssignment": None,
    "assignments": {"totalCount": 0, "nodes": []},
}
SESSION_3 = {
    **SESSION_1,
    "id": global_id("Session", 3),
    "legacyId": "3",
    "title": "Session 3",
    "description": "Description 3",
    "closeDate": "2026-11-20T09:00:00Z",
    "chatId": "chat-3",
    "isClosed": True,
    "runningStatus": "COMPLETED",
    "assignmentCount": 1,
    "completedAssignmentCount": 1,
    "pendingAssignmentCount": 0,
    "lastAssignmentScore": 55,
    "latestAssignment": {"legacyId": "3"},
    "assignments": {"totalCount": 1, "nodes": [{"legacyId": "3"}]},
}
BOOK_1 = {
    "id": global_id("Book", 1),
    "legacyId": "1",
    "name": "Sleep diary",
    "isTest": False,
    "module": {"id": global_id("Module", 1), "legacyId": "1", "name": "Module 1"},
    "questions": [{"text": "How was it?", "kind": "TEXT", "options": [], "required": True}],
}
BOOK_4 = {
    "id": global_id("Book", 4),
    "legacyId": "4",
    "name": "Weekly mood – über alles",
    "isTest": False,
    "module": {"id": global_id("Module", 2), "legacyId": "2", "name": "Module 2"},
    "questions": [
        {"text": "How was your mood?", "kind": "SCALE", "options": ["1", "2", "3"], "required": True},
        {"text": "Anything else?", "kind": "TEXT", "options": [], "required": False},
    ],
}
ASSIGNMENT_7 = {
    "id": global_id("Assignment", 7),
    "legacyId": "7",
    "name": "Sleep diary",
    "book": BOOK_1,
    "module": {"name": "Module 1"},
    "isTest": False,
    "session": {"legacyId": "1"},
    "caregiver": CAREGIVER_1,
    "client": CLIENT_1,
    "assignDate": "2026-11-11T09:00:00Z",
    "startDate": "2026-11-12T09:00:00Z",
    "endDate": "2026-11-20T09:00:00Z",
    "submitDate": "2026-11-20T09:01:00Z",
    "status": "COMPLETE",
    "lateness": {"state": "LATE", "seconds": 60},
    "score": 12,
    "feedbackStatus": "SUBMITTED",
    "feedbackSubmitDate": "2026-11-21T08:00:00Z",
    "answerSets": [{"legacyId": "5"}, {"legacyId": "4"}],
    "draft": None,
    "feedbacks": [
        {
            "id": global_id("Feedback", 1),
            "text": "Well done – schön!",
            "score": 12,
            "author": {"legacyId": "1"},
            "submitDate": "2026-11-21T08:00:00Z",
            "answerSet": {"legacyId": "5"},
        }
    ],
    "reminders": [],
}
ANSWER_SET_5 = {
    "id": global_id("AnswerSet", 5),
    "legacyId": "5",
    "saveType": "FINAL",
    "submitDate": "2026-11-20T09:01:00Z",
    "attempt": 2,
    "revision": 1,
    "assignment": {"legacyId": "7"},
    "answers": [
        {"questionText": "How was it?", "answer": "Better – über Nacht"},
        {"questionText": "Did you practise?", "answer": "true"},
    ],
}


def test_the_viewer_field_of_a_caregiver(standing: Gateway) -> None:
    response = standing.as_caregiver(1).data(f"{{ viewer {{ role timeZone {PERSON} }} }}")

    assert response == {
        "viewer": {"role": "CAREGIVER", "timeZone": "UTC", "caregiver": CAREGIVER_1, "client": None}
    }


def test_the_viewer_field_of_a_client(standing: Gateway) -> None:
    response = standing.as_client(1).data(f"{{ viewer {{ role timeZone {PERSON} }} }}")

    assert response == {
        "viewer": {"role": "CLIENT", "timeZone": "UTC", "caregiver": None, "client": CLIENT_1}
    }


def test_a_client_lists_their_sessions_with_all_fields(standing: Gateway) -> None:
    response = standing.as_client(1).data(f"{{ sessions {{ totalCount nodes {{ {SESSION} }} }} }}")

    assert response == {"sessions": {"totalCount": 3, "nodes": [SESSION_3, SESSION_2, SESSION_1]}}


def test_caregiver_and_client_see_the_same_session(standing: Gateway) -> None:
    query = f"{{ session(id: 1) {{ {SESSION} }} }}"

    assert standing.as_caregiver(1).data(query) == {"session": SESSION_1}
    assert standing.as_client(1).data(query) == {"session": SESSION_1}


def test_caregiver_and_client_see_the_same_assignment(standing: Gateway) -> None:
    query = f"{{ assignment(id: 7) {{ {ASSIGNMENT} }} }}"

    assert standing.as_caregiver(1).data(query) == {"assignment": ASSIGNMENT_7}
    assert standing.as_client(1).data(query) == {"assignment": ASSIGNMENT_7}


def test_a_pending_assignment_has_reminders_and_no_submission(standing: Gateway) -> None:
    query = f"{{ assignment(id: 6) {{ {ASSIGNMENT} }} }}"

    response = standing.as_caregiver(1).data(query)

    assert response == {
        "assignment": {
            **ASSIGNMENT_7,
            "id": global_id("Assignment", 6),
            "legacyId": "6",
            "name": "Weekly mood – über alles",
            "book": BOOK_4,
            "module": {"name": "Module 2"},
            "session": {"legacyId": "4"},
            "client": {
                "id": global_id("Client", 2),
                "legacyId": "2",
                "name": "Zoë Client 2",
                "opptId": "OPPT-2",
            },
            "endDate": "2026-11-21T08:00:00Z",
            "submitDate": None,
            "status": "PENDING",
            "lateness": {"state": "OVERDUE", "seconds": 3600},
            "score": 0,
            "feedbackStatus": "WAITING",
            "feedbackSubmitDate": None,
            "answerSets": [],
            "feedbacks": [],
            "reminders": [
                {"remindDate": "2026-11-18T09:00:00Z", "state": "SENT"},
                {"remindDate": "2026-11-19T09:00:00Z", "state": "SKIPPED"},
                {"remindDate": "2026-11-21T07:00:00Z", "state": "SCHEDULED"},
            ],
        }
    }


def test_caregiver_and_client_list_assignments_newest_first(standing: Gateway) -> None:
    query = "{ assignments { totalCount nodes { legacyId name status session { legacyId } } } }"
    of_session_1: list[dict[str, Any]] = [
        {"legacyId": "7", "name": "Sleep diary", "status": "COMPLETE", "session": {"legacyId": "1"}},
        {"legacyId": "3", "name": "Mood check", "status": "COMPLETE", "session": {"legacyId": "3"}},
        {"legacyId": "2", "name": "Evening routine", "status": "PENDING", "session": {"legacyId": "1"}},
        {"legacyId": "1", "name": "Sleep diary", "status": "COMPLETE", "session": {"legacyId": "1"}},
    ]
    weekly = {
        "legacyId": "6",
        "name": "Weekly mood – über alles",
        "status": "PENDING",
        "session": {"legacyId": "4"},
    }
    diary = {"legacyId": "4", "name": "Sleep diary", "status": "PENDING", "session": {"legacyId": "4"}}

    of_caregiver = standing.as_caregiver(1).data(query)
    of_client = standing.as_client(1).data(query)

    assert of_client == {"assignments": {"totalCount": 4, "nodes": of_session_1}}
    assert of_caregiver == {
        "assignments": {
            "totalCount": 6,
            "nodes": [of_session_1[0], weekly, diary, *of_session_1[1:]],
        }
    }


def test_the_catalogue_is_the_same_for_both_roles(standing: Gateway) -> None:
    query = f"{{ books {{ totalCount nodes {{ legacyId }} }} book(id: 4) {{ {BOOK} }} }}"
    whole = {
        "books": {"totalCount": 4, "nodes": [{"legacyId": str(number)} for number in (4, 3, 2, 1)]},
        "book": BOOK_4,
    }

    assert standing.as_caregiver(2).data(query) == whole
    assert standing.as_client(1).data(query) == whole


def test_nodes_returns_every_type_in_the_requested_order(standing: Gateway) -> None:
    query = f"""query($ids: [ID!]!) {{ nodes(ids: $ids) {{
        __typename id legacyId
        ... on Session {{ title }} ... on Assignment {{ name }} ... on AnswerSet {{ {ANSWER_SET} }}
        ... on Book {{ isTest }} ... on Caregiver {{ position }} ... on Client {{ opptId }} }} }}"""
    input_fields = [
        ("AnswerSet", 5),
        ("Client", 1),
        ("Book", 3),
        ("Session", 1),
        ("Assignment", 7),
        ("Caregiver", 1),
    ]
    ids = [global_id(kind, number) for kind, number in input_fields]

    response = standing.as_client(1).data(query, ids=ids)

    assert response == {
        "nodes": [
            {"__typename": "AnswerSet", **ANSWER_SET_5},
            {"__typename": "Client", "id": ids[1], "legacyId": "1", "opptId": "OPPT-1"},
            {"__typename": "Book", "id": ids[2], "legacyId": "3", "isTest": True},
            {"__typename": "Session", "id": ids[3], "legacyId": "1", "title": "Session 1"},
            {"__typename": "Assignment", "id": ids[4], "legacyId": "7", "name": "Sleep diary"},
            {"__typename": "Caregiver", "id": ids[5], "legacyId": "1", "position": "Clinical psychologist"},
        ]
    }
