"""Helpers for the PUT with an Idempotency-Key."""

from typing import Any

from httpx2 import Response

from tests.callers import Gateway
from tests.database_rows import stored
from tests.db import raw
from tests.rest_compat.legacy import ASSIGNMENTS, homework
from tests.schema.test_headers import SECURITY_HEADERS

KEY = "6f1b2d1c-8c1e-4a55-9f0e-3b0f5a0f3c11"
KEYED = {"idempotency-key": KEY}
ASSIGNED = b'{"message":"The assignments were added to the session."}'
OTHER_REQUEST = (422, "the Idempotency-Key was used for another request")
STILL_RUNNING = (409, "a request with this Idempotency-Key is still in progress")
ERROR_MEMBERS = ["timestamp", "status", "error", "message", "path"]
MALFORMED = (400, "Idempotency-Key must be 1 to 255 visible ASCII characters")


def put(gateway: Gateway, key: str = KEY, **changed: Any) -> Response:
    return gateway.as_caregiver(1).put(
        ASSIGNMENTS, json=homework(**changed), headers={"idempotency-key": key}
    )


def parts_of(response: Response) -> tuple[int, dict[str, str], bytes]:
    headers = dict(response.headers)
    assert headers.pop("x-request-id")
    return response.status_code, headers, response.content


def expected_parts(*more: tuple[str, str]) -> tuple[int, dict[str, str], bytes]:
    content = {"content-type": "application/json", "content-length": str(len(ASSIGNED))}
    headers = {**SECURITY_HEADERS, **content, **dict(more)}
    return 200, headers, ASSIGNED


FIRST = expected_parts()
AGAIN = expected_parts(("idempotency-replayed", "true"))


def stored_keys(gateway: Gateway) -> list[tuple[Any, ...]]:
    columns = "role, viewer_id, contract, key, result, status, body"
    return raw.run(gateway.settings.database, f"SELECT {columns} FROM idempotency_key")


STORED = ("CAREGIVER", 1, "legacy", KEY, "[6,7]", 200, ASSIGNED.decode())


def books(gateway: Gateway) -> list[int]:
    """The books of the new assignments."""
    return [row["book_id"] for row in stored(gateway)["assignment"][5:]]
