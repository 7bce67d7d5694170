"""An example of each legacy call beside its GraphQL replacement, and the responses of this service."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson
from starlette.requests import Request
from starlette.types import Message

from app.care.context import Role
from app.dev.quickstart import homework
from app.http.paths import ASSIGNMENTS, SESSIONS
from app.rest_compat.routes import (
    ASSIGN_HOMEWORK,
    CAREGIVER_ASSIGNMENT,
    CAREGIVER_ASSIGNMENTS,
    CLIENT_SESSIONS,
)
from app.rest_compat.usage import Usage


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


# --- requests to this application, through the same middleware as requests from the network ---


class InternalResponse(NamedTuple):
    status: int
    body: bytes


class ResponsePair(NamedTuple):
    legacy: InternalResponse
    graphql: InternalResponse


async def send_both(request: Request, call: ExampleCall, token: str) -> ResponsePair:
    body = orjson.dumps({"query": call.document, "variables": call.variables})
    return ResponsePair(
        await send_request(request, call.method, call.target, token),
        await send_request(request, "POST", "/graphql", token, body),
    )


async def send_request(
    request: Request, method: str, target: str, token: str | None = None, body: bytes = b""
) -> InternalResponse:
    """Sends none of the visitor's headers. The request does not count as usage of the legacy paths."""
    path, _, query = target.partition("?")
    headers = {b"host": b"localhost", b"content-type": b"application/json", b"accept": b"application/json"}
    if token is not None:
        headers[b"authorization"] = f"bearer {token}".encode()
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": request.scope["asgi"],
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": list(headers.items()),
        "client": None,
        "server": None,
        "state": {**request.scope["state"], "usage": Usage()},
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await request.app(scope, receive, send)
    return InternalResponse(sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]))
