"""The examples the GraphQL page offers, per role, each with the legacy call it replaces."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Example:
    role: Literal["caregiver", "client"]
    title: str
    query: str
    variables: str = ""
    replaces: str = ""


MY_RUNNING_SESSIONS = """\
query MyRunningSessions {
  sessions(timeState: RUNNING, first: 20) {
    totalCount
    nodes {
      id
      legacyId
      title
      description
      caregiver { name position }
      client { name opptId }
      createDate
      startDate
      isClosed
      runningStatus
      assignmentCount
      completedAssignmentCount
      pendingAssignmentCount
      lastAssignmentScore
      latestAssignment { name }
    }
    pageInfo { hasNextPage endCursor }
  }
}
"""

WHO_AM_I = """\
query WhoAmI {
  viewer {
    role
    timeZone
    caregiver { name position }
    client { name opptId }
  }
}
"""

RUNNING_ASSIGNMENTS = """\
query RunningAssignments {
  assignments(timeState: RUNNING, first: 20) {
    totalCount
    nodes {
      id
      legacyId
      name
      status
      startDate
      endDate
      submitDate
      score
      feedbackStatus
      session { title }
      client { name }
      answerSets {
        submitDate
        answers { questionText answer }
      }
    }
    pageInfo { hasNextPage endCursor }
  }
}
"""

# The id is the number REST shows; the opaque `id` of any answer works just as well.
ONE_ASSIGNMENT = """\
query OneAssignment($id: ID!) {
  assignment(id: $id) {
    id
    legacyId
    name
    module { name }
    isTest
    status
    assignDate
    startDate
    endDate
    submitDate
    score
    feedbackStatus
    feedbackSubmitDate
    session { legacyId title }
    client { name }
    answerSets {
      submitDate
      answers { questionText answer }
    }
  }
}
"""

ASSIGN_HOMEWORK = """\
mutation AssignHomework($input: AssignHomeworkInput!) {
  assignHomework(input: $input) {
    message
    assignments { id legacyId name }
    userErrors { code field message }
  }
}
"""

ASSIGN_HOMEWORK_VARIABLES = """\
{
  "input": {
    "sessionId": "1",
    "bookIds": ["1", "2"],
    "startDate": "2026-11-22T08:00:00Z",
    "endDate": "2036-11-29T20:00:00Z",
    "remindDates": ["2026-11-25T18:30:00Z"]
  }
}
"""

SEARCH_BOOKS = """\
query SearchBooks {
  books(search: "sleep", first: 5) {
    nodes {
      legacyId
      name
      module { name }
    }
  }
}
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        role="client",
        title="My running sessions",
        query=MY_RUNNING_SESSIONS,
        replaces="GET /gateway/profile/client/session?time-state=RUNNING",
    ),
    Example(role="client", title="Who am I", query=WHO_AM_I),
    Example(
        role="caregiver",
        title="Running assignments with answers",
        query=RUNNING_ASSIGNMENTS,
        replaces="GET /gateway/profile/caregiver/session/assignment?time-state=RUNNING",
    ),
    Example(
        role="caregiver",
        title="One assignment in detail",
        query=ONE_ASSIGNMENT,
        variables='{ "id": "1" }\n',
        replaces="GET /gateway/profile/caregiver/session/assignment/{id}",
    ),
    Example(
        role="caregiver",
        title="Assign homework",
        query=ASSIGN_HOMEWORK,
        variables=ASSIGN_HOMEWORK_VARIABLES,
        replaces="PUT /gateway/profile/caregiver/session/assignment",
    ),
    Example(role="caregiver", title="Search books", query=SEARCH_BOOKS),
)
