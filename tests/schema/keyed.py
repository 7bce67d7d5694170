"""Mutations with an Idempotency-Key, and what their tests have in common."""

from typing import Any

from httpx2 import Response

from app.db.tables import Assignment
from tests.callers import Caller, Gateway
from tests.db import raw
from tests.schema.test_assign_homework import ASSIGN, ASSIGNED, homework
from tests.schema.worlds import stored

KEY = "6f1b2d1c-8c1e-4a55-9f0e-3b0f5a0f3c11"
KEYED = {"idempotency-key": KEY}
REPLAYED = ("idempotency-replayed", "true")
OTHER_REQUEST = "the Idempotency-Key was used for another request"
STILL_RUNNING = "a request with this Idempotency-Key is still in progress"
MALFORMED = "Idempotency-Key must be 1 to 255 visible ASCII characters"
SEVERAL = "Idempotency-Key is for a request with one mutation, and this has several"
TITLES = "{ sessions { nodes { title } } }"


def post(caller: Caller, body: dict[str, Any], key: str = KEY, **headers: str) -> Response:
    said = {"idempotency-key": key, **headers}
    return caller.request("POST", "/graphql", json=body, headers=said)


def assigning(**changed: Any) -> dict[str, Any]:
    return {"query": ASSIGN, "variables": {"input": homework(**changed)}}


def assign(gateway: Gateway, key: str = KEY, **changed: Any) -> Response:
    return post(gateway.as_caregiver(1), assigning(**changed), key)


def whole(response: Response) -> tuple[int, dict[str, str], bytes]:
    headers = dict(response.headers)
    assert headers.pop("x-request-id")
    return response.status_code, headers, response.content


def again(first: Response) -> tuple[int, dict[str, str], bytes]:
    """The repetition of this answer, as it must be to the byte."""
    status, headers, content = whole(first)
    assert REPLAYED not in headers.items()
    return status, {**headers, **dict([REPLAYED])}, content


def refused(code: str, message: str, request_id: str) -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": {"code": code, "requestId": request_id}}]}


def is_refused(response: Response, status: int, code: str, message: str) -> bool:
    said = refused(code, message, response.headers["x-request-id"])
    return (response.status_code, response.json()) == (status, said)


def is_assigned(response: Response) -> bool:
    payload = response.json()["data"]["assignHomework"]
    return (response.status_code, payload["message"], payload["userErrors"]) == (200, ASSIGNED, [])


def books(gateway: Gateway) -> list[int]:
    """Of the assignments that are new."""
    return [row[0] for row in stored(gateway, Assignment, "book_id")[5:]]


def keys(gateway: Gateway) -> list[tuple[Any, ...]]:
    columns = "role, viewer_id, contract, key, result, status"
    return raw.run(
        gateway.settings.database, f"SELECT {columns} FROM idempotency_key ORDER BY role, viewer_id, contract"
    )
