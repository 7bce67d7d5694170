"""The expected access: a row for every query, link, mutation, subscription and legacy path.

test_rows.py fails if a part of the service has no row here. `{0}` in a row stands for a relationship, such as
AX; `{0.main}` is one of its numbers.
"""

from dataclasses import dataclass, field
from typing import Any

from app.schema.types.scalars import global_id
from tests.access.world import Numbers

BOTH = "caregiver and client"
CLIENT = "client"
CAREGIVER = "caregiver"
ANYBODY = "anybody who is signed in"


@dataclass(frozen=True)
class Link:
    """A link between objects: who finds something there, and the text that proves it."""

    who: str
    shows: str


# The scalar fields of every type: each is selected wherever the type can be reached.
LEAVES = {
    "Answer": "answer questionId questionText",
    "AnswerSet": "attempt id legacyId revision saveType score submitDate",
    "Assignment": """assignDate attempt endDate feedbackStatus feedbackSubmitDate id isTest legacyId name
        score startDate status submitDate""",
    "AuditEvent": """actor actorId answerSetIds assignmentIds contract id moment operation outcome requestId
        sessionIds""",
    "Book": "id isTest legacyId name",
    "Caregiver": "id legacyId name position",
    "Client": "id legacyId name opptId",
    "CompletionPoint": "assigned completed week",
    "Feedback": "id score submitDate text",
    "Lateness": "seconds state",
    "Module": "id legacyId name",
    "PageInfo": "endCursor hasNextPage hasPreviousPage startCursor",
    "Progress": """assignmentCount completedAssignmentCount lateAssignmentCount overdueAssignmentCount
        pendingAssignmentCount""",
    "Question": "id kind maximum minimum options position required text",
    "Reminder": "id remindDate state",
    "ScorePoint": "attempt score submitDate",
    "Session": """assignmentCount chatId closeDate completedAssignmentCount createDate description id isClosed
        lastAssignmentScore legacyId pendingAssignmentCount runningStatus startDate title""",
    "UserError": "code field message",
    "Viewer": "lastEventId role timeZone",
    "AssignmentChange": "assignmentId id moment sessionId what",
    "ReminderDue": "id moment",
}

LINKS = {
    "AnswerSet.answers": Link(BOTH, "zq-{0}-answer"),
    "AnswerSet.assignment": Link(BOTH, "Assignment:{1.judged}"),
    "AnswerSet.feedback": Link(BOTH, "zq-{0}-feedback"),
    "Assignment.answerSets": Link(BOTH, "AnswerSet:{1.judged_set}"),
    "Assignment.book": Link(BOTH, "Book:3"),
    "Assignment.caregiver": Link(BOTH, "Caregiver:{caregiver}"),
    "Assignment.client": Link(BOTH, "Client:{client}"),
    "Assignment.draft": Link(CLIENT, "AnswerSet:{1.draft}"),
    "Assignment.feedbacks": Link(BOTH, "Feedback:{1.feedback}"),
    "Assignment.lateness": Link(BOTH, "ON_TIME"),
    "Assignment.module": Link(BOTH, "Module:2"),
    "Assignment.reminders": Link(BOTH, "Reminder:{1.reminder}"),
    "Assignment.session": Link(BOTH, "Session:{1.main}"),
    "Book.module": Link(ANYBODY, "Module:2"),
    "Book.questions": Link(ANYBODY, "How was it?"),
    "Client.progress": Link(BOTH, "assignmentCount"),
    "Client.scoreHistory": Link(BOTH, "{1.judged_set}"),
    "Feedback.answerSet": Link(BOTH, "AnswerSet:{1.judged_set}"),
    "Feedback.author": Link(BOTH, "Caregiver:{caregiver}"),
    "Progress.completion": Link(BOTH, "week"),
    "ScorePoint.assignment": Link(BOTH, "Assignment:{1.judged}"),
    "Session.assignments": Link(BOTH, "Assignment:{1.judged}"),
    "Session.caregiver": Link(BOTH, "Caregiver:{caregiver}"),
    "Session.client": Link(BOTH, "Client:{client}"),
    "Session.latestAssignment": Link(BOTH, "Assignment:{1.drafted}"),
    "Session.progress": Link(BOTH, "assignmentCount"),
    "Session.scoreHistory": Link(BOTH, "{1.judged_set}"),
    "Viewer.caregiver": Link(CAREGIVER, "Caregiver:{caregiver}"),
    "Viewer.client": Link(CLIENT, "Client:{client}"),
    "AssignmentChange.assignment": Link(BOTH, "Assignment:{1.to_extend}"),
    "AssignmentChange.session": Link(BOTH, "Session:{1.main}"),
    "ReminderDue.assignment": Link(CLIENT, "Assignment:{1.to_extend}"),
    "ReminderDue.reminder": Link(CLIENT, "Reminder:{1.reminder}"),
}
# The arguments that a field below a root requires.
GIVEN = {
    "Session.assignments": "(first: 9)",
    "Client.scoreHistory": "(bookId: 3)",
    "Session.scoreHistory": "(bookId: 3)",
}


@dataclass(frozen=True)
class Question:
    """A root field. One that takes an id is queried with an object of each kind that it finds."""

    who: str
    given: str = ""
    ids: dict[str, str] = field(default_factory=dict)  # by kind of what it finds: the number to ask by
    named: str = ""  # the kind that the number is of, where that is another
    shows: str = ""  # of one that is no object, has no links


OBJECTS = {
    "Session": "{1.main}",
    "Assignment": "{1.judged}",
    "AnswerSet": "{1.judged_set}",
    "Caregiver": "{caregiver}",
    "Client": "{client}",
    "Book": "3",
}
# Links that only some objects have.
OBJECT_WITH = {"Assignment.draft": "{1.drafted}", "Assignment.reminders": "{1.to_extend}"}

QUESTIONS = {
    "assignment": Question(BOTH, "(id: $id)", {"Assignment": "{1.judged}"}),
    "assignments": Question(BOTH, "(first: 18)"),
    "auditEvents": Question(CAREGIVER, "(clientId: $id)", {"AuditEvent": "{client}"}, named="Client"),
    "book": Question(ANYBODY, "(id: $id)", {"Book": "3"}),
    "books": Question(ANYBODY),
    "clients": Question(CAREGIVER),
    "node": Question(BOTH, "(id: $id)", OBJECTS),
    "nodes": Question(BOTH, "(ids: $ids)", OBJECTS),
    "ownData": Question(CLIENT, "(format: JSON)", shows="zq-{0}d-draft"),
    "session": Question(BOTH, "(id: $id)", {"Session": "{1.main}"}),
    "sessions": Question(BOTH, "(first: 8)"),
    "submissions": Question(BOTH, "(first: 6)"),
    "viewer": Question(ANYBODY),
}


@dataclass(frozen=True)
class Change:
    """A mutation: who may perform it, its input, and the text that proves its effect."""

    who: str
    given: dict[str, Any]
    shows: str


WINDOW = {"startDate": "2026-11-21T09:00:00Z", "endDate": "2026-11-28T09:00:00Z"}
ANSWERS = [{"questionId": global_id("Question", 1), "answer": "zq-{0}-submitted"}]

CHANGES = {
    "assignHomework": Change(
        CAREGIVER, {"sessionId": "{1.main}", "bookIds": ["1"], **WINDOW}, "Session:{1.main}"
    ),
    "closeSession": Change(CAREGIVER, {"sessionId": "{1.to_close}"}, "Session:{1.to_close}"),
    "createSession": Change(
        CAREGIVER,
        {"clientId": "{client}", "title": "zq-{0}-new", "startDate": WINDOW["startDate"]},
        "zq-{0}-new",
    ),
    "extendAssignment": Change(
        CAREGIVER,
        {"assignmentId": "{1.to_extend}", "endDate": "2026-12-31T09:00:00Z"},
        "Assignment:{1.to_extend}",
    ),
    "giveFeedback": Change(
        CAREGIVER, {"answerSetId": "{1.set_to_judge}", "text": "zq-{0}-judged"}, "zq-{0}-judged"
    ),
    "reopenAssignment": Change(CAREGIVER, {"assignmentId": "{1.submitted}"}, "Assignment:{1.submitted}"),
    "saveAnswers": Change(
        CLIENT, {"assignmentId": "{1.to_draft}", "answers": ANSWERS}, "Assignment:{1.to_draft}"
    ),
    "setReminders": Change(
        CAREGIVER,
        {"assignmentId": "{1.to_remind}", "remindDates": ["2026-11-23T09:00:00Z"]},
        "Assignment:{1.to_remind}",
    ),
    "submitAnswers": Change(
        CLIENT, {"assignmentId": "{1.to_submit}", "answers": ANSWERS}, "Assignment:{1.to_submit}"
    ),
    "updateSession": Change(
        CAREGIVER, {"sessionId": "{1.to_update}", "title": "zq-{0}-renamed"}, "zq-{0}-renamed"
    ),
    "withdrawAssignment": Change(CAREGIVER, {"assignmentId": "{1.to_withdraw}"}, "Session:{1.main}"),
}

# Who receives the events of a relationship, and the event to resume from.
SUBSCRIPTIONS = {
    "assignmentChanged": Question(BOTH, "(after: $id)", {"Event": "{1.assigned_event}"}),
    "reminderDue": Question(CLIENT, "(after: $id)", {"Event": "{1.due_event}"}),
}


@dataclass(frozen=True)
class Path:
    """A legacy path: its method, whom it answers, and the text that proves its effect."""

    who: str
    method: str
    path: str
    shows: str
    body: dict[str, Any] | None = None


HOMEWORK = {
    "bookIds": [1],
    "startDate": "2026/11/22",
    "startTime": "08:00",
    "endDate": "2026/11/29",
    "endTime": "18:30",
    "sessionId": "{1.main}",
}
SESSIONS = "/gateway/profile/client/session"
ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"

PATHS = {
    "list sessions": Path(CLIENT, "GET", f"{SESSIONS}?time-state=RUNNING", "zq-{0}-title"),
    "list assignments": Path(CAREGIVER, "GET", f"{ASSIGNMENTS}?time-state=RUNNING&size=100", "zq-{0}-answer"),
    "get assignment": Path(CAREGIVER, "GET", f"{ASSIGNMENTS}/{{1.judged}}", "zq-{0}-answer"),
    "assign homework": Path(CAREGIVER, "PUT", ASSIGNMENTS, "message", HOMEWORK),
}

# Every argument that takes an id, and the kind of objects that it names. Books have no owner.
CATALOGUE = "nobody's"
IDS = {
    "Query.assignment(id)": "Assignment",
    "Query.assignments(clientId)": "Client",
    "Query.assignments(sessionId)": "Session",
    "Query.auditEvents(clientId)": "Client",
    "Query.book(id)": CATALOGUE,
    "Query.books(moduleId)": CATALOGUE,
    "Query.node(id)": "every kind",
    "Query.nodes(ids)": "every kind",
    "Query.session(id)": "Session",
    "Query.submissions(clientId)": "Client",
    "Client.scoreHistory(bookId)": CATALOGUE,
    "Session.scoreHistory(bookId)": CATALOGUE,
    "Subscription.assignmentChanged(after)": "Event",
    "Subscription.assignmentChanged(sessionId)": "Session",
    "Subscription.reminderDue(after)": "Event",
    "AnswerInput.questionId": CATALOGUE,
    "AssignHomeworkInput.bookIds": CATALOGUE,
    "AssignHomeworkInput.sessionId": "Session",
    "CloseSessionInput.sessionId": "Session",
    "CreateSessionInput.clientId": "Client",
    "ExtendAssignmentInput.assignmentId": "Assignment",
    "GiveFeedbackInput.answerSetId": "AnswerSet",
    "ReopenAssignmentInput.assignmentId": "Assignment",
    "SaveAnswersInput.assignmentId": "Assignment",
    "SessionHomeworkInput.bookIds": CATALOGUE,
    "SetRemindersInput.assignmentId": "Assignment",
    "SubmitAnswersInput.assignmentId": "Assignment",
    "UpdateSessionInput.sessionId": "Session",
    "WithdrawAssignmentInput.assignmentId": "Assignment",
}


def is_for(who: str, viewer: str) -> bool:
    """Whether a row is for the role of the viewer, regardless of the owner."""
    if who in (BOTH, ANYBODY):
        return True
    return (who == CAREGIVER) == (viewer in "AB")


def filled(row: Any, shared: str, numbers: Numbers, **more: object) -> Any:
    """A row with the values of two people filled in."""
    if isinstance(row, str):
        return row.format(shared, numbers, **more)
    if isinstance(row, list):
        return [filled(one, shared, numbers, **more) for one in row]
    if isinstance(row, dict):
        return {name: filled(one, shared, numbers, **more) for name, one in row.items()}
    return row
