"""What `make run` prints: where to look, tokens, and one line to paste for each legacy path."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import orjson

from app.care.context import Role

ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"


def what_to_paste(base: str, tokens: Mapping[Role, str]) -> str:
    caregiver, client = tokens[Role.CAREGIVER], tokens[Role.CLIENT]
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    homework = {
        "bookIds": [1, 2],
        "startDate": f"{tomorrow:%Y/%m/%d}",
        "startTime": "08:00",
        "endDate": f"{tomorrow + timedelta(days=7):%Y/%m/%d}",
        "endTime": "20:00",
        "remindDates": [{"date": f"{tomorrow + timedelta(days=3):%Y/%m/%d}", "time": "18:30"}],
        "sessionId": 1,
    }
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
            curl(client, f"{base}/gateway/profile/client/session?time-state=RUNNING"),
            curl(caregiver, f"{base}{ASSIGNMENTS}?time-state=RUNNING"),
            curl(caregiver, f"{base}{ASSIGNMENTS}/1"),
            curl(caregiver, f"{base}{ASSIGNMENTS}", orjson.dumps(homework).decode()),
            "",
        ]
    )


def curl(token: str, url: str, body: str | None = None) -> str:
    write = "" if body is None else f" -X PUT -H 'Content-Type: application/json' -d '{body}'"
    return f"curl -sS -H 'Authorization: bearer {token}'{write} '{url}'"
