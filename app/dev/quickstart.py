"""The output of `make run`: URLs, tokens as shell variables, and example commands."""

import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from app.care.context import Role
from app.db.admin.demo import CAREGIVER, CLIENT
from app.http.paths import ASSIGNMENTS, SESSIONS

DOCS = Path(__file__).parents[2] / "docs" / "README.md"  # in a checkout only
DEMO_USERS = {Role.CAREGIVER: CAREGIVER, Role.CLIENT: CLIENT}
QUERY = "{ assignments(timeState: RUNNING, first: 2) { totalCount nodes { name status client { name } } } }"


def quickstart_text(base: str, tokens: Mapping[Role, str]) -> str:
    return "\n".join(
        [
            "",
            "Open in a browser:",
            f"  {base}/               tokens, and the legacy calls beside their GraphQL replacements",
            f"  {base}/graphql        GraphQL in the browser",
            f"  {base}/openapi.html   reference of the legacy paths, with requests to try",
            f"  {base}/schema         GraphQL schema",
            f"  {base}/docs           documentation",
            "",
            "Paste these two lines into another terminal first. The tokens are valid for 24 hours.",
            *(f"{role}={tokens[role]}" for role in (Role.CAREGIVER, Role.CLIENT)),
            "",
            "The four legacy paths:",
            curl(Role.CLIENT, f"{base}{SESSIONS}?time-state=RUNNING"),
            curl(Role.CAREGIVER, f"{base}{ASSIGNMENTS}?time-state=RUNNING"),
            curl(Role.CAREGIVER, f"{base}{ASSIGNMENTS}/1"),
            curl(Role.CAREGIVER, f"{base}{ASSIGNMENTS}", homework(datetime.now(UTC)), "PUT"),
            "",
            "GraphQL:",
            curl(Role.CAREGIVER, f"{base}/graphql", {"query": QUERY}),
            "",
            f"A new token, in the service's folder: CARE_ENV=development {command()} token --role caregiver",
            *(["Documentation: docs/README.md"] if DOCS.exists() else []),
            "",
        ]
    )


def command() -> str:
    """The command that started this process."""
    program = sys.argv[0]
    if Path(program).name == "care-gateway":
        return shlex.quote(program)
    return f"{shlex.quote(sys.orig_argv[0])} -m app"


def homework(now: datetime) -> dict[str, Any]:
    """Starts tomorrow, lasts a week, with one reminder."""
    first, middle, last = (now + timedelta(days=days) for days in (1, 4, 8))
    return {
        "bookIds": [1, 2],
        "startDate": f"{first:%Y/%m/%d}",
        "startTime": "08:00",
        "endDate": f"{last:%Y/%m/%d}",
        "endTime": "20:00",
        "remindDates": [{"date": f"{middle:%Y/%m/%d}", "time": "18:30"}],
        "sessionId": 1,
    }


def curl(role: Role, url: str, body: dict[str, Any] | None = None, method: str = "") -> str:
    """One line for any POSIX shell; the variable with the name of the role must contain a token."""
    words = ["curl -sS", *([f"-X {method}"] if method else []), f'-H "Authorization: bearer ${role}"']
    if body is not None:
        words.append(f"-H 'Content-Type: application/json' -d '{orjson.dumps(body).decode()}'")
    return " ".join([*words, f"'{url}'"])
