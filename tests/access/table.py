"""The access table: a row with the role for every field, query, mutation, subscription and legacy path.

test_rows.py fails if the service has one without a row. `{0}` in a row stands for a pair of a caregiver and a
client, such as AX; `{1.main}` for a number of their objects.
"""

from dataclasses import dataclass, field
from typing import Any

from app.schema.types.node import global_id
from tests.access.world import Numbers

BOTH = "caregiver and client"
CLIENT = "client"
CAREGIVER = "caregiver"
ANYONE = "anyone who is signed in"


@dataclass(frozen=True)
class Link:
    """A field with objects below it: the role that reads something there, and a text that proves it."""

    who: str
    shows: str


# The fields without objects below them, of every type. Each is selected wherever the type occurs.
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
    "Viewer": "role timeZone",
    "AssignmentChange": "assignmentId id moment sessionId what",
    "ReminderDue": "id moment",
}

LINKS = {
    "AnswerSet.answers": Link(BOTH, "zq-{0}-answer"),
    "AnswerSet.assignment": Link(BOTH, "Assignment:{1.reviewed}"),
    "AnswerSet.feedback": Link(BOTH, "zq-{0}-feedback"),
    "Assignment.answerSets": Link(BOTH, "AnswerSet:{1.reviewed_set}"),
    "Assignment.book": Link(BOTH, "Book:3"),
    "Assignment.caregiver": Link(BOTH, "Caregiver:{caregiver}"),
    "Assignment.client": Link(BOTH, "Client:{client}"),
    "Assignment.draft": Link(CLIENT, "AnswerSet:{1.draft}"),
    "Assignment.feedbacks": Link(BOTH, "Feedback:{1.feedback}"),
    "Assignment.lateness": Link(BOTH, "ON_TIME"),
    "Assignment.module": Link(BOTH, "Module:2"),
    "Assignment.reminders": Link(BOTH, "Reminder:{1.reminder}"),
    "Assignment.session": Link(BOTH, "Session:{1.main}"),
    "Book.module": Link(ANYONE, "Module:2"),
    "Book.questions": Link(ANYONE, "How was it?"),
    "Client.progress": Link(BOTH, "assignmentCount"),
    "Client.scoreHistory": Link(BOTH, "{1.reviewed_set}"),
    "Feedback.answerSet": Link(BOTH, "AnswerSet:{1.reviewed_set}"),
    "Feedback.author": Link(BOTH, "Caregiver:{caregiver}"),
    "Progress.completion": Link(BOTH, "week"),
    "ScorePoint.assignment": Link(BOTH, "Assignment:{1.reviewed}"),
    "Session.assignments": Link(BOTH, "Assignment:{1.reviewed}"),
    "Session.caregiver": Link(BOTH, "Caregiver:{caregiver}"),
    "Session.client": Link(BOTH, "Client:{client}"),
    "Session.latestAssignment": Link(BOTH, "Assignment:{1.drafted}"),
    "Session.progress": Link(BOTH, "assignmentCount"),
    "Session.scoreHistory": Link(BOTH, "{1.reviewed_set}"),
    "Viewer.caregiver": Link(CAREGIVER, "Caregiver:{caregiver}"),
    "Viewer.client": Link(CLIENT, "Client:{client}"),
    "AssignmentChange.assignment": Link(BOTH, "Assignment:{1.to_extend}"),
    "AssignmentChange.session": Link(BOTH, "Session:{1.main}"),
    "ReminderDue.assignment": Link(CLIENT, "Assignment:{1.to_extend}"),
    "ReminderDue.reminder": Link(CLIENT, "Reminder:{1.reminder}"),
}
# Required arguments of fields below a root field.
ARGUMENTS = {
    "Session.assignments": "(first: 9)",
    "Client.scoreHistory": "(bookId: 3)",
    "Session.scoreHistory": "(bookId: 3)",
}


@dataclass(frozen=True)
class RootField:
    """A query or subscription. One that takes an id is tested with an object of each type that it returns."""

    who: str
    arguments: str = ""
    ids: dict[str, str] = field(default_factory=dict)  # the number of the object, by type of the result
    id_of: str = ""  # the type of the number, if it is another
    shows: str = ""  # for results without fields


OBJECTS = {
    "Session": "{1.main}",
    "Assignment": "{1.reviewed}",
    "AnswerSet": "{1.reviewed_set}",
    "Caregiver": "{caregiver}",
    "Client": "{client}",
    "Book": "3",
}
# Links that exist for these objects only.
OBJECT_WITH = {"Assignment.draft": "{1.drafted}", "Assignment.reminders": "{1.to_extend}"}

QUERIES = {
    "assignment": RootField(BOTH, "(id: $id)", {"Assignment": "{1.reviewed}"}),
    "assignments": RootField(BOTH, "(first: 18)"),
    "auditEvents": RootField(CAREGIVER, "(clientId: $id)", {"AuditEvent": "{client}"}, id_of="Client"),
    "book": RootField(ANYONE, "(id: $id)", {"Book": "3"}),
    "books": RootField(ANYONE),
    "clients": RootField(CAREGIVER),
    "node": RootField(BOTH, "(id: $id)", OBJECTS),
    "nodes": RootField(BOTH, "(ids: $ids)", OBJECTS),
    "ownData": RootField(CLIENT, "(format: JSON)", shows="zq-{0}d-draft"),
    "session": RootField(BOTH, "(id: $id)", {"Session": "{1.main}"}),
    "sessions": RootField(BOTH, "(first: 8)"),
    "submissions": RootField(BOTH, "(first: 6)"),
    "viewer": RootField(ANYONE),
}


@dataclass(frozen=True)
class Mutation:
    """A mutation: the role that may run it, its input, and a text of the response that proves it."""

    who: str
    input: dict[str, Any]
    shows: str


WINDOW = {"startDate": "2026-11-21T09:00:00Z", "endDate": "2026-11-28T09:00:00Z"}
ANSWERS = [{"questionId": global_id("Question", 1), "answer": "zq-{0}-given"}]

MUTATIONS = {
    "assignHomework": Mutation(
        CAREGIVER, {"sessionId": "{1.main}", "bookIds": ["1"], **WINDOW}, "Session:{1.main}"
    ),
    "closeSession": Mutation(CAREGIVER, {"sessionId": "{1.to_close}"}, "Session:{1.to_close}"),
    "createSession": Mutation(
        CAREGIVER,
        {"clientId": "{client}", "title": "zq-{0}-new", "startDate": WINDOW["startDate"]},
        "zq-{0}-new",
    ),
    "extendAssignment": Mutation(
        CAREGIVER,
        {"assignmentId": "{1.to_extend}", "endDate": "2026-12-31T09:00:00Z"},
        "Assignment:{1.to_extend}",
    ),
    "giveFeedback": Mutation(
        CAREGIVER, {"answerSetId": "{1.set_to_review}", "text": "zq-{0}-reviewed"}, "zq-{0}-reviewed"
    ),
    "reopenAssignment": Mutation(CAREGIVER, {"assignmentId": "{1.submitted}"}, "Assignment:{1.submitted}"),
    "saveAnswers": Mutation(
        CLIENT, {"assignmentId": "{1.to_draft}", "answers": ANSWERS}, "Assignment:{1.to_draft}"
    ),
    "setReminders": Mutation(
        CAREGIVER,
        {"assignmentId": "{1.to_remind}", "remindDates": ["2026-11-23T09:00:00Z"]},
        "Assignment:{1.to_remind}",
    ),
    "submitAnswers": Mutation(
        CLIENT, {"assignmentId": "{1.to_submit}", "answers": ANSWERS}, "Assignment:{1.to_submit}"
    ),
    "updateSession": Mutation(
        CAREGIVER, {"sessionId": "{1.to_update}", "title": "zq-{0}-renamed"}, "zq-{0}-renamed"
    ),
    "withdrawAssignment": Mutation(CAREGIVER, {"assignmentId": "{1.to_withdraw}"}, "Session:{1.main}"),
}

# Subscriptions, resumed after an event.
SUBSCRIPTIONS = {
    "assignmentChanged": RootField(BOTH, "(after: $id)", {"Event": "{1.assigned_event}"}),
    "reminderDue": RootField(CLIENT, "(after: $id)", {"Event": "{1.due_event}"}),
}


@dataclass(frozen=True)
class Path:
    """A legacy path: its role, method, and a text of the response that proves it."""

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
    "get assignment": Path(CAREGIVER, "GET", f"{ASSIGNMENTS}/{{1.reviewed}}", "zq-{0}-answer"),
    "assign homework": Path(CAREGIVER, "PUT", ASSIGNMENTS, "message", HOMEWORK),
}

# Every argument and input member that is an id, with the type of its objects. The catalogue has no owner.
CATALOGUE = "no owner"
IDS = {
    "Query.assignment(id)": "Assignment",
    "Query.assignments(clientId)": "Client",
    "Query.assignments(sessionId)": "Session",
    "Query.auditEvents(clientId)": "Client",
    "Query.book(id)": CATALOGUE,
    "Query.books(moduleId)": CATALOGUE,
    "Query.node(id)": "every type",
    "Query.nodes(ids)": "every type",
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


def is_allowed(who: str, viewer: str) -> bool:
    """Whether a row is for the viewer's role, whoever owns the object."""
    if who in (BOTH, ANYONE):
        return True
    return (who == CAREGIVER) == (viewer in "AB")


def fill(row: Any, shared: str, numbers: Numbers, **more: object) -> Any:
    """A row, or a part of one, with the names and numbers of a pair."""
    if isinstance(row, str):
        return row.format(shared, numbers, **more)
    if isinstance(row, list):
        return [fill(one, shared, numbers, **more) for one in row]
    if isinstance(row, dict):
        return {name: fill(one, shared, numbers, **more) for name, one in row.items()}
    return row
