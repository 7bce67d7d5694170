"""The start page of development: links, demo tokens, and each legacy call beside its GraphQL replacement."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from app.care.context import Role
from app.db.admin.migrate import newest_version
from app.dev.assets import fill
from app.dev.graphiql import graphiql_link
from app.dev.quickstart import homework
from app.dev.tokens import has_own_keys
from app.http.paths import ASSIGNMENTS, SESSIONS
from app.rest_compat.deprecation import deprecation_notice
from app.rest_compat.routes import (
    ASSIGN_HOMEWORK,
    CAREGIVER_ASSIGNMENT,
    CAREGIVER_ASSIGNMENTS,
    CLIENT_SESSIONS,
)
from app.settings import Settings
from app.version import own_version

TEMPLATE = (Path(__file__).parent / "start.html").read_text(encoding="utf-8")
DEMO_PEOPLE = {Role.CAREGIVER: "a caregiver, Mara Lind", Role.CLIENT: "a client, Jonas Berg"}
EXTERNAL_ISSUER = "<p>The settings name an external token issuer, so this service issues no tokens.</p>"
NOT_LOCAL = "<p>Tokens are shown only to a browser on the same machine, under <code>localhost</code>.</p>"
USE = (
    "<p>Valid for 24 hours, as <code>Authorization: bearer &lt;token&gt;</code>. For a shell, request this "
    "page with <code>curl</code>: the response has the tokens as variables, and commands that use them.</p>"
)


def start_page(settings: Settings, tokens: Mapping[Role, str], now: datetime) -> str:
    return fill(
        TEMPLATE,
        {
            "tokens": token_blocks(tokens) if has_own_keys(settings) else EXTERNAL_ISSUER,
            "deprecation": deprecation(settings),
            "calls": "".join(map(call_section, example_calls(now))).replace("<details", "<details open", 1),
            "versions": f"Care Gateway {own_version()} · database schema {newest_version()} · "
            f"Python {platform.python_version()} · Strawberry {version('strawberry-graphql')}",
        },
    )


def token_blocks(tokens: Mapping[Role, str]) -> str:
    blocks = [
        f'<h3>For {DEMO_PEOPLE[role]}</h3>\n<div class="token">{code(token)}</div>\n'
        for role, token in tokens.items()
    ]
    return "".join([USE, *blocks]) if blocks else NOT_LOCAL


def deprecation(settings: Settings) -> str:
    notice, url = deprecation_notice(settings), escape(settings.legacy_notice)
    details = f' <a href="{url}">Details</a>' if url else ""
    return f"<p><strong>{notice}</strong>{details}</p>" if notice else ""


# --- legacy calls ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExampleCall:
    operation: str  # operationId in openapi.yaml
    title: str
    role: Role
    line: str  # of the legacy request, with its method
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
            f"GET {SESSIONS}?time-state=RUNNING&size=1",
            CLIENT_SESSIONS,
            page,
        ),
        ExampleCall(
            "listCaregiverAssignments",
            "The assignments of a caregiver's sessions",
            Role.CAREGIVER,
            f"GET {ASSIGNMENTS}?time-state=RUNNING&size=1",
            CAREGIVER_ASSIGNMENTS,
            page,
        ),
        ExampleCall(
            "getCaregiverAssignment",
            "One assignment with the client's answers",
            Role.CAREGIVER,
            f"GET {ASSIGNMENTS}/1",
            CAREGIVER_ASSIGNMENT,
            {"id": "1"},
        ),
        ExampleCall(
            "assignHomework",
            "Assign homework",
            Role.CAREGIVER,
            f"PUT {ASSIGNMENTS}",
            ASSIGN_HOMEWORK,
            {"input": assignment},
            homework(now),
        ),
    )


def call_section(call: ExampleCall) -> str:
    reference = f"/openapi.html#tag/{call.role.lower()}/{call.operation}"
    request = f"{call.line} HTTP/1.1\nAuthorization: bearer <token>\n"
    if call.body is not None:
        request += f"Content-Type: application/json\n\n{indented_json(call.body)}\n"
    graphiql = escape(graphiql_link(call.document, call.variables, call.role.lower()))
    return f"""\
<details id="{call.operation}">
<summary>{call.title} <small>for a {call.role.lower()}</small> <code>{call.line}</code></summary>
<h3>Legacy</h3>
{code(request, "http")}
<p><a href="{reference}">Reference, and a request to try</a></p>
<h3>GraphQL, with variables</h3>
<div class="pair">{code(call.document, "graphql")}{code(indented_json(call.variables), "json")}</div>
<p><a href="{graphiql}">Open in GraphiQL</a></p>
</details>
"""


def code(text: str, language: str = "") -> str:
    """The block scrolls, so it needs keyboard focus."""
    return f'<pre tabindex="0"><code data-language="{language}">{escape(text)}</code></pre>'


def indented_json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
