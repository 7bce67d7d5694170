"""A world with assignments to answer, and the mutations for drafts, submissions and feedback."""

from typing import Any

from tests.callers import Caller, Gateway
from tests.database_rows import added, stored, wrong_counters
from tests.factories import (
    DAY,
    HOUR,
    NOW,
    Record,
    a_book,
    a_complete_assignment,
    a_session,
    an_answer_set,
    an_assignment,
    catalogue,
    people,
    with_other_clients,
)
from tests.schema.worlds import global_id

EVERY_KIND = [
    {"text": "How was it?", "kind": "TEXT", "required": True},
    {"text": "Did you practise?", "kind": "YES_NO", "required": True, "weights": [3, -1]},
    {"text": "How many hours?", "kind": "NUMBER", "required": True, "minimum": 0, "maximum": 24},
    {
        "text": "How often?",
        "kind": "SINGLE_CHOICE",
        "required": True,
        "options": ["Never", "Often"],
        "weights": [0, 2],
    },
    {
        "text": "What helped?",
        "kind": "MULTIPLE_CHOICE",
        "required": True,
        "options": ["Tea", "Music", "Gehen – draußen"],
        "weights": [1, 20, 300],
    },
    {
        "text": "How strongly?",
        "kind": "SCALE",
        "required": True,
        "options": ["1", "2", "3"],
        "weights": [-4, 0, 4],
    },
    {"text": "Anything else?", "kind": "TEXT", "required": False},
]
# Valid answers by question id. The ids 1 to 3 are of the three books of the catalogue.
FITTING = {
    4: "Besser – über Nacht 🌙",
    5: "true",
    6: "7.5",
    7: "Often",
    8: "Tea\nGehen – draußen",
    9: "3",
    10: "",
}
THEIR_SCORE = 3 + 2 + 1 + 300 + 4
REMARK = 11  # the optional question of the book "Remark"

# Assignments, of client 1 with caregiver 1 unless the name says otherwise.
TEST, LATE, NEXT_SECOND, IN_FUTURE, IN_CLOSED, OF_CLIENT_2, OF_CAREGIVER_2 = range(1, 8)
SUBMITTED, SUBMITTED_IN_CLOSED, SUBMITTED_TWICE = 8, 9, 10  # with answer sets 8, 9, and 10 and 11


def a_world_to_answer_in() -> list[Record]:
    """Sessions 1 RUNNING, 2 FUTURE and 3 COMPLETED; 4 is of client 2; 5 is of client 2 and caregiver 2. The
    ids of clients 1 and 2 are 101 and 102."""
    remark = [{"text": "Anything to say?", "kind": "TEXT", "required": False}]
    records = [
        *people(),
        *catalogue(),
        a_book(4, name="Every kind", isTest=True, questions=EVERY_KIND),
        a_book(5, name="Remark", questions=remark),
        a_session(1),
        a_session(2, startDate=NOW + DAY),
        a_session(3, isClosed=True, closeDate=NOW - DAY),
        a_session(4, client=2),
        a_session(5, caregiver=2, client=2),
        an_assignment(
            TEST,
            book=4,
            reminders=[
                {"remindDate": NOW - DAY, "state": "SENT"},
                {"remindDate": NOW + DAY},
                {"remindDate": NOW + 2 * DAY},
            ],
        ),
        an_assignment(LATE, book=5, endDate=NOW - HOUR, reminders=[{"remindDate": NOW - 2 * HOUR}]),
        an_assignment(NEXT_SECOND, book=5, startDate=NOW + DAY / 86400),
        an_assignment(IN_FUTURE, session=2, book=5),
        an_assignment(IN_CLOSED, session=3, book=5),
        an_assignment(OF_CLIENT_2, session=4, book=5),
        an_assignment(OF_CAREGIVER_2, session=5, book=5),
        a_complete_assignment(SUBMITTED, book=5),
        a_complete_assignment(SUBMITTED_IN_CLOSED, session=3, book=5),
        a_complete_assignment(SUBMITTED_TWICE, book=5, attempt=2),
        an_answer_set(8, assignment=SUBMITTED),
        an_answer_set(9, assignment=SUBMITTED_IN_CLOSED),
        an_answer_set(10, assignment=SUBMITTED_TWICE, submitDate=NOW - 3 * DAY),
        an_answer_set(11, assignment=SUBMITTED_TWICE, attempt=2),
    ]
    return with_other_clients(records)


# --- mutations ------------------------------------------------------------------------------------

SET = "legacyId saveType attempt revision submitDate score answers { questionId questionText answer }"
SAVE = f"""mutation($input: SaveAnswersInput!) {{ saveAnswers(input: $input) {{
    draft {{ id {SET} assignment {{ legacyId status }} }} userErrors {{ code field message }} }} }}"""
SUBMIT = f"""mutation($input: SubmitAnswersInput!) {{ submitAnswers(input: $input) {{
    assignment {{ legacyId status attempt score submitDate feedbackStatus feedbackSubmitDate
        lateness {{ state seconds }} draft {{ id }} answerSets {{ legacyId }} reminders {{ state }}
        session {{ assignmentCount completedAssignmentCount pendingAssignmentCount lastAssignmentScore }} }}
    answerSet {{ id {SET} feedback {{ id }} }}
    draft {{ {SET} }} userErrors {{ code field message }} }} }}"""
REOPEN = """mutation($input: ReopenAssignmentInput!) { reopenAssignment(input: $input) {
    assignment { legacyId status attempt score submitDate feedbackStatus feedbackSubmitDate draft { id }
        answerSets { legacyId attempt feedback { text } } feedbacks { text }
        session { completedAssignmentCount pendingAssignmentCount lastAssignmentScore } }
    userErrors { code field message } } }"""
GIVE = """mutation($input: GiveFeedbackInput!) { giveFeedback(input: $input) {
    feedback { id text score submitDate author { name } answerSet { legacyId score } }
    assignment { legacyId status score feedbackStatus feedbackSubmitDate
        session { lastAssignmentScore } }
    userErrors { code field message } } }"""


def answers(texts: dict[int, str]) -> list[dict[str, str]]:
    return [{"questionId": global_id("Question", number), "answer": text} for number, text in texts.items()]


def to_answer(assignment: int, texts: dict[int, str], **changed: Any) -> dict[str, Any]:
    return {"assignmentId": str(assignment), "answers": answers(texts), **changed}


def save(caller: Caller, assignment: int, texts: dict[int, str], **changed: Any) -> dict[str, Any]:
    found: dict[str, Any] = caller.data(SAVE, input=to_answer(assignment, texts, **changed))["saveAnswers"]
    return found


def submit(caller: Caller, assignment: int, texts: dict[int, str], **changed: Any) -> dict[str, Any]:
    given = to_answer(assignment, texts, **changed)
    found: dict[str, Any] = caller.data(SUBMIT, input=given)["submitAnswers"]
    return found


def reopen(caller: Caller, assignment: int) -> dict[str, Any]:
    given = {"assignmentId": str(assignment)}
    found: dict[str, Any] = caller.data(REOPEN, input=given)["reopenAssignment"]
    return found


def give(caller: Caller, answer_set: int | str, text: str, **changed: Any) -> dict[str, Any]:
    given = {"answerSetId": str(answer_set), "text": text, **changed}
    found: dict[str, Any] = caller.data(GIVE, input=given)["giveFeedback"]
    return found


def refused(code: str, message: str, *field: str) -> list[dict[str, Any]]:
    return [{"code": code, "field": list(field), "message": message}]


# --- events ---------------------------------------------------------------------------------------


def events_since(gateway: Gateway, before: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The new events without their moment, which is NOW. Checks the counters as well."""
    assert wrong_counters(gateway) == []
    events = added(before, stored(gateway), "event")
    assert {each["moment"] for each in events} <= {NOW}
    names = ("kind", "actor", "caregiver_id", "client_id", "session_id", "assignment_id")
    return [tuple(each[name] for name in names) for each in events]
