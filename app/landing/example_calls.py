"""An example of each legacy call with the GraphQL operation that replaces it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.care.context import Role
from app.dev.quickstart import homework
from app.http.paths import ASSIGNMENTS, SESSIONS
from app.rest_compat.routes import (
    ASSIGN_HOMEWORK,
    CAREGIVER_ASSIGNMENT,
    CAREGIVER_ASSIGNMENTS,
    CLIENT_SESSIONS,
)


@dataclass(frozen=True)
class ExampleCall:
    operation: str  # operationId in openapi.yaml
    title: str
    role: Role
    method: str
    target: str
    document: str  # the GraphQL document that the legacy path runs
    variables: dict[str, Any]
    body: dict[str, Any] | None = None

    @property
    def reference(self) -> str:
        return f"/openapi.html#tag/{self.role.lower()}/{self.operation}"


def example_calls(now: datetime) -> tuple[ExampleCall, ...]:
    first, middle, last = (now + timedelta(days=days) for days in (1, 4, 8))
    page = {"timeState": "RUNNING", "first": 1, "offset": 0}
    assignment = {
        "sessionId": "1",
        "bookIds": ["1", "2"],
        "startDate": f"{first:%Y-%m-%d}T08:00:00Z",
        "endDate": f"{last:%Y-%m-%d}T20:00:00Z",
        "remindDates": [f"{middle:%Y-%m-%d}T18:30:00Z"],
    }
    return (
        ExampleCall(
            "listClientSessions",
            "A client's own sessions",
            Role.CLIENT,
            "GET",
            f"{SESSIONS}?time-state=RUNNING&size=1",
            CLIENT_SESSIONS,
            page,
        ),
        ExampleCall(
            "listCaregiverAssignments",
            "The assignments of a caregiver's sessions",
            Role.CAREGIVER,
            "GET",
            f"{ASSIGNMENTS}?time-state=RUNNING&size=1",
            CAREGIVER_ASSIGNMENTS,
            page,
        ),
        ExampleCall(
            "getCaregiverAssignment",
            "One assignment with the client's answers",
            Role.CAREGIVER,
            "GET",
            f"{ASSIGNMENTS}/1",
            CAREGIVER_ASSIGNMENT,
            {"id": "1"},
        ),
        ExampleCall(
            "assignHomework",
            "Assign homework",
            Role.CAREGIVER,
            "PUT",
            ASSIGNMENTS,
            ASSIGN_HOMEWORK,
            {"input": assignment},
            homework(now),
        ),
    )
