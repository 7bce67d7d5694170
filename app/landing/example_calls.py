"""An example of each legacy call, with the GraphQL operation that replaces it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.care.context import Role
from app.dev.quickstart import homework
from app.http.paths import ASSIGNMENTS, SESSIONS

MY_SESSIONS = """\
query MySessions {
  sessions(timeState: RUNNING, first: 1) {
    totalCount
    nodes {
      legacyId
      title
      description
      caregiver { legacyId name position }
      client { legacyId opptId name }
      createDate
      startDate
      chatId
      latestAssignment { legacyId name book { legacyId } }
      assignmentCount
      completedAssignmentCount
      pendingAssignmentCount
      lastAssignmentScore
      isClosed
      runningStatus
    }
    pageInfo { hasNextPage endCursor }
  }
}"""

ASSIGNMENT = """\
legacyId
name
isTest
book { legacyId }
module { legacyId name }
session { legacyId title }
caregiver { legacyId name }
client { legacyId name }
assignDate
startDate
submitDate
status
score
feedbackStatus
feedbackSubmitDate
answerSets {
  legacyId
  saveType
  submitDate
  answers { questionText answer }
}"""


def indented(text: str, by: int) -> str:
    return text.replace("\n", "\n" + " " * by)


MY_ASSIGNMENTS = f"""\
query MyAssignments {{
  assignments(timeState: RUNNING, first: 1) {{
    totalCount
    nodes {{
      {indented(ASSIGNMENT, 6)}
    }}
    pageInfo {{ hasNextPage endCursor }}
  }}
}}"""

ONE_ASSIGNMENT = f"""\
query OneAssignment {{
  assignment(id: "1") {{
    {indented(ASSIGNMENT, 4)}
  }}
}}"""

ASSIGN_HOMEWORK = """\
mutation AssignHomework($input: AssignHomeworkInput!) {
  assignHomework(input: $input) {
    message
    assignments { legacyId name }
    userErrors { code field message }
  }
}"""


@dataclass(frozen=True)
class ExampleCall:
    """A legacy request and the GraphQL request that replaces it."""

    operation: str  # operationId in openapi.yaml
    title: str
    role: Role
    method: str
    target: str
    document: str
    field: str  # in the response's data
    body: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None


def example_calls(now: datetime) -> tuple[ExampleCall, ...]:
    return (
        ExampleCall(
            "listClientSessions",
            "A client's own sessions",
            Role.CLIENT,
            "GET",
            f"{SESSIONS}?time-state=RUNNING&size=1",
            MY_SESSIONS,
            "sessions",
        ),
        ExampleCall(
            "listCaregiverAssignments",
            "The assignments of a caregiver's sessions",
            Role.CAREGIVER,
            "GET",
            f"{ASSIGNMENTS}?time-state=RUNNING&size=1",
            MY_ASSIGNMENTS,
            "assignments",
        ),
        ExampleCall(
            "getCaregiverAssignment",
            "One assignment with the client's answers",
            Role.CAREGIVER,
            "GET",
            f"{ASSIGNMENTS}/1",
            ONE_ASSIGNMENT,
            "assignment",
        ),
        assign_homework_call(now),
    )


def assign_homework_call(now: datetime) -> ExampleCall:
    first, middle, last = (now + timedelta(days=days) for days in (1, 4, 8))
    return ExampleCall(
        "assignHomework",
        "Assign homework",
        Role.CAREGIVER,
        "PUT",
        ASSIGNMENTS,
        ASSIGN_HOMEWORK,
        "assignHomework",
        homework(now),
        {
            "input": {
                "sessionId": "1",
                "bookIds": ["1", "2"],
                "startDate": f"{first:%Y-%m-%d}T08:00:00Z",
                "endDate": f"{last:%Y-%m-%d}T20:00:00Z",
                "remindDates": [f"{middle:%Y-%m-%d}T18:30:00Z"],
            }
        },
    )
