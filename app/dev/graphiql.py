"""GraphiQL at /graphql: its page, and its examples, which are the operations of examples.graphql."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse
from starlette.types import Scope

from app.dev.assets import built_page
from app.dev.building import Built
from app.dev.tokens import tokens_for_visitor
from app.http.paths import ASSIGNMENTS, SESSIONS
from app.schema.types.scalars import write_moment
from app.settings import Settings

DOCUMENTS = (Path(__file__).parent / "examples.graphql").read_text(encoding="utf-8")
OPERATIONS = {
    found[1]: found[0] for found in re.finditer(r"^\w+ (\w+).*?^}\n", DOCUMENTS, re.MULTILINE | re.DOTALL)
}


@dataclass(frozen=True)
class Example:
    role: Literal["caregiver", "client"]
    title: str
    query: str
    variables: str  # JSON, or empty
    replaces: str  # a legacy call, or empty
    hint: str


def example(
    role: Literal["caregiver", "client"],
    title: str,
    operation: str,
    variables: dict[str, Any] | None = None,
    replaces: str = "",
    hint: str = "",
) -> Example:
    text = f"{json.dumps(variables, indent=2)}\n" if variables else ""
    return Example(role, title, OPERATIONS[operation], text, replaces, hint)


DRAFT = {"assignmentId": "6", "answers": [{"questionId": "8", "answer": "The walk, and"}], "revision": 0}
SUBMISSION = {
    "assignmentId": "3",
    "answers": [{"questionId": "4", "answer": "true"}, {"questionId": "5", "answer": "reading\nmusic"}],
    "revision": 0,
}
HOMEWORK = {
    "sessionId": "1",
    "bookIds": ["1", "2"],
    "startDate": "2026-11-22T08:00:00Z",
    "endDate": "2036-11-29T20:00:00Z",
    "remindDates": ["2026-11-25T18:30:00Z"],
}
FEEDBACK = {"answerSetId": "1", "text": "Thank you. Let us look at the evenings before the short nights."}
SERIES = {
    "clientOpptId": "OPPT-1003",
    "title": "Evening group",
    "startDate": "2036-11-24T17:00:00Z",
    "homework": {"bookIds": ["4"], "startDate": "2036-11-24T18:00:00Z", "endDate": "2036-11-30T20:00:00Z"},
    "repeat": {"count": 3, "everyDays": 7},
}

EXAMPLES: tuple[Example, ...] = (
    example(
        "client", "My running sessions", "MyRunningSessions", replaces=f"GET {SESSIONS}?time-state=RUNNING"
    ),
    example("client", "Who am I", "WhoAmI"),
    example("client", "My homework and its questions", "MyHomework"),
    example(
        "client",
        "Save a draft",
        "SaveAnswers",
        {"input": DRAFT},
        hint="To save again, set revision to that of the draft in the response: another one is a conflict.",
    ),
    example(
        "client",
        "Submit answers",
        "SubmitAnswers",
        {"input": SUBMISSION},
        hint="If the assignment has a draft, set revision to that of the draft.",
    ),
    example(
        "client",
        "Watch my reminders",
        "WatchReminders",
        hint="Run it: a reminder appears here at the moment it is due.",
    ),
    example(
        "caregiver",
        "Running assignments with answers",
        "RunningAssignments",
        replaces=f"GET {ASSIGNMENTS}?time-state=RUNNING",
    ),
    example(
        "caregiver",
        "One assignment in detail",
        "OneAssignment",
        {"id": "1"},
        replaces=f"GET {ASSIGNMENTS}/{{id}}",
    ),
    example(
        "caregiver", "Assign homework", "AssignHomework", {"input": HOMEWORK}, replaces=f"PUT {ASSIGNMENTS}"
    ),
    example("caregiver", "Give feedback", "GiveFeedback", {"input": FEEDBACK}),
    example("caregiver", "Create three sessions", "CreateSession", {"input": SERIES}),
    example("caregiver", "Progress of my clients", "Progress"),
    example("caregiver", "Search books", "SearchBooks"),
    example(
        "caregiver",
        "Watch my assignments",
        "WatchAssignments",
        hint="Run it, then assign homework in another window: the event appears here.",
    ),
)


def graphiql_link(query: str, variables: dict[str, Any] | None, role: str) -> str:
    """Opens the operation in GraphiQL with the demo token of the role. The browser sends no fragment."""
    # A legacy call has moments in its variables.
    text = json.dumps(variables, indent=2, ensure_ascii=False, default=write_moment) if variables else ""
    state = {"query": query, "variables": text, "role": role}
    return f"/graphql#{urlencode({name: value for name, value in state.items() if value}, quote_via=quote)}"


def page_maker(settings: Settings, built: Built | None) -> Callable[[Scope], HTMLResponse]:
    examples = [asdict(example) for example in EXAMPLES]

    def page(scope: Scope) -> HTMLResponse:
        tokens = {role.lower(): token for role, token in tokens_for_visitor(settings, scope).items()}
        return built_page(built, "/graphql", {"endpoint": "/graphql", "tokens": tokens, "examples": examples})

    return page
