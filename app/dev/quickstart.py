"""The text that `make run` prints: addresses, tokens as shell variables, and commands that use them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from app.care.context import Role
from app.http.paths import ASSIGNMENTS, SESSIONS

QUERY = "{ assignments(timeState: RUNNING, first: 2) { totalCount nodes { name status client { name } } } }"


def quickstart_text(base: str, tokens: Mapping[Role, str]) -> str:
    return "\n".join(
        [
            "",
            "Open in a browser:",
            f"  {base}/           tokens, the legacy calls and what replaces them",
            f"  {base}/graphql    a page to try queries in",
            f"  {base}/schema     the schema reference",
            "",
            "For the commands below, paste these two lines into another terminal. The tokens last 24 hours.",
            *(f"{role}={tokens[role]}" for role in (Role.CAREGIVER, Role.CLIENT)),
            "",
            "The four legacy paths, one command per line:",
            curl(Role.CLIENT, f"{base}{SESSIONS}?time-state=RUNNING"),
            curl(Role.CAREGIVER, f"{base}{ASSIGNMENTS}?time-state=RUNNING"),
            curl(Role.CAREGIVER, f"{base}{ASSIGNMENTS}/1"),
            curl(Role.CAREGIVER, f"{base}{ASSIGNMENTS}", homework(datetime.now(UTC)), "PUT"),
            "",
            "GraphQL:",
            curl(Role.CAREGIVER, f"{base}/graphql", {"query": QUERY}),
            "",
            "A new token: CARE_ENV=development .venv/bin/care-gateway token --role caregiver",
            "Documentation: docs/README.md",
            "",
        ]
    )


def homework(now: datetime) -> dict[str, Any]:
    """From tomorrow for a week, and a reminder in its middle."""
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
    """One line that works in every POSIX shell once the variable named like the role holds a token."""
    words = ["curl -sS", *([f"-X {method}"] if method else []), f'-H "Authorization: bearer ${role}"']
    if body is not None:
        words.append(f"-H 'Content-Type: application/json' -d '{orjson.dumps(body).decode()}'")
    return " ".join([*words, f"'{url}'"])
