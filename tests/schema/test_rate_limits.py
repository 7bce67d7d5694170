"""Promise: nobody gets more points of cost in a minute than there are for one viewer, over both contracts and
websockets; who is refused hears when to come again, and nothing was done."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import app.schema.transport.subscriptions
from app.auth.authenticator import Authenticator
from app.care.budgets import MAX_ADDRESSES, MAX_VIEWERS, Budget, Budgets
from app.care.errors import RateLimited
from app.main import create_app
from app.schema.types.scalars import global_id
from app.settings import Environment, Settings
from tests.callers import Caller, Gateway, opened, schema_of
from tests.concurrency import before_database_calls, failure, nothing
from tests.factories import NOW, a_world
from tests.schema.listening import insert_event, listening, streaming

VIEWER = "{ viewer { role } }"  # 2 points
SESSIONS = "{ sessions { nodes { id } } }"  # 31 points
OF_SESSION = "assignments(first: $n) { nodes { session { title %s } } }"  # 13 points for one row
NESTED = f"sessions(first: $n) {{ nodes {{ {OF_SESSION % (OF_SESSION % (OF_SESSION % ''))} }} }}"
REFUSAL = {"message": "too many points were used within a minute", "extensions": {"code": "RATE_LIMITED"}}


class Clock:
    """Of whole seconds, which add up exactly."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limited(settings: Settings, clock: Clock) -> Iterator[Gateway]:
    """120 points in a minute are two in a second."""
    settings = settings.model_copy(update={"rate_limit": 120})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        authenticator: Authenticator = client.app_state["authenticator"]
        authenticator.budgets.ticks = clock
        gateway.import_records(a_world())
        yield gateway


def spend(caller: Caller, times: int) -> None:
    for _ in range(times):
        assert caller.post_graphql(SESSIONS).status_code == 200


def rates(caller: Caller, query: str = VIEWER) -> tuple[int, str | None, str | None, str | None]:
    answer = caller.post_graphql(query)
    names = ("ratelimit-policy", "ratelimit", "retry-after")
    return (answer.status_code, *[answer.headers.get(name) for name in names])  # type: ignore[return-value]


def test_every_answer_tells_what_is_left_and_when_it_is_whole_again(limited: Gateway, clock: Clock) -> None:
    caller = limited.as_caregiver(1)

    assert rates(caller) == (200, '"default";q=120;w=60', '"default";r=118;t=1', None)
    assert rates(caller, SESSIONS) == (200, '"default";q=120;w=60', '"default";r=87;t=17', None)
    clock.wait(10)
    assert rates(caller) == (200, '"default";q=120;w=60', '"default";r=105;t=8', None)
    assert limited.as_anonymous().post_graphql("{ __typename }").headers.get("ratelimit") is None


UNREADABLE: dict[str, tuple[bytes, dict[str, str], int]] = {
    "malformed body": (b"{", {}, 400),
    "other media type": (b"{}", {"content-type": "text/plain"}, 415),
    "no query": (b"{}", {}, 400),
    "nothing accepted": (b"{}", {"accept": "image/png"}, 406),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("case", UNREADABLE)
def test_a_rejected_request_tells_it_too(limited: Gateway, clock: Clock, case: str) -> None:
    body, headers, status = UNREADABLE[case]
    caller = limited.as_caregiver(1)
    spend(caller, 1)
    clock.wait(5)

    answer = caller.request(
        "POST", "/graphql", content=body, headers={"content-type": "application/json", **headers}
    )

    names = ("ratelimit-policy", "ratelimit")
    assert (answer.status_code, *[answer.headers.get(name) for name in names]) == (
        status,
        '"default";q=120;w=60',
        '"default";r=99;t=11',
    )


@pytest.mark.sqlite_only
def test_who_has_spent_it_is_refused_until_there_is_enough_again(limited: Gateway, clock: Clock) -> None:
    caller = limited.as_caregiver(1)
    spend(caller, 3)

    assert rates(caller, SESSIONS) == (429, '"default";q=120;w=60', '"default";r=27;t=47', "2")
    assert caller.graphql(SESSIONS) == {"data": None, "errors": [REFUSAL]}
    assert rates(caller) == (200, '"default";q=120;w=60', '"default";r=25;t=48', None)
    clock.wait(3)
    assert rates(caller, SESSIONS)[0] == 200


@pytest.mark.sqlite_only
def test_each_viewer_has_their_own(limited: Gateway) -> None:
    spend(limited.as_caregiver(1), 3)

    assert rates(limited.as_caregiver(1), SESSIONS)[0] == 429
    assert rates(limited.as_caregiver(2), SESSIONS)[0] == 200
    assert rates(limited.as_client(1), SESSIONS)[0] == 200


@pytest.mark.sqlite_only
def test_the_legacy_paths_spend_the_same(limited: Gateway) -> None:
    caller = limited.as_client(1)
    path = "/gateway/profile/client/session?time-state=RUNNING"

    first, second = caller.get(path), caller.get(path)

    assert (first.status_code, second.status_code) == (200, 429)
    assert first.headers["ratelimit-policy"] == '"default";q=120;w=60'
    assert int(second.headers["retry-after"]) > 60
    body = second.json()
    assert body.pop("timestamp")
    assert body == {
        "status": 429,
        "error": "Too Many Requests",
        "message": "too many points were used within a minute",
        "path": "/gateway/profile/client/session",
    }
    assert rates(caller)[0] == 429


@pytest.mark.sqlite_only
def test_a_long_document_costs_more_while_it_is_not_cached(limited: Gateway) -> None:
    """One point for each four characters beyond 500, also if it is invalid."""
    text, invalid = VIEWER.ljust(700), "{ viewer { unknown } }".ljust(600)
    first, second = limited.as_caregiver(1), limited.as_caregiver(2)

    assert rates(first, text)[1] == '"default";q=120;w=60'
    assert [rates(caller, text)[2] for caller in (first, second)] == [
        '"default";r=66;t=27',
        '"default";r=118;t=1',
    ]
    assert rates(first, invalid)[2] == '"default";r=39;t=41'
    assert [rates(first, VIEWER.ljust(800))[index] for index in (0, 3)] == [429, "18"]
    assert first.graphql(VIEWER.ljust(800)) == {"data": None, "errors": [REFUSAL]}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("text", "few", "many", "points"),
    [
        (f"query($n: Int) {{ {NESTED} }}", {"n": 1}, {"n": 100}, 50),
        ("query($ids: [ID!]!) { nodes(ids: $ids) { id } }", {"ids": ["1"]}, {"ids": ["1"] * 2000}, 11),
    ],
    ids=["points of cost", "values in the variables"],
)
def test_an_operation_above_a_limit_is_not_charged(
    limited: Gateway, text: str, few: dict[str, Any], many: dict[str, Any], points: int
) -> None:
    """Whether it is prepared or not."""
    caller = limited.as_caregiver(1)

    rejected = caller.graphql(text, **many)
    caller.data(text, **few)
    rejected_again = caller.graphql(text, **many)

    assert [each["extensions"]["code"] for each in rejected["errors"]] == ["TOO_COSTLY"]
    assert rejected_again == rejected
    assert rates(caller)[2] == f'"default";r={118 - points};t={(points + 3) // 2}'


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("mutation { closeSession(sessionId: 99) { message } }", {"idempotency-key": "a"}),
        ("subscription { assignmentChanged { kind } }", {"accept": "text/event-stream"}),
    ],
)
def test_a_long_document_is_charged_before_its_operation_is_known(
    limited: Gateway, text: str, headers: dict[str, str]
) -> None:
    """Whether a key applies, and whether the response is a stream, depends on the operation."""
    caller = limited.as_caregiver(1)
    spend(caller, 1)

    refused = caller.request("POST", "/graphql", json={"query": text.ljust(1000)}, headers=headers)

    assert (refused.status_code, refused.headers["retry-after"]) == (429, "16")
    assert refused.json()["errors"][0]["extensions"]["code"] == "RATE_LIMITED"
    assert text.ljust(1000) not in schema_of(limited.client.app).documents.recent.values


@pytest.mark.sqlite_only
def test_so_do_operations_at_a_websocket(limited: Gateway) -> None:
    caller = limited.as_caregiver(1)
    with listening(caller) as listener:
        for _ in range(3):
            listener.query(SESSIONS)
        listener.subscribe(SESSIONS)
        refused = listener.receive()
        listener.subscribe("subscription { assignmentChanged { session { id title description chatId } } }")

    assert refused == {"type": "error", "id": "1", "payload": [REFUSAL]}
    assert rates(caller)[0] == 200


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("length", "events", "points"), [(0, 9, 8), (560, 8, 4)])
def test_every_event_of_a_subscription_is_charged(
    limited: Gateway, clock: Clock, length: int, events: int, points: int
) -> None:
    """The subscription ends where there is too little left, and later goes on behind the last event. A long
    document costs its 15 points more only at the beginning."""
    for number in range(1, 12):
        insert_event(limited.settings.database, "EXTENDED", number=number)
    text = "subscription ($after: ID) { assignmentChanged(after: $after) { id } }"  # 11 points
    changes = text.ljust(length)
    caller = limited.as_caregiver(1)

    with listening(caller) as listener:
        listener.subscribe(changes, after="1")
        received = [listener.receive_change()["id"] for _ in range(events)]
        refused = listener.receive()
        left = rates(caller)
        clock.wait(60)
        listener.subscribe(changes, after=received[-1])
        again = listener.receive_change()["id"]

    assert received == [global_id("Event", number) for number in range(2, 2 + events)]
    assert refused == {"type": "error", "id": "1", "payload": [REFUSAL]}
    assert left == (200, '"default";q=120;w=60', f'"default";r={points};t={(120 - points) // 2}', None)
    assert again == global_id("Event", 2 + events)


@pytest.mark.sqlite_only
def test_an_event_that_is_loaded_again_is_charged_once(
    limited: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database became unavailable between the event and its assignment."""
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 0.01)
    for number in (1, 2):
        insert_event(limited.settings.database, "EXTENDED", number=number)
    changes = "subscription { assignmentChanged(after: 1) { assignment { legacyId } } }"  # 12 points

    reads = [*[nothing] * 3, failure]  # of the account, the position, the events and the assignment
    with before_database_calls(limited, reads), listening(limited.as_caregiver(1)) as listener:
        listener.subscribe(changes)
        received = listener.receive_change()

    assert received == {"assignment": {"legacyId": "2"}}
    assert rates(limited.as_caregiver(1))[2] == '"default";r=94;t=13'


@pytest.mark.sqlite_only
def test_an_event_stream_that_is_charged_too_much_says_so_and_ends(limited: Gateway) -> None:
    for number in range(1, 12):
        insert_event(limited.settings.database, "EXTENDED", number=number)

    changes = "subscription ($after: ID) { assignmentChanged(after: $after) { id } }"
    with streaming(limited.as_caregiver(1), changes, after="1") as stream:
        *received, (kind, refused), end = stream.events

    [error] = refused["errors"]
    assert error["extensions"].pop("requestId")
    assert [data["data"]["assignmentChanged"]["id"] for _, data in received] == [
        global_id("Event", number) for number in range(2, 11)
    ]
    assert (kind, refused, end) == ("next", {"data": None, "errors": [REFUSAL]}, ("complete", None))


def test_nothing_is_changed_by_what_is_refused(limited: Gateway) -> None:
    caller = limited.as_caregiver(1)
    spend(caller, 3)

    close = "mutation { closeSession(input: {sessionId: 1}) { session { isClosed } userErrors { code } } }"
    assert caller.graphql(close) == {"data": None, "errors": [REFUSAL]}
    assert caller.data("{ session(id: 1) { isClosed } }") == {"session": {"isClosed": False}}


def test_it_is_on_in_production_and_off_in_development() -> None:
    assert Settings().points_per_minute == 300_000
    assert Settings(rate_limit=0).points_per_minute == 0
    assert Settings(env=Environment.DEVELOPMENT).points_per_minute == 0
    assert Settings(env=Environment.DEVELOPMENT, rate_limit=7).points_per_minute == 7


@pytest.mark.sqlite_only
def test_without_a_limit_no_answer_speaks_of_one(gateway: Gateway) -> None:
    gateway.import_records(a_world())

    assert rates(gateway.as_caregiver(1)) == (200, None, None, None)


# --- the budget itself ------------------------------------------------------------------------------


def test_what_is_left_is_right_although_nothing_was_charged(clock: Clock) -> None:
    budget = Budget(60, clock)
    budget.charge(60)
    clock.wait(20)

    budget.charge(0, needed=0)

    assert (budget.left, budget.seconds_until_full()) == (20, 40)


def test_what_costs_more_than_a_minute_waits_for_a_full_budget_and_leaves_a_debt(clock: Clock) -> None:
    """Hours without a request save no points for later."""
    budget = Budget(60, clock)
    clock.wait(3600)

    budget.charge(180)
    clock.wait(120)
    with pytest.raises(RateLimited) as refusal:
        budget.charge(1)
    assert refusal.value.seconds == 1
    clock.wait(1)
    with pytest.raises(RateLimited) as refusal:
        budget.charge(1000)
    assert refusal.value.seconds == 59
    clock.wait(59)
    budget.charge(1000)


@pytest.mark.parametrize("cost", [1, 2, 3, 30])
def test_a_retry_after_the_given_seconds_is_accepted(clock: Clock, cost: int) -> None:
    """50 points in a minute are one in 1.2 seconds, and Retry-After has whole seconds."""
    budget = Budget(50, clock)
    budget.charge(50)
    with pytest.raises(RateLimited) as rejection:
        budget.charge(cost)
    seconds = rejection.value.seconds

    clock.wait(seconds - 1)
    with pytest.raises(RateLimited) as rejection:
        budget.charge(cost)
    clock.wait(1)
    budget.charge(cost)

    assert (rejection.value.seconds, budget.wait) == (1, 1)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("hours", [-1, 1])
def test_setting_the_wall_clock_gives_nothing_and_takes_nothing(limited: Gateway, hours: int) -> None:
    caller = limited.as_caregiver(1)
    spend(caller, 3)
    state = limited.client.app_state

    state["authenticator"] = replace(
        state["authenticator"], clock=lambda: NOW + timedelta(hours=hours, minutes=5)
    )

    assert rates(caller, SESSIONS) == (429, '"default";q=120;w=60', '"default";r=27;t=47', "2")


def test_only_so_many_viewers_are_remembered() -> None:
    budgets = Budgets(60)
    first = budgets.of(0)
    for viewer in range(1, MAX_VIEWERS):
        budgets.of(viewer)
    assert budgets.of(0) is first

    budgets.of(MAX_VIEWERS)

    assert len(budgets.viewers.values) == MAX_VIEWERS
    assert 1 not in budgets.viewers.values
    assert budgets.of(0) is first


def test_addresses_without_a_token_displace_no_viewer() -> None:
    budgets = Budgets(60)
    viewer, address = budgets.of(0), budgets.of_address("2001:db8::1")
    for number in range(1, MAX_ADDRESSES):
        budgets.of_address(f"2001:db8:0:{number:x}::1")
    assert budgets.of_address("2001:db8::2") is address

    for number in range(MAX_ADDRESSES, MAX_VIEWERS + 1):
        budgets.of_address(f"2001:db8:0:{number:x}::1")

    assert (len(budgets.addresses.values), len(budgets.viewers.values)) == (MAX_ADDRESSES, 1)
    assert budgets.of(0) is viewer
