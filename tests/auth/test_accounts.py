"""A valid token needs an enabled account in its role. A disabled account is rejected within seconds."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest

from app.auth.authenticator import (
    ACCOUNT_CACHE_SECONDS,
    RENEWAL_SECONDS,
    AcceptedToken,
    Authenticator,
)
from app.auth.keys import Key
from app.care.budgets import Budget
from app.care.context import Context, Role, Viewer
from app.db.admin.accounts import switching_account
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Result, Steps
from app.db.tables import Contract
from app.http.sign_in import open_context
from app.main import create_app
from app.settings import Settings
from tests import keys
from tests.auth.signing import ASSIGNMENTS, BAD, CAREGIVER_1, CLIENT_1, NO_ACCOUNT, assert_refused, me
from tests.callers import Gateway, opened, run_write
from tests.factories import NOW, a_caregiver, a_client
from tests.fault_injection import Failing

PAGE = f"{ASSIGNMENTS}?time-state=RUNNING"
PEOPLE = {Role.CAREGIVER: ("caregiver-1", CAREGIVER_1), Role.CLIENT: ("client-1", CLIENT_1)}


@pytest.fixture(autouse=True)
def people(gateway: Gateway) -> None:
    gateway.import_records(
        [
            a_caregiver(1),
            a_client(1),
            a_client(2, userName=None),
            a_caregiver(3, userName="both"),
            a_client(3, userName="both"),
        ]
    )


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("role", "user"),
    [
        ("CAREGIVER", "caregiver-9"),
        ("CAREGIVER", "client-1"),
        ("CLIENT", "caregiver-1"),
        ("CAREGIVER", "CAREGIVER-1"),
        ("CAREGIVER", "caregiver-1 "),
        ("CAREGIVER", "caregiver%"),
        ("CLIENT", "client-2"),
        ("CLIENT", "' OR 1=1 --"),
        ("CLIENT", "x" * 1000),
    ],
)
def test_a_token_without_an_account_in_its_role_is_rejected(gateway: Gateway, role: str, user: str) -> None:
    assert_refused(gateway, f"bearer {keys.token(role, user)}", 403, NO_ACCOUNT)


def test_one_name_can_have_an_account_in_each_role(gateway: Gateway) -> None:
    assert me(gateway, keys.token("CAREGIVER", "both"))["caregiver"] == {"legacyId": "3"}
    assert me(gateway, keys.token("CLIENT", "both"))["client"] == {"legacyId": "3"}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("role", PEOPLE)
def test_a_disabled_account_is_rejected_within_seconds_until_it_is_enabled(
    gateway: Gateway, role: Role
) -> None:
    user, person = PEOPLE[role]
    remembered = keys.token(role, user)
    assert me(gateway, remembered) == person

    switch(gateway, role, user, is_disabled=True)

    assert_refused(gateway, f"bearer {keys.token(role, user, jti='new')}", 403, NO_ACCOUNT)
    assert me(gateway, remembered) == person
    after(gateway, ACCOUNT_CACHE_SECONDS)
    assert_refused(gateway, f"bearer {remembered}", 403, NO_ACCOUNT)

    switch(gateway, role, user, is_disabled=False)

    assert me(gateway, remembered) == person


@pytest.mark.sqlite_only
@pytest.mark.parametrize("step", [timedelta(minutes=-30), timedelta(days=-1)])
def test_setting_the_wall_clock_back_does_not_extend_the_account_cache(
    gateway: Gateway, step: timedelta
) -> None:
    remembered = keys.token("CAREGIVER", "caregiver-1")
    assert me(gateway, remembered) == CAREGIVER_1
    switch(gateway, Role.CAREGIVER, "caregiver-1", is_disabled=True)

    after(gateway, ACCOUNT_CACHE_SECONDS)
    authenticator_of(gateway).clock = lambda: NOW + step

    assert_refused(gateway, f"bearer {remembered}", 403, NO_ACCOUNT)


@pytest.mark.once_on_postgresql
def test_one_of_the_requests_that_arrive_together_reads_the_account_again(gateway: Gateway) -> None:
    """All of them would take the connections of the database from the requests of others."""
    remembered = keys.token("CAREGIVER", "caregiver-1")
    me(gateway, remembered)
    authenticator = authenticator_of(gateway)
    after(gateway, ACCOUNT_CACHE_SECONDS - RENEWAL_SECONDS / 2)

    database = authenticator.db = CountedReads(authenticator.db)

    async def read_by(requests: int) -> int:
        before = database.reads
        opening = (authenticator.open(f"Bearer {remembered}", "request") for _ in range(requests))
        assert {context.viewer for context in await asyncio.gather(*opening)} == {Viewer(Role.CAREGIVER, 1)}
        return database.reads - before

    assert gateway.client.portal is not None
    assert [gateway.client.portal.call(read_by, 20) for _ in range(2)] == [1, 0]


@pytest.mark.once_on_postgresql
def test_a_refused_account_is_not_remembered(gateway: Gateway) -> None:
    remembered = keys.token("CAREGIVER", "caregiver-1")
    me(gateway, remembered)
    switch(gateway, Role.CAREGIVER, "caregiver-1", is_disabled=True)
    after(gateway, ACCOUNT_CACHE_SECONDS - RENEWAL_SECONDS / 2)

    for _ in range(2):
        assert_refused(gateway, f"bearer {remembered}", 403, NO_ACCOUNT)


@pytest.mark.sqlite_only
def test_without_a_token_cache_no_account_is_cached(settings: Settings) -> None:
    with opened(create_app(settings.model_copy(update={"token_cache": 0}), clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        assert me(gateway, keys.token("CAREGIVER", "caregiver-1"))

        switch(gateway, Role.CAREGIVER, "caregiver-1", is_disabled=True)

        assert_refused(gateway, f"bearer {keys.token('CAREGIVER', 'caregiver-1')}", 403, NO_ACCOUNT)


@pytest.mark.sqlite_only
def test_the_account_cache_has_the_configured_size(settings: Settings) -> None:
    with opened(create_app(settings.model_copy(update={"token_cache": 2}), clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)

        tokens = [keys.token("CAREGIVER", "caregiver-1", jti=str(number)) for number in range(4)]

        for token in tokens:
            me(gateway, token)

        assert list(authenticator_of(gateway).accepted.values) == tokens[2:]

    with opened(create_app(settings.model_copy(update={"token_cache": 4}), clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        long = keys.token("CAREGIVER", "caregiver-1", jti="x" * 3500)  # takes the place of three

        for token in (*tokens, long):
            me(gateway, token)

        assert list(authenticator_of(gateway).accepted.values) == [tokens[3], long]


@pytest.mark.sqlite_only
def test_a_token_is_cached_once_for_every_form_of_the_header(gateway: Gateway) -> None:
    token = keys.token("CAREGIVER", "caregiver-1")

    for scheme in ("bearer", "Bearer", "BEARER"):
        for spaces in (1, 2, 3, 1000):
            answer = gateway.as_anonymous().get(
                PAGE, headers={"authorization": scheme + " " * spaces + token}
            )
            assert answer.status_code == 200

    assert list(authenticator_of(gateway).accepted.values) == [token]


@pytest.mark.sqlite_only
def test_the_rest_of_a_request_with_a_new_token_waits_for_the_turn_of_its_viewer(gateway: Gateway) -> None:
    """Before it the request has a place of its own, which each of many new tokens would get."""
    authenticator = authenticator_of(gateway)
    token = keys.token("CAREGIVER", "caregiver-1")
    address = authenticator.budgets.of_address("192.0.2.1")

    async def steps_of(account: AcceptedToken | None) -> tuple[list[Budget], Context]:
        headers = [(b"authorization", f"Bearer {token}".encode())]
        state = {"authenticator": authenticator, "account": account, "budget": address}
        opening = open_context({"type": "http", "headers": headers, "state": state}, "r", Contract.GRAPHQL)
        budgets = []
        try:
            while True:
                opening.send(None)
                budgets.append(state["budget"])
        except StopIteration as opened:
            return budgets, opened.value

    assert gateway.client.portal is not None
    budgets, context = gateway.client.portal.call(steps_of, None)
    assert budgets == [context.budget] != [address]
    assert gateway.client.portal.call(steps_of, authenticator.accepted.get(token))[0] == []


@pytest.mark.sqlite_only
def test_a_request_without_a_token_counts_for_its_address(gateway: Gateway) -> None:
    authenticator = authenticator_of(gateway)
    address = authenticator.budgets.of_address("192.0.2.1")
    state = {"authenticator": authenticator, "budget": address}
    scope = {"type": "http", "headers": [], "state": state}

    assert gateway.client.portal is not None
    context = gateway.client.portal.call(open_context, scope, "r", Contract.GRAPHQL)

    assert (context.viewer, state["budget"]) == (None, address)


@pytest.mark.sqlite_only
def test_the_time_of_the_read_counts_for_the_account_cache(gateway: Gateway) -> None:
    """The account may have been disabled right after the snapshot of a slow read."""
    remembered = keys.token("CAREGIVER", "caregiver-1")
    authenticator = authenticator_of(gateway)
    during_reads(gateway, lambda: after(gateway, ACCOUNT_CACHE_SECONDS))

    assert me(gateway, remembered) == CAREGIVER_1
    switch(gateway, Role.CAREGIVER, "caregiver-1", is_disabled=True)

    assert_refused(gateway, f"bearer {remembered}", 403, NO_ACCOUNT)
    assert authenticator.accepted.get(remembered) is None


@pytest.mark.sqlite_only
def test_an_account_is_read_again_when_its_time_is_over(gateway: Gateway) -> None:
    remembered = keys.token("CAREGIVER", "caregiver-1")
    authenticator = authenticator_of(gateway)
    assert me(gateway, remembered) == CAREGIVER_1
    until = authenticator.accepted.values[remembered].until
    switch(gateway, Role.CAREGIVER, "caregiver-1", is_disabled=True)

    authenticator.ticks = lambda: until - 0.001
    assert me(gateway, remembered) == CAREGIVER_1
    authenticator.ticks = lambda: until
    assert_refused(gateway, f"bearer {remembered}", 403, NO_ACCOUNT)


@pytest.mark.sqlite_only
def test_an_account_is_remembered_no_longer_while_the_database_is_away(gateway: Gateway) -> None:
    """It may have been disabled meanwhile."""
    remembered = keys.token("CAREGIVER", "caregiver-1")
    authenticator = authenticator_of(gateway)
    assert me(gateway, remembered) == CAREGIVER_1
    account = authenticator.accepted.values[remembered]
    moments = [account.until, account.last - 0.001, account.last, account.last + RENEWAL_SECONDS / 2]

    async def is_known(moment: float) -> bool:
        authenticator.ticks = lambda: moment
        try:
            context = await authenticator.open(f"Bearer {remembered}", "request")
        except DatabaseUnavailable:
            return False
        return context.viewer == account.viewer

    authenticator.db = Failing(authenticator.db, [DatabaseUnavailable() for _ in moments])
    assert gateway.client.portal is not None
    found = [gateway.client.portal.call(is_known, moment) for moment in moments]

    assert found == [False, True, False, False]  # the first request after `until` reads the account again


@pytest.mark.sqlite_only
def test_keys_that_change_while_the_account_is_read_are_used_for_the_next_request(gateway: Gateway) -> None:
    remembered = keys.token("CAREGIVER", "caregiver-1")
    key_set, new_keys = authenticator_of(gateway).verifier.keys, list[Key]()
    during_reads(gateway, lambda: setattr(key_set, "keys", new_keys))

    assert me(gateway, remembered) == CAREGIVER_1

    assert_refused(gateway, f"bearer {remembered}", 401, BAD)


@pytest.mark.sqlite_only
def test_a_token_that_expires_while_its_account_is_remembered_is_rejected(gateway: Gateway) -> None:
    remembered = keys.token("CAREGIVER", "caregiver-1")
    authenticator = authenticator_of(gateway)
    assert me(gateway, remembered) == CAREGIVER_1
    account = authenticator.accepted.get(remembered)
    assert account is not None

    authenticator.verifier.keys.keys[:] = []  # whatever is not remembered is rejected from here on
    assert me(gateway, remembered) == CAREGIVER_1
    authenticator.clock = lambda: datetime.fromtimestamp(account.expiry, UTC)

    assert_refused(gateway, f"bearer {remembered}", 401, BAD)


def during_reads(gateway: Gateway, act: Callable[[], object]) -> None:
    """Acts after each read, before its caller continues."""
    authenticator = authenticator_of(gateway)
    authenticator.db = ActingReads(authenticator.db, act)  # type: ignore[assignment]


class ActingReads:
    def __init__(self, database: Database, act: Callable[[], object]) -> None:
        self.database, self.act = database, act

    async def read(self, steps: Steps[Result]) -> Result:
        found = await self.database.read(steps)
        self.act()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)


class CountedReads:
    reads = 0

    def __init__(self, database: Database) -> None:
        self.database = database

    async def read(self, steps: Steps[Result]) -> Result:
        self.reads += 1
        await asyncio.sleep(0)  # a read of SQLite may not wait
        return await self.database.read(steps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)


def after(gateway: Gateway, seconds: float) -> None:
    """Advances the clock of the account cache."""
    authenticator_of(gateway).ticks = lambda: monotonic() + seconds


def authenticator_of(gateway: Gateway) -> Authenticator:
    return gateway.client.app_state["authenticator"]  # type: ignore[no-any-return]


def switch(gateway: Gateway, role: Role, user: str, is_disabled: bool) -> None:
    run_write(gateway.settings.database, switching_account(role, user, is_disabled, NOW))
