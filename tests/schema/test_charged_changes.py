"""Promise: a change costs its viewer 32 points per full KiB that it stores, before it is made, so that no
viewer fills the disk. One that cannot be paid changes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Response

from app.care.budgets import Budget
from app.settings import Settings
from tests.answers import (
    FITTING,
    GIVE,
    LATE,
    REMARK,
    SAVE,
    SUBMIT,
    SUBMITTED,
    TEST,
    a_world_to_answer_in,
    to_answer,
)
from tests.callers import Caller, Gateway
from tests.database_rows import stored
from tests.db import raw
from tests.rest_compat import legacy
from tests.schema.limited import limited_gateway, only_budget
from tests.schema.test_assign_homework import homework

POINTS = 100_000
TEXT = "\N{GRINNING FACE}" * 2560  # 10 KiB
REMINDERS = [f"2026-11-22T10:{minute:02}:00Z" for minute in range(50)]
UPDATE = "mutation($input: UpdateSessionInput!) { updateSession(input: $input) { userErrors { code } } }"
CREATE = "mutation($input: CreateSessionInput!) { createSession(input: $input) { userErrors { code } } }"
ASSIGN = "mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) { userErrors { code } } }"
REMIND = "mutation($input: SetRemindersInput!) { setReminders(input: $input) { userErrors { code } } }"
NEW = {"clientId": "101", "title": "Weekly", "startDate": "2026-11-21T09:00:00Z"}
DAILY = {"bookIds": ["3"], "startDate": "2026-11-22T08:00:00Z", "endDate": "2026-11-23T20:00:00Z"}

# Who makes the change, the mutation, its input, and the KiB that it stores.
CHANGES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "description": ("caregiver", UPDATE, {"sessionId": "1", "description": TEXT}, 10),
    "title and description": (
        "caregiver",
        UPDATE,
        {"sessionId": "1", "title": "x" * 24, "description": "x" * 2024},
        2,
    ),
    "description of one KiB": ("caregiver", UPDATE, {"sessionId": "1", "description": "x" * 1024}, 1),
    "sessions": (
        "caregiver",
        CREATE,
        {**NEW, "description": TEXT, "repeat": {"count": 52, "everyDays": 7}},
        (10_240 + 6 + 500) * 52 // 1024,
    ),
    "planned homework": (
        "caregiver",
        CREATE,
        {**NEW, "homework": {**DAILY, "remindDates": REMINDERS}, "repeat": {"count": 52, "everyDays": 7}},
        (6 + 500 + 500 + 50 * 200) * 52 // 1024,
    ),
    "homework": ("caregiver", ASSIGN, homework(remindDates=REMINDERS), (500 + 50 * 200) // 1024),
    "homework of a book that is given twice": (
        "caregiver",
        ASSIGN,
        homework(bookIds=["3", "3"], remindDates=REMINDERS),
        (500 + 50 * 200) // 1024,
    ),
    "reminders": (
        "caregiver",
        REMIND,
        {"assignmentId": str(TEST), "remindDates": REMINDERS},
        50 * 200 // 1024,
    ),
    "feedback": ("caregiver", GIVE, {"answerSetId": str(SUBMITTED), "text": TEXT}, 10),
    "draft": ("client", SAVE, to_answer(LATE, {REMARK: TEXT}), 10),
    "submission": ("client", SUBMIT, to_answer(LATE, {REMARK: TEXT}), 10),
    "draft of several answers": ("client", SAVE, to_answer(TEST, FITTING | {4: "x" * 10_000}), 10),
}
SMALL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "description": ("caregiver", UPDATE, {"sessionId": "1", "description": "x" * 1023}),
    "session": ("caregiver", CREATE, {**NEW, "description": "x" * 500}),
    "homework": ("caregiver", ASSIGN, homework(remindDates=REMINDERS[:2])),
    "draft": ("client", SAVE, to_answer(LATE, {REMARK: "x" * 900})),
}


@pytest.fixture
def limited(settings: Settings) -> Iterator[Gateway]:
    """A viewer's points do not grow."""
    settings = settings.model_copy(update={"cost_limit": 15_000})
    with limited_gateway(settings, POINTS, a_world_to_answer_in(), reports_cost=True) as gateway:
        yield gateway


def caller_of(gateway: Gateway, role: str) -> tuple[Caller, Budget]:
    """The caller, and what they may still spend."""
    caller = gateway.as_caregiver(1) if role == "caregiver" else gateway.as_client(1)
    caller.data("{ viewer { role } }")
    budget = only_budget(gateway)
    budget.left = POINTS
    return caller, budget


def price(response: Response, budget: Budget) -> float:
    """What the response cost beside the points of its operation and its own bytes."""
    cost = response.json()["extensions"]["cost"]["cost"]
    return POINTS - budget.left - cost - len(response.content) // 1024


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_costs_what_it_stores(limited: Gateway, name: str) -> None:
    role, query, given, kib = CHANGES[name]
    caller, budget = caller_of(limited, role)
    limited.as_caregiver(2).post_graphql(query, input=given)  # changes nothing, and pays for the document

    response = caller.post_graphql(query, input=given)

    assert [payload["userErrors"] for payload in response.json()["data"].values()] == [[]]
    assert price(response, budget) == 32 * kib


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", SMALL)
def test_a_small_change_costs_nothing_more(limited: Gateway, name: str) -> None:
    role, query, given = SMALL[name]
    caller, budget = caller_of(limited, role)

    response = caller.post_graphql(query, input=given)

    assert [payload["userErrors"] for payload in response.json()["data"].values()] == [[]]
    assert price(response, budget) == 0


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_cannot_be_paid_is_not_made(limited: Gateway, name: str) -> None:
    role, query, given, kib = CHANGES[name]
    caller, budget = caller_of(limited, role)
    before = stored(limited)
    budget.left = 32 * kib + 30  # less than with the operation

    response = caller.post_graphql(query, input=given)
    [error] = response.json()["errors"]

    assert (response.status_code, len(error["path"])) == (429, 1)
    assert (error["message"], error["extensions"]["code"]) == (
        "too many points were used within a minute",
        "RATE_LIMITED",
    )
    assert int(response.headers["retry-after"]) >= 1
    assert stored(limited) == before


def test_a_repetition_with_a_key_stores_nothing_and_pays_nothing_more(limited: Gateway) -> None:
    """Also if the process ended before it stored the response."""
    role, query, given, kib = CHANGES["description"]
    caller, budget = caller_of(limited, role)

    def change(headers: dict[str, str]) -> float:
        budget.left = POINTS
        body = {"query": query, "variables": {"input": given}}
        response = caller.request("POST", "/graphql", json=body, headers=headers)
        assert response.json()["data"]["updateSession"] == {"userErrors": []}
        return price(response, budget)

    key = {"idempotency-key": "one"}
    first = change(key)
    raw.run(limited.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")

    assert first - change(key) == 32 * kib
    assert change({}) == first


def test_the_legacy_put_costs_the_same(limited: Gateway) -> None:
    caller, budget = caller_of(limited, "caregiver")
    reminders = [{"date": "2026/11/23", "time": f"09:{minute:02}"} for minute in range(50)]
    before = stored(limited)
    price = 32 * (2 * (500 + 50 * 200) // 1024)

    budget.left = price
    refused = caller.put(legacy.ASSIGNMENTS, json=legacy.homework(remindDates=reminders))
    assert legacy.rejection_of(refused) == (429, "too many points were used within a minute")
    assert stored(limited) == before

    budget.left = POINTS
    made = caller.put(legacy.ASSIGNMENTS, json=legacy.homework(remindDates=reminders))
    assert made.status_code == 200
    assert price <= POINTS - budget.left <= price + 70


def test_a_change_that_costs_more_than_a_minute_waits_for_half_of_it(limited: Gateway) -> None:
    role, query, given, _ = CHANGES["sessions"]
    caller, budget = caller_of(limited, role)
    budget.points = 10_000  # 545 KiB cost 17,440

    budget.left = 5_000
    assert caller.post_graphql(query, input=given).status_code == 429
    budget.left = 6_000
    assert caller.post_graphql(query, input=given).status_code == 200
    assert budget.left < -11_000
