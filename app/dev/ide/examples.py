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
    hint: str = ""


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

# What there is to do, and the ids of the questions that drafts and submissions name.
MY_HOMEWORK = """\
query MyHomework {
  assignments(status: PENDING, first: 20) {
    nodes {
      legacyId
      name
      startDate
      endDate
      lateness { state }
      book { questions { id text kind options required minimum maximum } }
      draft { revision answers { questionId answer } }
    }
  }
}
"""

SUBMIT_ANSWERS = """\
mutation SubmitAnswers($input: SubmitAnswersInput!) {
  submitAnswers(input: $input) {
    assignment { legacyId name status score lateness { state } }
    answerSet { answers { questionText answer } }
    draft { revision }
    userErrors { code field message }
  }
}
"""

ANSWERS_VARIABLES = """\
{
  "input": {
    "assignmentId": "3",
    "answers": [
      { "questionId": "4", "answer": "true" },
      { "questionId": "5", "answer": "reading\\nmusic" }
    ]
  }
}
"""

DRAFT_VARIABLES = """\
{
  "input": {
    "assignmentId": "6",
    "answers": [{ "questionId": "8", "answer": "The walk, and" }],
    "revision": 0
  }
}
"""

SAVE_ANSWERS = """\
mutation SaveAnswers($input: SaveAnswersInput!) {
  saveAnswers(input: $input) {
    draft { revision answers { questionId answer } }
    userErrors { code field message }
  }
}
"""

GIVE_FEEDBACK = """\
mutation GiveFeedback($input: GiveFeedbackInput!) {
  giveFeedback(input: $input) {
    feedback { text submitDate }
    assignment { name feedbackStatus }
    userErrors { code field message }
  }
}
"""

FEEDBACK_VARIABLES = """\
{
  "input": {
    "answerSetId": "1",
    "text": "Thank you. Let us look at the evenings before the short nights."
  }
}
"""

OPEN_SESSIONS = """\
mutation CreateSession($input: CreateSessionInput!) {
  createSession(input: $input) {
    sessions { legacyId title startDate runningStatus assignmentCount }
    userErrors { code field message }
  }
}
"""

OPEN_SESSIONS_VARIABLES = """\
{
  "input": {
    "clientOpptId": "OPPT-1003",
    "title": "Evening group",
    "startDate": "2036-11-24T17:00:00Z",
    "homework": {
      "bookIds": ["4"],
      "startDate": "2036-11-24T18:00:00Z",
      "endDate": "2036-11-30T20:00:00Z"
    },
    "repeat": { "count": 3, "everyDays": 7 }
  }
}
"""

# The book is the test of the demo world, which is filled in again and again.
PROGRESS = """\
query Progress {
  clients(first: 20) {
    nodes {
      name
      progress {
        assignmentCount
        completedAssignmentCount
        overdueAssignmentCount
        lateAssignmentCount
        completion { week assigned completed }
      }
      scoreHistory(bookId: "3") { submitDate score }
    }
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

WATCH_ASSIGNMENTS = """\
subscription WatchAssignments {
  assignmentChanged {
    id
    what
    moment
    assignment { legacyId name status client { name } }
  }
}
"""

WATCH_REMINDERS = """\
subscription WatchReminders {
  reminderDue {
    id
    moment
    assignment { name endDate }
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
    Example(role="client", title="My homework and its questions", query=MY_HOMEWORK),
    Example(role="client", title="Save a draft", query=SAVE_ANSWERS, variables=DRAFT_VARIABLES),
    Example(role="client", title="Submit answers", query=SUBMIT_ANSWERS, variables=ANSWERS_VARIABLES),
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
    Example(role="caregiver", title="Give feedback", query=GIVE_FEEDBACK, variables=FEEDBACK_VARIABLES),
    Example(
        role="caregiver", title="Open three sessions", query=OPEN_SESSIONS, variables=OPEN_SESSIONS_VARIABLES
    ),
    Example(role="caregiver", title="Progress of my clients", query=PROGRESS),
    Example(role="caregiver", title="Search books", query=SEARCH_BOOKS),
)

# These need a page that can listen; the plain one cannot.
LISTENING: tuple[Example, ...] = (
    Example(
        role="caregiver",
        title="Watch my assignments",
        query=WATCH_ASSIGNMENTS,
        hint="Run it, then assign homework in another window: what happens appears here.",
    ),
    Example(
        role="client",
        title="Watch my reminders",
        query=WATCH_REMINDERS,
        hint="Run it: a reminder appears here at the moment it is due.",
    ),
)
