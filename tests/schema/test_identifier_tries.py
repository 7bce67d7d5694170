"""A caregiver may try so many client identifiers an hour: unknown ones, and those of clients who are new.

Further tries are refused whatever they name, with the time to wait, and are on record without the
identifier.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Response

from app.auth.authenticator import Authenticator
from app.care.budgets import HOUR, MAX_CAREGIVERS, IdentifierLimiter
from app.care.errors import RateLimited
from app.main import create_app
from app.settings import Environment, Settings
from tests.audit.audit_log import audited
from tests.callers import Caller, Gateway, opened
from tests.concurrency import ApiCall, send_together
from tests.database_rows import stored
from tests.db import raw
from tests.factories import NOW, a_client, a_world
from tests.schema.changing import document, refused

OPEN = document("createSession", "sessions { client { name } }")
REFUSAL = {
    "message": "too many client identifiers were tried within an hour",
    "locations": [{"line": 1, "column": 41}],
    "path": ["createSession"],
    "extensions": {"code": "RATE_LIMITED"},
}
UNKNOWN = refused("createSession", "NOT_FOUND", "clientOpptId", "client not found")


class Ticks:
    """A monotonic clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def limited(settings: Settings, ticks: Ticks) -> Iterator[Gateway]:
    """Three tries an hour; clients 3 to 6 are nobody's yet."""
    settings = settings.model_copy(update={"identifier_limit": 3})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        authenticator: Authenticator = client.app_state["authenticator"]
        assert authenticator.identifier_limiter is not None
        authenticator.identifier_limiter.ticks = ticks
        gateway = Gateway(client, settings)
        gateway.import_records([*a_world(), *(a_client(number) for number in range(3, 7))])
        yield gateway


def asking(identifier: str) -> dict[str, Any]:
    return {"clientOpptId": identifier, "title": "New", "startDate": "2026-11-21T09:00:00Z"}


def post(caller: Caller, identifier: str) -> Response:
    return caller.post_graphql(OPEN, input=asking(identifier))


def opened_for(name: str) -> dict[str, Any]:
    return {"data": {"createSession": {"sessions": [{"client": {"name": name}}], "userErrors": []}}}


@pytest.mark.sqlite_only
def test_tries_beyond_the_limit_are_refused_whatever_they_name(limited: Gateway, ticks: Ticks) -> None:
    caregiver = limited.as_caregiver(1)
    assert caregiver.graphql(OPEN, input=asking("OPPT-77")) == UNKNOWN
    ticks.now += 60.75
    assert caregiver.graphql(OPEN, input=asking("OPPT-3")) == opened_for("Zoë Client 3")
    assert caregiver.graphql(OPEN, input=asking("OPPT\0")) == UNKNOWN
    before = stored(limited)

    answers = {name: caregiver.graphql(OPEN, input=asking(name)) for name in ("OPPT-78", "OPPT-4", "\0")}
    waiting = post(caregiver, "OPPT-4")

    assert answers == {name: {"data": None, "errors": [REFUSAL]} for name in answers}
    assert stored(limited) == before
    assert (waiting.status_code, waiting.headers["retry-after"]) == (429, str(HOUR - 60))
    ticks.now += HOUR - 60.75
    assert post(caregiver, "OPPT-4").json() == opened_for("Zoë Client 4")
    assert post(caregiver, "OPPT-5").status_code == 429


def test_clients_whom_the_caregiver_knows_are_not_counted(limited: Gateway) -> None:
    caregiver = limited.as_caregiver(1)
    for identifier in ("OPPT-77", "OPPT-78", "OPPT-3"):
        assert post(caregiver, identifier).status_code == 200

    for identifier in ("OPPT-1", "OPPT-2", "OPPT-3") * 2:
        assert "errors" not in post(caregiver, identifier).json()
    by_number = {**asking(""), "clientId": "3"}
    del by_number["clientOpptId"]
    assert caregiver.graphql(OPEN, input=by_number) == opened_for("Zoë Client 3")
    assert post(caregiver, "OPPT-4").status_code == 429


@pytest.mark.sqlite_only
def test_each_caregiver_has_tries_of_their_own(limited: Gateway) -> None:
    for _ in range(4):
        last = post(limited.as_caregiver(1), "OPPT-77")

    assert last.status_code == 429
    assert post(limited.as_caregiver(2), "OPPT-77").json() == UNKNOWN


def test_tries_at_the_same_time_do_not_exceed_the_limit(limited: Gateway) -> None:
    asked = [
        ApiCall(
            limited.as_caregiver(1),
            "POST",
            "/graphql",
            {"query": OPEN, "variables": {"input": asking(f"OPPT-{number}")}},
        )
        for number in range(80, 96)
    ]

    answers = send_together(asked)

    assert sorted(each.status for each in answers) == [200] * 3 + [429] * 13


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_try_whose_change_ends_in_conflicts_counts_once(limited: Gateway) -> None:
    raw.run(limited.settings.database, *CONFLICTS)
    caregiver = limited.as_caregiver(1)

    assert caregiver.graphql(OPEN, input=asking("OPPT-3")) == opened_for("Zoë Client 3")
    statuses = [post(caregiver, "OPPT-77").status_code for _ in range(3)]

    assert raw.run(limited.settings.database, "SELECT last_value FROM attempts") == [(5,)]
    assert statuses == [200, 200, 429]


# A sequence is not rolled back: the fifth attempt succeeds.
CONFLICTS = (
    "CREATE SEQUENCE attempts",
    "CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('attempts') < 5 THEN"
    " RAISE EXCEPTION USING ERRCODE = '40P01'; END IF; RETURN NEW; END $$",
    "CREATE TRIGGER conflict BEFORE INSERT ON session FOR EACH ROW EXECUTE FUNCTION conflict()",
)


@pytest.mark.sqlite_only
def test_tries_are_on_record_without_the_identifier(limited: Gateway) -> None:
    for identifier in ("OPPT-77", "OPPT-78", "OPPT-79", "OPPT-3"):
        post(limited.as_caregiver(1), identifier)

    assert audited(limited.settings.database) == [
        ("CAREGIVER", 1, "createSession", outcome, []) for outcome in ["NOT_FOUND"] * 3 + ["RATE_LIMITED"]
    ]


# --- counting ---


def test_a_try_is_forgotten_an_hour_later(ticks: Ticks) -> None:
    tries = IdentifierLimiter(2, ticks)
    for now in (0.0, 0.5):
        ticks.now = now
        tries.count(1)

    ticks.now = HOUR - 0.5
    with pytest.raises(RateLimited) as refusal:
        tries.count(1)
    ticks.now = float(HOUR)
    tries.count(1)

    assert refusal.value.seconds == 1
    with pytest.raises(RateLimited):
        tries.count(1)


def test_only_so_many_caregivers_are_remembered(ticks: Ticks) -> None:
    tries = IdentifierLimiter(1, ticks)

    for caregiver in range(MAX_CAREGIVERS + 5):
        tries.count(caregiver)

    assert len(tries.moments.values) == MAX_CAREGIVERS
    with pytest.raises(RateLimited):
        tries.count(MAX_CAREGIVERS + 4)


@pytest.mark.parametrize(
    ("env", "given", "expected"),
    [
        (Environment.PRODUCTION, None, 30),
        (Environment.DEVELOPMENT, None, 0),
        (Environment.PRODUCTION, 0, 0),
        (Environment.DEVELOPMENT, 7, 7),
    ],
)
def test_production_has_a_limit_unless_it_is_set(env: Environment, given: int | None, expected: int) -> None:
    assert Settings(env=env, identifier_limit=given).identifiers_per_hour == expected
