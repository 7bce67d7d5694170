"""What `make run` prints: where to look, tokens, and one line to paste for each legacy path."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from app.care.context import Role
from app.paths import ASSIGNMENTS, SESSIONS


def what_to_paste(base: str, tokens: Mapping[Role, str]) -> str:
    caregiver, client = tokens[Role.CAREGIVER], tokens[Role.CLIENT]
    return "\n".join(
        [
            "",
            f"Where things are: {base}/",
            "",
            f"GraphQL in the browser: {base}/graphql",
            f"The schema to read: {base}/schema",
            "What to read next: docs/README.md",
            "",
            f"Caregiver token: {caregiver}",
            "",
            f"Client token: {client}",
            "",
            "They hold for 24 hours. For another one:",
            "CARE_ENV=development .venv/bin/care-gateway token --role caregiver",
            "",
            "The four legacy paths:",
            curl(client, f"{base}{SESSIONS}?time-state=RUNNING"),
            curl(caregiver, f"{base}{ASSIGNMENTS}?time-state=RUNNING"),
            curl(caregiver, f"{base}{ASSIGNMENTS}/1"),
            curl(caregiver, f"{base}{ASSIGNMENTS}", orjson.dumps(homework(datetime.now(UTC))).decode()),
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


def curl(token: str, url: str, body: str | None = None) -> str:
    write = "" if body is None else f" -X PUT -H 'Content-Type: application/json' -d '{body}'"
    return f"curl -sS -H 'Authorization: bearer {token}'{write} '{url}'"
