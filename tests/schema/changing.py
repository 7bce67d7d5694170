"""Helpers for mutations on sessions and pending homework."""

from typing import Any

from tests.callers import Caller, Gateway
from tests.database_rows import stored
from tests.factories import (
    DAY,
    NOW,
    Record,
    a_book,
    a_client,
    a_world_with_other_clients,
    an_answer_set,
    an_assignment,
)

PAYLOADS = {
    "createSession": "sessions { legacyId }",
    "updateSession": "session { legacyId }",
    "closeSession": "session { legacyId }",
    "extendAssignment": "assignment { legacyId }",
    "withdrawAssignment": "session { legacyId }",
    "setReminders": "assignment { legacyId }",
}
NOTHING: dict[str, dict[str, Any]] = {"createSession": {"sessions": []}} | {
    name: {payload.split(" ")[0]: None} for name, payload in PAYLOADS.items() if name != "createSession"
}

# Changed input, code, path of the member, message.
Refusal = tuple[dict[str, Any], str, str, str]


def a_world_to_change() -> list[Record]:
    """`a_world_with_other_clients`, and of caregiver 1 with client 101: assignment 6 (pending) in session 3
    (closed), 7 (pending) in session 2 (to come), 8 (reopened) in session 1, with answer set 4 of its first
    attempt; assignment 9 (pending) of caregiver 2. Book 4 is retired, client 3 has no caregiver yet."""
    return [
        *a_world_with_other_clients(),
        a_book(4, retireDate=NOW - DAY),
        a_client(3),
        an_assignment(6, session=3),
        an_assignment(7, session=2, startDate=NOW + 4 * DAY, endDate=NOW + 9 * DAY),
        an_assignment(8, attempt=2),
        an_assignment(9, session=5),
        an_answer_set(4, assignment=8, attempt=1),
    ]


def document(name: str, selected: str | None = None) -> str:
    kind = f"{name[0].upper()}{name[1:]}Input"
    payload = f"{selected or PAYLOADS[name]} userErrors {{ code field message }}"
    return f"mutation($input: {kind}!) {{ {name}(input: $input) {{ {payload} }} }}"


def change(caller: Caller, name: str, selected: str | None = None, **input_fields: Any) -> dict[str, Any]:
    """The payload of a successful mutation."""
    response: dict[str, Any] = caller.data(document(name, selected), input=input_fields)[name]
    assert response.pop("userErrors") == []
    return response


def refused(name: str, code: str, path: str, message: str) -> dict[str, Any]:
    errors = [{"code": code, "field": path.split("."), "message": message}]
    return {"data": {name: {**NOTHING[name], "userErrors": errors}}}


def check_refusals(
    gateway: Gateway, name: str, input_fields: dict[str, Any], rejections: dict[str, Refusal]
) -> None:
    """Checks the user errors of each input, and that nothing is written."""
    before = stored(gateway)
    answers = {}

    for what, (changed, *_) in rejections.items():
        given = {name: value for name, value in (input_fields | changed).items() if value is not ...}
        answers[what] = gateway.as_caregiver(1).graphql(document(name), input=given)
        assert stored(gateway) == before, what

    assert answers == {what: refused(name, *refusal) for what, (_, *refusal) in rejections.items()}
